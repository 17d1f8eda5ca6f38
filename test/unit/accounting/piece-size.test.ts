import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { firstPieceSize, pieceSizeAfter } from "../../../lib/accounting/counting/pieces.ts";
import type { Monitoring } from "../../../lib/accounting/model/monitoring.ts";
import { at, cluster, DAY, ended, tenant, texts, World } from "./world.ts";
import { MemoryMonitoring } from "../../support/memory-monitoring.ts";
import { changedMonitoring } from "../../support/stub-monitoring.ts";

const FIGURES = firstPieceSize({ format: "summary-0.2" }, false);
const JOB_RECORDS = firstPieceSize({ format: "individual-0.4" }, false);
const STOPPABLE = firstPieceSize({ format: "summary-0.2" }, true);

/** The sizes that are asked one after the other by a server to which a day in a piece of so many days costs that much. */
function sizes(cost: (days: number) => number, podsADay = 100, first = FIGURES): number[] {
  const found: number[] = [];
  let size = first;
  for (let index = 0; index < 4; index += 1) {
    const { days } = size;
    found.push(days);
    size = pieceSizeAfter(size, { days, seconds: days * cost(days), pods: days * podsADay });
  }
  return found;
}

describe("the size of pieces follows what is measured", () => {
  test("a month at once, as far as the pieces before tell that memory holds its pods", () => {
    expect(sizes(() => 1)).toEqual([32, 32, 32, 32]);
    expect(sizes(() => 1, 33_000)).toEqual([32, 12, 12, 12]);
    expect(sizes(() => 1, 10_000_000)).toEqual([32, 1, 1, 1]);
  });

  test("a week of job records, then as many days as memory holds", () => {
    const jobRecords = (podsADay: number) => sizes(() => 1, podsADay, JOB_RECORDS);
    expect(jobRecords(100)).toEqual([8, 16, 32, 32]);
    expect(jobRecords(10_000)).toEqual([8, 13, 13, 13]);
    expect(jobRecords(1_000_000)).toEqual([8, 1, 1, 1]);
  });

  test("where a run may be stopped it doubles from four days on, where larger pieces are cheaper or cost the same", () => {
    expect(sizes((days) => 10 + 5 / days, 100, STOPPABLE)).toEqual([4, 8, 16, 32]);
    expect(sizes(() => 1, 100, STOPPABLE)).toEqual([4, 8, 16, 32]);
  });

  test("it goes back to the size before one that is clearly dearer, and stays", () => {
    expect(sizes((days) => (days > 6 ? 2 : 1), 100, STOPPABLE)).toEqual([4, 8, 4, 4]);
    const wide = pieceSizeAfter(pieceSizeAfter(STOPPABLE, { days: 4, seconds: 4, pods: 1 }), {
      days: 8,
      seconds: 8,
      pods: 1,
    });
    expect(pieceSizeAfter(wide, { days: 14, seconds: 28, pods: 1 }).days).toBe(8);
  });

  test("what is only a little dearer may be chance", () => {
    expect(sizes((days) => 1 + days / 100, 100, STOPPABLE)).toContain(32);
  });

  test("without a clock it stays, and remainders say nothing", () => {
    expect(pieceSizeAfter(STOPPABLE, { days: 4, seconds: undefined, pods: 1 })).toEqual(STOPPABLE);
    expect(pieceSizeAfter(STOPPABLE, { days: 2, seconds: 100, pods: 1 })).toEqual(STOPPABLE);
  });

  test("it always asks for a day at least", () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            days: fc.integer({ min: 1, max: 32 }),
            seconds: fc.option(fc.double({ min: 0, max: 1e4, noNaN: true }), { nil: undefined }),
            pods: fc.nat({ max: 1e7 }),
          }),
        ),
        (pieces) => {
          let size = FIGURES;
          for (const piece of pieces) {
            size = pieceSizeAfter(size, piece);
            expect(size.days).toBeGreaterThanOrEqual(1);
            expect(size.days).toBeLessThanOrEqual(32);
          }
        },
      ),
    );
  });
});

test("a month of job records is asked for in pieces, one of figures at once", async () => {
  const first = new World(cluster([ended("2025-01-30T12:00")]));
  const asked = async (more: Parameters<typeof tenant>[1]) => {
    const world = new World(first.cluster, first.series);
    const { tenants } = await world.runOnly("2025-02-10", [tenant("grid", more)], { gap: "2025-01" });
    return tenants[0]!.count.asked;
  };
  expect(await asked({ format: "individual-0.4" })).toEqual({ days: 31, pieces: 4 });
  expect(await asked({})).toEqual({ days: 31, pieces: 1 });
});

test("a run whose server takes long pieces well and one whose server does not publish the same", async () => {
  const jobs = Array.from({ length: 180 }, (_, day) => ended(at("2024-10-01T12:00") + day * DAY));
  const world = new World(cluster(jobs, { from: at("2024-10-01") }));
  const tenants = [tenant("grid")];
  const messages: unknown[] = [];
  const widths = new Set<string>();
  const costs: ((days: number) => number)[] = [() => 1, (days) => days ** 2];
  for (const cost of costs) {
    const asked: number[] = [];
    const monitoring = (): Monitoring => {
      const memory = new MemoryMonitoring(world.series, tenants[0]!.selection);
      let now = 0;
      return changedMonitoring(memory, {
        facts: async (fact, window, take, only) => {
          const days = Math.floor((window.to - window.from) / DAY);
          if (fact === "end") {
            asked.push(days);
            now += cost(days);
          }
          await memory.facts(fact, window, take, only);
        },
        clock: () => now,
      });
    };
    const own = new World(world.cluster, world.series);
    const result = await own.run("2025-03-31T12:00", tenants, {
      gap: ["2024-10", "2025-03"],
      monitoring,
      stop: () => false,
      run: "night",
    });
    messages.push(result.months.flatMap(({ units }) => units.map(texts)));
    widths.add(JSON.stringify(asked));
  }
  expect(messages[1]).toEqual(messages[0]);
  expect(widths.size).toBe(2);
});
