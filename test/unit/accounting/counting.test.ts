import { describe, expect, test } from "vitest";
import type { Monitoring } from "../../../lib/accounting/model/monitoring.ts";
import type { Tenant } from "../../../lib/accounting/model/tenant.ts";
import { summarise } from "../../../lib/accounting/summary.ts";
import { STACK } from "../../simulator/index.ts";
import type { Cluster, Job } from "../../simulator/index.ts";
import { MemoryMonitoring } from "../../support/memory-monitoring.ts";
import { changedMonitoring } from "../../support/stub-monitoring.ts";
import {
  at,
  became,
  cluster,
  countedIn,
  DAY,
  ended,
  figures,
  GRID,
  HOUR,
  job,
  leftOutOf,
  message,
  MINUTE,
  outcomes,
  records,
  tenant,
  unitIn,
  World,
} from "./world.ts";
import type { WorldRun } from "./world.ts";

const MARCH = at("2025-03-20");
const VO = { voLabel: "label_example_org_vo" };

/** Counts January to March and gives each month's figures. */
async function count(jobs: readonly Job[], one = GRID, more: Partial<Cluster> = {}, options: WorldRun = {}) {
  const world = new World(cluster(jobs, more));
  const result = await world.run(MARCH, [one], { gap: ["2025-01", "2025-03"], ...options });
  const of = (month: string) => figures(countedIn(result, month));
  return { world, result, of, jobs: ["2025-01", "2025-02", "2025-03"].map((month) => of(month).jobs) };
}

describe("Two spellings: both are read and merged by uid", () => {
  const jobs = [ended("2025-02-03T10:00"), ended("2025-02-20T12:00"), ended("2025-03-03T10:00")];
  const exported = { ...STACK, exported: true };
  const change = at("2025-02-20T11:30");
  const switched = [
    { ...STACK, life: { from: 0, to: change } },
    { ...exported, life: { from: change, to: MARCH } },
  ];

  test.each([
    ["honor_labels off from the start", [exported], ""],
    ["honor_labels off from the start, PROMETHEUS_LABEL_PREFIX set", [exported], "exported_"],
    ["switched off in mid-month, while a job runs", switched, ""],
    ["switched on in mid-month, with the prefix set", switched.toReversed(), "exported_"],
    ["both stacks at once", [STACK, { ...exported, job: "other/kube-state-metrics", offset: 31 }], ""],
  ])("%s", async (_what, stacks, labelPrefix) => {
    const { jobs: counted, of } = await count(jobs, tenant("grid", { pods: { labelPrefix } }), { stacks });
    expect(counted).toEqual([0, 2, 1]);
    expect(of("2025-02")).toMatchObject({ wallSeconds: 2 * HOUR, milliCoreSeconds: 2000 * HOUR });
  });

  test("kube-state-metrics inside the jobs' namespace: pods of other namespaces are not counted as its own", async () => {
    const world = new World(cluster([...jobs, ended("2025-02-05T10:00", { in: "second" })], { stacks: [exported] }));
    const inside = world.series.map((one) =>
      one.labels["namespace"] === "monitoring" ? { ...one, labels: { ...one.labels, namespace: "grid" } } : one,
    );
    expect(inside).not.toEqual(world.series);
    const result = await new World(world.cluster, inside).run(MARCH, [GRID], { gap: "2025-02" });
    expect(figures(countedIn(result, "2025-02")).jobs).toBe(2);
  });
});

