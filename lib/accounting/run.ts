import pLimit from "p-limit";
import { GridmeterError } from "../shared/errors.ts";
import { greatest, least } from "../shared/lists.ts";
import { type CountedMonth, countedMonth } from "./counting/count-month.ts";
import { type CountOptions, NOT_SEEN, type TenantCount, countTenant } from "./counting/count-tenant.ts";
import { type Damage, Ledger, Checkpoint } from "./counting/ledger.ts";
import { checkOverlap } from "./counting/tenant-overlap.ts";
import { planMonth } from "./counting/month-plan.ts";
import type { Monitoring } from "./model/monitoring.ts";
import { type Tenant, isIndividual } from "./model/tenant.ts";
import { type Period, type Request, addMonths, periods } from "./model/time.ts";
import { isOpen } from "./publishing/decide.ts";
import { type UnitOutcome, publishMonth } from "./publishing/publish.ts";
import { readState, sourceOf } from "./publishing/state.ts";
import type { ObjectStore } from "./store/store.ts";

/** Tenants counted side by side; each connection limits its own queries. */
const TENANTS_AT_ONCE = 2;

export type RunPorts = {
  /** ledger and state */
  readonly store: ObjectStore;
  /** outgoing messages; the same as `store` unless they go elsewhere */
  readonly outbox?: ObjectStore;
  readonly monitoring: (tenant: Tenant) => Monitoring;
};

export type RunOptions = {
  readonly now: number;
  readonly request: Request;
  /** --tenant: only these are counted, and only their units published; the others' figures come from the ledger */
  readonly only?: readonly string[];
  readonly recount: boolean;
  readonly force: boolean;
  readonly allowDecrease: boolean;
  readonly allowIncomplete: boolean;
  readonly stop?: () => boolean;
  /** name of a run that may need several invocations; all of them must give the same `now` */
  readonly run?: string;
  readonly progress?: (tenant: Tenant, done: number, days: number) => void;
};

type MonthResult = {
  readonly period: Period;
  readonly counted: readonly CountedMonth[];
  readonly units: readonly UnitOutcome[];
};

export type RunResult = {
  readonly now: number;
  readonly months: readonly MonthResult[];
  readonly tenants: readonly { readonly tenant: Tenant; readonly count: TenantCount }[];
  /** stored objects that were found damaged, set aside and made anew */
  readonly damaged: readonly Damage[];
  /** stopped before everything was counted (RunOptions.stop); nothing was published then */
  readonly interrupted: boolean;
};

/**
 * One accounting run: counts every tenant's months, then publishes every unit (Site, SubmitHost, month). A fault of one
 * month or tenant never fails another; each is in the result with its error.
 * @throws period_invalid; tenants_overlap; store_failed if the ledger cannot be read at all
 */
export async function runAccounting(
  tenants: readonly Tenant[],
  ports: RunPorts,
  options: RunOptions,
): Promise<RunResult> {
  const { now } = options;
  const auto = options.request.mode === "auto";
  const months = periods(options.request, now);
  const damaged: Damage[] = [];
  const note = (damage: Damage): void => void damaged.push(damage);
  const limit = pLimit(TENANTS_AT_ONCE);
  await refuseOverlap(tenants, ports.monitoring, options.request, now);
  const scratch = options.run === undefined ? undefined : new Checkpoint(ports.store, options.run, note);
  const counts = await Promise.all(
    tenants.map((tenant) =>
      limit(async () => {
        const ledger = new Ledger(ports.store, tenant, note);
        const published = await publishedDays(ports.store, tenant, months, note);
        const countOptions: CountOptions = {
          now,
          auto,
          recount: options.recount,
          allowIncomplete: options.allowIncomplete,
          jobsWanted: (month, day) => isIndividual(tenant) && published.get(month)?.has(day) !== true,
          ...(options.stop === undefined ? {} : { stop: options.stop }),
          ...(scratch === undefined ? {} : { scratch }),
          progress: (done, days) => options.progress?.(tenant, done, days),
        };
        const counted = options.only === undefined || options.only.includes(tenant.name);
        const count = counted
          ? await countTenant(tenant, months, { monitoring: ports.monitoring(tenant), ledger }, countOptions)
          : await fromLedger(tenant, months, ledger, countOptions);
        return { tenant, count };
      }),
    ),
  );
  const interrupted = counts.some(({ count }) => count.interrupted);
  const results: MonthResult[] = [];
  for (const period of months) {
    const counted = counts.flatMap(({ count }) => count.months.filter((month) => month.period.month === period.month));
    const units = interrupted
      ? []
      : await publishMonth({ store: ports.store, outbox: ports.outbox ?? ports.store }, period.month, counted, {
          now,
          force: options.force,
          allowDecrease: options.allowDecrease,
          open: (month) => auto && isOpen(month, now),
          damaged: note,
          ...(options.only === undefined ? {} : { only: options.only }),
        });
    results.push({ period, counted, units });
  }
  if (!interrupted) await scratch?.clear();
  return { now, months: results, tenants: counts, damaged, interrupted };
}

