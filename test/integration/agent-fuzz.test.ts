import { setTimeout } from "node:timers/promises";
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Metric, agree, render } from "../../lib/shared/exposition.ts";
import { knownMetric } from "../../lib/agent/agent.ts";
import { SelfMetrics } from "../../lib/agent/metrics/self.ts";
import { openPaiMetrics } from "../../lib/agent/openpai/metrics.ts";
import { killAll } from "../../lib/agent/command/run.ts";
import { machineClock } from "../../lib/agent/schedule.ts";
import { MetricStore } from "../../lib/agent/metrics/store.ts";
import { ParseError } from "../../lib/agent/probes/common/parse.ts";
import type { Probe, ProbeRun } from "../../lib/agent/probes/common/probe.ts";
import { joinedMetrics } from "../../lib/agent/probes/joins.ts";
import { createProbe, parseSaved } from "../../lib/agent/probes/registry.ts";
import type { ProbeSettings } from "../../lib/agent/probes/common/settings.ts";
import { push } from "../../lib/shared/pushgateway.ts";
import { mutated, noise } from "../support/mutated.ts";
import { fixture } from "../support/probe-fixtures.ts";
import { startPushgateway, type PushgatewayServer } from "../support/pushgateway-server.ts";
import * as node from "../support/stand-ins/node.ts";
import { standIns, type StandInCommand, type StandIns } from "../support/stand-ins/stand-ins.ts";

// The parsers alone meet 100,000 outputs in test/unit/probes. Here it is the whole way to the real Pushgateway.

/** Printed when something fails, to have the same outputs again. */
const SEED = Date.now() % 2 ** 31;

let gateway: PushgatewayServer;
let tools: StandIns;
beforeAll(async () => {
  tools = standIns({ containers: 2, gpus: 2 });
  gateway = await startPushgateway();
});
afterAll(async () => {
  await killAll("the test is over");
  await gateway.stop();
  tools.remove();
});

const pushed = (probe: string, text: string) =>
  push(gateway.url, { job: "gridmeter_agent", instance: "fuzz", probe }, text);

const GPUS = ["nvidia-smi-v12-mig.xml", "nvidia-smi-v13-lost.xml"].map((name) => fixture(name).slice(0, 5000));
/** Seeds of at most 5 kB. */
const SEEDS: Readonly<Record<string, readonly string[]>> = {
  "docker-daemon": [fixture("docker-info.json"), fixture("docker-info-down.json"), "active\n"],
  "docker-stats": ["docker-stats.jsonl", "docker-stats-table.txt", "podman-stats.json"].map(fixture),
  "docker-inspect": [fixture("docker-inspect.json")],
  "docker-logs": ["line\nUSER COMMAND END\n"],
  "nvidia-smi": [node.nvidiaSmi(2, node.containersOf(2, 2)), ...GPUS],
  "rocm-smi": [node.rocmSmi(2), fixture("rocm-smi-6-dies.txt")],
  iftop: [fixture("iftop.txt")],
  lsof: [fixture("lsof.txt")],
  ps: [fixture("ps.txt")],
  "crictl-stats": [fixture("crictl-stats.json")],
  own: [fixture("custom.prom")],
};
const SETTINGS: Readonly<Record<string, ProbeSettings>> = {
  "docker-logs": { marker: "USER COMMAND END" },
  own: { command: ["own"] },
};

it.each(Object.entries(SEEDS))(
  "%s: whatever a saved output holds, it is refused or can be pushed",
  async (name, seeds) => {
    for (const seed of seeds) expect(Buffer.byteLength(seed)).toBeLessThanOrEqual(5000);
    const outputs = fc.sample(fc.oneof({ weight: 5, arbitrary: mutated(seeds) }, noise), { numRuns: 500, seed: SEED });
    let pushes = 0;
    for (const stdout of outputs) {
      let metrics: readonly Metric[];
      try {
        ({ metrics } = parseSaved(name, { stdout, stderr: "", exitCode: 0 }, SETTINGS[name]));
      } catch (error) {
        expect(error, `seed ${SEED}: ${JSON.stringify(stdout)}`).toBeInstanceOf(ParseError);
        continue;
      }
      const text = render(agree([[name, metrics]], knownMetric).blocks.get(name) ?? []);
      if (text === "" || pushes === 40) continue;
      pushes += 1;
      await pushed(name, text).catch((error: unknown) => {
        throw new Error(`seed ${SEED}: ${JSON.stringify(stdout)}`, { cause: error });
      });
    }
    // lsof's connections say something only with others' data
    if (name !== "lsof") expect(pushes).toBeGreaterThan(0);
  },
);

