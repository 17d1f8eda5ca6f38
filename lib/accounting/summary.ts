import { type ErrorSummary, errorSummary } from "../shared/errors.ts";
import { greatest, least } from "../shared/lists.ts";
import type { CountedMonth } from "./counting/count-month.ts";
import { type LeftOut, leftOutOf } from "./counting/usage.ts";
import { HOUR } from "./model/time.ts";
import { withoutCpu } from "./counting/missing-cpu.ts";
import type { UnitOutcome } from "./publishing/publish.ts";
import { type RunResult, exitCode, runErrors } from "./run.ts";

/** One tenant's month in figures. Times are epoch seconds; hours are not rounded. */
export type TenantMonthSummary = {
  readonly tenant: string;
  readonly month: string;
  readonly jobs: number;
  readonly coreHours: number;
  readonly wallHours: number;
  readonly firstEnd: number | null;
  readonly lastEnd: number | null;
  readonly leftOut: Readonly<Record<LeftOut, number>>;
  /** jobs without measured CPU use; 0 unless the model is wallclock */
  readonly jobsWithoutCpu: number;
  /** settled days, and days that the next run counts again */
  readonly days: { readonly settled: number; readonly open: number };
  /** when monitoring was not seen, epoch seconds */
  readonly gaps: readonly { readonly from: number; readonly to: number }[];
  readonly warnings: readonly string[];
  readonly error: ErrorSummary | null;
};

export type UnitSummary = Omit<UnitOutcome, "unit" | "error" | "status"> &
  UnitOutcome["unit"] & {
    /** a dry run has `would_publish` instead of `published` */
    readonly status: UnitOutcome["status"] | "would_publish";
    readonly error: ErrorSummary | null;
  };

/** The whole result of a run as plain data: what `--json` prints. */
export type RunSummary = {
  readonly now: number;
  readonly months: readonly {
    readonly month: string;
    readonly from: number;
    readonly to: number;
    readonly tenants: readonly TenantMonthSummary[];
    readonly units: readonly UnitSummary[];
  }[];
  readonly asked: { readonly days: number; readonly pieces: number };
  readonly damaged: RunResult["damaged"];
  readonly interrupted: boolean;
  readonly exitCode: number;
};

function tenantMonth(month: CountedMonth): TenantMonthSummary {
  const groups = month.days.flatMap((day) => day.groups);
  const sum = (value: (group: (typeof groups)[number]) => number): number =>
    groups.reduce((total, group) => total + value(group), 0);
  const leftOut = leftOutOf(month.days);
  return {
    tenant: month.tenant.name,
    month: month.period.month,
    jobs: sum((group) => group.jobs),
    coreHours: sum((group) => group.milliCoreSeconds) / (1000 * HOUR),
    wallHours: sum((group) => group.wallSeconds) / HOUR,
    firstEnd: groups.length === 0 ? null : least(groups.map((group) => group.firstEnd)),
    lastEnd: groups.length === 0 ? null : greatest(groups.map((group) => group.lastEnd)),
    leftOut,
    jobsWithoutCpu: withoutCpu([month]).jobs,
    days: {
      settled: month.days.filter((day) => month.settled.has(day.day)).length,
      open: month.days.filter((day) => !month.settled.has(day.day)).length,
    },
    gaps: month.gaps,
    warnings: month.warnings,
    error: month.error === undefined ? null : errorSummary(month.error),
  };
}

function unitSummary({ unit, error, status, ...rest }: UnitOutcome, dryRun: boolean): UnitSummary {
  return {
    ...unit,
    ...rest,
    status: dryRun && status === "published" ? "would_publish" : status,
    error: error === undefined ? null : errorSummary(error),
  };
}

/** A run's result as plain data. */
export function summarise(result: RunResult, dryRun = false): RunSummary {
  return {
    now: result.now,
    months: result.months.map(({ period, counted, units }) => ({
      month: period.month,
      from: period.from,
      to: period.to,
      tenants: counted.map(tenantMonth),
      units: units.map((unit) => unitSummary(unit, dryRun)),
    })),
    asked: {
      days: result.tenants.reduce((sum, { count }) => sum + count.asked.days, 0),
      pieces: result.tenants.reduce((sum, { count }) => sum + count.asked.pieces, 0),
    },
    damaged: result.damaged,
    interrupted: result.interrupted,
    exitCode: exitCode(runErrors(result)),
  };
}
