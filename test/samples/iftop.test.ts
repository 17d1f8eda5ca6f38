import { describe, expect, it } from "vitest";
import { type Iftop, type Rates, iftopMetrics, parseIftop } from "../../lib/agent/probes/iftop.ts";
import { ParseError } from "../../lib/agent/probes/common/parse.ts";
import { sameLabelsThroughout } from "../support/metrics.ts";
import { expectedOf, haveSamples, orNull, printed, readSample } from "../support/samples.ts";

/** expected.json has the unit that was printed. */
const asExpected = (value: Iftop) => {
  const factor = value.printedUnit === "bits" ? 8 : 1;
  const scale = (rate: number) => Number((rate * factor).toFixed(2));
  const total = (rates: Rates) => rates.map(scale);
  return {
    flow_count: value.flows.length,
    flows: value.flows.map((flow) => ({
      dst: flow.destination,
      in_2s: scale(flow.in[0]),
      in_40s: scale(flow.in[2]),
      out_2s: scale(flow.out[0]),
      out_40s: scale(flow.out[2]),
      src: flow.source,
    })),
    probe: "iftop",
    totals: {
      receive: total(value.receive),
      send: total(value.send),
      send_and_receive: total(value.sendAndReceive),
    },
    unit_per_second: orNull(value.printedUnit),
  };
};

if (haveSamples) {
  const all = expectedOf<{ flow_count?: number }>(/^iftop_/);
  const outputs = all.filter(([, { flow_count: count }]) => count !== undefined);
  const errors = all.filter(([, { flow_count: count }]) => count === undefined);

  describe("real outputs of iftop", () => {
    it("are all looked at", () => {
      expect([outputs.length, errors.length]).toEqual([8, 2]);
    });

    it.each(outputs)("%s: every expected value, and no other", (file, expected) => {
      const { value, rejected } = parseIftop(printed(readSample(file)));
      expect(asExpected(value)).toEqual(expected);
      expect(rejected).toBe(0);
      sameLabelsThroughout(iftopMetrics(value));
    });

    it.each(errors)("%s: no data, whatever the exit code", (file) => {
      expect(() => parseIftop(printed("", 0, readSample(file)))).toThrow(ParseError);
      expect(() => parseIftop(printed(readSample(file), 0))).toThrow(ParseError);
      expect(() => parseIftop(printed("", 1, readSample(file)))).toThrow(ParseError);
    });
  });
} else {
  it("has no shared samples here: the fixtures of test/unit/probes cover the same shapes", () => {
    expect(haveSamples).toBe(false);
  });
}
