import { describe, expect, test } from "vitest";
import { monthStart, Random, STACK, makeJob, truth, truthOfJobs, truthWithoutEnd } from "../../simulator/index.ts";
import type { Cluster, Job } from "../../simulator/index.ts";
import type { JobPlan } from "../../simulator/make-job.ts";

const JAN = monthStart("2025-01");
const FEB = monthStart("2025-02");
const HOUR = 3600;
const job = (plan: JobPlan): Job => makeJob("plain", "grid", new Random(1), plan);

function cluster(jobs: readonly Job[], more: Partial<Cluster> = {}): Cluster {
  return { from: JAN, to: FEB + 5 * 86_400, scrapeInterval: 60, jobs, stacks: [STACK], outages: [], ...more };
}

const figures = (jobs: readonly Job[], month: string, more: Partial<Cluster> = {}) =>
  truth(cluster(jobs, more), month).get("grid");

describe("figures worked out by hand", () => {
  test("two containers and a native sidecar of 1.75 cores over an hour", () => {
    const one = job({
      start: JAN + HOUR,
      end: JAN + 2 * HOUR,
      containers: [{ milliCores: 1000 }, { milliCores: 500 }, { name: "proxy" }],
      sidecars: [{ name: "fuse", milliCores: 250 }],
      initContainers: [{ name: "fetch", milliCores: 4000, to: JAN + HOUR + 200 }],
    });
    expect(figures([one], "2025-01")).toMatchObject({
      jobs: 1,
      wallSeconds: 3600,
      milliCoreSeconds: 1750 * 3600,
      firstEnd: JAN + 2 * HOUR,
      lastEnd: JAN + 2 * HOUR,
      leftOut: { no_cpu_request: 0, negative_duration: 0, no_start: 0, not_finished: 0 },
    });
    // 70 % of each request over each run (start + 3 s to the end), the proxies at 40 milli-cores, and the init container.
    const used = 0.7 * (1540 * 3597 + 250 * 3598 + 4000 * 199);
    expect(Math.abs((figures([one], "2025-01")?.cpuMs ?? 0) - used)).toBeLessThan(5);
  });

  test("the month is that of the end's value, the first second of a month being its own", () => {
    const before = job({ start: FEB - HOUR, end: FEB - 1 });
    const at = job({ start: FEB - HOUR, end: FEB });
    expect(figures([before, at], "2025-01")?.jobs).toBe(1);
    expect(figures([before, at], "2025-02")?.jobs).toBe(1);
    expect(figures([before, at], "2025-01")?.lastEnd).toBe(FEB - 1);
  });

  test("a restarted or moved job counts once, with its last end and its latest start", () => {
    const runs = [
      [FEB - 2 * HOUR, FEB - HOUR],
      [FEB - 1800, FEB + 1800],
    ] as const;
    const starts = [
      { value: FEB - 2 * HOUR, from: FEB - 2 * HOUR },
      { value: FEB - 1800, from: FEB - 1800 },
    ];
    const one = job({ start: FEB - 2 * HOUR, end: FEB + 1800, starts, containers: [{ milliCores: 1000, runs }] });
    expect(figures([one], "2025-01")).toBeUndefined();
    expect(figures([one], "2025-02")).toMatchObject({ jobs: 1, wallSeconds: 3600 });
  });
});

describe("left out, by reason", () => {
  const time = { start: JAN + HOUR, end: JAN + 2 * HOUR };
  const verdict = (one: Job, more: Partial<Cluster> = {}) => truthOfJobs(cluster([one], more))[0]?.verdict;

  test("no_cpu_request, unless there is a default", () => {
    const one = job({ ...time, containers: [{}] });
    expect(verdict(one)).toBe("no_cpu_request");
    expect(figures([one], "2025-01")).toMatchObject({ jobs: 0, leftOut: { no_cpu_request: 1 } });
    expect(truth(cluster([one]), "2025-01", { defaultMilliCores: 2000 }).get("grid")?.milliCoreSeconds).toBe(7_200_000);
  });

  test("negative_duration, no_start", () => {
    expect(verdict(job({ ...time, starts: [{ value: time.end + 1, from: time.start }] }))).toBe("negative_duration");
    expect(verdict(job({ ...time, starts: [] }))).toBe("no_start");
  });

  test("not_finished in the month of the ended container, until the pod ends", () => {
    const containers = [{ milliCores: 1000 }, { milliCores: 500, to: FEB - HOUR }];
    const one = job({ start: FEB - 2 * HOUR, end: FEB + HOUR, containers });
    expect(figures([one], "2025-01", { to: FEB + 600 })?.leftOut.not_finished).toBe(1);
    expect(figures([one], "2025-01")).toBeUndefined();
    expect(figures([one], "2025-02")?.milliCoreSeconds).toBe(3 * HOUR * 1500);
  });

  test("no end: evicted, deleted before its completion was scraped, still running", () => {
    const jobs = [
      job({ start: JAN + HOUR, end: null, evicted: JAN + 2 * HOUR }),
      job({ start: JAN + HOUR, end: JAN + 2 * HOUR + 10, deleted: JAN + 2 * HOUR + 25 }),
      job({ start: FEB + HOUR, end: null }),
    ];
    expect(truthWithoutEnd(cluster(jobs)).get("grid")).toEqual({ evicted: 1, deleted: 1, running: 1 });
    expect(truth(cluster(jobs), "2025-01").size).toBe(0);
  });

  test("an end that fell into an outage counts if the pod was still there afterwards", () => {
    const outages = [{ from: JAN + HOUR + 600, to: JAN + 4 * HOUR, kind: "absent" }] as const;
    expect(verdict(job({ ...time, lingers: 3 * HOUR }), { outages })).toBe("counted");
    expect(verdict(job({ ...time, lingers: HOUR }), { outages })).toBe("no_end:deleted");
  });

  test("a pod that lived wholly between two scrapes was never seen", () => {
    const one = job({ start: JAN + 200, end: JAN + 300, deleted: JAN + 310 });
    expect(verdict(one, { outages: [{ from: JAN, to: JAN + HOUR, kind: "down" }] })).toBe("never_seen");
  });
});
