import { parser } from "@prometheus-io/lezer-promql";
import { assert, property, string } from "fast-check";
import { describe, expect, it } from "vitest";
import type { Fact } from "../../../lib/accounting/ports.ts";
import type { Selection } from "../../../lib/accounting/tenant.ts";
import { queriesFor } from "../../../lib/prometheus/plan-queries.ts";
import { quote } from "../../../lib/prometheus/promql.ts";
import { oneOf } from "../../../lib/prometheus/labels.ts";
import { factQuery, failedQuery } from "../../../lib/prometheus/queries.ts";

const FACTS: readonly Fact[] = [
  "end",
  "name",
  "start",
  "finished",
  "cores",
  "unscheduledCores",
  "vo",
  "cpu",
  "memoryRequest",
  "unscheduledMemoryRequest",
  "memoryUsed",
];
const window = { from: 1_741_564_800, to: 1_741_564_800 + 86_400 };
const plain: Selection = { namespace: "prod", matchers: [], labelPrefix: "", voLabel: "label_vo" };
/** Every query of a run: the CPU use of the wallclock model, names and memory of single jobs. */
const everyQuery = (selection: Selection): readonly { readonly asks: string; readonly query: string }[] =>
  queriesFor({ selection, model: "wallclock", format: "individual-0.4" }, window);

/** The kinds of node in a query that the PromQL grammar could not read; empty for a good one. */
function faults(query: string): readonly string[] {
  const found: string[] = [];
  parser.parse(query).iterate({
    enter: (node) => {
      if (node.type.isError) found.push(`${node.from}-${node.to} in ${query}`);
    },
  });
  return found;
}

const NASTY = [
  "prod",
  'a"b',
  "back\\slash",
  "ends\\",
  "line\nbreak",
  "{}[](),=~!",
  "ünïcode ☃",
  "'single' `tick`",
  "a\tb\u0001\u007f",
  '"} or vector(1) or {a="',
];
const MATCHERS: readonly (readonly string[])[] = [[], ['cluster="prod"'], ['a!="b"', 'cluster=~"x|y"']];
const ONLY = [
  undefined,
  ...[["0"], ["0", "1", "f"], ["a3f0c1d2-4"], ["a.b(c"]].flatMap((texts) => [{ prefixes: texts }, { uids: texts }]),
];

describe("every query is PromQL", () => {
  it("finds a fault where there is one", () => {
    expect(faults('max by (a) (b{c="d"}[5m)')).not.toEqual([]);
  });

  it.each(NASTY)("with the namespace %j", (namespace) => {
    for (const matchers of MATCHERS) {
      for (const labelPrefix of ["", "exported_"]) {
        const selection = { ...plain, namespace, matchers, labelPrefix };
        for (const only of ONLY) {
          for (const fact of FACTS) expect(faults(factQuery(fact, selection, window, only))).toEqual([]);
        }
        for (const monitoring of [{}, { monitoringSelector: 'up{job="ksm"}' }]) {
          for (const { query } of everyQuery({ ...selection, ...monitoring })) expect(faults(query)).toEqual([]);
        }
      }
    }
  });

  it("keeps any text inside its quotes", () => {
    assert(
      property(string({ unit: "binary" }), (text) => {
        const quoted = quote(text);
        expect(faults(`up{a=${quoted}}`)).toEqual([]);
        expect(quoted.slice(1, -1)).not.toMatch(/\n|(?<!\\)(?:\\\\)*"/);
      }),
    );
  });
});

describe("the rules that queries keep", () => {
  it("uses only idempotent functions over ranges (Prometheus 2 and 3 close ranges differently)", () => {
    for (const { query } of everyQuery(plain)) {
      const functions = [...query.matchAll(/(?<name>\w+)\(\w+\{[^}]*\}\[/g)].map((match) => match.groups?.["name"]);
      expect(functions.length).toBeGreaterThan(0);
      expect(functions.filter((name) => name !== "max_over_time" && name !== "last_over_time")).toEqual([]);
    }
  });

  it("merges copies of a series before anything is added up", () => {
    for (const fact of FACTS) {
      const query = factQuery(fact, plain, window);
      expect(query).toMatch(/^(?:sum by \([^)]*\) \(\(?)?max by \(/);
    }
  });

  it("asks for successes and failures of pods apart, the failures of named pods without any sign around their uids", () => {
    const [first, second] = everyQuery(plain).filter(({ asks }) => /^finished\b/.test(asks));
    expect(first?.query).toContain('phase="Succeeded"');
    expect(second?.query).toContain('phase="Failed"');
    // Only so does Prometheus look each of them up instead of trying all uids that it has.
    expect(failedQuery(plain, window, oneOf(["0a-1", "b.c"]))).toContain(String.raw`uid=~"0a-1|b\\.c"`);
    expect(faults(failedQuery({ ...plain, labelPrefix: "exported_" }, window, oneOf(["a(b", 'c"d'])))).toEqual([]);
  });

  it("asks for the width of the window in seconds", () => {
    expect(factQuery("end", plain, window)).toBe(
      'max by (uid) (max_over_time(kube_pod_completion_time{namespace="prod"}[86400s]))',
    );
  });

  it("puts extra matchers on every metric of pods, containers and of the default evidence", () => {
    const selection = { ...plain, matchers: ['cluster="prod"'] };
    for (const { query } of everyQuery(selection)) {
      const selectors = query.match(/\{[^}]*\}/g) ?? [];
      expect(selectors.length).toBeGreaterThan(0);
      expect(selectors.filter((each) => !each.includes('cluster="prod"'))).toEqual([]);
    }
  });

  it("does not touch a configured monitoring selector", () => {
    const selection = { ...plain, matchers: ['cluster="prod"'], monitoringSelector: 'up{job="ksm"}' };
    const seen = everyQuery(selection).filter((each) => each.asks === "seen");
    expect(seen.map((each) => each.query)).toEqual(['max(max_over_time(up{job="ksm"}[300s]))']);
  });

  it("looks for uid prefixes in cAdvisor's id with either sign between the uid's parts", () => {
    expect(factQuery("cpu", plain, window, { prefixes: ["a3f0c1d2-4"] })).toContain(
      'id=~".*[/-]pod(?:a3f0c1d2[-_]4).*"',
    );
  });

  it("refuses a VO label that is none", () => {
    expect(() => factQuery("vo", { ...plain, voLabel: "label-vo" }, window)).toThrow(/"label-vo" is not the name/);
    const { voLabel: _, ...without } = plain;
    expect(() => factQuery("vo", without, window)).toThrow(/is not set/);
  });
});
