import { assert, property } from "fast-check";
import { describe, expect, test } from "vitest";
import {
  arbitraryCluster,
  demoCluster,
  KIND_NAMES,
  kindsCluster,
  MIXED,
  namespaceOf,
  openMetrics,
  simulate,
  truth,
  truthOfJobs,
  truthWithoutEnd,
} from "../../simulator/index.ts";
import type { Kind } from "../../simulator/index.ts";

const cluster = kindsCluster();
const MONTHS = ["2025-01", "2025-02", "2025-03", "2025-04"];

/** The only verdict of a kind in its own namespace where it is not "counted". */
const VERDICTS: Partial<Record<Kind, readonly string[]>> = {
  "no-cpu-request": ["no_cpu_request"],
  "end-before-start": ["negative_duration"],
  "no-start": ["no_start"],
  "still-running": ["no_end:running", "not_finished"],
  evicted: ["no_end:evicted"],
  "deleted-early": ["no_end:deleted"],
};

describe("the kinds cluster", () => {
  test.each(KIND_NAMES)("%s: jobs of its own, each judged as the kind says", (kind) => {
    const judged = truthOfJobs(cluster, { where: (job) => job.namespace === namespaceOf(kind) });
    expect(judged.length).toBeGreaterThan(0);
    expect([...new Set(judged.map((one) => one.verdict))].sort()).toEqual(VERDICTS[kind] ?? ["counted"]);
  });

  test("mixed: every kind, and every month has jobs and jobs left out", () => {
    const kinds = new Set(cluster.jobs.filter((job) => job.namespace === MIXED).map((job) => job.kind));
    expect([...kinds].sort()).toEqual([...KIND_NAMES].sort());
    for (const month of MONTHS) {
      const figures = truth(cluster, month).get(MIXED);
      expect(figures?.jobs).toBeGreaterThan(20);
      expect(figures?.leftOut.no_cpu_request).toBeGreaterThan(0);
    }
    expect(truthWithoutEnd(cluster).get(MIXED)).toEqual({ evicted: 4, deleted: 8, running: 1 });
  });

  test("is the same for the same seed, and another for another", () => {
    expect(kindsCluster({ seed: 7 })).toEqual(kindsCluster({ seed: 7 }));
    expect(kindsCluster({ seed: 7 })).not.toEqual(kindsCluster({ seed: 8 }));
  });

  test("never uses a uid twice", () => {
    expect(new Set(cluster.jobs.map((job) => job.uid)).size).toBe(cluster.jobs.length);
  });
});

test("demo: a few hundred jobs of all kinds in two months, none after now", () => {
  const now = Date.parse("2026-07-15T10:00:00Z") / 1000;
  const demo = demoCluster({ now });
  expect(demo.jobs.length).toBeGreaterThan(200);
  expect(new Set(demo.jobs.map((job) => job.kind)).size).toBe(KIND_NAMES.length);
  const [june, july] = ["2026-06", "2026-07"].map((month) => truth(demo, month).get("grid"));
  expect(june?.jobs).toBeGreaterThan(50);
  expect(july?.jobs).toBeGreaterThan(50);
  expect(july?.lastEnd).toBeLessThan(now);
});

test.each(["2026-07-01T00:10:00Z", "2026-07-01T07:00:00Z", "2026-03-02T12:00:00Z"])(
  "demo: works at any hour of the month (%s)",
  (time) => {
    const now = Date.parse(time) / 1000;
    const demo = demoCluster({ now, rounds: 1 });
    expect(demo.jobs.length).toBeGreaterThan(40);
    for (const chunk of openMetrics(simulate({ ...demo, from: now - 7200 }))) expect(chunk.length).toBeGreaterThan(0);
  },
);

test("random clusters: every job that counted is in exactly one month", () => {
  assert(
    property(arbitraryCluster(), (random) => {
      const counted = truthOfJobs(random).filter((one) => one.verdict === "counted").length;
      const perMonth = MONTHS.map((month) =>
        [...truth(random, month).values()].reduce((sum, one) => sum + one.jobs, 0),
      );
      expect(perMonth.reduce((sum, jobs) => sum + jobs, 0)).toBe(counted);
    }),
    { numRuns: 50 },
  );
});
