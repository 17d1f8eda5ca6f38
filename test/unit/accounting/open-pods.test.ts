import { describe, expect, test } from "vitest";
import type { RunResult } from "../../../lib/accounting/run.ts";
import type { Job, Series } from "../../simulator/index.ts";
import { dropped, metric } from "../../simulator/situations/held.ts";
import {
  BOTH_MONTHS,
  FEBRUARY,
  GRID,
  NOW,
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
  unitIn,
  World,
} from "./world.ts";
import type { WorldRun } from "./world.ts";

/** A run that may be stopped asks for four days at first. */
const IN_PIECES = { stop: () => false, run: "pieces" } as const;

/** A pod of which one container ends on a day, and the other on a later one. */
function twoEnds(first: string, last: string): Job {
  const containers = [{ milliCores: 1000 }, { milliCores: 1000, to: at(first) }];
  return job(at(first) - HOUR, at(last), { containers });
}

/** A world whose Prometheus has nothing of a pod in that stretch. */
const hiding = (world: World, { uid }: Job, stretch: { readonly from: number; readonly to: number }): World =>
  world.holding((series) => dropped(series, ({ labels }) => labels["uid"] === uid, stretch));

describe("a pod that one piece leaves open and a later one sees end is left out of no day", () => {
  const JOBS = [ended("2025-02-01T12:00"), twoEnds("2025-02-02T12:00", "2025-02-20T12:00")];
  const ways: readonly (readonly [string, (world: World, options: WorldRun) => Promise<RunResult>])[] = [
    ["in one piece", (world, options) => world.run(NOW, [GRID], options)],
    ["in several pieces", (world, options) => world.run(NOW, [GRID], { ...options, ...IN_PIECES })],
    ["in several invocations", async (world, options) => (await world.runInInvocations(NOW, [GRID], options)).result],
  ];

  test.each(ways)("%s", async (_what, run) => {
    const world = new World(cluster(JOBS));
    const result = await run(world, FEBRUARY);
    expect(figures(countedIn(result, "2025-02")).jobs).toBe(2);
    expect(leftOutOf(result, "2025-02")).toEqual({});
    // The ledger has the corrected day.
    expect(leftOutOf(await world.run(NOW, [GRID], FEBRUARY), "2025-02")).toEqual({});
  });

  test.each(ways)("also where it ends in another month: %s", async (_what, run) => {
    const world = new World(cluster([ended("2025-01-20T12:00"), twoEnds("2025-01-30T12:00", "2025-02-20T12:00")]));
    const result = await run(world, BOTH_MONTHS);
    expect([leftOutOf(result, "2025-01"), leftOutOf(result, "2025-02")]).toEqual([{}, {}]);
    const again = await world.run(NOW, [GRID], BOTH_MONTHS);
    expect([leftOutOf(again, "2025-01"), figures(countedIn(again, "2025-02")).jobs]).toEqual([{}, 1]);
  });

  test.each(ways)(
    "and one that was out of sight for days and came back has the day of its end: %s",
    async (_what, run) => {
      const long = job(at("2025-02-02T06:00"), at("2025-02-20T12:00"));
      const away = { from: at("2025-02-03T12:00"), to: at("2025-02-19T12:00") };
      const whole = new World(cluster([ended("2025-02-01T12:00"), long]));
      const result = await run(hiding(whole, long, away), FEBRUARY);
      expect(figures(countedIn(result, "2025-02")).jobs).toBe(2);
      expect(leftOutOf(result, "2025-02")).toEqual({});
    },
  );

  test.each(ways)("and one that came back and runs on: %s", async (_what, run) => {
    const long = job(at("2025-02-02T06:00"), null);
    const away = { from: at("2025-02-03T12:00"), to: at("2025-02-09T12:00") };
    const whole = new World(cluster([ended("2025-02-01T12:00"), long]));
    expect(leftOutOf(await run(hiding(whole, long, away), FEBRUARY), "2025-02")).toEqual({});
  });

  test.each(ways)("a pod that never comes back has the day on which it was last seen: %s", async (_what, run) => {
    const gone = job(at("2025-02-02T06:00"), null, { deleted: at("2025-02-17T12:00") });
    const early = job(at("2025-02-02T06:00"), null, { deleted: at("2025-02-03T00:10") });
    const result = await run(new World(cluster([ended("2025-02-01T12:00"), gone, early])), FEBRUARY);
    expect(leftOutOf(result, "2025-02")).toEqual({ "2025-02-03": { no_end: 1 }, "2025-02-17": { no_end: 1 } });
  });

  test.each(ways)("one that runs on is not finished on the day of its latest end, once: %s", async (_what, run) => {
    const [a, b] = [at("2025-02-02T12:00"), at("2025-02-12T12:00")];
    const containers = [{ milliCores: 1000 }, { milliCores: 1000, to: a }, { to: b }];
    const result = await run(
      new World(cluster([ended("2025-02-01T12:00"), job(a - HOUR, null, { containers })])),
      FEBRUARY,
    );
    expect(leftOutOf(result, "2025-02")).toEqual({ "2025-02-12": { not_finished: 1 } });
  });
});

