import { parser } from "@prometheus-io/lezer-promql";
import { assert, property, string } from "fast-check";
import { describe, expect, it } from "vitest";
import type { Only } from "../../../../lib/accounting/model/monitoring.ts";
import type { Selection } from "../../../../lib/accounting/model/tenant.ts";
import { type Spelling, quote, spellings } from "../../../../lib/accounting/prometheus/labels.ts";
import { queriesFor } from "../../../../lib/accounting/prometheus/plan-queries.ts";
import {
  type InstantFact,
  copyQueries,
  factQuery,
  presenceQueries,
  sampleQuery,
  sightQuery,
  splitLabelQuery,
} from "../../../../lib/accounting/prometheus/queries.ts";
import { targetsQuery, totalShardsQuery } from "../../../../lib/accounting/prometheus/shard-gaps.ts";
import { oldPodsQuery, podsQuery } from "../../../../lib/accounting/prometheus/seen.ts";

const FACTS: readonly InstantFact[] = [
  "end",
  "name",
  "start",
  "succeeded",
  "failed",
  "runningUntil",
  "cores",
  "unscheduledCores",
  "vo",
  "voAt",
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

/** What is asked about what is found to be wrong, which is in no plan. */
function questionsInDoubt(selection: Selection, only: Only | undefined): readonly string[] {
  const own = spellings(selection).flatMap((spelling) => [
    ...(["cpu", "memory"] as const).flatMap((of) => Object.values(copyQueries(of, selection, spelling, window, only))),
    sightQuery(selection, spelling, only),
    sampleQuery(selection, spelling, window, 25),
  ]);
  const presence = (["ends", "starts", "phases", "requests", "kube-system"] as const).flatMap((of) =>
    presenceQueries(of, selection),
  );
  const others = [
    splitLabelQuery(selection, window),
    targetsQuery(selection),
    totalShardsQuery(selection, window),
    podsQuery(selection),
    oldPodsQuery(selection, window.to),
  ];
  return [...own, ...presence, ...others];
}

const [PLAIN, RENAMED] = spellings(plain) as [Spelling, Spelling];

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
          for (const spelling of spellings(selection))
            for (const fact of FACTS) expect(faults(factQuery(fact, selection, spelling, window, only))).toEqual([]);
        }
        for (const only of [undefined, { uids: ["a.b(c"] }])
          for (const query of questionsInDoubt(selection, only)) expect(faults(query)).toEqual([]);
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

/** The functions that a query applies to ranges. */
function overRanges(query: string): readonly string[] {
  const found: string[] = [];
  parser.parse(query).iterate({
    enter: ({ name, node }) => {
      if (name !== "MatrixSelector" && name !== "SubqueryExpr") return;
      const call = node.parent?.parent;
      const identifier = call?.name === "FunctionCall" ? call.firstChild : undefined;
      found.push(identifier ? query.slice(identifier.from, identifier.to) : `none: ${query}`);
    },
  });
  return found;
}

describe("the rules that queries keep", () => {
  it("uses only idempotent functions over ranges (Prometheus 2 and 3 close ranges differently)", () => {
    for (const query of [...everyQuery(plain).map((each) => each.query), ...questionsInDoubt(plain, undefined)]) {
      const functions = overRanges(query);
      expect(functions.length).toBeGreaterThan(0);
      expect(functions.filter((name) => name !== "max_over_time" && name !== "last_over_time")).toEqual([]);
    }
  });

  it("merges copies of a series before anything is added up", () => {
    for (const fact of FACTS) {
      for (const spelling of [PLAIN, RENAMED]) {
        const query = factQuery(fact, plain, spelling, window);
        // Requests that differ have a row each, and are added up by the reader.
        expect(query).toMatch(
          /cores|request/i.test(fact) ? /^\(count_values by \((?!.*\bsum\b)/ : /^(?:sum by \([^)]*\) \()?max by \(/,
        );
      }
    }
  });

  it("asks for successes and failures of pods apart, the failures of named pods without any sign around their uids", () => {
    const phasesOf = (what: string) =>
      everyQuery(plain)
        .filter(({ asks }) => asks.startsWith(what))
        .map(({ query }) => /phase="\w+"/.exec(query)?.[0]);
    expect(phasesOf("succeeded")).toEqual(['phase="Succeeded"', 'phase="Succeeded"']);
    expect(phasesOf("failed")).toEqual(['phase="Failed"', 'phase="Failed"']);
    // Only so does Prometheus look each of them up instead of trying all uids that it has.
    const failed = (spelling: Spelling) => factQuery("failed", plain, spelling, window, { uids: ["0a-1", "b.c"] });
    expect(failed(PLAIN)).toContain(String.raw`,uid=~"0a-1|b\\.c"`);
    expect(failed(RENAMED)).toContain(String.raw`,exported_uid=~"0a-1|b\\.c"`);
    expect(failed(RENAMED)).toContain(String.raw`,exported_uid="",uid=~"0a-1|b\\.c"`);
  });

  it("asks for the width of the window in seconds", () => {
    expect(factQuery("end", plain, PLAIN, window)).toBe(
      'max by (uid) (max_over_time(kube_pod_completion_time{namespace="prod",exported_namespace=""}[86400s]))',
    );
  });

  it("asks in both spellings, and no series is in both answers", () => {
    expect(factQuery("end", plain, RENAMED, window)).toBe(
      'max by (exported_uid,uid) (max_over_time(kube_pod_completion_time{exported_namespace="prod"}[86400s]))',
    );
    // A filled exported_namespace that is another one: kube-state-metrics runs inside the jobs' namespace.
    expect(spellings(plain).map(({ namespace }) => namespace)).toEqual([
      ['namespace="prod"', 'exported_namespace=""'],
      ['exported_namespace="prod"'],
    ]);
    expect(spellings({ ...plain, labelPrefix: "orig_" }).map(({ namespace }) => namespace)).toEqual([
      ['namespace="prod"', 'orig_namespace=""'],
      ['orig_namespace="prod"'],
    ]);
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
    expect(factQuery("cpu", plain, PLAIN, window, { prefixes: ["a3f0c1d2-4"] })).toContain(
      'id=~".*[/-]pod(?:a3f0c1d2[-_]4).*"',
    );
  });

  it("refuses a VO label that is none", () => {
    expect(() => factQuery("vo", { ...plain, voLabel: "label-vo" }, PLAIN, window)).toThrow(
      /"label-vo" is not the name/,
    );
    const { voLabel: _, ...without } = plain;
    expect(() => factQuery("vo", without, PLAIN, window)).toThrow(/is not set/);
  });
});
