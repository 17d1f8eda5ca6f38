import { describe, expect, test } from "vitest";
import { agree, render } from "../../../lib/shared/exposition.ts";
import { CommandCounts, type ProbeFigures, durationBounds } from "../../../lib/agent/metrics/self.ts";
import { OPENPAI_METRICS, type OpenPaiName } from "../../../lib/agent/openpai/catalogue.ts";
import { openPaiMetrics } from "../../../lib/agent/openpai/metrics.ts";
import { RESULT_KINDS, type ResultKind } from "../../../lib/agent/command/types.ts";
import type { CgroupOwner } from "../../../lib/agent/probes/common/cgroup.ts";
import { parseDockerInspect } from "../../../lib/agent/probes/docker-inspect.ts";
import { parseDockerStats } from "../../../lib/agent/probes/docker-stats.ts";
import { parseIftop } from "../../../lib/agent/probes/iftop.ts";
import { parseLsof } from "../../../lib/agent/probes/lsof.ts";
import { parseNvidiaSmi } from "../../../lib/agent/probes/nvidia-smi.ts";
import { parsePs } from "../../../lib/agent/probes/ps.ts";
import type { Readings } from "../../../lib/agent/probes/registry.ts";
import { parseAmdSmi } from "../../../lib/agent/probes/amd-smi.ts";
import { parseRocmSmi } from "../../../lib/agent/probes/rocm-smi.ts";
import { push } from "../../../lib/shared/pushgateway.ts";
import { valuesBy } from "../../support/metrics.ts";
import { fixture, printed } from "../../support/probe-fixtures.ts";
import { startPushgateway } from "../../support/pushgateway-server.ts";

const NODE = "node-1";
const nvidiaLog = (file: string) => parseNvidiaSmi(printed(fixture(file))).value;
const inspected = parseDockerInspect(printed(fixture("docker-inspect.json"))).value;
const [task, other] = inspected as [(typeof inspected)[0], (typeof inspected)[0]];
const ID = task.id!;
const noJob = { ...task.job, job: undefined };
const service = {
  ...other,
  id: "3d4e5f6a7b8c",
  name: "k8s_main_web-0_default_uid_2",
  namespace: "default",
  pod: "web-0",
};
const containers = [task, { ...service, container: "main", status: "running", job: noJob }];
const within = (id: string): CgroupOwner => ({ kind: "container", ids: [id] });
const processes = parsePs(printed(fixture("ps.txt"))).value;

/** job-exporter knows GPUs by their minor numbers alone. */
const numbered = (file: string) => {
  const log = nvidiaLog(file);
  return { ...log, gpus: log.gpus.map((gpu, index) => ({ ...gpu, minorNumber: index })) };
};

const lost = nvidiaLog("nvidia-smi-v13-lost.xml");
const [first, second] = lost.gpus as [(typeof lost.gpus)[0], (typeof lost.gpus)[0]];
const holder = (pid: number) => ({ pid, type: "C", usedBytes: 1, gpuInstance: undefined, computeInstance: undefined });
const held = {
  ...lost,
  gpus: [
    { ...first, processes: [holder(1), holder(2), holder(2), holder(3)] },
    {
      ...second,
      minorNumber: 1,
      utilization: 0.25,
      memoryUsedBytes: 21 * 2 ** 20,
      memoryTotalBytes: 100 * 2 ** 20,
      processes: [],
    },
  ],
};

const all: Required<Readings> = {
  daemon: { up: true, info: undefined, unit: undefined },
  stats: parseDockerStats(printed(fixture("docker-stats.jsonl"))).value,
  containers,
  criContainers: [],
  amdSmi: [],
  logs: new Map([[ID, { finished: true }]]),
  nvidia: {
    log: held,
    owners: new Map<number, CgroupOwner>([
      [1, { kind: "host" }],
      [2, { kind: "host" }],
      [3, within(ID)],
    ]),
  },
  amd: { report: parseRocmSmi(printed(fixture("rocm-smi-3-keys.json"))).value, owners: new Map() },
  traffic: parseIftop(printed(fixture("iftop.txt"))).value,
  sockets: {
    byContainer: new Map([
      [ID, parseLsof(printed(fixture("lsof.txt"))).value.slice(0, 1)],
      ["3d4e5f6a7b8c", parseLsof(printed(fixture("lsof.txt"))).value.slice(1)],
    ]),
    owners: new Map([
      [4242, within(ID)],
      [4243, within("3d4e5f6a7b8c")],
    ]),
  },
  processes: {
    all: processes,
    longStanding: { uninterruptible: processes.filter(({ state }) => state === "D"), zombies: [] },
  },
};

