// Each probe as it is run on a node, with real child processes: stand-ins for the tools, which print, hang or fail as told.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ProbeRun } from "../../lib/agent/probes/common/probe.ts";
import { type Readings, createProbe } from "../../lib/agent/probes/registry.ts";
import { PROBE_NAMES, type ProbeName, type ProbeSettings } from "../../lib/agent/probes/common/settings.ts";
import { allProcesses } from "../support/process-watch.ts";
import { standIns, type StandInCommand, type StandIns, type StandInTool } from "../support/stand-ins/stand-ins.ts";

let world: StandIns;
const path = process.env["PATH"];

beforeEach(() => {
  world = standIns({ containers: 4, gpus: 2 });
  process.env["PATH"] = world.path;
});

afterEach(() => {
  process.env["PATH"] = path;
  world.remove();
});

type Case = {
  /** the command that is told to hang or fail */
  readonly command: StandInCommand;
  readonly tool: StandInTool;
  /** its name among the run's commands */
  readonly label: string;
  /** a metric with as many samples as there are of what is measured */
  readonly metric: string;
  readonly samples: number;
  readonly reading: keyof Readings | undefined;
};

const CASES: Readonly<Record<ProbeName, Case>> = {
  "docker-daemon": {
    command: "docker-info",
    tool: "docker",
    label: "docker info",
    metric: "gridmeter_docker_up",
    samples: 1,
    reading: "daemon",
  },
  "docker-stats": {
    command: "docker-stats",
    tool: "docker",
    label: "docker stats",
    metric: "gridmeter_container_memory_used_bytes",
    samples: 4,
    reading: "stats",
  },
  "docker-inspect": {
    command: "docker-inspect",
    tool: "docker",
    label: "docker inspect",
    metric: "gridmeter_container_info",
    samples: 4,
    reading: "containers",
  },
  "docker-logs": {
    command: "docker-logs",
    tool: "docker",
    label: "docker logs",
    metric: "gridmeter_container_finished_marker",
    samples: 4,
    reading: "logs",
  },
  "nvidia-smi": {
    command: "nvidia-smi",
    tool: "nvidia-smi",
    label: "nvidia-smi",
    metric: "gridmeter_gpu_utilization_ratio",
    samples: 2,
    reading: "nvidia",
  },
  "amd-smi": {
    command: "amd-smi",
    tool: "amd-smi",
    label: "amd-smi",
    metric: "gridmeter_gpu_utilization_ratio",
    samples: 2,
    reading: "amdSmi",
  },
  "rocm-smi": {
    command: "rocm-smi",
    tool: "rocm-smi",
    label: "rocm-smi",
    metric: "gridmeter_gpu_utilization_ratio",
    samples: 2,
    reading: "amd",
  },
  iftop: {
    command: "iftop",
    tool: "iftop",
    label: "iftop",
    metric: "gridmeter_network_flows",
    samples: 1,
    reading: "traffic",
  },
  lsof: {
    command: "lsof",
    tool: "nsenter",
    label: "lsof",
    metric: "gridmeter_network_container_sockets",
    samples: 4,
    reading: "sockets",
  },
  ps: {
    command: "ps",
    tool: "ps",
    label: "ps",
    metric: "gridmeter_process_states",
    samples: 9,
    reading: "processes",
  },
  "crictl-stats": {
    command: "crictl-stats",
    tool: "crictl",
    label: "crictl stats",
    metric: "gridmeter_container_cpu_seconds_total",
    samples: 4,
    reading: "criContainers",
  },
};

const settings = (more: ProbeSettings = {}): ProbeSettings => ({
  requireDevice: false,
  marker: "USER COMMAND END",
  proc: world.proc,
  timeout: 30,
  commandTimeout: 30,
  ...more,
});

const runOf = (name: string, more: ProbeSettings = {}) => createProbe(name, settings(more)).run();

const nothing = { metrics: [], readings: {}, rejected: 0 };

const alive = (pids: readonly number[]) => allProcesses().filter((entry) => entry.alive && pids.includes(entry.pid));

const kinds = (run: ProbeRun, label: string) =>
  run.commands.filter(({ command }) => command === label).map(({ kind }) => kind);

