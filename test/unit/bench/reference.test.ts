import { describe, expect, test } from "vitest";
import { parser } from "@prometheus-io/lezer-promql";
import { ASKED, referenceFigures, referenceQueries, valuesByPod } from "../../../bench/accounting/reference.ts";

const answer = (values: Readonly<Record<string, number>>): string =>
  JSON.stringify({
    status: "success",
    data: {
      resultType: "vector",
      result: Object.entries(values).map(([pod, value]) => ({ metric: { pod, uid: "x" }, value: [0, `${value}`] })),
    },
  });

function results(given: Partial<Record<(typeof ASKED)[number], Readonly<Record<string, number>>>>) {
  const of = (asked: (typeof ASKED)[number]) => valuesByPod(answer(given[asked] ?? {}));
  return {
    cputime: of("cputime"),
    endtime: of("endtime"),
    starttime: of("starttime"),
    cores: of("cores"),
    memory: of("memory"),
    cpuusage: of("cpuusage"),
  };
}

describe("the reference way", () => {
  test("asks valid PromQL over the whole period, of one namespace", () => {
    for (const query of Object.values(referenceQueries("grid", 2_678_400))) {
      const errors: number[] = [];
      parser.parse(query).iterate({ enter: (node) => void (node.type.isError && errors.push(node.from)) });
      expect(errors, query).toEqual([]);
      const selectors = query.match(/\{[^}]*\}\[2678400s\]/g) ?? [];
      expect(selectors.length, query).toBeGreaterThan(0);
      for (const selector of selectors) expect(selector).toContain(`namespace="grid"`);
    }
  });

  test("joins by pod name: core-seconds of what ended since the period's start", () => {
    const found = referenceFigures(
      results({
        endtime: { before: 90, at: 100, after: 200 },
        starttime: { before: 10, at: 40, after: 150, running: 300 },
        cores: { before: 1, at: 2, after: 4, running: 8 },
        cputime: { before: 80, at: 120, after: 200 },
      }),
      { from: 100 },
    );
    expect(found).toEqual({ jobs: 2, coreSeconds: 320 });
  });

  test("counts a job without a CPU request among the jobs, as KAPEL does, but adds nothing for it", () => {
    const found = referenceFigures(
      results({ endtime: { a: 200, b: 210 }, starttime: { a: 100, b: 100 }, cores: { a: 1 }, cputime: { a: 100 } }),
      { from: 0 },
    );
    expect(found).toEqual({ jobs: 2, coreSeconds: 100 });
  });

  test("stops where its two ways to the same figure differ", () => {
    const wrong = results({ endtime: { a: 200 }, starttime: { a: 100 }, cores: { a: 1 }, cputime: { a: 99 } });
    expect(() => referenceFigures(wrong, { from: 0 })).toThrow(/pod a/);
  });

  test("keeps the last of several series of one name", () => {
    const row = (value: string) => ({ metric: { pod: "a" }, value: [0, value] });
    const body = JSON.stringify({ status: "success", data: { result: [row("1"), row("2")] } });
    expect(valuesByPod(body)).toEqual(new Map([["a", 2]]));
  });
});