describe("Job = (namespace, uid). Name, node, instance, job and replica labels never distinguish jobs", () => {
  test("one pod name under two uids is two jobs", async () => {
    const jobs = [ended("2025-02-03T10:00", { pod: "worker-0" }), ended("2025-02-10T12:00", { pod: "worker-0" })];
    expect((await count(jobs)).jobs).toEqual([0, 2, 0]);
  });

  test("a pod that moves to another node and is seen by a redeployed kube-state-metrics and by a second stack is one job", async () => {
    const end = at("2025-02-10T12:00");
    const placements = [
      { node: "node-1", from: end - 4 * HOUR },
      { node: "node-2", from: end - 2 * HOUR },
    ];
    const instances = [
      { instance: "a:8080", from: 0 },
      { instance: "b:8080", from: end - HOUR },
    ];
    const second = { ...STACK, job: "other/kube-state-metrics", labels: { prometheus_replica: "b" }, offset: 31 };
    const { of } = await count([job(end - 4 * HOUR, end, { placements })], GRID, {
      stacks: [{ ...STACK, instances }, second],
    });
    expect(of("2025-02")).toMatchObject({ jobs: 1, wallSeconds: 4 * HOUR, milliCoreSeconds: 4000 * HOUR });
  });

  test("several clusters behind one query endpoint are told apart by PROMETHEUS_LABELS", async () => {
    const jobs = [ended("2025-02-03T10:00")];
    const stacks = [{ ...STACK, labels: { cluster: "prod" } }];
    expect((await count(jobs, tenant("grid", { pods: { matchers: ['cluster="prod"'] } }), { stacks })).jobs).toEqual([
      0, 1, 0,
    ]);
    const other = await count(jobs, tenant("grid", { pods: { matchers: ['cluster="test"'] } }), { stacks });
    expect(new Set(Object.values(outcomes(other.result)))).toEqual(new Set(["monitoring_not_seen"]));
  });

  test("jobs of other namespaces are not counted, though their names begin alike", async () => {
    const jobs = [
      ended("2025-02-03T10:00"),
      ended("2025-02-03T10:00", { in: "grid-b" }),
      ended("2025-02-03T10:00", { in: "gri" }),
    ];
    expect((await count(jobs)).jobs).toEqual([0, 1, 0]);
  });
});

describe("End = latest completion time. Start = start time (the latest). Cores = sum over containers in force at the end", () => {
  const end = at("2025-02-10T12:00");

  test("a restarted container: the last end counts, and the job counts once", async () => {
    const runs = [
      [end - 9 * HOUR, end - 8 * HOUR],
      [end - 7 * HOUR, end],
    ] as const;
    const { of } = await count([job(end - 9 * HOUR, end, { containers: [{ milliCores: 1000, runs }] })]);
    expect(of("2025-02")).toMatchObject({ jobs: 1, wallSeconds: 9 * HOUR, lastEnd: end });
  });

  test("two starts: the latest", async () => {
    const starts = [end - 4 * HOUR, end - HOUR].map((value) => ({ value, from: value }));
    expect((await count([job(end - 4 * HOUR, end, { starts })])).of("2025-02").wallSeconds).toBe(HOUR);
  });

  test("containers and native sidecars add up, ordinary init containers and containers without a request do not", async () => {
    const one = job(end - HOUR, end, {
      containers: [{ milliCores: 1000 }, { milliCores: 333 }, { name: "proxy" }],
      sidecars: [{ name: "fuse", milliCores: 250 }],
      initContainers: [{ name: "fetch", milliCores: 4000, to: end - HOUR + 100 }],
    });
    expect((await count([one])).of("2025-02").milliCoreSeconds).toBe(1583 * HOUR);
  });

  test.each([250, 2000])("a request changed in place to %s: the one in force at the end", async (milliCores) => {
    const resized = { at: end - HOUR, milliCores };
    const { of } = await count([job(end - 3 * HOUR, end, { containers: [{ milliCores: 1000, resized }] })]);
    expect(of("2025-02").milliCoreSeconds).toBe(milliCores * 3 * HOUR);
  });
});

