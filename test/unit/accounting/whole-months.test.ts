import { describe, expect, test } from "vitest";
import type { Job } from "../../simulator/index.ts";
import { MemoryMonitoring } from "../../support/memory-monitoring.ts";
import { changedMonitoring } from "../../support/stub-monitoring.ts";
import {
  at,
  bare,
  BOTH_MONTHS,
  cluster,
  countedIn,
  DAY,
  ended,
  FEBRUARY,
  GRID,
  HOUR,
  job,
  message,
  NOW,
  outcomes,
  tenant,
  unitIn,
  World,
} from "./world.ts";
import type { WorldRun } from "./world.ts";

async function run(jobs: readonly Job[], options: WorldRun = BOTH_MONTHS, now = NOW) {
  const world = new World(cluster(jobs));
  return { world, result: await world.run(now, [GRID], options) };
}

describe("A month of 7 settled days or more in which pods succeeded and every finished pod was left out is refused", () => {
  const ALL = [bare("2025-02-03T12:00"), bare("2025-02-10T12:00"), ended("2025-02-11T12:00", { starts: [] })];

  test("all_left_out, exit 3, with the most frequent reason and what to do; the days are in the ledger all the same", async () => {
    const { result, world } = await run(ALL);
    expect(outcomes(result)).toEqual({ "2025-01": "published", "2025-02": "all_left_out" });
    expect(unitIn(result, "2025-02").error).toMatchObject({ exit: 3 });
    expect(message(unitIn(result, "2025-02"))).toMatch(
      /^grid: all 3 pods of 2025-02 are left out, most of them for no_cpu_request \(.*DEFAULT_CORES.*\)\. The month was not published\..*--allow-incomplete/,
    );
    expect(world.shown("2025-02").syncJobs).toBe(0);
    expect((await world.run(NOW, [GRID], BOTH_MONTHS)).tenants[0]!.count.asked.days).toBe(0);
    expect(outcomes(await world.run(NOW, [GRID], BOTH_MONTHS))["2025-02"]).toBe("all_left_out");
  });

  test("unless --allow-incomplete, which says so", async () => {
    const { result } = await run(ALL, { ...BOTH_MONTHS, allowIncomplete: true });
    expect(outcomes(result)["2025-02"]).toBe("published");
    expect(countedIn(result, "2025-02").warnings).toEqual([
      expect.stringMatching(/^grid: all 3 pods of 2025-02 are left out, .*\. It was published all the same\.$/),
    ]);
  });

  test("or the month before counted jobs beside such pods: then a warning, from the ledger too", async () => {
    const january = [ended("2025-01-20T12:00"), bare("2025-01-20T12:00")];
    const { result, world } = await run([...january, ...ALL]);
    const warned = [
      expect.stringMatching(/^grid: all 3 pods of 2025-02 .*; the month before counted 1 jobs beside such pods\.$/),
    ];
    expect(outcomes(result)["2025-02"]).toBe("published");
    expect(countedIn(result, "2025-02").warnings).toEqual(warned);
    const alone = await world.run(NOW, [GRID], FEBRUARY);
    expect(outcomes(alone)["2025-02"]).toBe("unchanged");
    expect(countedIn(alone, "2025-02").warnings).toEqual(warned);
  });

  test("jobs in the month before, but no such pods: refused", async () => {
    const { result } = await run([ended("2025-01-20T12:00"), ...ALL]);
    expect(outcomes(result)["2025-02"]).toBe("all_left_out");
  });

  test("one job is enough, and so is a month in which no pod succeeded", async () => {
    const noon = at("2025-02-10T12:00");
    const none = [
      bare("2025-02-03T12:00", { outcome: "Failed" }),
      job(noon - HOUR, null, { evicted: noon, deleted: noon + HOUR }),
      job(noon - HOUR, null, { containers: [{ milliCores: 1000 }, { to: noon }] }),
    ];
    for (const jobs of [[...ALL, ended("2025-02-20T12:00")], none, []])
      expect(outcomes((await run(jobs)).result)["2025-02"]).toBe("published");
  });

  test("not judged before 7 of its days are settled", async () => {
    const auto = async (now: string) => outcomes((await run(ALL, {}, now)).result)["2025-02"];
    expect(await auto("2025-02-08T05:59")).toBe("published");
    expect(await auto("2025-02-08T06:01")).toBe("all_left_out");
  });

  test("a month that began with a job is published and stays so", async () => {
    const world = new World(cluster([ended("2025-02-02T12:00"), ...ALL]));
    for (const now of ["2025-02-06T12:00", "2025-02-12T12:00", "2025-02-20T12:00"]) {
      await world.run(now, [GRID]);
      expect(world.shown("2025-02")).toMatchObject({ jobs: 1, syncJobs: 1 });
    }
  });

  test("a tenant that --tenant leaves out is judged by its ledger as it would be itself", async () => {
    const january = [ended("2025-01-20T12:00"), bare("2025-01-20T12:00")];
    const world = new World(cluster([...january, ...ALL, ended("2025-02-03T12:00", { in: "second" })]));
    const tenants = [GRID, tenant("second")];
    expect(outcomes(await world.run(NOW, tenants, BOTH_MONTHS))["2025-02"]).toBe("published");
    const only = await world.run(NOW, tenants, { ...FEBRUARY, only: ["second"] });
    expect(outcomes(only)).toEqual({ "2025-02": "unchanged" });
  });
});

