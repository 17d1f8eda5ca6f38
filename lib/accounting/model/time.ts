import { DateTime, Settings } from "luxon";
import { GridmeterError } from "../../shared/errors.ts";

// Nothing is written in words. To find out which language the system speaks takes a tenth of the program's start.
Settings.defaultLocale = "en";

/** Seconds of a UTC day. */
export const DAY = 86_400;

const utc = (epoch: number): DateTime => DateTime.fromSeconds(epoch, { zone: "utc" });

/** The UTC day of an instant, `yyyy-mm-dd`. */
export function dayOf(epoch: number): string {
  return utc(epoch).toFormat("yyyy-MM-dd");
}

/** The UTC month of an instant, `yyyy-mm`. */
export function monthOf(epoch: number): string {
  return utc(epoch).toFormat("yyyy-MM");
}

/** First second of a day `yyyy-mm-dd` or a month `yyyy-mm`, epoch seconds UTC. */
export function startOf(dayOrMonth: string): number {
  return DateTime.fromISO(dayOrMonth, { zone: "utc" }).toSeconds();
}

/** First second after a day, epoch seconds. */
export function endOfDay(day: string): number {
  return startOf(day) + DAY;
}

/** The month `count` months later (earlier if negative). */
export function addMonths(month: string, count: number): string {
  return utc(startOf(month)).plus({ months: count }).toFormat("yyyy-MM");
}

/** First second after a month, epoch seconds. */
export function endOfMonth(month: string): number {
  return startOf(addMonths(month, 1));
}

/** Day of the month of an instant, 1 to 31, UTC. */
export function dayOfMonth(epoch: number): number {
  return utc(epoch).day;
}

/** Year and month (1 to 12) of `yyyy-mm`. */
export function yearAndMonth(month: string): { year: number; month: number } {
  const start = utc(startOf(month));
  return { year: start.year, month: start.month };
}

/** An instant for people, `yyyy-mm-dd hh:mm:ss` UTC. */
export function showTime(epoch: number): string {
  return `${utc(epoch).toFormat("yyyy-MM-dd HH:mm:ss")} UTC`;
}

/** How many ranges a message lists; more are only counted. */
const MOST_RANGES = 10;

/** Days (`yyyy-mm-dd`, ascending) for people: consecutive ones as a range, e.g. `2026-10-08 to 2026-10-19 (12 days)`. */
export function showDays(days: readonly string[]): string {
  const ranges: { first: string; last: string; count: number }[] = [];
  for (const day of days.toSorted()) {
    const held = ranges.at(-1);
    if (held !== undefined && endOfDay(held.last) === startOf(day)) {
      held.last = day;
      held.count += 1;
    } else ranges.push({ first: day, last: day, count: 1 });
  }
  return listed(ranges.map(({ first, last, count }) => (count === 1 ? first : `${first} to ${last} (${count} days)`)));
}

/** Stretches of time for people, with their length, e.g. `2026-10-08 10:00 to 2026-10-08 12:30 UTC (2.5 h)`. */
export function showStretches(stretches: readonly { readonly from: number; readonly to: number }[]): string {
  return listed(
    stretches.map(({ from, to }) => {
      const length =
        to - from >= 2 * DAY ? `${Math.round((to - from) / DAY)} days` : `${Math.round((to - from) / 360) / 10} h`;
      return `${utc(from).toFormat("yyyy-MM-dd HH:mm")} to ${utc(to).toFormat("yyyy-MM-dd HH:mm")} UTC (${length})`;
    }),
  );
}

function listed(ranges: readonly string[]): string {
  const more = ranges.length - MOST_RANGES;
  return ranges.slice(0, MOST_RANGES).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** A month as yyyy-mm. @param month 1 to 12 */
export function monthName(year: number, month: number): string {
  return `${String(year).padStart(4, "0")}-${String(month).padStart(2, "0")}`;
}

const MONTH = /^\d{4}-(?:0[1-9]|1[0-2])$/;

/** Whether a text is a month of the calendar as yyyy-mm. */
export function isMonth(text: string): boolean {
  return text.length === 7 && MONTH.test(text);
}

/** One month of a run: [from, to) in epoch seconds; `to` is now for a month that has not ended. */
export type Period = {
  readonly month: string;
  readonly from: number;
  readonly to: number;
  /** the days of [from, to), ascending; the last may be only begun */
  readonly days: readonly string[];
};

/**
 * What a run covers: `auto` the previous and the current month (or, with `month`, that one of them), `gap` the whole months
 * that the given time touches.
 */
export type Request =
  | { readonly mode: "auto"; readonly month?: string }
  | { readonly mode: "gap"; readonly start: number; readonly end: number };

function period(month: string, now: number): Period {
  const from = startOf(month);
  const to = Math.min(endOfMonth(month), now);
  const days: string[] = [];
  for (let day = from; day < to; day += DAY) days.push(dayOf(day));
  return { month, from, to, days };
}

/**
 * The months of a run, ascending. Gap mode widens to whole months, the current one up to now: a part of a month would
 * REPLACE the whole at APEL.
 * @throws period_invalid if the gap ends before it starts or reaches into a future month
 */
export function periods(request: Request, now: number): readonly Period[] {
  const current = monthOf(now);
  if (request.mode === "auto") {
    const months = [period(addMonths(current, -1), now), period(current, now)];
    return months.filter(({ month, days }) => days.length > 0 && (request.month ?? month) === month);
  }
  const { start, end } = request;
  const show = `from ${showTime(start)} to ${showTime(end)}`;
  if (end <= start) {
    throw new GridmeterError(
      "period_invalid",
      `The period ${show} ends before it starts. Nothing was asked for or published. Give --end after --start.`,
    );
  }
  if (start > now || monthOf(end - 1) > current) {
    throw new GridmeterError(
      "period_invalid",
      `The period ${show} lies in the future (now is ${showTime(now)}). Nothing was asked for or published. Give a period up to the current month.`,
    );
  }
  const found: Period[] = [];
  for (let month = monthOf(start); month <= monthOf(end - 1); month = addMonths(month, 1))
    found.push(period(month, now));
  return found.filter((month) => month.days.length > 0);
}
