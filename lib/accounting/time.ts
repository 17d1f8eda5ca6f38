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