const COMMANDS: Readonly<Record<string, string>> = {
  "docker-daemon": "docker info",
  "docker-stats": "docker stats",
  "docker-inspect": "docker inspect",
  "docker-logs": "docker logs",
  "nvidia-smi": "nvidia-smi",
  "amd-smi": "amd-smi",
  "rocm-smi": "rocm-smi",
  iftop: "iftop",
  lsof: "lsof",
  ps: "ps",
};

const account = (probe: string, result: ResultKind = "ok", seconds = 60): ProbeFigures => {
  const counts = new CommandCounts(durationBounds(20));
  counts.add({ command: COMMANDS[probe]!, kind: result, seconds });
  return {
    enabled: true,
    result,
    runs: new Map(RESULT_KINDS.map((kind) => [kind, kind === result ? 3 : 0])),
    commands: counts.figures(),
  };
};
const figures = (changes: Record<string, ProbeFigures> = {}): ReadonlyMap<string, ProbeFigures> =>
  new Map(Object.keys(COMMANDS).map((probe) => [probe, changes[probe] ?? account(probe)]));

const publish = (fresh: Readings, accounts = figures()) => openPaiMetrics(fresh, accounts, NODE);
const flat = (fresh: Readings, accounts = figures()) => [...publish(fresh, accounts).values()].flat();
const samplesOf = (fresh: Readings, name: OpenPaiName, accounts = figures()) =>
  flat(fresh, accounts).flatMap((metric) => (metric.name === name ? metric.samples : []));
const without = (...keys: readonly (keyof Readings)[]): Readings =>
  Object.fromEntries(Object.entries(all).filter(([key]) => !keys.some((one) => one === key)));
const base = (name: string): string => (name.startsWith("cmd_") ? name.replace(/_(bucket|sum|count)$/, "") : name);

/** The same, but for the row whose memory docker printed as `half`; and the task has AMD's GPUs too, which both tools have seen. */
const whole: Readings = {
  ...all,
  amdSmi: parseAmdSmi(printed(fixture("amd-smi-7-metric.json"))).value.map((gpu) => ({
    ...gpu,
    minorNumber: 7 + gpu.index,
  })),
  containers: containers.map((one) => ({ ...one, gpus: { ...one.gpus, amd: "all" } })),
  stats: all.stats.map((row) => ({ ...row, memoryUsage: row.measured ? (row.memoryUsage ?? 0.5) : undefined })),
};

describe("what is published", () => {
  test("is the whole catalogue, each name with its type, help, labels, and by its probes", () => {
    const seen = new Map<string, string[]>();
    for (const [probe, metrics] of publish(whole)) {
      for (const { name, type, help, samples } of metrics) {
        const entry = OPENPAI_METRICS[base(name) as OpenPaiName];
        expect(entry, name).toBeDefined();
        expect({ type, help }).toEqual({ type: entry.type === "histogram" ? "counter" : entry.type, help: entry.help });
        seen.set(base(name), [...(seen.get(base(name)) ?? []), probe]);
        for (const { labels, value } of samples) {
          const names = Object.keys(labels).filter((label) => label !== "le");
          expect(names.sort(), name).toEqual([...entry.labels].sort());
          expect(Number.isFinite(value), name).toBe(true);
        }
        expect(new Set(samples.map(({ labels }) => JSON.stringify(labels))).size, name).toBe(samples.length);
      }
    }
    expect([...seen.keys()].sort()).toEqual(Object.keys(OPENPAI_METRICS).sort());
    for (const [name, probes] of seen) {
      expect([...new Set(probes)].sort(), name).toEqual([...OPENPAI_METRICS[name as OpenPaiName].probes].sort());
    }
  });

  test("is taken by a real Pushgateway, and none of it is a name of another type there", async () => {
    const gateway = await startPushgateway();
    try {
      const { blocks, dropped } = agree(publish(whole), () => undefined);
      expect(dropped.size).toBe(0);
      for (const [probe, own] of blocks) {
        await push(gateway.url, { job: "gridmeter_agent", instance: NODE, probe }, render(own));
      }
      expect(await gateway.metrics()).toMatch(
        /^cmd_nvidia_smi_latency_seconds_bucket\{.*le="64",probe="nvidia-smi"\} 1$/m,
      );
    } finally {
      await gateway.stop();
    }
  });

  test("is nothing but accounts where nothing is fresh, and nothing at all of disabled probes", () => {
    const kept = /^(?:cmd_.*|collector_iteration_count_total)$/;
    expect(flat({}).filter(({ name }) => !kept.test(name))).toEqual([]);
    expect(flat({}).length).toBeGreaterThan(20);
    const disabled = new Map(
      [...figures()].map(([probe, { runs, commands }]) => [probe, { enabled: false, runs, commands }]),
    );
    expect(flat({}, disabled)).toEqual([]);
  });
});

