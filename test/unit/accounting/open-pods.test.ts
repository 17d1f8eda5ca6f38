import { describe, expect, test } from "vitest";
import { OpenPods } from "../../../lib/accounting/counting/open-pods.ts";
import type { CountedPiece } from "../../../lib/accounting/counting/ledger.ts";
import type { OpenMonth } from "../../../lib/accounting/counting/count-month.ts";
import { JobList } from "../../../lib/accounting/counting/jobs.ts";
import type { RunResult } from "../../../lib/accounting/run.ts";
import type { DayUsage } from "../../../lib/accounting/counting/usage.ts";
import type { OpenPod } from "../../../lib/accounting/counting/pods.ts";
import type { JudgedFacts } from "../../../lib/accounting/counting/missing-metrics.ts";
import type { Job, Series } from "../../simulator/index.ts";
import { dropped, metric } from "../../simulator/situations/held.ts";
import {
  at,
  cluster,
  countedIn,
  ended,
  figures,
  HOUR,
  job,
  leftOutOf,
  ledgerDays,
  message,
  outcomes,
  tenant,
  unitIn,
  World,
} from "./world.ts";
import type { WorldRun } from "./world.ts";

const NOTHING_WRONG: JudgedFacts = { faults: new Map(), unproven: new Set(), few: new Map() };

const GRID = tenant("grid");
const NOW = "2025-03-20";
const FEB = { gap: "2025-02" } as const;
/** A run that may be stopped asks for four days at first. */
const IN_PIECES = { stop: () => false, run: "pieces" } as const;

/** A pod of which one container ends on a day, and the other on a later one. */
function twoEnds(first: string, last: string): Job {
  const containers = [{ milliCores: 1000 }, { milliCores: 1000, to: at(first) }];
  return job(at(first) - HOUR, at(last), { containers });
}

/** Runs in invocations of one piece each, until it is through. */
async function inInvocations(world: World, options: WorldRun): Promise<{ result: RunResult; invocations: number }> {
  for (let invocations = 1; ; invocations += 1) {
    const result = await world.run(NOW, [GRID], { ...options, stop: () => true, run: "invocations" });
    if (!result.interrupted) return { result, invocations };
  }
}