describe("Finished = phase Succeeded or Failed", () => {
  test("a pod of which one container ended while it runs on is not finished, until it is", async () => {
    const end = at("2025-02-10T12:00");
    const containers = [{ milliCores: 1000 }, { milliCores: 1000, to: end - 3 * DAY }];
    const one = job(end - 4 * DAY, end, { containers });
    const world = new World(cluster([one]));
    const before = await world.run("2025-02-09T12:00", [GRID]);
    expect(figures(countedIn(before, "2025-02")).jobs).toBe(0);
    expect(leftOutOf(before, "2025-02")).toEqual({ "2025-02-07": { not_finished: 1 } });
    const after = await world.run("2025-02-11T12:00", [GRID]);
    expect(figures(countedIn(after, "2025-02"))).toMatchObject({ jobs: 1, wallSeconds: 4 * DAY });
    // The 7th is settled, and stays until the month is counted once more; a run that asks for it again knows better.
    expect(leftOutOf(after, "2025-02")).toEqual({ "2025-02-07": { not_finished: 1 } });
    expect(leftOutOf(await world.run("2025-02-11T13:00", [GRID], { recount: true }), "2025-02")).toEqual({});
  });

  test("failed jobs count", async () => {
    expect((await count([ended("2025-02-10T12:00", { outcome: "Failed" })])).jobs).toEqual([0, 1, 0]);
  });

  test("failed jobs count as ever where kube-state-metrics writes no zero rows, and running ones do not", async () => {
    const end = at("2025-02-10T12:00");
    const jobs = [
      ended(end, { outcome: "Failed" }),
      ended(end + HOUR),
      // One container has ended, the pod runs on.
      job(end, null, { containers: [{ milliCores: 1000 }, { milliCores: 1000, to: end + HOUR }] }),
    ];
    const world = new World(cluster(jobs));
    const series = world.series.map((one) =>
      one.name === "kube_pod_status_phase"
        ? { ...one, segments: one.segments.filter(({ value }) => value === 1) }
        : one,
    );
    for (const each of [world, new World(world.cluster, series)]) {
      const result = await each.run(MARCH, [GRID], { gap: "2025-02" });
      expect(outcomes(result)).toEqual({ "2025-02": "published" });
      expect(figures(countedIn(result, "2025-02")).jobs).toBe(2);
      expect(leftOutOf(result, "2025-02")).toEqual({ "2025-02-10": { not_finished: 1 } });
    }
  });
});

describe("A job belongs to the UTC day and month in which the value of its end falls: start <= end < next start", () => {
  const edge = at("2025-02-01");
  test.each([
    [-1, [1, 0, 0]],
    [0, [0, 1, 0]],
    [1, [0, 1, 0]],
  ])("an end %s s from midnight, scraped after it", async (off, expected) => {
    const one = job(edge - HOUR, edge + off);
    const { jobs, result } = await count([one]);
    expect(jobs).toEqual(expected);
    const [day] = result.months.flatMap(({ counted }) =>
      counted.flatMap(({ days }) => days.filter(({ groups }) => groups.length > 0)),
    );
    expect(day?.day).toBe(off < 0 ? "2025-01-31" : "2025-02-01");
  });

  test("a job that lingers for days across a month's end, or crosses it, counts once", async () => {
    const jobs = [job(edge - 14 * HOUR, edge - 12 * HOUR, { lingers: 5 * DAY }), job(edge - 20 * HOUR, edge + HOUR)];
    expect((await count(jobs)).jobs).toEqual([1, 1, 0]);
  });
});

describe("Left out, counted by reason, never silently", () => {
  const end = at("2025-02-10T12:00");
  const time = [end - HOUR, end] as const;
  const none = { no_cpu_request: 0, negative_duration: 0, no_start: 0, not_finished: 0, no_end: 0 };

  test("no_cpu_request: no container of the pod requests CPU and DEFAULT_CORES is not set", async () => {
    const one = job(...time, { containers: [{}, { memory: 1e6 }] });
    expect((await count([one])).of("2025-02")).toMatchObject({ jobs: 0, leftOut: { ...none, no_cpu_request: 1 } });
    const set = await count([one], tenant("grid", { defaultMilliCores: 1500 }));
    expect(set.of("2025-02")).toMatchObject({ jobs: 1, milliCoreSeconds: 1500 * HOUR, leftOut: none });
  });

  test("DEFAULT_CORES leaves pods that request CPU alone", async () => {
    const set = await count([job(...time)], tenant("grid", { defaultMilliCores: 1500 }));
    expect(set.of("2025-02").milliCoreSeconds).toBe(1000 * HOUR);
  });

  test("negative_duration; an end in the very second of the start is none", async () => {
    const one = job(...time, { starts: [{ value: end + 1, from: end - HOUR }] });
    const other = job(...time, { starts: [{ value: end, from: end - HOUR }] });
    expect((await count([one, other])).of("2025-02")).toMatchObject({
      jobs: 1,
      wallSeconds: 0,
      leftOut: { ...none, negative_duration: 1 },
    });
  });

  test("no_start", async () => {
    expect((await count([job(...time, { starts: [] })])).of("2025-02")).toMatchObject({
      jobs: 0,
      leftOut: { ...none, no_start: 1 },
    });
  });

  test("no_end (evicted, or deleted before a completion was scraped): its day is the one on which it was last seen", async () => {
    // It was evicted on the 10th, and stood in the cluster until the 12th.
    const evicted = job(end - HOUR, null, { evicted: end, deleted: end + 2 * DAY });
    const deleted = job(end - HOUR, end + 10, { deleted: end + 25 });
    const running = job(MARCH - HOUR, null);
    const { result, jobs, world } = await count([evicted, deleted, running]);
    expect(jobs).toEqual([0, 0, 0]);
    const left = { "2025-02-10": { no_end: 1 }, "2025-02-12": { no_end: 1 } };
    expect(leftOutOf(result, "2025-02")).toEqual(left);
    expect(leftOutOf(result, "2025-03")).toEqual({});
    // From the ledger too, and in what a run reports.
    const again = await world.run(MARCH, [GRID], { gap: ["2025-01", "2025-03"] });
    expect(again.tenants[0]!.count.asked.days).toBe(1);
    expect(leftOutOf(again, "2025-02")).toEqual(left);
    expect(summarise(again).months[1]?.tenants[0]?.leftOut).toEqual({ ...none, no_end: 2 });
  });
});