/**
 * Refuses tenants that select the same pods in the months asked for: their jobs would count twice.
 * @throws tenants_overlap; period_invalid; what the monitoring throws
 */
export async function refuseOverlap(
  tenants: readonly Tenant[],
  monitoring: RunPorts["monitoring"],
  request: Request,
  now: number,
): Promise<void> {
  const months = periods(request, now);
  const from = least(months.map((month) => month.from));
  const to = Math.min(now, greatest(months.map((month) => month.to)));
  await checkOverlap(tenants, monitoring, { from, to });
}

/** Days of which the tenant's single jobs are published already, by month. */
async function publishedDays(
  store: ObjectStore,
  tenant: Tenant,
  months: readonly Period[],
  damaged: (damage: Damage) => void,
): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  if (!isIndividual(tenant)) return new Map();
  const byMonth = await Promise.all(
    months.map(async ({ month }): Promise<[string, Set<string>]> => {
      const held = await readState(store, { site: tenant.site, submitHost: tenant.submitHost, month }, damaged);
      return [month, new Set(Object.keys(held?.state?.published?.individual[sourceOf(tenant)] ?? {}))];
    }),
  );
  return new Map(byMonth);
}

/** A tenant that --tenant leaves out: its months as the ledger has them, or an error where days are missing. */
async function fromLedger(
  tenant: Tenant,
  months: readonly Period[],
  ledger: Ledger,
  options: CountOptions,
): Promise<TenantCount> {
  const counted = await Promise.all(
    months.map(async (period): Promise<CountedMonth> => {
      const plan = await planMonth(tenant, period, ledger, {
        ...options,
        recount: false,
        auto: false,
        jobsWanted: () => false,
      });
      const month = { plan, observed: new Map(), fresh: new Map() };
      const before = [...(await ledger.read(addMonths(period.month, -1))).days.values()];
      const known = countedMonth(tenant, month, { ...options, jobsWanted: () => false }, NOT_SEEN, before);
      return plan.needed.length === 0 ? known : { ...known, error: incomplete(tenant, period, plan.needed) };
    }),
  );
  return {
    months: counted,
    asked: { days: 0, pieces: 0 },
    interrupted: false,
  };
}

function incomplete(tenant: Tenant, period: Period, missing: readonly string[]): GridmeterError {
  return new GridmeterError(
    "ledger_incomplete",
    `${tenant.name} shares ${tenant.site} ${tenant.submitHost} but was left out by --tenant, and ${missing.length} of its days of ${period.month} are not settled in the ledger ` +
      `(first: ${missing[0] ?? ""}). Nothing was published for that month, since it would be too low. Run without --tenant.`,
  );
}

/** Every error of a run: of months that could not be counted and of units that were not published. */
export function runErrors(result: RunResult): readonly unknown[] {
  const errors = result.months.flatMap((month) =>
    month.units.flatMap((unit) => (unit.error === undefined ? [] : [unit.error])),
  );
  return [...new Set(errors)];
}

/** The command line's exit code for a run: 0 done, otherwise that of the gravest error (1 unexpected, then 4, 3, 2). */
export function exitCode(errors: readonly unknown[]): 0 | 1 | 2 | 3 | 4 {
  const codes = errors.map((error) => (error instanceof GridmeterError ? error.exit : 1));
  const gravest: readonly (1 | 2 | 3 | 4)[] = [1, 4, 3, 2];
  for (const code of gravest) if (codes.includes(code)) return code;
  return 0;
}
