// Which months a run is about: those it was asked for, and those that are open.
import { GridmeterError } from "../../shared/errors.ts";
import { DAY, addMonths, dayOf, endOfMonth, monthOf, showTime, startOf } from "./time.ts";

/** One month of a run, [from, to). */
export type Period = {
  readonly month: string;
  readonly from: number;
  /** the month's end, or now if it has not ended */
  readonly to: number;
  /** the days of [from, to), ascending; the last one may have only begun */
  readonly days: readonly string[];
};

/**
 * What a run is asked for. `auto`: the previous and the current month, or `month` if it is one of them. `gap`: all months
 * that [start, end) touches.
 */
export type Request =
  | { readonly mode: "auto"; readonly month?: string }
  | { readonly mode: "gap"; readonly start: number; readonly end: number };

/**
 * The months of a run, ascending. They are whole, but for the current one, which ends now: at APEL a part of a month would
 * replace the whole.
 * @throws period_invalid if a gap ends before it starts or reaches into a future month
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

function period(month: string, now: number): Period {
  const from = startOf(month);
  const to = Math.min(endOfMonth(month), now);
  const days: string[] = [];
  for (let day = from; day < to; day += DAY) days.push(dayOf(day));
  return { month, from, to, days };
}

/** The month before the current one, and the current one, are open: they may still be sent again. */
export function isOpen(month: string, now: number): boolean {
  return month === monthOf(now) || month === addMonths(monthOf(now), -1);
}
