import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { lookAhead } from "../../../lib/accounting/counting/month-plan.ts";
import { firstPiece, stretches } from "../../../lib/accounting/counting/pieces.ts";
import { findCoverage, observe } from "../../../lib/accounting/counting/settled-days.ts";
import { findGaps } from "../../../lib/accounting/model/gaps.ts";
import { stubMonitoring } from "../../support/stub-monitoring.ts";
import {
  addMonths,
  dayOf,
  dayOfMonth,
  endOfDay,
  endOfMonth,
  monthOf,
  showTime,
  startOf,
} from "../../../lib/accounting/model/time.ts";
import { periods } from "../../../lib/accounting/model/periods.ts";
import { CELL, type Window } from "../../../lib/accounting/model/monitoring.ts";
import { at, DAY, HOUR, MINUTE } from "./world.ts";

const months = (request: Parameters<typeof periods>[0], now: string) =>
  periods(request, at(now)).map(({ month }) => month);
const gap = (start: string, end: string) => ({ mode: "gap", start: at(start), end: at(end) }) as const;

describe("UTC days and months, half-open", () => {
  test("start <= instant < next start", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4_102_444_800 }), (instant) => {
        for (const [name, end] of [
          [dayOf(instant), endOfDay(dayOf(instant))],
          [monthOf(instant), endOfMonth(monthOf(instant))],
        ] as const) {
          expect(startOf(name)).toBeLessThanOrEqual(instant);
          expect(instant).toBeLessThan(end);
        }
        expect(dayOf(instant).startsWith(monthOf(instant))).toBe(true);
        expect(dayOfMonth(instant)).toBe(Number(dayOf(instant).slice(-2)));
      }),
      { numRuns: 200 },
    );
  });

  test("months add across years; leap days exist", () => {
    expect([addMonths("2024-12", 1), addMonths("2025-01", -1), addMonths("2024-03", -14)]).toEqual([
      "2025-01",
      "2024-12",
      "2023-01",
    ]);
    expect(endOfMonth("2024-02") - startOf("2024-02")).toBe(29 * DAY);
    expect(showTime(at("2024-02-29T01:02:03"))).toBe("2024-02-29 01:02:03 UTC");
  });
});

describe("auto covers the previous and the current month up to now", () => {
  test("also on the first of a month, and of a year", () => {
    expect(months({ mode: "auto" }, "2025-03-15T12:00")).toEqual(["2025-02", "2025-03"]);
    expect(months({ mode: "auto" }, "2025-01-01T00:00:01")).toEqual(["2024-12", "2025-01"]);
    expect(months({ mode: "auto" }, "2025-01-01")).toEqual(["2024-12"]);
  });

  test("one of them alone; another month is none of auto's", () => {
    expect(months({ mode: "auto", month: "2025-02" }, "2025-03-15T12:00")).toEqual(["2025-02"]);
    expect(months({ mode: "auto", month: "2025-01" }, "2025-03-15T12:00")).toEqual([]);
  });

  test("the current month ends now, in the day that has begun", () => {
    const [, current] = periods({ mode: "auto" }, at("2025-03-02T12:00"));
    expect(current).toEqual({
      month: "2025-03",
      from: at("2025-03-01"),
      to: at("2025-03-02T12:00"),
      days: ["2025-03-01", "2025-03-02"],
    });
  });
});

describe("Gap mode widens to whole months (the current one up to now)", () => {
  test.each([
    ["2025-01-10", "2025-01-11", ["2025-01"]],
    ["2025-01-31T23:59:59", "2025-02-01T00:00:01", ["2025-01", "2025-02"]],
    ["2025-01-01", "2025-02-01", ["2025-01"]],
    ["2024-12-05", "2025-03-01T10:00", ["2024-12", "2025-01", "2025-02", "2025-03"]],
    ["2025-03-10", "2025-03-31", ["2025-03"]],
  ])("%s to %s", (start, end, expected) => {
    const found = periods(gap(start, end), at("2025-03-15T12:00"));
    expect(found.map(({ month }) => month)).toEqual(expected);
    expect(found.every(({ month, from }) => from === startOf(month))).toBe(true);
    expect(found.at(-1)!.to).toBe(Math.min(at("2025-03-15T12:00"), endOfMonth(expected.at(-1)!)));
  });

  test.each([
    ["2025-01-10", "2025-01-10", /ends before it starts/],
    ["2025-01-10", "2025-01-09", /from 2025-01-10 00:00:00 UTC to 2025-01-09 00:00:00 UTC ends before it starts/],
    ["2025-03-10", "2025-04-02", /lies in the future/],
    ["2025-03-16", "2025-03-17", /lies in the future/],
  ])("%s to %s is refused", (start, end, text) => {
    expect(() => periods(gap(start, end), at("2025-03-15T12:00"))).toThrowError(text);
  });
});

