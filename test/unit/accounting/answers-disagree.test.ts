import { describe, expect, test } from "vitest";
import type { Fact, Monitoring } from "../../../lib/accounting/model/monitoring.ts";
import type { Series } from "../../simulator/index.ts";
import { dropped, metric, withoutZeroRows } from "../../simulator/situations/held.ts";
import { MemoryMonitoring } from "../../support/memory-monitoring.ts";
import { changedMonitoring } from "../../support/stub-monitoring.ts";
import {
  at,
  cluster,
  countedIn,
  ended,
  FEBRUARY,
  GRID,
  HOUR,
  job,
  ledgerDays,
  leftOutOf,
  message,
  MINUTE,
  NOW,
  outcomes,
  unitIn,
  World,
} from "./world.ts";
import type { WorldRun } from "./world.ts";

/** So many jobs on 10 February, one on each of the days beside it. */
const jobsOf = (count: number) => [
  ended("2025-02-09T12:00"),
  ...Array.from({ length: count }, (_, index) => ended(at("2025-02-10T06:00") + index * MINUTE)),
  ended("2025-02-11T12:00"),
];
const ENDS = metric("kube_pod_completion_time");
const PHASES = metric("kube_pod_status_phase");

/** A world whose Prometheus lacks a metric of the given pods: one that was answered by a replica without those samples. */
function lacking(which: (series: Series) => boolean, uids: readonly string[], world: World): World {
  const isTheirs = (series: Series): boolean => which(series) && uids.includes(series.labels["uid"] ?? "");
  return world.holding((series) => dropped(series, isTheirs));
}

const uidsOf = (world: World, count: number): string[] => world.cluster.jobs.slice(1, count + 1).map(({ uid }) => uid);

/** Each question about a fact goes to the next replica in turn; and how often each fact of a whole piece was asked. */
function inTurn(fact: Fact, replicas: readonly World[]) {
  const asked = new Map<Fact, number>();
  const monitoring = ({ selection }: { readonly selection: (typeof GRID)["selection"] }): Monitoring => {
    const all = replicas.map(({ series }) => new MemoryMonitoring(series, selection));
    const [whole] = all as [MemoryMonitoring];
    return changedMonitoring(whole, {
      facts: async (each, window, take, only) => {
        const before = asked.get(each) ?? 0;
        asked.set(each, before + 1);
        const replica = each === fact ? all[before % all.length]! : whole;
        await replica.facts(each, window, take, only);
      },
    });
  };
  return { monitoring, asked };
}

