import { describe, expect, it } from "vitest";
import { ParseError } from "../../lib/agent/probes/common/parse.ts";
import { type Process, longStanding, watchProcesses } from "../../lib/agent/probes/ps-watch.ts";
import { parsePs, psMetrics } from "../../lib/agent/probes/ps.ts";
import { sameLabelsThroughout } from "../support/metrics.ts";
import { expectedOf, haveSamples, printed, readSample } from "../support/samples.ts";

type Expected = { rows?: number };

const MIB = 1024 * 1024;

const asExpected = (processes: readonly Process[]) => {
  const inState = (wanted: string) => processes.filter(({ state }) => state === wanted);
  const states = [...new Set(processes.map(({ state }) => state))];
  return {
    D: inState("D").map(({ commandLine, pid }) => ({ cmd0: commandLine.split(" ")[0], pid })),
    Z: inState("Z").map(({ commandLine, pid }) => ({ cmd: commandLine, pid })),
    probe: "ps",
    rows: processes.length,
    rss_over_500MiB: processes
      .filter(({ residentBytes }) => residentBytes > 500 * MIB)
      .map(({ pid, residentBytes }) => ({ pid, rss_b: residentBytes })),
    states: Object.fromEntries(states.map((state) => [state, inState(state).length])),
  };
};

if (haveSamples) {
  const all = expectedOf<Expected>(/^ps_/);
  const outputs = all.filter(([, { rows }]) => rows !== undefined);
  const refused = all.filter(([, { rows }]) => rows === undefined);

  describe("real outputs of ps", () => {
    it("are all looked at", () => {
      expect([outputs.length, refused.length]).toEqual([2, 3]);
    });

    it.each(outputs)("%s: every expected value, and no other", (file, expected) => {
      const { value, rejected } = parsePs(printed(readSample(file)));
      expect(asExpected(value)).toEqual(expected);
      expect(rejected).toBe(0);
      const watch = watchProcesses(watchProcesses(undefined, value, 0), value, 30);
      sameLabelsThroughout(psMetrics(value, { longStanding: longStanding(watch, 10), largeResidentBytes: 500 * MIB }));
    });

    it.each(refused)("%s: other columns, no data", (file) => {
      expect(() => parsePs(printed(readSample(file)))).toThrow(ParseError);
    });
  });
} else {
  it("has no shared samples here: the fixtures of test/unit/probes cover the same shapes", () => {
    expect(haveSamples).toBe(false);
  });
}