/** Inputs without which a metric is absent; defects 3 and 4 were values that stayed, or became 0. */
const NEEDS: Readonly<Record<string, readonly (keyof Readings)[]>> = {
  task_cpu_percent: ["stats", "containers"],
  service_mem_usage_byte: ["stats", "containers"],
  task_net_in_byte: ["traffic", "sockets", "containers"],
  task_net_out_byte: ["traffic", "sockets", "containers"],
  nvidiasmi_utilization_memory: ["nvidia"],
  gpu_used_by_external_process_count: ["nvidia"],
  gpu_used_by_zombie_container_count: ["nvidia", "containers", "logs"],
  task_gpu_mem_percent: ["nvidia", "containers"],
  rocmsmi_temperature: ["amd"],
  zombie_container_count: ["logs", "containers"],
  zombie_process_count: ["processes"],
  process_mem_usage_byte: ["processes"],
};

test.each(Object.entries(NEEDS))("%s needs %j, and is absent without one of them", (name, inputs) => {
  expect(samplesOf(all, name as OpenPaiName)).not.toEqual([]);
  for (const input of inputs) expect(samplesOf(without(input), name as OpenPaiName), input).toEqual([]);
});

describe("GPUs", () => {
  const ecc = (log: typeof lost) =>
    samplesOf({ nvidia: { log, owners: new Map() } }, "nvidiasmi_ecc_error_count").map(({ labels, value }) => [
      labels["minor_number"],
      labels["type"],
      value,
    ]);

  test("memory errors in each layout, and none where they cannot be read (defect 8)", () => {
    expect(ecc(lost)).toEqual([
      ["0", "single", 9],
      ["0", "double", 22],
    ]);
    expect(ecc(numbered("nvidia-smi-v12-mig.xml")).map(([, , value]) => value)).toEqual([31, 42]);
    expect(ecc(nvidiaLog("nvidia-smi-v8-bits.xml")).map(([, , value]) => value)).toEqual([3, 1]);
  });

  test("reasons of drivers that say event for throttle (defect 9); absent where there are none to read", () => {
    expect(samplesOf(all, "nvidiasmi_performance_state")).toEqual([
      { labels: { node_name: NODE, minor_number: "0", clocks_throttle_reasons: "sw_thermal_slowdown" }, value: 0 },
    ]);
  });

  test("a leak is more than 20 MiB that nobody holds (defect 10), and never under MIG or without a list", () => {
    expect(samplesOf(all, "nvidiasmi_memory_leak_count")).toEqual([{ labels: { minor_number: "1" }, value: 1 }]);
    const leaks = (more: object) =>
      samplesOf(
        { nvidia: { log: { ...held, gpus: [{ ...held.gpus[1]!, ...more }] }, owners: new Map() } },
        "nvidiasmi_memory_leak_count",
      ).length;
    expect(leaks({})).toBe(1);
    expect(leaks({ memoryUsedBytes: 20 * 2 ** 20 })).toBe(0);
    expect(leaks({ memoryUsedBytes: undefined })).toBe(0);
    expect(leaks({ processes: undefined })).toBe(0);
    expect(leaks({ processes: [holder(1)] })).toBe(0);
    expect(leaks({ mig: { mode: "Enabled", devices: [] } })).toBe(0);
  });

  test("under MIG the use is absent, and the memory is the GPU's own and no slice's (defect 7)", () => {
    const file = "nvidia-smi-v12-mig.xml";
    const memory = (log: typeof lost) =>
      samplesOf({ nvidia: { log, owners: new Map() } }, "gpu_mem_utilization").map(({ value }) => value);
    expect(samplesOf({ nvidia: { log: numbered(file), owners: new Map() } }, "gpu_utilization")).toEqual([]);
    expect(memory(numbered(file))).toEqual([]);
    const permitted = fixture(file)
      .replaceAll("<total>Insufficient Permissions", "<total>40960 MiB")
      .replaceAll("<used>Insufficient Permissions", "<used>10240 MiB");
    const log = parseNvidiaSmi(printed(permitted)).value;
    expect(memory(log)).toEqual([]);
    expect(memory({ ...log, gpus: log.gpus.map((gpu) => ({ ...gpu, minorNumber: 0 })) })).toEqual([25]);
  });

  test("percents, both makers under the common names, the strangers counted once a process", () => {
    const own = publish(all).get("nvidia-smi")!;
    expect(valuesBy(own, "gpu_mem_utilization", "minor_number")).toEqual({ 0: 50, 1: 21 });
    expect(valuesBy(own, "gpu_mem_utilization", "vender")).toEqual({ nvidia: 21 });
    expect(valuesBy(own, "gpu_used_by_external_process_count", "minor_number")).toEqual({ 0: 2, 1: 0 });
    expect(samplesOf(all, "gpu_used_by_zombie_container_count")).toEqual([
      { labels: { minor_number: "0", container_id: ID.slice(0, 12) }, value: 1 },
    ]);
    const cards = publish(all).get("rocm-smi")!;
    expect(valuesBy(cards, "gpu_utilization", "minor_number")).toEqual({ 1: 0, 2: expect.closeTo(7) as number });
    expect(valuesBy(cards, "gpu_utilization", "vender")).toHaveProperty("amd");
    expect(valuesBy(cards, "rocmsmi_temperature", "minor_number")).toEqual({ 1: 31, 2: 25 });
  });

  test("what amd-smi has read in place of rocm-smi goes by the same names, in its own group", () => {
    const [gpu] = parseAmdSmi(printed(fixture("amd-smi-7-metric.json"))).value;
    const given = publish({ amdSmi: [{ ...gpu!, minorNumber: 7 }] }, figures({ "amd-smi": account("amd-smi") }));
    const own = given.get("amd-smi") ?? [];
    expect(valuesBy(own, "rocmsmi_utilization_gpu", "minor_number")).toEqual({ 7: 83 });
    expect(valuesBy(own, "rocmsmi_temperature", "minor_number")).toEqual({ 7: 61 });
    expect(valuesBy(own, "gpu_utilization", "vender")).toEqual({ amd: 83 });
    expect(own.map(({ name }) => name)).toContain("cmd_rocm_smi_latency_seconds_count");
  });

  test("nothing is said of strangers on a GPU of which no process is known whose it is", () => {
    const blind = { ...all, nvidia: { ...all.nvidia, owners: new Map() } };
    const counts = samplesOf(blind, "gpu_used_by_external_process_count").map(({ labels }) => labels["minor_number"]);
    expect(counts).not.toContain("0");
  });

  test("a card without a sensor at the edge is as warm as its junction", () => {
    const [card] = all.amd.report.gpus;
    const bare = {
      ...card!,
      temperatures: [{ sensor: "memory", celsius: 50 } as const, { sensor: "junction", celsius: 60 } as const],
    };
    const amd = { report: { ...all.amd.report, gpus: [bare] }, owners: new Map() };
    expect(samplesOf({ amd }, "rocmsmi_temperature").map(({ value }) => value)).toEqual([60]);
  });
});