describe("Mixed answers: some pods that succeeded have no end, or some with an end no phase", () => {
  test.each([
    ["succeeded but have no completion time", ENDS],
    ["have no phase", PHASES],
  ])("answers_disagree, with the share and an example: %s", async (text, which) => {
    const whole = new World(cluster(jobsOf(20)));
    const world = lacking(which, uidsOf(whole, 5), whole);
    const result = await world.run(NOW, [GRID], FEBRUARY);
    expect(outcomes(result)).toEqual({ "2025-02": "answers_disagree" });
    expect(unitIn(result, "2025-02").error).toMatchObject({ exit: 4, retryable: true });
    expect(message(unitIn(result, "2025-02"))).toContain("5 of 20 pods of 2025-02-10 (25.0 %)");
    expect(message(unitIn(result, "2025-02"))).toContain(text);
    expect(uidsOf(whole, 5)).toContain(
      /e\.g\. uid (?<uid>[0-9a-f-]{36})/.exec(message(unitIn(result, "2025-02")))?.[1],
    );
    expect(message(unitIn(result, "2025-02"))).toMatch(/Nothing of 2025-02 was published.*--allow-incomplete/);
    expect(await ledgerDays(world, "2025-02")).toHaveLength(27);
    expect(await ledgerDays(world, "2025-02")).not.toContain("2025-02-10");
    expect(world.table.rows).toEqual([]);
  });

  test("where zero rows are not written, too", async () => {
    const whole = new World(cluster(jobsOf(20)));
    const sparse = whole.holding(withoutZeroRows);
    const terminal = (one: Series) => PHASES(one) && ["Succeeded", "Failed"].includes(one.labels["phase"] ?? "");
    const world = lacking(terminal, uidsOf(whole, 5), sparse);
    expect(outcomes(await world.run(NOW, [GRID], FEBRUARY))).toEqual({ "2025-02": "answers_disagree" });
    expect(outcomes(await sparse.run(NOW, [GRID], FEBRUARY))).toEqual({ "2025-02": "published" });
  });

  test("--allow-incomplete leaves these pods out, and says so", async () => {
    const whole = new World(cluster(jobsOf(20)));
    const world = lacking(ENDS, uidsOf(whole, 5), whole);
    const result = await world.run(NOW, [GRID], { ...FEBRUARY, allowIncomplete: true });
    expect(outcomes(result)).toEqual({ "2025-02": "published" });
    expect(world.shown("2025-02")).toMatchObject({ jobs: 17, syncJobs: 17 });
    expect(leftOutOf(result, "2025-02")).toEqual({ "2025-02-10": { no_end: 5 } });
    expect(countedIn(result, "2025-02").warnings).toContainEqual(
      "grid: published without pods of which a fact is missing, on 2025-02-10.",
    );
    expect(await ledgerDays(world, "2025-02")).not.toContain("2025-02-10");
  });

  const FEW = "are left out because Prometheus gives an end or a phase of them, but not both";

  test.each([
    [2, 20, "published"],
    [3, 20, "answers_disagree"],
    [3, 150, "answers_disagree"],
    [3, 151, "published"],
  ])("judged from 3 pods and 2 %% of a day's on: %i of %i is %s", async (lack, all, expected) => {
    for (const [which, reason] of [
      [ENDS, "no_end"],
      [PHASES, "not_finished"],
    ] as const) {
      const whole = new World(cluster(jobsOf(all)));
      const world = lacking(which, uidsOf(whole, lack), whole);
      const result = await world.run(NOW, [GRID], FEBRUARY);
      expect(outcomes(result)).toEqual({ "2025-02": expected });
      if (expected !== "published") continue;
      expect(leftOutOf(result, "2025-02")).toEqual({ "2025-02-10": { [reason]: lack } });
      expect(countedIn(result, "2025-02").warnings).toEqual([`grid: ${lack} pods of 2025-02 ${FEW}.`]);
      expect(await ledgerDays(world, "2025-02")).toContain("2025-02-10");
    }
  });

  test("judged for ends older than 15 minutes: a phase may be scraped after its end", async () => {
    const now = at("2025-02-10T08:00");
    const jobs = (minutes: number) => [
      ended("2025-02-09T12:00"),
      ...Array.from({ length: 5 }, (_, index) => ended(now - minutes * MINUTE - index)),
    ];
    const unphased = (minutes: number) => {
      const whole = new World(cluster(jobs(minutes)));
      return lacking(PHASES, uidsOf(whole, 5), whole);
    };
    expect(outcomes(await unphased(14).run(now, [GRID]))["2025-02"]).toBe("published");
    expect(outcomes(await unphased(16).run(now, [GRID]))["2025-02"]).toBe("answers_disagree");
  });

  test("one container of each of many pods has ended and they run on: nothing disagrees", async () => {
    const early = at("2025-02-10T12:00");
    const containers = [{ milliCores: 1000 }, { milliCores: 1000, to: early }];
    const jobs = Array.from({ length: 5 }, () => job(early - HOUR, null, { containers }));
    const world = new World(cluster([ended("2025-02-03T12:00"), ...jobs]));
    for (const each of [world, world.holding(withoutZeroRows)]) {
      const result = await each.run(NOW, [GRID], FEBRUARY);
      expect(outcomes(result)).toEqual({ "2025-02": "published" });
      expect(leftOutOf(result, "2025-02")).toEqual({ "2025-02-10": { not_finished: 5 } });
    }
  });
});

describe("Mixed answers are asked once more, and what both hold is taken together", () => {
  const whole = new World(cluster(jobsOf(20)));
  const uids = uidsOf(whole, 20);
  const without = (some: readonly string[]) => lacking(ENDS, some, whole);
  const run = async (replicas: readonly World[], options: WorldRun = {}) => {
    const { monitoring, asked } = inTurn("end", replicas);
    const world = new World(whole.cluster, whole.series);
    const result = await world.run(NOW, [GRID], { ...FEBRUARY, monitoring, ...options });
    return { world, result, asked };
  };

  test("where all is well it is asked once", async () => {
    const { result, asked } = await run([whole]);
    expect(outcomes(result)).toEqual({ "2025-02": "published" });
    expect(asked.get("end")).toBe(1);
  });

  test.each([
    ["the lacking replica first", () => [without(uids.slice(0, 10)), whole]],
    ["each replica lacks what the other has", () => [without(uids.slice(0, 10)), without(uids.slice(10))]],
  ])("%s: every job is counted once", async (_what, replicas) => {
    const { result, asked, world } = await run(replicas());
    expect(outcomes(result)).toEqual({ "2025-02": "published" });
    expect(world.shown("2025-02")).toMatchObject({ jobs: 22, syncJobs: 22 });
    expect(countedIn(result, "2025-02").warnings).toEqual([]);
    expect(asked.get("end")).toBe(2);
  });

  test("both lack it: once more and no more", async () => {
    const { result, asked } = await run([without(uids.slice(0, 10)), without(uids.slice(0, 12))]);
    expect(outcomes(result)).toEqual({ "2025-02": "answers_disagree" });
    expect(message(unitIn(result, "2025-02"))).toContain("10 of 20 pods of 2025-02-10 (50.0 %)");
    expect(asked.get("end")).toBe(2);
  });
});