describe.each(PROBE_NAMES)("%s", (name) => {
  const { command, tool, label, metric, samples, reading } = CASES[name];
  beforeEach(() => world.install(tool));

  test("publishes what its command says, and gives it to be joined", async () => {
    const probe = createProbe(name, settings());
    expect(await probe.unavailable()).toBeUndefined();
    const run = await probe.run();
    expect(run).toMatchObject({ kind: "ok", rejected: 0, exitCode: 0 });
    expect(run).not.toHaveProperty("detail");
    expect(run.metrics.find((one) => one.name === metric)?.samples).toHaveLength(samples);
    expect(Object.keys(run.readings)).toStrictEqual(reading === undefined ? [] : [reading]);
    expect(new Set(kinds(run, label))).toStrictEqual(new Set(["ok"]));
    expect(probe.stuck()).toBe(0);
  });

  test("publishes nothing when its command hangs, and leaves nothing behind", async () => {
    world.tell(command, "hang");
    const run = await runOf(name, { timeout: 0.5 });
    expect(run).toMatchObject({ kind: "timeout", ...nothing });
    expect(run.commands.at(-1)).toMatchObject({ kind: "timeout" });
    await expect.poll(() => alive(world.calls(command)), { timeout: 10_000 }).toStrictEqual([]);
  });

  test("publishes nothing when its command fails, and says how", async () => {
    world.tell(command, "fail 3");
    const run = await runOf(name);
    expect(run).toMatchObject({ kind: "exit_nonzero", exitCode: 3, ...nothing });
    expect(run.detail).toMatch(/exited with 3/);
    expect(new Set(kinds(run, label))).toStrictEqual(new Set(["exit_nonzero"]));
  });

  test("publishes nothing when its command prints too much", async () => {
    world.tell(command, "flood");
    expect(await runOf(name, { maxBytes: 50_000 })).toMatchObject({ kind: "output_too_large", ...nothing });
  });

  test("says which tool is missing, without running it", async () => {
    world.uninstall(tool);
    const probe = createProbe(name, settings());
    expect(await probe.unavailable()).toBe(`${tool} was not found in ${world.path}`);
    expect(await probe.run()).toMatchObject({ kind: "not_found", ...nothing });
    world.install(tool);
    expect(await probe.unavailable()).toBeUndefined();
    expect(world.calls(command)).toStrictEqual([]);
  });
});

// any bytes may be a container's log
test.each(PROBE_NAMES.filter((name) => name !== "docker-logs"))(
  "%s publishes nothing when its command prints something else",
  async (name) => {
    world.install(CASES[name].tool);
    world.tell(CASES[name].command, "garbage");
    const run = await runOf(name);
    expect(run).toMatchObject({ kind: "parse_error", exitCode: 0, ...nothing });
    expect(run.detail).toBeTruthy();
  },
);

test("a command that has not gone is not started again", async () => {
  world.tell("docker-stats", "ignore-term");
  world.tell("docker-inspect", "ignore-term");
  const probes = [
    createProbe("docker-stats", settings({ timeout: 1 })),
    createProbe("docker-inspect", settings({ timeout: 1 })),
  ];
  const first = await Promise.all(probes.map((probe) => probe.run()));
  expect(first.map(({ kind }) => kind)).toStrictEqual(["timeout", "timeout"]);
  // for as long as TERM and KILL take, a child is not stuck
  expect(probes.map((probe) => probe.stuck())).toStrictEqual([0, 0]);
  const started = world.calls("docker-inspect").length;
  const again = await Promise.all(probes.map((probe) => probe.run()));
  expect(again).toMatchObject([
    { kind: "skipped_in_flight", ...nothing },
    { kind: "skipped_in_flight", ...nothing },
  ]);
  expect(world.calls("docker-stats")).toHaveLength(1);
  expect(world.calls("docker-inspect")).toHaveLength(started);
  await expect
    .poll(() => alive([...world.calls("docker-stats"), ...world.calls("docker-inspect")]), { timeout: 10_000 })
    .toStrictEqual([]);
  expect(probes.map((probe) => probe.stuck())).toStrictEqual([0, 0]);
});
