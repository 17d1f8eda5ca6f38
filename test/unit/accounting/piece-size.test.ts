import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  FIRST_PIECE_SIZE,
  JOBS_PIECE_SIZE,
  MOST_PODS,
  type PieceSize,
  STOPPABLE_PIECE_SIZE,
  pieceSizeAfter,
} from "../../../lib/accounting/counting/month-plan.ts";
import type { Monitoring } from "../../../lib/accounting/model/monitoring.ts";
import { ended, cluster, at, tenant, texts, World } from "./world.ts";
import { MemoryMonitoring } from "../../support/memory-monitoring.ts";
import { changedMonitoring } from "../../support/stub-monitoring.ts";

/** The sizes that are asked one after the other by a server to which a day in a piece of so many days costs that much. */
function sizes(
  cost: (days: number) => number,
  podsADay = 100,
  first: PieceSize = FIRST_PIECE_SIZE,
  mostPods: number = MOST_PODS.figures,
): number[] {
  const found: number[] = [];
  let pace = first;
  for (let index = 0; index < 4; index += 1) {
    const { days } = pace;
    found.push(days);
    pace = pieceSizeAfter(pace, { days, seconds: days * cost(days), pods: days * podsADay }, mostPods);
  }
  return found;
}

describe("the size of pieces follows what is measured", () => {
  test("a month at once, as far as the pieces before tell that memory holds its pods", () => {
    expect(sizes(() => 1)).toEqual([32, 32, 32, 32]);
    expect(sizes(() => 1, 33_000)).toEqual([32, 12, 12, 12]);
    expect(sizes(() => 1, 10_000_000)).toEqual([32, 1, 1, 1]);
  });

  test("a week of single jobs, then as many days as memory holds", () => {
    const singles = (podsADay: number) => sizes(() => 1, podsADay, JOBS_PIECE_SIZE, MOST_PODS.jobs);
    expect(singles(100)).toEqual([8, 16, 32, 32]);
    expect(singles(10_000)).toEqual([8, 13, 13, 13]);
    expect(singles(1_000_000)).toEqual([8, 1, 1, 1]);
  });

  test("where a run may be stopped it doubles from four days on, where larger pieces are cheaper or cost the same", () => {
    const from = STOPPABLE_PIECE_SIZE;
    expect(sizes((days) => 10 + 5 / days, 100, from)).toEqual([4, 8, 16, 32]);
    expect(sizes(() => 1, 100, from)).toEqual([4, 8, 16, 32]);
  });

  test("it goes back to the size before one that is clearly dearer, and stays", () => {
    expect(sizes((days) => (days > 6 ? 2 : 1), 100, STOPPABLE_PIECE_SIZE)).toEqual([4, 8, 4, 4]);
    const wide = pieceSizeAfter(pieceSizeAfter(STOPPABLE_PIECE_SIZE, { days: 4, seconds: 4, pods: 1 }), {
      days: 8,
      seconds: 8,
      pods: 1,
    });
    expect(pieceSizeAfter(wide, { days: 14, seconds: 28, pods: 1 }).days).toBe(8);
  });

  test("what is only a little dearer may be chance", () => {
    expect(sizes((days) => 1 + days / 100, 100, STOPPABLE_PIECE_SIZE)).toContain(32);
  });

  test("without a clock it stays, and remainders say nothing", () => {
    expect(pieceSizeAfter(STOPPABLE_PIECE_SIZE, { days: 4, seconds: undefined, pods: 1 })).toEqual(
      STOPPABLE_PIECE_SIZE,
    );
    expect(pieceSizeAfter(STOPPABLE_PIECE_SIZE, { days: 2, seconds: 100, pods: 1 })).toEqual(STOPPABLE_PIECE_SIZE);
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
          let pace: PieceSize = FIRST_PIECE_SIZE;
          for (const piece of pieces) {
            pace = pieceSizeAfter(pace, piece);
            expect(pace.days).toBeGreaterThanOrEqual(1);
            expect(pace.days).toBeLessThanOrEqual(32);
          }
        },
      ),
    );
  });
});

test("a month of single jobs is asked for in pieces, one of figures at once", async () => {
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
  const jobs = Array.from({ length: 180 }, (_, day) => ended(at("2024-10-01T12:00") + day * 86_400));
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
          const days = Math.floor((window.to - window.from) / 86_400);
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