test("a day of the ledger stays as it is where a later run sees the pod end", async () => {
  const world = new World(cluster([ended("2025-02-01T12:00"), twoEnds("2025-02-02T12:00", "2025-02-20T12:00")]));
  await world.run("2025-02-10", [GRID]);
  const later = await world.run("2025-02-22", [GRID]);
  expect(leftOutOf(later, "2025-02")).toEqual({ "2025-02-02": { not_finished: 1 } });
  expect(figures(countedIn(later, "2025-02")).jobs).toBe(2);
});

describe("what an interrupted run has found wrong is kept for its next invocation", () => {
  const JOBS = [ended("2025-02-01T12:00"), ended("2025-02-02T12:00"), ended("2025-02-20T12:00")];

  test("a metric that is missing", async () => {
    const whole = new World(cluster(JOBS));
    const ends = metric("kube_pod_completion_time");
    const world = whole.holding((series) => dropped(series, ends, { from: at("2025-02-02"), to: at("2025-02-03") }));
    const { result, invocations } = await world.runInInvocations(NOW, [GRID], FEBRUARY);
    expect(invocations).toBeGreaterThan(2);
    expect(outcomes(result)).toEqual({ "2025-02": "metric_missing" });
    expect(message(unitIn(result, "2025-02"))).toContain("on 2025-02-02, though pods finished then");
    expect(await ledgerDays(world, "2025-02")).toHaveLength(27);
    expect(world.table.rows).toEqual([]);
  });

  test("days of which it is not known whether requests are missing, and pods that lack a fact", async () => {
    const requests = metric("kube_pod_container_resource_requests");
    const whole = new World(cluster([...JOBS, ended("2025-02-01T13:00"), ended("2025-02-20T13:00")], { services: [] }));
    const [uid = ""] = whole.cluster.jobs.map((each) => each.uid);
    const change = (series: readonly Series[]) =>
      dropped(
        dropped(series, requests, { from: at("2025-02-15") }),
        ({ name, labels }) => labels["uid"] === uid && name === "kube_pod_completion_time",
      );
    const world = whole.holding(change);
    const now = "2025-02-21T01:00";
    const { result } = await world.runInInvocations(now, [GRID], FEBRUARY);
    const plain = await whole.holding(change).run(now, [GRID], FEBRUARY);
    const { warnings } = countedIn(result, "2025-02");
    expect(warnings).toEqual(countedIn(plain, "2025-02").warnings);
    expect(warnings).toEqual([
      expect.stringContaining("no pod of any visible namespace has a CPU request on 2025-02-20"),
      expect.stringContaining("1 pods of 2025-02 are left out"),
    ]);
    expect(await ledgerDays(world, "2025-02")).not.toContain("2025-02-20");
  });

  test("answers that disagree", async () => {
    const lacking = ["10", "20", "30"].map((minutes) => ended(`2025-02-01T12:${minutes}`));
    const uids = lacking.map(({ uid }) => uid);
    const isCut = ({ name, labels }: Series) =>
      name === "kube_pod_status_phase" && labels["phase"] === "Succeeded" && uids.includes(labels["uid"] ?? "");
    const world = new World(cluster([...JOBS, ...lacking])).holding((series) => dropped(series, isCut));
    const { result, invocations } = await world.runInInvocations(NOW, [GRID], FEBRUARY);
    expect(invocations).toBeGreaterThan(2);
    expect(outcomes(result)).toEqual({ "2025-02": "answers_disagree" });
    expect(result.damaged).toEqual([]);
  });
});