/** A run of a probe; on a busy machine what was ended in the run before may still be there. */
async function ran(probe: Probe): Promise<ProbeRun> {
  for (;;) {
    const run = await probe.run();
    if (run.kind !== "skipped_in_flight") return run;
    await setTimeout(50);
  }
}

it("all tools at once print what none does: real probes, joined and under job-exporter's names, are pushed", async () => {
  const { proc, containers } = tools;
  const quick = { timeout: 10, commandTimeout: 10, interval: 30 };
  const bin = (tool: string): string => `${tools.path}/${tool}`;
  const docker = bin("docker");
  const listCommand = [docker, "ps", "--quiet", "--no-trunc"] as const;
  const settings: Readonly<Record<string, ProbeSettings>> = {
    "docker-daemon": { ...quick, command: [docker, "info"] },
    "docker-stats": { ...quick, command: [docker, "stats"] },
    "docker-inspect": { ...quick, listCommand, command: [docker, "inspect", "{id}"] },
    "docker-logs": { ...quick, listCommand, command: [docker, "logs", "{id}"], marker: "USER COMMAND END" },
    "nvidia-smi": { ...quick, command: [bin("nvidia-smi")], requireDevice: false, proc },
    "rocm-smi": { ...quick, command: [bin("rocm-smi")], requireDevice: false, proc },
    iftop: { ...quick, command: [bin("iftop")], interface: "eth0", proc },
    ps: { ...quick, command: [bin("ps")], longStanding: 0.001 },
    "crictl-stats": { ...quick, command: [bin("crictl"), "stats"], requireDevice: false },
  };
  const probes = Object.entries(settings).map(([name, own]) => createProbe(name, own));
  const faults: string[] = [];
  const board = new MetricStore({
    probes,
    meta: new SelfMetrics({
      probes,
      version: "fuzz",
      wallClock: () => Date.now() / 1000,
      process: () => ({ residentBytes: 1, cpuSeconds: 1 }),
    }),
    joins: [joinedMetrics],
    extras: [(fresh, figures) => openPaiMetrics(fresh, figures, "fuzz")],
    catalogue: knownMetric,
    clock: machineClock,
    fault: (text) => faults.push(text),
  });
  for (const { name } of probes) board.enabled(name, true);

  const rounds = 16;
  const prints: readonly (readonly [StandInCommand, string, string?])[] = [
    ["docker-info", node.dockerInfo(2)],
    ["docker-stats", node.dockerStats(containers)],
    ["nvidia-smi", node.nvidiaSmi(2, containers)],
    ["rocm-smi", node.rocmSmi(2)],
    ["iftop", node.iftop(containers)],
    ["ps", node.ps(containers)],
    ["crictl-stats", node.crictlStats(containers)],
    ...containers.flatMap((one) => [
      ["docker-inspect", node.dockerInspect(one), one.id] as const,
      ["docker-logs", "USER COMMAND END\n", one.id] as const,
    ]),
  ];
  const texts = prints.map(([, text], index) => fc.sample(mutated([text]), { numRuns: rounds, seed: SEED + index }));
  const kinds = new Set<string>();
  let pushes = 0;
  for (let round = 0; round < rounds; round++) {
    for (const [index, [command, text, target]] of prints.entries()) {
      // Each is what it should be in every second round, so that there is something to join.
      tools.print(command, (round + index) % 2 === 0 ? text : (texts[index]?.[round] ?? ""), target);
    }
    const runs = await Promise.all(probes.map(async (probe) => ({ probe: probe.name, run: await ran(probe) })));
    for (const { probe, run } of runs) {
      board.settled(probe, run);
      kinds.add(run.kind);
    }
    for (const group of board.groups) {
      pushes += 1;
      await pushed(group, board.group(group).text).catch((error: unknown) => {
        throw new Error(`seed ${SEED}, round ${round}, ${group}`, { cause: error });
      });
    }
  }
  expect(faults, `seed ${SEED}`).toEqual([]);
  expect(pushes).toBe(rounds * (probes.length + 1));
  expect([...kinds]).toContain("ok");
  expect(
    [...kinds].filter((kind) => kind !== "ok" && kind !== "parse_error"),
    `seed ${SEED}`,
  ).toEqual([]);
  // What the gateway took, it shows.
  const shown = await gateway.metrics();
  for (const name of ["gridmeter_probe_runs_total", "gridmeter_container_info", "gridmeter_gpu_info"]) {
    expect(shown).toContain(`${name}{`);
  }
});
