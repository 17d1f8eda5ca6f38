import { DateTime, Settings } from "luxon";

// Nothing is written in words. To find out the system's language would take a tenth of the program's start.
Settings.defaultLocale = "en";

/*
 * Instants are epoch seconds, days are `yyyy-mm-dd`, months are `yyyy-mm`, and all of them are UTC.
 */

/** Seconds. */
export const HOUR = 3600;
/** Seconds; a UTC day always has as many. */
export const DAY = 24 * HOUR;

const utc = (epoch: number): DateTime => DateTime.fromSeconds(epoch, { zone: "utc" });

/** The day of an instant. */
export function dayOf(epoch: number): string {
  return utc(epoch).toFormat("yyyy-MM-dd");
}

/** The month of an instant. */
export function monthOf(epoch: number): string {
  return utc(epoch).toFormat("yyyy-MM");
}

/** The first second of a day or a month. */
export function startOf(dayOrMonth: string): number {
  return DateTime.fromISO(dayOrMonth, { zone: "utc" }).toSeconds();
}

/** The first second after a day. */
export function endOfDay(day: string): number {
  return startOf(day) + DAY;
}

/** The first second after a month. */
export function endOfMonth(month: string): number {
  return startOf(addMonths(month, 1));
}

/** The month `count` months later (earlier if negative). */
export function addMonths(month: string, count: number): string {
  return utc(startOf(month)).plus({ months: count }).toFormat("yyyy-MM");
}

/** The day of the month of an instant, 1 to 31. */
export function dayOfMonth(epoch: number): number {
  return utc(epoch).day;
}

/** The month of a year and a month's number, 1 to 12. */
export function monthName(year: number, month: number): string {
  return `${String(year).padStart(4, "0")}-${String(month).padStart(2, "0")}`;
}

/** The year and the number (1 to 12) of a month. */
export function yearAndMonth(month: string): { year: number; month: number } {
  const start = utc(startOf(month));
  return { year: start.year, month: start.month };
}

const MONTH = /^\d{4}-(?:0[1-9]|1[0-2])$/;

/** Whether a text is a month. */
export function isMonth(text: string): boolean {
  return text.length === 7 && MONTH.test(text);
}

/** An instant as text, `yyyy-mm-dd hh:mm:ss UTC`. */
export function showTime(epoch: number): string {
  return `${utc(epoch).toFormat("yyyy-MM-dd HH:mm:ss")} UTC`;
}

/** How many ranges a message lists; more are only counted. */
const MOST_RANGES = 10;

/** Days as text, consecutive ones as a range: `2026-10-08 to 2026-10-19 (12 days)`. */
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

/** Stretches of time as text, with their length: `2026-10-08 10:00 to 2026-10-08 12:30 UTC (2.5 h)`. */
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