describe("NumberOfJobs, durations, first and last end, and the sync record come from one and the same set of jobs", () => {
  test("of a month with jobs of all fates", async () => {
    const end = at("2025-02-10T12:00");
    const { result } = await count([
      ended(end),
      ended(end + DAY, { containers: [{ milliCores: 500 }] }),
      job(end - DAY, end - DAY + HOUR, { starts: [] }),
      job(end + DAY, end + 2 * DAY, { containers: [{}] }),
    ]);
    expect(records(unitIn(result, "2025-02"))).toEqual([
      expect.objectContaining({
        kind: "summary",
        numberOfJobs: 2,
        wallDuration: 5400,
        cpuDuration: 5400,
        earliestEndTime: end,
        latestEndTime: end + DAY,
      }),
      expect.objectContaining({ kind: "sync", numberOfJobs: 2 }),
    ]);
  });
});

describe("A tenant splits by VO label only if asked; a VO label that never appears in the data is an error, not the default VO", () => {
  const labelled = (vo?: string) =>
    ended("2025-02-10T12:00", { labels: vo === undefined ? {} : { "example.org/vo": vo } });

  test("not asked: one VO", async () => {
    const { result } = await count([labelled("atlas"), labelled("cms")]);
    expect(records(unitIn(result, "2025-02")).map((record) => "vo" in record && record.vo)).toEqual(["ops", false]);
  });

  test("asked: pods without the label have the tenant's VO", async () => {
    const { result } = await count(
      [labelled("atlas"), labelled("atlas"), labelled("cms"), labelled()],
      tenant("grid", { pods: VO }),
    );
    const rows = records(unitIn(result, "2025-02")).flatMap((record) =>
      record.kind === "summary" ? [[record.vo, record.numberOfJobs]] : [],
    );
    expect(rows).toEqual([
      ["atlas", 2],
      ["cms", 1],
      ["ops", 1],
    ]);
  });

  test("asked, and no pod has it: vo_label_missing, and that month only", async () => {
    const { result } = await count([labelled()], tenant("grid", { pods: VO }));
    expect(outcomes(result)).toEqual({ "2025-01": "published", "2025-02": "vo_label_missing", "2025-03": "published" });
    expect(message(unitIn(result, "2025-02"))).toMatch(/label_example_org_vo.*--metric-labels-allowlist/);
  });
});

