import type { Sighting, Window } from "../model/monitoring.ts";
import type { Tenant } from "../model/tenant.ts";
import { HOUR } from "../model/time.ts";
import { type Period } from "../model/periods.ts";
import type { CpuSeen } from "./cadvisor.ts";
import type { JobList } from "./jobs.ts";
import { type Findings, comparedWith, gapsOf, refusalOf, warningsOf } from "./month-faults.ts";
import type { PlanOptions } from "./month-plan.ts";
import { type OpenMonth, daysOf } from "./month-in-progress.ts";
import { type DayUsage, jobsOf } from "./usage.ts";

/** A month without any sign of monitoring is not judged before it is this old, seconds. */
const TOO_YOUNG = HOUR;

/** One tenant's month, counted. Where there is an `error` it is not published, though its settled days are in the ledger. */
export type CountedMonth = {
  readonly tenant: Tenant;
  readonly period: Period;
  readonly days: readonly DayUsage[];
  /** days that nothing can change any more; job records of other days are not published */
  readonly settled: ReadonlySet<string>;
  /** for job records: the jobs of the days that were asked for in this run */
  readonly jobs: ReadonlyMap<string, JobList>;
  readonly warnings: readonly string[];
  /** when monitoring was not seen in the month, ascending */
  readonly gaps: readonly Window[];
  /** there is nothing to publish yet: the month is minutes old, or lies before ACCOUNTING_SINCE */
  readonly empty: boolean;
  /** where too much measured CPU use is missing: what cAdvisor shows of the day that lacks most of it */
  readonly cpuSeen?: { readonly day: string; readonly seen: CpuSeen };
  readonly error?: unknown;
};

type MonthOptions = {
  readonly now: number;
  readonly allowIncomplete: boolean;
  readonly jobsWanted: PlanOptions["jobsWanted"];
};

/**
 * A tenant's month after its last piece, with the reason why it must not be published, if there is one, and its warnings.
 * @param sighting when monitoring was seen in all of the run
 * @param daysBefore the days of the month before; read only where they matter
 */
export async function countedMonth(
  tenant: Tenant,
  month: OpenMonth,
  { now, allowIncomplete, jobsWanted }: MonthOptions,
  sighting: Sighting,
  daysBefore: () => Promise<readonly DayUsage[]>,
): Promise<CountedMonth> {
  const { plan, fresh } = month;
  const { period } = plan;
  const days = daysOf(month);
  const settled = settledDays(month);
  const jobs = new Map([...fresh].map(([day, { jobs: held }]) => [day, held]));
  const isUnseen = !hasSign(month, days, sighting);
  const empty = plan.days.length === 0 || (isUnseen && now - period.from < TOO_YOUNG);
  const findings: Findings = {
    tenant,
    month,
    days,
    isUnseen,
    unseenDays: plan.days.filter((day) => month.observed.get(day)?.unseen === true && !plan.known.has(day)),
    lostJobs: days
      .filter((usage) => jobsWanted(period.month, usage.day))
      .filter((usage) => jobsOf(usage) > (jobs.get(usage.day)?.length ?? 0))
      .map(({ day }) => day),
    comparison: await comparedWith(daysBefore, tenant, period, days, settled.size),
  };
  const error = month.error ?? (empty || allowIncomplete ? undefined : refusalOf(findings));
  const warnings = warningsOf(findings, sighting.upOnly, allowIncomplete);
  const gaps = gapsOf(findings);
  return { tenant, period, days, settled, jobs, warnings, gaps, empty, ...(error === undefined ? {} : { error }) };
}

function settledDays({ plan, observed, fresh }: OpenMonth): ReadonlySet<string> {
  const isSettled = (day: string): boolean =>
    plan.known.has(day) || observed.get(day)?.settled === true || fresh.get(day)?.settled === true;
  return new Set(plan.days.filter(isSettled));
}

/** Whether monitoring was seen in the month at all, now or when a day of the ledger was counted. */
function hasSign({ plan }: OpenMonth, days: readonly DayUsage[], { cells }: Sighting): boolean {
  const { from, to } = plan.period;
  return days.some(({ day }) => plan.known.has(day)) || cells.some((cell) => cell > from && cell <= to);
}
