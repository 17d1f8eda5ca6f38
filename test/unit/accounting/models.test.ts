import { describe, expect, test } from "vitest";
import { individualRecord } from "../../../lib/accounting/publishing/jobs.ts";
import { type Contribution, monthlyRecords } from "../../../lib/accounting/publishing/records.ts";
import type { UsageGroup } from "../../../lib/accounting/counting/usage.ts";
import type { Job } from "../../simulator/index.ts";
import {
  at,
  cluster,
  countedIn,
  cpuOf,
  ended,
  GRID,
  HOST,
  HOUR,
  job,
  message,
  outcomes,
  records,
  SITE,
  tenant,
  unitIn,
  World,
} from "./world.ts";

const UNIT = { site: SITE, submitHost: HOST, month: "2025-02" };
const END = at("2025-02-03T12:00");
const WALL = tenant("grid", { model: "wallclock" });

function group(milliCores: number, jobs: number, wallSeconds: number, more: Partial<UsageGroup> = {}): UsageGroup {
  const milliCoreSeconds = milliCores * wallSeconds;
  return { vo: null, milliCores, jobs, wallSeconds, milliCoreSeconds, firstEnd: END, lastEnd: END, ...more };
}
const rows = (...contributions: Contribution[]) => monthlyRecords(UNIT, contributions);
const summary = async (jobs: readonly Job[], one = WALL) =>
  records(unitIn(await new World(cluster(jobs)).run("2025-02-20", [one]), "2025-02")).filter(
    (each) => each.kind === "summary",
  );

describe("core-seconds (default, as KAPEL): WallDuration = CpuDuration = core-seconds, Processors and NodeCount as configured", () => {
  test("jobs of all sizes in one record", () => {
    const [row, ...more] = rows({
      tenant: { ...GRID, processors: 0, nodeCount: 3 },
      groups: [group(1500, 2, 1000), group(250, 1, 10)],
    });
    expect(more).toEqual([]);
    expect(row).toMatchObject({ wallDuration: 1503, cpuDuration: 1503, numberOfJobs: 3, processors: 0, nodeCount: 3 });
  });
});

describe("Milli-core integers inside; round once, per published record", () => {
  test("a thousand jobs of a third of a core-second are 333, not 0 and not 1000", () => {
    const groups = Array.from({ length: 1000 }, () => group(333, 1, 1));
    expect(rows({ tenant: GRID, groups })).toEqual([
      expect.objectContaining({ numberOfJobs: 1000, wallDuration: 333 }),
    ]);
  });

  test("also where tenants add up in one record, and where a benchmark multiplies", () => {
    const normalised = { ...GRID, format: "normalised-0.4", serviceLevel: { type: "hepscore23", value: 1.5 } } as const;
    const half = { tenant: normalised, groups: [group(500, 1, 1)] };
    // 0.5 s each: the wall duration is 1, and 1.5 x (0.5 + 0.5) = 1.5 is rounded to 2, not 0.75 twice.
    expect(rows(half, { ...half, tenant: { ...normalised, name: "b" } })).toEqual([
      expect.objectContaining({ kind: "normalised", wallDuration: 1, normalisedWallDuration: 2, numberOfJobs: 2 }),
    ]);
  });

  test("tenants of one unit with different benchmark values are multiplied before they are added", () => {
    const of = (value: number) =>
      ({ ...GRID, name: `${value}`, format: "normalised-0.4", serviceLevel: { type: "hepscore23", value } }) as const;
    const [row, ...more] = rows(
      { tenant: of(10), groups: [group(1000, 1, 100)] },
      { tenant: of(20), groups: [group(1000, 1, 100, { firstEnd: END - 5 })] },
    );
    expect(more).toEqual([]);
    expect(row).toMatchObject({
      wallDuration: 200,
      normalisedWallDuration: 3000,
      numberOfJobs: 2,
      earliestEndTime: END - 5,
    });
  });

  test("summaries with different benchmark values stay apart", () => {
    const of = (value: number) => ({ ...GRID, serviceLevel: { type: "hepscore23", value } }) as const;
    expect(
      rows({ tenant: of(10), groups: [group(1000, 1, 100)] }, { tenant: of(20), groups: [group(1000, 1, 100)] }),
    ).toHaveLength(2);
  });

  test("without a benchmark there is no summary: config_invalid", () => {
    const { serviceLevel: _none, ...bare } = GRID;
    expect(() => rows({ tenant: bare, groups: [group(1000, 1, 1)] })).toThrowError(
      /needs a service level.*BENCHMARK_VALUE/,
    );
  });
});