describe("A month that, over 7 settled days or more, falls to less than a tenth of the month before is published with a warning", () => {
  const daily = (from: string, days: number, hours: number) =>
    Array.from({ length: days }, (_, index) => {
      const end = at(from) + index * DAY + 12 * HOUR;
      return job(end - hours * HOUR, end);
    });
  const january = daily("2025-01-01", 31, 10);

  test("by the core hours a day, so that the length of a month does not matter", async () => {
    const { result } = await run([...january, ...daily("2025-02-01", 28, 0.5)]);
    expect(outcomes(result)["2025-02"]).toBe("published");
    expect(countedIn(result, "2025-02").warnings).toEqual([
      expect.stringMatching(/^grid: 2025-02 has 5\.0 % of the core hours a day of the month before\./),
    ]);
  });

  test("a tenth is none, nor is a site that had nothing before", async () => {
    const { result } = await run([...january, ...daily("2025-02-01", 28, 1)]);
    expect(countedIn(result, "2025-02").warnings).toEqual([]);
    expect(countedIn((await run(daily("2025-02-01", 28, 1))).result, "2025-02").warnings).toEqual([]);
  });

  test("a site that stops: not refused", async () => {
    const { result } = await run(january);
    expect(outcomes(result)["2025-02"]).toBe("published");
    expect(countedIn(result, "2025-02").warnings).toEqual([expect.stringContaining("has 0.0 % of the core hours")]);
  });

  test("not before 7 of its days are settled, and then by days of the ledger", async () => {
    const world = new World(cluster(january));
    expect(countedIn(await world.run("2025-02-08T05:30", [GRID]), "2025-02").warnings).toEqual([]);
    expect(countedIn(await world.run("2025-02-08T07:30", [GRID]), "2025-02").warnings).toHaveLength(1);
    expect(countedIn(await world.run("2025-02-20T07:30", [GRID], FEBRUARY), "2025-02").warnings).toHaveLength(1);
  });

  test("not where none of its days could be counted", async () => {
    const world = new World(cluster(january));
    await world.run(NOW, [GRID], { gap: "2025-01" });
    const monitoring = ({ selection }: typeof GRID) =>
      changedMonitoring(new MemoryMonitoring(world.series, selection), {
        facts: () => Promise.reject(new Error("broken")),
      });
    const result = await world.run(NOW, [GRID], { ...FEBRUARY, monitoring });
    expect(outcomes(result)).toEqual({ "2025-02": "unexpected: broken" });
    expect(countedIn(result, "2025-02").warnings).toEqual([]);
  });
});
