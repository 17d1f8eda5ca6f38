/** What the bench's Prometheus holds. Two equal shapes are the same samples. */
export type Shape = {
  /** jobs that end in a month of 31 days */
  readonly jobs: number;
  /** months of data; see `monthsOf` */
  readonly months: number;
  readonly scrapeSeconds: number;
};

/** A stretch of time, epoch seconds, half-open. */
export type Stretch = { readonly from: number; readonly to: number };

export const HOUR = 3600;
const DAY = 24 * HOUR;
/** The month that is counted cold; one of the fullest. */
const MEASURED = { year: 2025, month: 7, days: 31 } as const;
/** Data goes on after the last month, so that its last day can settle and late statuses are looked for. */
const AFTER = 4 * DAY;
const BEFORE = 3 * HOUR;

const startOf = (offset: number): number => Date.UTC(MEASURED.year, MEASURED.month - 1 + offset) / 1000;
const nameOf = (offset: number): string => new Date(startOf(offset) * 1000).toISOString().slice(0, 7);

/** First second of a month (`yyyy-mm`), epoch seconds. */
export const startOfMonth = (month: string): number => Date.parse(`${month}-01T00:00:00Z`) / 1000;

/** A month and the one that comes `count` later. */
export function plusMonths(month: string, count: number): string {
  const [year = 0, number = 1] = month.split("-").map(Number);
  return new Date(Date.UTC(year, number - 1 + count)).toISOString().slice(0, 7);
}

/** The month that is counted cold (`yyyy-mm`). */
export const measuredMonth = nameOf(0);

/** When the daily run takes place: at 06:00 on the 15th of the month after the measured one, epoch seconds. */
export const dailyRunAt = startOf(1) + 14 * DAY + 6 * HOUR;

/** The months of data, in order: one is the measured one alone, two the next as well, more are earlier ones. */
export function monthsOf({ months }: Shape): readonly string[] {
  const first = months < 3 ? 0 : 2 - months;
  return Array.from({ length: months }, (_, index) => nameOf(first + index));
}

/** Where the samples lie, computed once, since every series needs it. */
export type Layout = Stretch & {
  /** seconds from one job's end to the next */
  readonly spacing: number;
  readonly scrapeSeconds: number;
};

export function layoutOf(shape: Shape): Layout {
  const months = monthsOf(shape);
  const after = plusMonths(months.at(-1) ?? measuredMonth, 1);
  return {
    from: startOfMonth(months[0] ?? measuredMonth) - BEFORE,
    to: startOfMonth(after) + AFTER,
    spacing: (MEASURED.days * DAY) / shape.jobs,
    scrapeSeconds: shape.scrapeSeconds,
  };
}