describe("a pod that one piece leaves open and a later one sees end is left out of no day", () => {
  const JOBS = [ended("2025-02-01T12:00"), twoEnds("2025-02-02T12:00", "2025-02-20T12:00")];
  const ways: readonly (readonly [string, (world: World, options: WorldRun) => Promise<RunResult>])[] = [
    ["in one piece", (world, options) => world.run(NOW, [GRID], options)],
    ["in several pieces", (world, options) => world.run(NOW, [GRID], { ...options, ...IN_PIECES })],
    ["in several invocations", async (world, options) => (await inInvocations(world, options)).result],
  ];

  test.each(ways)("%s", async (_what, run) => {
    const world = new World(cluster(JOBS));
    const result = await run(world, FEB);
    expect(figures(countedIn(result, "2025-02")).jobs).toBe(2);
    expect(leftOutOf(result, "2025-02")).toEqual({});
    // The ledger has the corrected day.
    expect(leftOutOf(await world.run(NOW, [GRID], FEB), "2025-02")).toEqual({});
  });

  test.each(ways)("also where it ends in another month: %s", async (_what, run) => {
    const world = new World(cluster([ended("2025-01-20T12:00"), twoEnds("2025-01-30T12:00", "2025-02-20T12:00")]));
    const options = { gap: ["2025-01", "2025-02"] } as const;
    const result = await run(world, options);
    expect([leftOutOf(result, "2025-01"), leftOutOf(result, "2025-02")]).toEqual([{}, {}]);
    const again = await world.run(NOW, [GRID], options);
    expect([leftOutOf(again, "2025-01"), figures(countedIn(again, "2025-02")).jobs]).toEqual([{}, 1]);
  });

  test.each(ways)(
    "and one that was out of sight for days and came back has the day of its end: %s",
    async (_what, run) => {
      const long = job(at("2025-02-02T06:00"), at("2025-02-20T12:00"));
      const away = { from: at("2025-02-03T12:00"), to: at("2025-02-19T12:00") };
      const hidden = (series: readonly Series[]) => dropped(series, ({ labels }) => labels["uid"] === long.uid, away);
      const whole = new World(cluster([ended("2025-02-01T12:00"), long]));
      const result = await run(new World(whole.cluster, hidden(whole.series)), FEB);
      expect(figures(countedIn(result, "2025-02")).jobs).toBe(2);
      expect(leftOutOf(result, "2025-02")).toEqual({});
    },
  );

  test.each(ways)("and one that came back and runs on: %s", async (_what, run) => {
    const long = job(at("2025-02-02T06:00"), null);
    const away = { from: at("2025-02-03T12:00"), to: at("2025-02-09T12:00") };
    const whole = new World(cluster([ended("2025-02-01T12:00"), long]));
    const hidden = dropped(whole.series, ({ labels }) => labels["uid"] === long.uid, away);
    expect(leftOutOf(await run(new World(whole.cluster, hidden), FEB), "2025-02")).toEqual({});
  });

  test.each(ways)("a pod that never comes back has the day on which it was last seen: %s", async (_what, run) => {
    const gone = job(at("2025-02-02T06:00"), null, { deleted: at("2025-02-17T12:00") });
    const early = job(at("2025-02-02T06:00"), null, { deleted: at("2025-02-03T00:10") });
    const result = await run(new World(cluster([ended("2025-02-01T12:00"), gone, early])), FEB);
    expect(leftOutOf(result, "2025-02")).toEqual({ "2025-02-03": { no_end: 1 }, "2025-02-17": { no_end: 1 } });
  });

  test.each(ways)("one that runs on is not finished on the day of its latest end, once: %s", async (_what, run) => {
    const [a, b] = [at("2025-02-02T12:00"), at("2025-02-12T12:00")];
    const containers = [{ milliCores: 1000 }, { milliCores: 1000, to: a }, { to: b }];
    const result = await run(new World(cluster([ended("2025-02-01T12:00"), job(a - HOUR, null, { containers })])), FEB);
    expect(leftOutOf(result, "2025-02")).toEqual({ "2025-02-12": { not_finished: 1 } });
  });
});

