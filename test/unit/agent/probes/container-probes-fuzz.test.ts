import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Metric } from "../../../../lib/shared/exposition.ts";
import type { Output, Parsed } from "../../../../lib/agent/command/types.ts";
import { parseCgroup } from "../../../../lib/agent/probes/common/cgroup.ts";
import { crictlStatsMetrics, parseCrictlStats } from "../../../../lib/agent/probes/crictl-stats.ts";
import { isForbiddenName, parseCustom } from "../../../../lib/agent/probes/custom.ts";
import { dockerDaemonMetrics, parseDockerDaemon } from "../../../../lib/agent/probes/docker-daemon.ts";
import { dockerInspectMetrics, parseDockerInspect } from "../../../../lib/agent/probes/docker-inspect.ts";
import { parseDockerList } from "../../../../lib/agent/probes/common/docker.ts";
import { parseDockerLogs } from "../../../../lib/agent/probes/docker-logs.ts";
import { dockerStatsMetrics, parseDockerStats } from "../../../../lib/agent/probes/docker-stats.ts";
import { defaultInterface, iftopMetrics, parseIftop } from "../../../../lib/agent/probes/iftop.ts";
import { parseLsof } from "../../../../lib/agent/probes/lsof.ts";
import { NODE_METRICS, type NodeMetricName } from "../../../../lib/agent/probes/common/metric-families.ts";
import { ParseError } from "../../../../lib/agent/probes/common/parse.ts";
import { longStanding, watchProcesses } from "../../../../lib/agent/probes/ps-watch.ts";
import { parsePs, psMetrics } from "../../../../lib/agent/probes/ps.ts";
import { readResult } from "../../../../lib/agent/probes/common/probe.ts";
import { agentOf } from "../../../../lib/agent/command/start.ts";
import { mutated, noise } from "../../../support/mutated.ts";
import { isLong } from "../../../support/size.ts";
import { fixture } from "../../../support/probe-fixtures.ts";

const nothing = (): Metric[] => [];
type Probe = { seeds: readonly string[]; end: (output: Output) => "refused" | "read" };

/** Metrics that can be published as they are: finite, each series once, only the labels that the catalogue has. */
const checkMetrics = (metrics: readonly Metric[], custom: boolean): void => {
  for (const { name, samples } of metrics) {
    const wanted = custom ? undefined : [...NODE_METRICS[name as NodeMetricName].labels].sort().join();
    const series = new Set(samples.map(({ labels }) => JSON.stringify(labels, Object.keys(labels).sort())));
    if (series.size !== samples.length || samples.length === 0) throw new Error(`${name} has a series twice, or none`);
    for (const { labels, value } of samples) {
      if (!Number.isFinite(value)) throw new Error(`${name} is ${value}`);
      if (wanted !== undefined && Object.keys(labels).sort().join() !== wanted) throw new Error(`labels of ${name}`);
      const texts = Object.values(labels);
      if (texts.some((text) => /\p{Cs}/u.test(text))) throw new Error(`a label of ${name} is no text`);
      if (!custom && texts.some((text) => text.length > 128)) throw new Error(`a label of ${name} is long`);
    }
    if (custom && isForbiddenName(name)) throw new Error(`${name} is not the command's to use`);
  }
};

const probe = <T>(
  seeds: readonly string[],
  parse: (output: Output) => Parsed<T>,
  metricsOf: (value: T) => readonly Metric[],
  custom = false,
): Probe => ({
  seeds,
  end: (output) => {
    let parsed: Parsed<T>;
    try {
      parsed = parse(output);
    } catch (error) {
      if (error instanceof ParseError) return "refused";
      throw error;
    }
    if (!Number.isSafeInteger(parsed.rejected) || parsed.rejected < 0) throw new Error(`rejected ${parsed.rejected}`);
    checkMetrics(metricsOf(parsed.value), custom);
    return "read";
  },
});

const PROBES: Record<string, Probe> = {
  "docker-stats": probe(
    ["docker-stats.jsonl", "docker-stats-table.txt", "docker-stats-columns.txt", "podman-stats.json"].map(fixture),
    parseDockerStats,
    dockerStatsMetrics,
  ),
  "docker-inspect": probe([fixture("docker-inspect.json")], parseDockerInspect, dockerInspectMetrics),
  "docker-inspect of podman": probe([fixture("podman-inspect.json")], parseDockerInspect, dockerInspectMetrics),
  "docker-ps": probe(["0a1b2c3d4e5f\n".repeat(3)], parseDockerList, nothing),
  "docker-daemon": probe(
    [fixture("docker-info.json"), fixture("docker-info-down.json"), "active\n", "inactive\n"],
    parseDockerDaemon,
    dockerDaemonMetrics,
  ),
  "docker-daemon of podman": probe([fixture("podman-info.json")], parseDockerDaemon, dockerDaemonMetrics),
  "docker-logs": probe(["line\nUSER COMMAND END\n"], (output) => parseDockerLogs(output, "USER COMMAND END"), nothing),
  iftop: probe([fixture("iftop.txt")], parseIftop, iftopMetrics),
  lsof: probe([fixture("lsof.txt")], parseLsof, nothing),
  ps: probe([fixture("ps.txt")], parsePs, (processes) => {
    const watch = watchProcesses(watchProcesses(undefined, processes, 0), processes, 30);
    return psMetrics(processes, { longStanding: longStanding(watch, 10), largeResidentBytes: 1000 });
  }),
  "crictl-stats": probe([fixture("crictl-stats.json")], parseCrictlStats, crictlStatsMetrics),
  custom: probe([fixture("custom.prom")], parseCustom, (metrics) => metrics, true),
};

