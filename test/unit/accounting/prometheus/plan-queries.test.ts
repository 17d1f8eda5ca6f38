import { describe, expect, test } from "vitest";
import type { Tenant } from "../../../../lib/accounting/model/tenant.ts";
import { queriesFor } from "../../../../lib/accounting/prometheus/plan-queries.ts";
import { tenant } from "../world.ts";

const window = { from: 1_741_564_800, to: 1_741_564_800 + 86_400 };
const asked = (more: Parameters<typeof tenant>[1] = {}): readonly string[] =>
  queriesFor(tenant("prod", more), window).map(({ asks }) => asks);

/** Questions about pods are asked once in each spelling of their labels. */
const twice = (...asks: readonly string[]): readonly string[] => [...asks, ...asks];

const ALWAYS = ["seen", "targets", "shards", ...twice("start", "succeeded", "cores")];
const SOMETIMES = [
  ...Array.from({ length: 6 }, () => "seen, only where the one before has no series"),
  ...twice(
    "unscheduledCores, only if a finished pod has no CPU request that names a node",
    "failed, only of pods that did not succeed",
    "runningUntil, only of pods without a row of either phase",
  ),
  "namespaces, only if no pod of the namespace is found",
  "namespaces, only if no pod of the namespace is found",
  "own labels, only if there are jobs",
  ...Array.from({ length: 4 }, () => "pods of a day, only if none finished"),
  ...Array.from(
    { length: 5 },
    () => "starts, only if there are pods on a day on which none finished, and the one before has no series",
  ),
];
const CPU = twice("cpu, only if a pod has finished");
const MEMORY = twice(
  "memoryRequest, only if a pod has finished",
  "unscheduledMemoryRequest, only if a finished pod has no memory request that names a node",
  "memoryUsed, only if a pod has finished",
);

describe("a plan has the queries that a run of the tenant sends", () => {
  const cases: readonly (readonly [string, Partial<Tenant>, readonly string[]])[] = [
    ["summaries of core-seconds", {}, [...twice("end"), ...ALWAYS, ...SOMETIMES]],
    ["normalised summaries", { format: "normalised-0.4" }, [...twice("end"), ...ALWAYS, ...SOMETIMES]],
    ["summaries of the wallclock model", { model: "wallclock" }, [...twice("end"), ...ALWAYS, ...SOMETIMES, ...CPU]],
    [
      "single jobs of the wallclock model",
      { model: "wallclock", format: "individual-0.4" },
      [...twice("name"), ...ALWAYS, ...SOMETIMES, ...CPU, ...MEMORY],
    ],
    [
      "single jobs of core-seconds",
      { format: "individual-0.3" },
      [...twice("name"), ...ALWAYS, ...SOMETIMES, ...MEMORY],
    ],
  ];

  test.for(cases)("%s", ([, more, expected]) => {
    expect(asked(more).toSorted()).toEqual(expected.toSorted());
  });

  test("with a VO label its values, and whether it is there at all only if no job has it", () => {
    expect(asked({ pods: { voLabel: "label_vo" } }).filter((asks) => asks.startsWith("vo"))).toEqual([
      ...twice("vo"),
      "voLabelSeen, only if no job has the label label_vo",
      "voLabelSplit, only if a job lacks the label label_vo",
    ]);
    expect(asked().filter((asks) => asks.startsWith("vo"))).toEqual([]);
  });

  test("with MONITORING_SELECTOR no other sign of monitoring", () => {
    const queries = queriesFor(tenant("prod", { pods: { monitoringSelector: 'up{job="ksm"}' } }), window);
    expect(queries.filter(({ asks }) => /^(?:seen|targets|shards)/.test(asks))).toEqual([
      { asks: "seen", query: 'max(max_over_time(up{job="ksm"}[300s]))' },
    ]);
  });

  test("no query twice", () => {
    const queries = queriesFor(tenant("prod", { model: "wallclock", format: "individual-0.4" }), window);
    expect(new Set(queries.map(({ query }) => query)).size).toBe(queries.length);
  });
});