describe("open pods", () => {
  const usage = (day: string, leftOut: Partial<DayUsage["leftOut"]>, succeededLeftOut = 0): DayUsage => ({
    day,
    groups: [],
    leftOut: { no_cpu_request: 0, negative_duration: 0, no_start: 0, not_finished: 0, no_end: 0, ...leftOut },
    succeededLeftOut,
    gaps: [],
    cpuAsked: false,
  });
  const piece = (open: Record<string, OpenPod>, days: Record<string, string> = {}): CountedPiece => ({
    open: new Map(Object.entries(open)),
    isEmpty: false,
    finished: 0,
    days: [],
    vouched: NOTHING_WRONG,
    dayOf: (uid) => open[uid]?.day ?? days[uid],
  });
  const month = (known: readonly DayUsage[], ...fresh: readonly DayUsage[]): OpenMonth => ({
    plan: {
      period: { month: "2025-02", from: 0, to: 0, days: [] },
      days: [],
      known: new Map(known.map((each) => [each.day, each])),
      older: new Set(),
      needed: [],
      recount: "no",
    },
    observed: new Map(),
    fresh: new Map(fresh.map((each) => [each.day, { usage: each, jobs: new JobList([]) }])),
  });
  const open = (day: string, reason: OpenPod["reason"], succeeded = false): OpenPod => ({ day, reason, succeeded });
  const [second, fifth] = ["2025-02-02", "2025-02-05"] as const;

  test("that end later are taken off their day, each reason and success by itself", () => {
    const pods = new OpenPods();
    const held = month([], usage(second, { not_finished: 1, no_end: 2 }, 1));
    const before = { a: open(second, "not_finished"), b: open(second, "no_end", true), c: open(second, "no_end") };
    expect(pods.seenAgain(piece(before), [held])).toEqual([]);
    const changed = pods.seenAgain(piece({ c: open(fifth, "no_end") }, { a: fifth, b: fifth }), [held]);
    expect(changed.map((day) => day.usage)).toEqual([usage(second, {})]);
    expect(held.fresh.get(second)).toBe(changed[0]);
    // c is now left out of the 5th; it is not taken off the 2nd again.
    expect(pods.seenAgain(piece({}, { a: "2025-02-06" }), [held])).toEqual([]);
  });

  test("that end on the same day, or were seen ending earlier, change nothing", () => {
    const pods = new OpenPods([["a", open(second, "not_finished")]]);
    const held = month([], usage(second, { not_finished: 1 }));
    expect(pods.seenAgain(piece({}, { a: second }), [held])).toEqual([]);
    expect(pods.seenAgain(piece({ a: open(second, "not_finished") }), [held])).toEqual([]);
  });

  test("of a day that the ledger keeps, or that was not counted in this run, change nothing", () => {
    const kept = usage(second, { not_finished: 1 });
    for (const held of [month([kept], kept), month([])]) {
      const pods = new OpenPods([["a", open(second, "not_finished")]]);
      expect(pods.seenAgain(piece({}, { a: fifth }), [held])).toEqual([]);
    }
  });
});

describe("what an interrupted run has found wrong is kept for its next invocation", () => {
  const JOBS = [ended("2025-02-01T12:00"), ended("2025-02-02T12:00"), ended("2025-02-20T12:00")];

  test("a metric that is missing", async () => {
    const whole = new World(cluster(JOBS));
    const ends = metric("kube_pod_completion_time");
    const series = dropped(whole.series, ends, { from: at("2025-02-02"), to: at("2025-02-03") });
    const world = new World(whole.cluster, series);
    const { result, invocations } = await inInvocations(world, FEB);
    expect(invocations).toBeGreaterThan(2);
    expect(outcomes(result)).toEqual({ "2025-02": "metric_missing" });
    expect(message(unitIn(result, "2025-02"))).toContain("on 2025-02-02, though pods finished then");
    expect(await ledgerDays(world, "2025-02")).toHaveLength(27);
    expect(world.table.rows).toEqual([]);
  });

  test("days of which it is not known whether requests are missing, and pods that lack a fact", async () => {
    const requests = metric("kube_pod_container_resource_requests");
    const whole = new World(cluster([...JOBS, ended("2025-02-01T13:00"), ended("2025-02-20T13:00")], { services: [] }));
    const withoutRequests = dropped(whole.series, requests, { from: at("2025-02-15") });
    const [uid = ""] = whole.cluster.jobs.map((each) => each.uid);
    const series = dropped(
      withoutRequests,
      (one) => one.labels["uid"] === uid && one.name === "kube_pod_completion_time",
    );
    const world = new World(whole.cluster, series);
    const now = "2025-02-21T01:00";
    let result = await world.run(now, [GRID], { ...FEB, stop: () => true, run: "kept" });
    while (result.interrupted) result = await world.run(now, [GRID], { ...FEB, stop: () => true, run: "kept" });
    const plain = await new World(whole.cluster, series).run(now, [GRID], FEB);
    const { warnings } = countedIn(result, "2025-02");
    expect(warnings).toEqual(countedIn(plain, "2025-02").warnings);
    expect(warnings).toEqual([
      expect.stringContaining("no pod of any visible namespace has a CPU request on 2025-02-20"),
      expect.stringContaining("1 pods of 2025-02 are left out"),
    ]);
    expect(await ledgerDays(world, "2025-02")).not.toContain("2025-02-20");
  });
});