describe("what bad input gets", () => {
  test.each([
    ["end", "kube_pod_completion_time", NaN],
    ["start", "kube_pod_start_time", Infinity],
    ["cores", "kube_pod_container_resource_requests", NaN],
  ])(
    "a sample of %s that is not finite: sample_invalid, with the uid; other months go on",
    async (_fact, name, value) => {
      const one = ended("2025-02-10T12:00", { pod: "worker-7" });
      const world = new World(cluster([one]));
      const bad = world.series.map((each) =>
        each.name === name && each.labels["uid"] === one.uid
          ? { ...each, segments: each.segments.map((segment) => ({ ...segment, value })) }
          : each,
      );
      const result = await new World(world.cluster, bad).run(MARCH, [GRID], { gap: ["2025-01", "2025-03"] });
      expect(outcomes(result)).toEqual({ "2025-01": "published", "2025-02": "sample_invalid", "2025-03": "published" });
      expect(message(unitIn(result, "2025-02"))).toContain(`the pod with uid ${one.uid}`);
    },
  );

  test("an unknown namespace: namespace_unknown, with those that are known, and nothing published", async () => {
    const { result, world } = await count([ended("2025-02-10T12:00")], tenant("gird"));
    expect(new Set(Object.values(outcomes(result)))).toEqual(new Set(["namespace_unknown"]));
    expect(message(unitIn(result, "2025-02"))).toContain("known are: grid, kube-system, monitoring, second.");
    expect(world.table.rows).toEqual([]);
  });

  test("a known namespace without jobs is no error: a sync record of 0", async () => {
    const { result } = await count([], tenant("second"));
    expect(records(unitIn(result, "2025-02"))).toEqual([expect.objectContaining({ kind: "sync", numberOfJobs: 0 })]);
  });

  test("labels under a third name: labels_exported, with the remedy", async () => {
    const world = new World(cluster([ended("2025-02-10T12:00")]));
    const monitoring = (one: Tenant): Monitoring =>
      changedMonitoring(new MemoryMonitoring(world.series, one.selection), {
        facts: async () => undefined,
        namespaces: async () => ({ names: ["monitoring"], prefixes: ["orig_"] }),
      });
    const result = await world.run(MARCH, [GRID], { monitoring });
    expect(became(unitIn(result, "2025-02"))).toBe("labels_exported");
    expect(message(unitIn(result, "2025-02"))).toMatch(
      /under the label orig_namespace.*honor_labels: true.*PROMETHEUS_LABEL_PREFIX=orig_ here/,
    );
  });

  test("a namespace of which the ledger holds jobs may fall silent; without them it is unknown", async () => {
    const world = new World(cluster([ended("2025-02-10T12:00")]));
    await world.run("2025-02-12", [GRID]);
    const monitoring = (one: Tenant): Monitoring => {
      const namespaces = async () => ({ names: ["other"], prefixes: [] });
      return changedMonitoring(new MemoryMonitoring(world.series, one.selection), { namespaces });
    };
    expect(outcomes(await world.run("2025-02-20", [GRID], { monitoring }))["2025-02"]).not.toBe("namespace_unknown");
    const bare = new World(cluster([]));
    expect(outcomes(await bare.run("2025-02-20", [GRID], { monitoring }))["2025-01"]).toBe("namespace_unknown");
  });

  test("a fault of one tenant never fails another, whose unit is another", async () => {
    const world = new World(cluster([ended("2025-02-10T12:00")]));
    const result = await world.run(MARCH, [tenant("gird", { submitHost: "other" }), GRID]);
    expect(became(unitIn(result, "2025-02", { submitHost: "other" }))).toBe("namespace_unknown");
    expect(became(unitIn(result, "2025-02", { submitHost: GRID.submitHost }))).toBe("published");
  });

  test("a fault of one tenant fails the unit it shares: it never speaks from partial data", async () => {
    const world = new World(cluster([ended("2025-02-10T12:00")]));
    const result = await world.run(MARCH, [tenant("gird"), GRID]);
    expect(outcomes(result)).toEqual({ "2025-02": "namespace_unknown", "2025-03": "namespace_unknown" });
    expect(world.table.rows).toEqual([]);
  });

  test("15 minutes of silence after a pod was last seen are not yet an end", async () => {
    const running = job(MARCH - HOUR, null);
    const { result } = await count([running], GRID, {
      outages: [{ from: MARCH - 12 * MINUTE, to: MARCH + HOUR, kind: "absent" }],
    });
    expect(leftOutOf(result, "2025-03")).toEqual({});
  });
});
