import { DateTime, Settings } from "luxon";

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
