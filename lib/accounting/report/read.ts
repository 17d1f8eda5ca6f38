import pLimit from "p-limit";
import { Ledger } from "../counting/ledger.ts";
import type { DayUsage } from "../counting/usage.ts";
import type { Tenant } from "../model/tenant.ts";
import { addMonths, monthOf, startOf } from "../model/time.ts";
import { type UnitState, readStates } from "../publishing/state.ts";
import type { Damage } from "../store/json.ts";
import { type ObjectStore, readSegment } from "../store/store.ts";

/** Months of tenants that are read at the same time; each is up to 31 objects. */
const MONTHS_AT_ONCE = 4;
/** How many months a report covers unless it is told otherwise, the current one included. */
export const USUAL_MONTHS = 12;

/** What the ledger has of one tenant's month. */
export type LedgerMonth = {
  readonly tenant: Tenant;
  readonly month: string;
  /** ascending */
  readonly days: readonly DayUsage[];
  /** how many of the days were counted under older rules */
  readonly older: number;
};

/** All that a report is made of. */
export type ReportInput = {
  /** epoch seconds */
  readonly now: number;
  /** ascending, without a gap */
  readonly months: readonly string[];
  readonly tenants: readonly Tenant[];
  readonly ledger: readonly LedgerMonth[];
  readonly states: readonly UnitState[];
  /** names of tenants that the ledger has and the settings do not */
  readonly unknown: readonly string[];
};

/** The months of a report, ascending; both ends are included. @param range `yyyy-mm`; by default the last twelve months */
export function reportMonths(
  now: number,
  range: { readonly from?: string | undefined; readonly to?: string | undefined } = {},
): readonly string[] {
  const last = range.to ?? monthOf(now);
  const first = range.from ?? addMonths(last, 1 - USUAL_MONTHS);
  const months: string[] = [];
  for (let month = first; month <= last; month = addMonths(month, 1)) months.push(month);
  return months;
}

/**
 * Reads what the ledger and the states have of the months. Prometheus is not asked. Days that were counted under other settings are
 * left out, as `account` leaves them out; months at the beginning of which there is nothing are dropped, unless `keepAll`.
 * @throws GridmeterError `store_failed`
 */
export async function readReport(
  tenants: readonly Tenant[],
  store: ObjectStore,
  options: {
    readonly now: number;
    readonly months: readonly string[];
    readonly keepAll: boolean;
    readonly damaged: (damage: Damage) => void;
  },
): Promise<ReportInput> {
  const { now, months, damaged } = options;
  const limit = pLimit(MONTHS_AT_ONCE);
  const wanted = months.flatMap((month) => tenants.map((tenant) => ({ tenant, month })));
  const [ledger, states, unknown] = await Promise.all([
    Promise.all(wanted.map((each) => limit(() => ledgerMonth(each.tenant, each.month, store, damaged)))),
    Promise.all(months.map((month) => limit(() => readStates(store, month, damaged)))),
    unknownTenants(store, tenants),
  ]);
  const held = states.flat().map(({ state }) => state);
  const filled = new Set([
    ...ledger.filter(({ days }) => days.length > 0).map(({ month }) => month),
    ...held.map(({ unit }) => unit.month),
  ]);
  const first = months.findIndex((month) => filled.has(month));
  const shown = options.keepAll || first < 0 ? months : months.slice(first);
  return {
    now,
    months: shown,
    tenants,
    ledger: ledger.filter(({ month }) => shown.includes(month)),
    states: held,
    unknown,
  };
}

async function ledgerMonth(
  tenant: Tenant,
  month: string,
  store: ObjectStore,
  damaged: (damage: Damage) => void,
): Promise<LedgerMonth> {
  const { days, older } = await new Ledger(store, tenant, damaged).read(month);
  const ascending = [...days.values()].sort((a, b) => startOf(a.day) - startOf(b.day));
  return { tenant, month, days: ascending, older: older.size };
}

async function unknownTenants(store: ObjectStore, tenants: readonly Tenant[]): Promise<readonly string[]> {
  const names = new Set<string>();
  for (const key of await store.list("ledger/")) names.add(readSegment(key.split("/")[1] ?? "") ?? "");
  for (const { name } of tenants) names.delete(name);
  return [...names].sort();
}
