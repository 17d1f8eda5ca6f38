import { GridmeterError, errorText } from "../errors.ts";
import type { MonthPlan, PlanOptions } from "./count-plan.ts";
import type { CpuSeen } from "./cpu-seen.ts";
import type { CountedDay, JobList } from "./job-list.ts";
import type { Observation } from "./observation.ts";
import type { Period } from "./periods.ts";
import type { Tenant } from "./tenant.ts";
import type { DayUsage } from "./usage.ts";

/** A month this young without any sign of monitoring is not yet judged, seconds. */
const TOO_YOUNG = 3600;

/** One tenant's month, counted. `error` set: it must not be published, though its settled days are in the ledger. */
export type CountedMonth = {
  readonly tenant: Tenant;
  readonly period: Period;
  readonly days: readonly DayUsage[];
  /** days after which nothing changes; only their individual records may be published */
  readonly settled: ReadonlySet<string>;
  /** the single jobs of the days asked for in this run, individual formats only */
  readonly jobs: ReadonlyMap<string, JobList>;
  readonly warnings: readonly string[];
  /** nothing to say yet: the month is minutes old, or lies before ACCOUNTING_SINCE */
  readonly empty: boolean;
  /** where too much measured CPU use is missing: what cAdvisor shows of the day that lacks most of it */
  readonly cpuSeen?: { readonly day: string; readonly seen: CpuSeen };
  readonly error?: unknown;
};

/** What the pieces of a month have brought so far. */
export type OpenMonth = {
  readonly plan: MonthPlan;
  readonly observed: ReadonlyMap<string, Observation>;
  readonly fresh: Map<string, CountedDay & { readonly settled?: boolean }>;
  error?: unknown;
};

/** How long monitoring was not seen of a day, seconds. */
export const gapSeconds = (usage: DayUsage): number => usage.gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0);

/**
 * A tenant's month from what its pieces have brought, with what speaks against publishing it.
 * @param seen all signs of monitoring that were looked for
 */
export function countedMonth(
  tenant: Tenant,
  month: OpenMonth,
  options: { readonly now: number; readonly allowIncomplete: boolean; readonly jobsWanted: PlanOptions["jobsWanted"] },
  seen: readonly number[],
): CountedMonth {
  const { plan, observed, fresh } = month;
  const { period } = plan;
  const days = plan.days.flatMap((day) => fresh.get(day)?.usage ?? plan.known.get(day) ?? []);
  const settled = new Set(
    plan.days.filter(
      (day) => plan.known.has(day) || observed.get(day)?.settled === true || fresh.get(day)?.settled === true,
    ),
  );
  const jobs = new Map([...fresh].map(([day, { jobs: held }]) => [day, held]));
  const noSign =
    days.every((day) => !plan.known.has(day.day)) && !seen.some((cell) => cell > period.from && cell <= period.to);
  const tooYoung = noSign && options.now - period.from < TOO_YOUNG;
  const empty = plan.days.length === 0 || tooYoung;
  const unseen = plan.days.filter((day) => observed.get(day)?.unseen === true && !plan.known.has(day));
  const counts = (usage: DayUsage): number => usage.groups.reduce((sum, group) => sum + group.jobs, 0);
  const lost = days
    .filter((usage) => options.jobsWanted(period.month, usage.day))
    .filter((usage) => counts(usage) > (jobs.get(usage.day)?.length ?? 0))
    .map(({ day }) => day);
  const faults = (): GridmeterError | undefined =>
    notSeen(tenant, period, unseen, noSign) ?? singlesLost(tenant, period, lost);
  const error = month.error ?? (empty || options.allowIncomplete ? undefined : faults());
  const warnings = days
    .filter((day) => day.gaps.length > 0)
    .map(
      (day) =>
        `${tenant.name}: monitoring was not seen for ${Math.round(gapSeconds(day) / 60)} minutes of ${day.day}; jobs that were deleted meanwhile are missing.`,
    );
  if (options.allowIncomplete && unseen.length > 0)
    warnings.push(`${tenant.name}: published without ${unseen.length} unseen days: ${unseen.join(", ")}.`);
  if (options.allowIncomplete && lost.length > 0)
    warnings.push(`${tenant.name}: published without single jobs that are lost, of ${lost.join(", ")}.`);
  return { tenant, period, days, settled, jobs, warnings, empty, ...(error === undefined ? {} : { error }) };
}

function notSeen(
  tenant: Tenant,
  period: Period,
  unseen: readonly string[],
  noSign: boolean,
): GridmeterError | undefined {
  if (unseen.length === 0 && !noSign) return undefined;
  const what =
    unseen.length > 0
      ? `kube-state-metrics was not seen on ${unseen.length} whole days of ${period.month}: ${unseen.join(", ")}; they are not in the ledger either`
      : `there is no sign of kube-state-metrics in ${period.month}`;
  return new GridmeterError(
    "monitoring_not_seen",
    `${tenant.name}: ${what}. The month was not published. If the cluster is younger, set ACCOUNTING_SINCE; if the days are lost for good ` +
      "(outage, retention), publish what there is with --allow-incomplete; if monitoring has another job name, set MONITORING_SELECTOR.",
  );
}

/** The ledger knows of jobs that were never published one by one, and Prometheus has them no more. */
function singlesLost(tenant: Tenant, period: Period, lost: readonly string[]): GridmeterError | undefined {
  if (lost.length === 0) return undefined;
  return new GridmeterError(
    "monitoring_not_seen",
    `${tenant.name}: the ledger counts jobs on ${lost.length} days of ${period.month} (${lost.join(", ")}) that were not yet published as ${tenant.format} ` +
      "and are not all in Prometheus any more. The month was not published, since it would be too low. Keep a summary format for this month, or publish " +
      "the jobs that are left with --allow-incomplete.",
  );
}

/** The text of a counted month's error. */
export function monthError(month: CountedMonth): string | undefined {
  return month.error === undefined ? undefined : errorText(month.error);
}
