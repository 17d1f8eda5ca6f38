import type { Tenant } from "../model/tenant.ts";
import { DAY, addMonths, dayOfMonth, endOfDay, endOfMonth, monthOf } from "../model/time.ts";
import { type Period } from "../model/periods.ts";
import type { Ledger } from "./ledger.ts";
import type { DayUsage } from "./usage.ts";

/** From this day of the month on, the previous month is counted once more in full (accounting-rules: late statuses). */
const RECOUNT_DAY = 4;
/** A recount looks this long past each day, seconds: on the 4th that is all there is after the month's last day. */
const RECOUNT_LOOK_AHEAD = (RECOUNT_DAY - 1) * DAY;

/** What the ledger has of a tenant's month, and which of its days must be asked for. */
export type MonthPlan = {
  readonly period: Period;
  /** the days that count: those not before ACCOUNTING_SINCE, ascending */
  readonly days: readonly string[];
  /** the days in the ledger */
  readonly known: ReadonlyMap<string, DayUsage>;
  /** the known days that were counted under older rules: they are asked for, and stay where Prometheus does not have them any more */
  readonly older: ReadonlySet<string>;
  /** the days to ask for, ascending */
  readonly needed: readonly string[];
  /** whether all days are asked for again, known or not: by --recount, or because the 4th has come */
  readonly recount: "no" | "asked for" | "due";
};

export type PlanOptions = {
  readonly now: number;
  readonly auto: boolean;
  /** --recount: all days are asked for again */
  readonly recount: boolean;
  /** whether a day's job records are still to be published: the ledger does not have them, so the day is asked for */
  readonly jobsWanted: (month: string, day: string) => boolean;
};

/** Plans a tenant's month from the ledger. Prometheus is not asked. */
export async function planMonth(
  tenant: Tenant,
  period: Period,
  ledger: Ledger,
  options: PlanOptions,
): Promise<MonthPlan> {
  const { since } = tenant;
  const days = since === undefined ? period.days : period.days.filter((day) => day >= since);
  const { days: known, older } = await ledger.read(period.month);
  const recount = options.recount ? "asked for" : (await isRecountDue(period.month, ledger, options)) ? "due" : "no";
  const isNeeded = (day: string): boolean => {
    const usage = known.get(day);
    if (usage === undefined || older.has(day) || recount !== "no") return true;
    return (tenant.model === "wallclock" && !usage.cpuAsked) || options.jobsWanted(period.month, day);
  };
  return { period, days, known, older, needed: days.filter(isNeeded), recount };
}

async function isRecountDue(month: string, ledger: Ledger, { auto, now }: PlanOptions): Promise<boolean> {
  if (!auto || month !== addMonths(monthOf(now), -1) || dayOfMonth(now) < RECOUNT_DAY) return false;
  return !(await ledger.wasRecounted(month));
}

/**
 * The moment up to which a day's jobs are looked for at least, even if the day has settled before: 0, or three days past it.
 * Three days in a recount, and in every count of a month from the 4th of the next one on, so that both find the same jobs.
 */
export function lookAhead({ period, recount }: MonthPlan, day: string, now: number): number {
  const looksPast = recount !== "no" || now >= endOfMonth(period.month) + RECOUNT_LOOK_AHEAD;
  return looksPast ? Math.min(now, endOfDay(day) + RECOUNT_LOOK_AHEAD) : 0;
}
