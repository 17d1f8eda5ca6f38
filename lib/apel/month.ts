import { DateTime } from "luxon";

/** The first second of a UTC month, epoch seconds. @param month 1 to 12 */
export function monthStart(year: number, month: number): number {
  return DateTime.utc(year, month).toSeconds();
}

/** The first second after a UTC month, epoch seconds. @param month 1 to 12 */
export function monthEnd(year: number, month: number): number {
  return DateTime.utc(year, month).plus({ months: 1 }).toSeconds();
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