describe("A piece is a window of one or more days", () => {
  const days = (from: string, count: number) =>
    Array.from({ length: count }, (_, index) => dayOf(at(from) + index * DAY));

  test("of consecutive days, at most so many", () => {
    expect(firstPiece(days("2025-01-01", 40), 16)).toEqual(days("2025-01-01", 16));
    expect(firstPiece(["2025-01-01", "2025-01-03", "2025-01-04"], 16)).toEqual(["2025-01-01"]);
    expect(firstPiece([], 16)).toBeUndefined();
    expect(stretches(["2025-01-01", "2025-01-03", "2025-01-04"])).toEqual([
      ["2025-01-01"],
      ["2025-01-03", "2025-01-04"],
    ]);
  });

  test("every day is in exactly one stretch", () => {
    fc.assert(
      fc.property(fc.subarray(days("2025-01-01", 62)), (wanted) => {
        expect(stretches(wanted).flat()).toEqual(wanted);
      }),
      { numRuns: 100 },
    );
  });

  test("from the 4th of the next month on, and in a recount, a day is looked after for three days", () => {
    const plan = (recount: "no" | "asked for" | "due") => {
      const [period] = periods(gap("2025-01-01", "2025-01-31"), at("2025-03-01"));
      return { period: period!, days: [], known: new Map(), older: new Set<string>(), needed: [], recount };
    };
    expect(lookAhead(plan("no"), "2025-01-31", at("2025-02-03T23:59"))).toBe(0);
    expect(lookAhead(plan("no"), "2025-01-31", at("2025-02-04"))).toBe(at("2025-02-04"));
    expect(lookAhead(plan("no"), "2025-01-10", at("2025-02-04"))).toBe(at("2025-01-14"));
    expect(lookAhead(plan("asked for"), "2025-01-10", at("2025-01-12"))).toBe(at("2025-01-12"));
    expect(lookAhead(plan("due"), "2025-01-10", at("2025-02-05"))).toBe(at("2025-01-14"));
  });
});

describe("Monitoring is looked for on the needed days and until the last of them has settled", () => {
  /** The windows that are asked for. @param seen whether monitoring was seen all the time */
  const askedFor = async (days: readonly string[], now: string, seen = true) => {
    const windows: Window[] = [];
    const monitoring = stubMonitoring({
      seen: async (window) => {
        windows.push(window);
        const cells = Array.from(
          { length: (window.to - window.from) / CELL },
          (_, index) => window.from + (index + 1) * CELL,
        );
        return { cells: seen ? cells : [], partly: [], upOnly: [], silent: [] };
      },
    });
    await findCoverage(days, 6 * HOUR, monitoring, at(now));
    return windows;
  };
  const from = at("2025-01-01T23:00");

  test("nothing where no day is needed", async () => {
    expect(await askedFor([], "2025-03-01")).toEqual([]);
  });

  test("from an hour before the first day, so that a gap across midnight is seen whole, to ten days after it should settle", async () => {
    expect(await askedFor(["2025-01-02", "2025-01-05"], "2025-03-01")).toEqual([{ from, to: at("2025-01-16T06:00") }]);
  });

  test("up to the last whole cell before now", async () => {
    expect(await askedFor(["2025-01-02"], "2025-01-02T12:34:56")).toEqual([{ from, to: at("2025-01-02T12:30") }]);
  });

  test("once more up to now, where the last day has not settled by then", async () => {
    expect(await askedFor(["2025-01-02"], "2025-03-01", false)).toEqual([
      { from, to: at("2025-01-13T06:00") },
      { from, to: at("2025-03-01") },
    ]);
  });
});

