import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { firstPieceSize, pieceSizeAfter } from "../../../lib/accounting/counting/pieces.ts";
import { ended, cluster, tenant, World } from "./world.ts";

const FIGURES = firstPieceSize({ format: "summary-0.2" }, false);
const JOB_RECORDS = firstPieceSize({ format: "individual-0.4" }, false);

/** The sizes of the first pieces, where each day has so many pods. */
function sizes(podsADay: number, first = FIGURES): number[] {
  const found = [first.days];
  for (let size = first; found.length < 4;) {
    size = pieceSizeAfter(size, { days: size.days, pods: size.days * podsADay });
    found.push(size.days);
  }
  return found;
}

describe("the size of pieces follows the pods that came", () => {
  test("a month at once, as far as memory holds its pods", () => {
    expect(sizes(100)).toEqual([32, 32, 32, 32]);
    expect(sizes(33_000)).toEqual([32, 9, 9, 9]);
    expect(sizes(10_000_000)).toEqual([32, 1, 1, 1]);
  });

  test("a week of job records, then as many days as memory holds", () => {
    expect(sizes(100, JOB_RECORDS)).toEqual([8, 16, 32, 32]);
    expect(sizes(10_000, JOB_RECORDS)).toEqual([8, 13, 13, 13]);
    expect(sizes(1_000_000, JOB_RECORDS)).toEqual([8, 1, 1, 1]);
  });

  test("where a run may be stopped it doubles from four days on", () => {
    expect(sizes(100, firstPieceSize({ format: "summary-0.2" }, true))).toEqual([4, 8, 16, 32]);
  });

  test("it is a day at least and a month at most", () => {
    const piece = fc.record({ days: fc.integer({ min: 1, max: 32 }), pods: fc.nat({ max: 1e7 }) });
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        let size = FIGURES;
        for (const before of pieces) {
          size = pieceSizeAfter(size, before);
          expect(size.days).toBeGreaterThanOrEqual(1);
          expect(size.days).toBeLessThanOrEqual(32);
        }
      }),
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
  expect(await asked({ format: "individual-0.4" })).toEqual({ days: 31, pieces: 3 });
  expect(await asked({})).toEqual({ days: 31, pieces: 1 });
});
