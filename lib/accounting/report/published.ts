import { voOf } from "../model/tenant.ts";
import { DAY, endOfMonth, startOf } from "../model/time.ts";
import { type UnitState, sourceOf } from "../publishing/state.ts";
import { coreHoursOf } from "./amounts.ts";
import type { LedgerMonth, ReportInput } from "./read.ts";

/** What the ledger has of a (unit, tenant, VO) against what was last published of it. Null: was not published. */
export type PublishedRow = {
  readonly month: string;
  readonly site: string;
  readonly submitHost: string;
  readonly tenant: string;
  readonly vo: string;
  readonly countedJobs: number;
  readonly publishedJobs: number | null;
  readonly countedCoreHours: number;
  readonly publishedCoreHours: number | null;
  readonly comparison: Comparison;
};

/**
 * - `equal`: the ledger has what was published
 * - `not published`: nothing was published of it yet
 * - `open days`: more was published, and days of the month are not in the ledger, so they were published before they settled
 * - `published less`: the next run publishes more
 * - `published more`: the month is whole in the ledger and lower than what was published, which `account` would refuse
 * - `other settings`: no configured tenant counts what was published
 */
export type Comparison =
  | "equal"
  | "not published"
  | "open days"
  | "published less"
  | "published more"
  | "other settings";

/** What is known of a unit: the generations given to it, and what was published last. Times are epoch seconds. */
export type UnitRow = {
  readonly month: string;
  readonly site: string;
  readonly submitHost: string;
  readonly generation: number;
  readonly publishedGeneration: number | null;
  readonly publishedAt: number | null;
  /** monthly rows that APEL holds because of it, tombstones included */
  readonly records: number;
  /** NumberOfJobs of the sync record; null if none was sent */
  readonly syncJobs: number | null;
  /** hand-written records that pin the unit */
  readonly pins: number;
};

type Amount = { readonly jobs: number; readonly milliCoreSeconds: number };
type Entry = {
  readonly row: Pick<PublishedRow, "month" | "site" | "submitHost" | "tenant" | "vo">;
  readonly isConfigured: boolean;
  counted?: Amount;
  published?: Amount;
};

/** Counted against published, by month, unit, tenant and VO. */
export function publishedRows({ ledger, states, months, now }: ReportInput): readonly PublishedRow[] {
  const entries = new Map<string, Entry>();
  const entry = (row: Entry["row"], source: string, isConfigured: boolean): Entry => {
    const key = JSON.stringify([row.month, row.site, row.submitHost, source, row.vo]);
    const held = entries.get(key) ?? { row, isConfigured };
    entries.set(key, held);
    return held;
  };
  for (const { tenant, month, days } of ledger) {
    for (const { groups } of days) {
      for (const group of groups) {
        const row = {
          month,
          site: tenant.site,
          submitHost: tenant.submitHost,
          tenant: tenant.name,
          vo: voOf(group.vo, tenant),
        };
        const held = entry(row, sourceOf(tenant), true);
        held.counted = added(held.counted, group);
      }
    }
  }
  for (const { unit, published } of states) {
    for (const figure of months.includes(unit.month) ? (published?.figures ?? []) : []) {
      const owner = ledger.find(({ tenant }) => sourceOf(tenant) === figure.source)?.tenant;
      const row = { ...unit, tenant: owner?.name ?? figure.tenant, vo: figure.vo };
      const held = entry(row, figure.source, owner !== undefined);
      held.published = added(held.published, figure);
    }
  }
  return [...entries].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, each]) => rowOf(each, isWhole(each, ledger, now)));
}

function added(sum: Amount | undefined, more: Amount): Amount {
  return {
    jobs: (sum?.jobs ?? 0) + more.jobs,
    milliCoreSeconds: (sum?.milliCoreSeconds ?? 0) + more.milliCoreSeconds,
  };
}

/** Whether every day of the tenant's month that has begun is in the ledger, and the month has ended. */
function isWhole({ row }: Entry, ledger: readonly LedgerMonth[], now: number): boolean {
  const held = ledger.find(({ tenant, month }) => tenant.name === row.tenant && month === row.month);
  if (held === undefined || now < endOfMonth(row.month)) return false;
  const { since } = held.tenant;
  const from = Math.max(startOf(row.month), since === undefined ? 0 : startOf(since));
  return held.days.length >= (endOfMonth(row.month) - from) / DAY;
}

function rowOf({ row, counted, published, isConfigured }: Entry, whole: boolean): PublishedRow {
  const now = counted ?? { jobs: 0, milliCoreSeconds: 0 };
  return {
    ...row,
    countedJobs: now.jobs,
    publishedJobs: published?.jobs ?? null,
    countedCoreHours: coreHoursOf(now.milliCoreSeconds),
    publishedCoreHours: published === undefined ? null : coreHoursOf(published.milliCoreSeconds),
    comparison: isConfigured ? compared(now, published, whole) : "other settings",
  };
}

function compared(counted: Amount, published: Amount | undefined, whole: boolean): Comparison {
  if (published === undefined) return "not published";
  const { jobs, milliCoreSeconds } = published;
  if (jobs === counted.jobs && milliCoreSeconds === counted.milliCoreSeconds) return "equal";
  if (jobs <= counted.jobs && milliCoreSeconds <= counted.milliCoreSeconds) return "published less";
  return whole ? "published more" : "open days";
}

/** The units of the months that were ever published or pinned. */
export function unitRows({ states, months }: ReportInput): readonly UnitRow[] {
  return states
    .filter(({ unit }) => months.includes(unit.month))
    .map(unitRow)
    .sort((a, b) => (unitOrder(a) < unitOrder(b) ? -1 : 1));
}

const unitOrder = ({ month, site, submitHost }: UnitRow): string => JSON.stringify([month, site, submitHost]);

function unitRow({ unit, generation, published, pins }: UnitState): UnitRow {
  return {
    month: unit.month,
    site: unit.site,
    submitHost: unit.submitHost,
    generation,
    publishedGeneration: published?.generation ?? null,
    publishedAt: published?.at ?? null,
    records: published?.records.length ?? 0,
    syncJobs: published?.sync ?? null,
    pins: pins.length,
  };
}