describe("tasks and services", () => {
  const LABELS = {
    username: "ann",
    job_name: "ann~mnist",
    role_name: "worker",
    task_index: "3",
    job_instance_id: "0_cafe",
    virtual_cluster: "gold",
  };

  test("a task has all its labels, and percents as job-exporter has them", () => {
    expect(samplesOf(all, "task_cpu_percent")).toEqual([{ labels: LABELS, value: expect.closeTo(204.2) as number }]);
    expect(samplesOf(all, "task_mem_usage_percent").map(({ value }) => value)).toEqual([25]);
    expect(samplesOf(all, "task_block_in_byte").map(({ value }) => value)).toEqual([1_440_000]);
    expect(samplesOf(all, "task_gpu_mem_percent")).toEqual([{ labels: { ...LABELS, minor_number: "1" }, value: 21 }]);
  });

  test("a service is called as its container; a value of it that was not read is absent", () => {
    expect(samplesOf(all, "service_cpu_percent")).toEqual([{ labels: { name: "main" }, value: 50 }]);
    expect(samplesOf(all, "service_mem_usage_percent")).toEqual([]);
  });

  test("nobody's container is neither, nor is a pod's network one", () => {
    const elsewhere = (more: object) =>
      samplesOf({ ...all, containers: [{ ...containers[1]!, ...more }] }, "service_cpu_percent").length;
    expect(elsewhere({})).toBe(1);
    expect(elsewhere({ namespace: "shop" })).toBe(0);
    expect(elsewhere({ container: "POD" })).toBe(0);
  });

  test("two containers of one task are one series and not two (defect 13)", () => {
    const [row] = all.stats;
    const twin = { ...task, id: `9${ID.slice(1)}`, name: "sidecar" };
    const stats = [row!, { ...row!, id: `9${ID.slice(1, 12)}`, name: "sidecar", cpu: 9 }];
    const twice = samplesOf({ stats, containers: [task, twin] }, "task_cpu_percent");
    expect(twice).toEqual([{ labels: LABELS, value: expect.closeTo(204.2) as number }]);
  });
});