describe("Settled = observed for SETTLE after the day's end", () => {
  const day = "2025-01-10";
  const start = at(day);
  const cells = (from: number, to: number) =>
    Array.from({ length: (to - from) / CELL }, (_, index) => from + (index + 1) * CELL);
  const watched = (to: number) => ({ from: start - HOUR, to });
  const look = (seen: readonly number[], now: number, settle = 6 * HOUR) =>
    observe([day], { cells: seen, partly: [] }, watched(now), settle, now)[0]!;

  test("six hours of observation, then not before and not after; the look ends there", () => {
    const seen = cells(start - HOUR, start + 3 * DAY);
    const settled = start + DAY + 6 * HOUR;
    expect(
      look(
        seen.filter((cell) => cell <= settled - 1),
        settled - 1,
      ),
    ).toMatchObject({ settled: false, until: settled - 1 });
    expect(look(seen, settled)).toMatchObject({ settled: true, until: settled });
    expect(look(seen, settled + DAY)).toMatchObject({ settled: true, until: settled, gaps: [], unseen: false });
  });

  test("hours in which nothing was seen do not count", () => {
    const seen = [...cells(start - HOUR, start + DAY + HOUR), ...cells(start + DAY + 20 * HOUR, start + 3 * DAY)];
    expect(look(seen, start + DAY + 24 * HOUR).settled).toBe(false);
    expect(look(seen, start + 2 * DAY + 2 * HOUR)).toMatchObject({ settled: true, until: start + DAY + 25 * HOUR });
  });

  test("with a gap not before 48 h", () => {
    const seen = [...cells(start - HOUR, start + HOUR), ...cells(start + 2 * HOUR, start + 4 * DAY)];
    expect(look(seen, start + DAY + 47 * HOUR).settled).toBe(false);
    expect(look(seen, start + DAY + 48 * HOUR)).toMatchObject({
      settled: true,
      gaps: [{ from: start + HOUR, to: start + 2 * HOUR }],
    });
  });

  test("a day that has not ended is never unseen; one that has, is unseen without a single cell in it", () => {
    expect(look([], start + 12 * HOUR).unseen).toBe(false);
    expect(look([start], start + 2 * DAY).unseen).toBe(true);
    expect(look([start + CELL], start + 2 * DAY).unseen).toBe(false);
    expect(look([start + DAY], start + 2 * DAY).unseen).toBe(false);
    expect(look([start + DAY + CELL], start + 2 * DAY).unseen).toBe(true);
  });

  test("days are judged alone: the same whether judged together or one by one", () => {
    fc.assert(
      fc.property(
        fc.subarray(cells(start - HOUR, start + 5 * DAY)),
        fc.integer({ min: 0, max: 5 * 24 }),
        (seen, hours) => {
          const now = start + hours * HOUR;
          const known = seen.filter((cell) => cell <= now);
          const days = [0, 1, 2].map((index) => dayOf(start + index * DAY));
          const sighting = { cells: known, partly: [] };
          expect(observe(days, sighting, watched(now), 6 * HOUR, now)).toEqual(
            days.flatMap((one) => observe([one], sighting, watched(now), 6 * HOUR, now)),
          );
        },
      ),
      { numRuns: 50 },
    );
  });

  test("gaps are what lies between cells, from half an hour on", () => {
    const window = { from: start, to: start + 4 * HOUR };
    const seen = [
      ...cells(start, start + HOUR),
      ...cells(start + HOUR + 25 * MINUTE, start + 2 * HOUR),
      ...cells(start + 150 * MINUTE, start + 3 * HOUR),
    ];
    expect(findGaps(seen, window)).toEqual([
      { from: start + 2 * HOUR, to: start + 150 * MINUTE },
      { from: start + 3 * HOUR, to: start + 4 * HOUR },
    ]);
    expect(findGaps([], window)).toEqual([window]);
    expect(findGaps(cells(start, start + 4 * HOUR), window)).toEqual([]);
  });
});