const FAILURES = [
  "nsenter: failed to execute nvidia-smi: No such file or directory\n",
  "timeout: failed to run command 'lsof': Permission denied\n",
  "Error: stats is not supported in rootless mode without cgroups v2\n",
  "sudo: nvidia-smi: command not found\n",
  "unknown shorthand flag: 'n' in --no-trunc\n",
];

/** Mostly a success; also what fails, with anything on stderr. */
const outputs = (stdout: fc.Arbitrary<string>): fc.Arbitrary<Output> =>
  fc.record({
    stdout,
    stderr: fc.oneof({ weight: 5, arbitrary: fc.constant("") }, noise),
    exitCode: fc.oneof({ weight: 9, arbitrary: fc.constant(0) }, fc.constantFrom(1, 2, 3, 4, 127, 255, -1)),
  });

/** In the long tests, 100,000 of each. */
const RUNS = isLong ? 100_000 : 4500;
const LONGEST = { timeout: 600_000 };

describe("outputs that no tool prints are refused or read, and nothing else", () => {
  it("has seeds of at most 5 kB, all readable", () => {
    for (const [name, { seeds, end }] of Object.entries(PROBES)) {
      for (const stdout of seeds) {
        expect(Buffer.byteLength(stdout)).toBeLessThan(5000);
        expect([name, end({ stdout, stderr: "", exitCode: 0 })]).toEqual([name, "read"]);
      }
    }
  });

  it.each(Object.entries(PROBES))("%s, changed and noise", LONGEST, (_, { seeds, end }) => {
    const ends = { refused: 0, read: 0 };
    let slowest = 0;
    const either = fc.oneof({ weight: 4, arbitrary: mutated(seeds) }, noise);
    fc.assert(
      fc.property(outputs(either), (output) => {
        const start = performance.now();
        ends[end(output)] += 1;
        slowest = Math.max(slowest, performance.now() - start);
      }),
      { numRuns: RUNS },
    );
    expect(ends.refused + ends.read).toBe(RUNS);
    // both ends are met, often
    expect(Math.min(ends.refused, ends.read)).toBeGreaterThan(RUNS / 50);
    expect(slowest).toBeLessThan(1000);
  });

  it("why a command failed, whatever it printed", LONGEST, () => {
    const seen = new Map<string, number>();
    fc.assert(
      fc.property(outputs(noise), fc.oneof({ weight: 4, arbitrary: mutated(FAILURES) }, noise), (output, stderr) => {
        const exitCode = output.exitCode === 0 ? 1 : output.exitCode;
        const failed = { kind: "exit_nonzero", output: { ...output, stderr, exitCode }, seconds: 1 } as const;
        const { kind } = readResult(failed, parseDockerStats);
        seen.set(kind, (seen.get(kind) ?? 0) + 1);
      }),
      { numRuns: RUNS },
    );
    const kinds = ["not_found", "not_executable", "disabled", "exit_nonzero"];
    expect([...seen.keys()].sort()).toEqual(kinds.sort());
    expect(Math.min(...seen.values())).toBeGreaterThan(RUNS / 100);
  });

  it("the mark of a process, whatever it is", LONGEST, () => {
    const mark = "pid:[4026531836]/4711/815/7c9e6679-7425-40de-944b-e07fc1f90ae7";
    expect(agentOf(mark)).toEqual({ space: "pid:[4026531836]", pid: 4711, start: 815 });
    fc.assert(
      fc.property(fc.oneof(mutated([mark]), noise), (text) => {
        const agent = agentOf(text);
        if (agent !== undefined) expect([agent.pid, agent.start].every(Number.isFinite)).toBe(true);
      }),
      { numRuns: RUNS },
    );
  });

  it("the group of a process, and the routes, whatever they are", () => {
    fc.assert(
      fc.property(fc.oneof(mutated([`12:pids:/docker/${"0a1b2c3d".repeat(8)}\n0::/x.slice\n`]), noise), (text) => {
        expect(["container", "host", "unknown"]).toContain(parseCgroup(text).kind);
        expect(["string", "undefined"]).toContain(typeof defaultInterface(text));
      }),
      { numRuns: RUNS },
    );
  });

  it.each(Object.entries(PROBES))("%s: a long line of one character does not hang it", (_, { seeds, end }) => {
    for (const filler of ["[", "{", " ", "\\", '"', "0", "a", "(", "-", ",", "\t", "1.", "=>", ":", "/", "a="]) {
      const long = filler.repeat(200_000);
      const start = performance.now();
      for (const stdout of [
        long,
        ...seeds.map((seed) => seed + long),
        ...seeds.map((seed) => seed.replace(/\d/, long)),
      ]) {
        end({ stdout, stderr: "", exitCode: 0 });
      }
      expect(performance.now() - start).toBeLessThan(2000);
    }
  });
});