describe("docker, zombies, processes", () => {
  const error = (up: boolean | undefined, result?: ResultKind) => {
    const { runs, commands } = account("docker-daemon");
    const daemon = result === undefined ? { enabled: true, runs, commands } : account("docker-daemon", result);
    const fresh = result === "ok" ? { daemon: { up, info: undefined, unit: undefined } } : {};
    return samplesOf(fresh, "docker_daemon_count", figures({ "docker-daemon": daemon })).map(({ labels, value }) => [
      labels["error"],
      value,
    ]);
  };

  test("docker's error is one of a few words (defect 14)", () => {
    expect(error(true, "ok")).toEqual([["ok", 1]]);
    expect(error(false, "ok")).toEqual([["daemon_down", 1]]);
    expect(error(undefined, "ok")).toEqual([]);
    expect(error(undefined, "timeout")).toEqual([["timeout", 1]]);
    expect(error(undefined, "exit_nonzero")).toEqual([["exit_nonzero", 1]]);
    expect(error(undefined)).toEqual([]);
  });

  test("no zombie is 0 once logs were read; the count goes with them (defect 4)", () => {
    expect(samplesOf(all, "zombie_container_count")).toEqual([{ labels: { type: "job_exit_hangs" }, value: 1 }]);
    const none = { ...all, logs: new Map([[ID, { finished: false }]]) };
    expect(samplesOf(none, "zombie_container_count").map(({ value }) => value)).toEqual([0]);
  });

  test("processes by command, and without ids; D only once it is known to last", () => {
    expect(samplesOf(all, "zombie_process_count")).toEqual([{ labels: { command: "nvidia-smi" }, value: 2 }]);
    const once = { processes: { all: processes } };
    expect(samplesOf(once, "zombie_process_count")).toEqual([]);
    expect(samplesOf(once, "process_mem_usage_byte")).toContainEqual({
      labels: { cmd: "python3" },
      value: 900_000 * 1024,
    });
  });
});

describe("accounts", () => {
  test("60 s of nvidia-smi are above job-exporter's highest bucket (defect 1)", () => {
    const buckets = samplesOf({}, "cmd_nvidia_smi_latency_seconds_bucket" as OpenPaiName);
    const atMost = Object.fromEntries(buckets.map(({ labels, value }) => [labels["le"], value]));
    expect(atMost).toMatchObject({ 8: 0, 32: 0, 64: 1, "+Inf": 1 });
  });

  test("runs are counted whatever they come to, so that a probe that hangs is no collector that hangs", () => {
    const hung = figures({ "nvidia-smi": account("nvidia-smi", "timeout") });
    const [run] = publish({}, hung).get("nvidia-smi")!;
    expect(run).toMatchObject({
      name: "collector_iteration_count_total",
      samples: [{ labels: { name: "gpu_collector" }, value: 3 }],
    });
  });

  test("a command that has not run yet has no histogram, and one of another probe is not this one's", () => {
    const accounts = figures({ lsof: { ...account("lsof"), commands: account("docker-inspect").commands } });
    const names = publish({}, accounts).get("lsof");
    expect(names).toBeUndefined();
  });
});
