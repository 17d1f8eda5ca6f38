import pLimit from "p-limit";
import { GridmeterError } from "../shared/errors.ts";
import { Checkpoint } from "./counting/checkpoint.ts";
import type { CountedMonth } from "./counting/count-month.ts";
import { type TenantCount, countTenant, readTenant } from "./counting/count-tenant.ts";
import { Ledger } from "./counting/ledger.ts";
import { refuseOverlap } from "./counting/tenant-overlap.ts";
import type { Monitoring } from "./model/monitoring.ts";
import { type Tenant, isIndividual } from "./model/tenant.ts";
import { type Period, type Request, periods } from "./model/periods.ts";
import { isOpen } from "./model/periods.ts";
import { type UnitOutcome, publishMonth } from "./publishing/publish.ts";
import { readState, sourceOf } from "./publishing/state.ts";
import type { Damage } from "./store/json.ts";
import type { ObjectStore } from "./store/store.ts";

/** Tenants that are counted at the same time; each connection limits its own queries. */
const TENANTS_AT_ONCE = 2;

export type RunPorts = {
  /** ledger and state */
  readonly store: ObjectStore;
  /** outgoing messages; absent: `store` */
  readonly outbox?: ObjectStore;
  readonly monitoring: (tenant: Tenant) => Monitoring;
};

export type RunOptions = {
  readonly now: number;
  readonly request: Request;
  /** --tenant: only these are counted, and only their units are published; the figures of the others come from the ledger */
  readonly only?: readonly string[];
  readonly recount: boolean;
  readonly force: boolean;
  readonly allowDecrease: boolean;
  readonly allowIncomplete: boolean;
  /** asked before each piece but the first: true ends the counting */
  readonly stop?: () => boolean;
  /** the name of a run that may need several invocations; all of them must give the same `now` */
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
  /** stored objects that were damaged: a copy was set aside, and they are written again */
  readonly damaged: readonly Damage[];
  /** stopped before everything was counted (`RunOptions.stop`); nothing was published then */
  readonly interrupted: boolean;
};

/**
 * One accounting run: counts the months of every tenant, then publishes every unit (Site, SubmitHost, month). A fault of one
 * month or tenant does not fail another: it is in the result as an error.
 * @throws period_invalid; tenants_overlap; store_failed if the ledger cannot be read at all
 */
export async function runAccounting(
  tenants: readonly Tenant[],
  ports: RunPorts,
  options: RunOptions,
): Promise<RunResult> {
  const { now, request, run } = options;
  const months = periods(request, now);
  const damaged: Damage[] = [];
  const note = (damage: Damage): void => void damaged.push(damage);
  await refuseOverlap(tenants, ports.monitoring, request, now);
  const checkpoint = run === undefined ? undefined : new Checkpoint(ports.store, run, note);
  const limit = pLimit(TENANTS_AT_ONCE);
  const counts = await Promise.all(
    tenants.map((tenant) =>
      limit(async () => ({ tenant, count: await countOrRead(tenant, months, ports, options, checkpoint, note) })),
    ),
  );
  const interrupted = counts.some(({ count }) => count.interrupted);
  const results: MonthResult[] = [];
  for (const period of months) {
    const counted = counts.flatMap(({ count }) => count.months.filter((month) => month.period.month === period.month));
    const units = interrupted ? [] : await publish(period.month, counted, ports, options, note);
    results.push({ period, counted, units });
  }
  if (!interrupted) await checkpoint?.clear();
  return { now, months: results, tenants: counts, damaged, interrupted };
}

/** Counts a tenant, or reads what the ledger has of it if --tenant leaves it out. */
async function countOrRead(
  tenant: Tenant,
  months: readonly Period[],
  { store, monitoring }: RunPorts,
  { now, request, recount, allowIncomplete, only, stop, progress }: RunOptions,
  checkpoint: Checkpoint | undefined,
  damaged: (damage: Damage) => void,
): Promise<TenantCount> {
  const ledger = new Ledger(store, tenant, damaged);
  const published = await publishedDays(store, tenant, months, damaged);
  const options = {
    now,
    auto: request.mode === "auto",
    recount,
    allowIncomplete,
    jobsWanted: (month: string, day: string) => isIndividual(tenant) && published.get(month)?.has(day) !== true,
    ...(stop === undefined ? {} : { stop }),
    ...(checkpoint === undefined ? {} : { checkpoint }),
    progress: (done: number, days: number) => progress?.(tenant, done, days),
  };
  if (only !== undefined && !only.includes(tenant.name)) return readTenant(tenant, months, ledger, options);
  return countTenant(tenant, months, { monitoring: monitoring(tenant), ledger }, options);
}

/** The days of which a tenant's job records are published already, by month. */
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

/** Publishes the units of a month. */
function publish(
  month: string,
  counted: readonly CountedMonth[],
  { store, outbox = store }: RunPorts,
  { now, request, force, allowDecrease, only }: RunOptions,
  damaged: (damage: Damage) => void,
): Promise<readonly UnitOutcome[]> {
  return publishMonth({ store, outbox }, month, counted, {
    now,
    force,
    allowDecrease,
    open: (each) => request.mode === "auto" && isOpen(each, now),
    damaged,
    ...(only === undefined ? {} : { only }),
  });
}

/** Every error of a run, once each: why months could not be counted and units were not published. */
export function runErrors(result: RunResult): readonly unknown[] {
  const errors = result.months.flatMap((month) =>
    month.units.flatMap((unit) => (unit.error === undefined ? [] : [unit.error])),
  );
  return [...new Set(errors)];
}

/** The command line's exit code: 0 without errors, else that of the gravest error (1 unexpected, then 4, 3, 2). */
export function exitCode(errors: readonly unknown[]): 0 | 1 | 2 | 3 | 4 {
  const codes = errors.map((error) => (error instanceof GridmeterError ? error.exit : 1));
  const gravest: readonly (1 | 2 | 3 | 4)[] = [1, 4, 3, 2];
  for (const code of gravest) if (codes.includes(code)) return code;
  return 0;
}