describe("wallclock: one record per Processors = max(1, ceil(cores)); WallDuration such that WallDuration x Processors = core-seconds", () => {
  test("so for whole cores the plain wall clock", async () => {
    const one = await summary([job(END - HOUR, END, { containers: [{ milliCores: 4000 }] })]);
    expect(one).toEqual([expect.objectContaining({ processors: 4, wallDuration: HOUR, numberOfJobs: 1 })]);
  });

  test("sizes", async () => {
    const jobs = [1, 250, 1000, 1001, 2000, 2750].map((milliCores) =>
      job(END - 4000, END, { containers: [{ milliCores }] }),
    );
    const shown = (await summary(jobs)).map((row) => [row.processors, row.numberOfJobs, row.wallDuration]);
    expect(shown).toEqual([
      [1, 3, 4 + 1000 + 4000],
      [2, 2, (4004 + 8000) / 2],
      [3, 1, Math.round(11000 / 3)],
    ]);
  });

  test("a single job's record follows the same rule", () => {
    const one = { uid: "u", pod: "p", vo: null, start: END - 100, end: END, milliCores: 1500, cpuMilliseconds: 99_499 };
    expect(individualRecord(WALL, one)).toMatchObject({ processors: 2, wallDuration: 75, cpuDuration: 99 });
    expect(individualRecord(GRID, one)).toMatchObject({ processors: 0, wallDuration: 150, cpuDuration: 150 });
  });
});

describe("wallclock: CpuDuration = CPU seconds used by the job's containers", () => {
  test("no pod-level copies, no pause container, restarts added", async () => {
    const runs = [
      [END - 5 * HOUR, END - 4 * HOUR],
      [END - 3 * HOUR, END],
    ] as const;
    const one = job(END - 5 * HOUR, END, { containers: [{ milliCores: 1000, runs }] });
    // The simulator's containers use 70 % of their request while they run.
    expect(await summary([one])).toEqual([expect.objectContaining({ cpuDuration: Math.round(0.7 * 4 * HOUR) })]);
  });

  test("also of a run that ended days before the pod, in another piece and month", async () => {
    const start = at("2025-01-20T00:00");
    const runs = [
      [start, start + HOUR],
      [END - HOUR, END],
    ] as const;
    const one = job(start, END, { containers: [{ milliCores: 1000, runs }] });
    expect(await summary([one])).toEqual([expect.objectContaining({ cpuDuration: Math.round(0.7 * 2 * HOUR) })]);
  });

  test("Jobs without CPU data are counted and reported, nothing is put in their place", async () => {
    const jobs = [
      ended(END, { containers: [{ milliCores: 2000 }] }),
      ended(END, { containers: [{ milliCores: 200, measured: false }] }),
    ];
    const result = await new World(cluster(jobs)).run("2025-02-20", [WALL]);
    expect(cpuOf(countedIn(result, "2025-02")).jobsWithoutCpu).toBe(1);
    const found = records(unitIn(result, "2025-02")).filter((each) => each.kind === "summary");
    expect(found.map((row) => [row.processors, row.numberOfJobs, row.cpuDuration])).toEqual([
      [1, 1, 0],
      [2, 1, Math.round(0.7 * 2 * (HOUR - 3))],
    ]);
  });

  test.each([
    [100, "published"],
    [101, "cpu_data_refused"],
  ])(
    "above 10 %% of core-seconds the month is refused: %s milli-cores of 1000 without",
    async (milliCores, expected) => {
      const jobs = [
        ended(END, { containers: [{ milliCores: 1000 - milliCores }] }),
        ended(END, { containers: [{ milliCores, measured: false }] }),
      ];
      const world = new World(cluster(jobs));
      const result = await world.run("2025-02-20", [WALL]);
      expect(outcomes(result)).toEqual({ "2025-01": "published", "2025-02": expected });
      if (expected === "published") return;
      expect(message(unitIn(result, "2025-02"))).toMatch(/1 jobs with 10\.1 % .*ACCOUNTING_MODEL=core-seconds/);
      expect(unitIn(result, "2025-02").error).toMatchObject({ exit: 3 });
      expect(outcomes(await world.run("2025-02-20", [GRID]))["2025-02"]).toBe("published");
    },
  );

  test("a month without jobs has no share of anything", async () => {
    expect(outcomes(await new World(cluster([])).run("2025-02-20", [WALL]))["2025-02"]).toBe("published");
  });
});

describe("both models and all formats say the same number of jobs and core-seconds", () => {
  test.each(["summary-0.2", "summary-0.4", "normalised-0.4", "individual-0.3", "individual-0.4"] as const)(
    "%s",
    async (format) => {
      for (const model of ["core-seconds", "wallclock"] as const) {
        const jobs = [1000, 3000, 8000].map((milliCores) => ended(END, { containers: [{ milliCores }] }));
        const world = new World(cluster(jobs));
        await world.run("2025-02-20", [tenant("grid", { format, model })]);
        expect(world.shown("2025-02")).toEqual({ jobs: 3, coreSeconds: 12 * HOUR, syncJobs: 3 });
      }
    },
  );
});
