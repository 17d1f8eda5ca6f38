import { LEFT_OUT, type LeftOut, leftOutOf } from "../counting/usage.ts";
import { joined } from "../model/gaps.ts";
import { voOf } from "../model/tenant.ts";
import { DAY, HOUR, endOfMonth, startOf } from "../model/time.ts";
import { Sum, type Usage, percent, rounded } from "./amounts.ts";
import { type PublishedRow, type UnitRow, publishedRows, unitRows } from "./published.ts";
import type { LedgerMonth, ReportInput } from "./read.ts";

type Shared = Usage & { readonly share: number | null };

/** The figures of a report. Times are epoch seconds; hours and percentages have one decimal. */
export type Report = {
  readonly now: number;
  readonly sites: readonly string[];
  readonly months: readonly string[];
  readonly totals: Usage & { readonly leftOut: number; readonly gapHours: number };
  /** share: of the core hours of all, percent */
  readonly tenants: readonly (Shared & { readonly tenant: string; readonly site: string })[];
  readonly vos: readonly (Shared & { readonly vo: string })[];
  readonly monthly: readonly (Usage & { readonly month: string; readonly tenant: string; readonly vo: string })[];
  /** whole months; `days` are those in the ledger, of all tenants' days that have begun */
  readonly byMonth: readonly (Usage & { readonly month: string; readonly days: number; readonly daysOf: number })[];
  /** days with jobs */
  readonly byDay: readonly (Usage & { readonly day: string })[];
  readonly daily: readonly (Usage & { readonly day: string; readonly tenant: string; readonly vo: string })[];
  readonly leftOut: readonly {
    readonly month: string;
    readonly tenant: string;
    readonly reason: LeftOut;
    readonly pods: number;
  }[];
  readonly gaps: readonly {
    readonly tenant: string;
    readonly from: number;
    readonly to: number;
    readonly hours: number;
  }[];
  readonly published: readonly PublishedRow[];
  readonly units: readonly UnitRow[];
  /** what a reader must know, sentence by sentence */
  readonly notes: readonly string[];
};

/** Makes the figures of what was read: settled days only, as nothing else is in the ledger. */
export function makeReport(input: ReportInput): Report {
  const { now, months, tenants, ledger } = input;
  const total = sumOf(ledger);
  const gaps = gapRows(ledger);
  const leftOut = leftOutRows(ledger);
  const byTenant = grouped(ledger, ({ tenant }) => [tenant.name]);
  const byVo = grouped(ledger, (_month, vo) => [vo]);
  const shared = (sum: Sum): Shared => ({
    ...sum.usage(),
    share: percent(sum.milliCoreSeconds, total.milliCoreSeconds),
  });
  const largestFirst = ([, a]: readonly [unknown, Sum], [, b]: readonly [unknown, Sum]): number =>
    b.milliCoreSeconds - a.milliCoreSeconds;
  return {
    now,
    sites: [...new Set(tenants.map(({ site }) => site))].sort(),
    months,
    totals: {
      ...total.usage(),
      leftOut: leftOut.reduce((sum, { pods }) => sum + pods, 0),
      gapHours: rounded(gaps.reduce((sum, { from, to }) => sum + to - from, 0) / HOUR),
    },
    tenants: byTenant.toSorted(largestFirst).map(([[tenant = ""], sum]) => ({
      tenant,
      site: tenants.find(({ name }) => name === tenant)?.site ?? "",
      ...shared(sum),
    })),
    vos: byVo.toSorted(largestFirst).map(([[vo = ""], sum]) => ({ vo, ...shared(sum) })),
    monthly: grouped(ledger, (each, vo) => [each.month, each.tenant.name, vo]).map(
      ([[month = "", tenant = "", vo = ""], sum]) => ({ month, tenant, vo, ...sum.usage() }),
    ),
    byMonth: months.map((month) => monthRow(month, input)),
    byDay: grouped(ledger, (_month, _vo, day) => [day]).map(([[day = ""], sum]) => ({ day, ...sum.usage() })),
    daily: grouped(ledger, (each, vo, day) => [day, each.tenant.name, vo]).map(
      ([[day = "", tenant = "", vo = ""], sum]) => ({ day, tenant, vo, ...sum.usage() }),
    ),
    leftOut,
    gaps,
    published: publishedRows(input),
    units: unitRows(input),
    notes: notesOf(input),
  };
}

/** Sums by the parts of a key, in the order of the keys. */
function grouped(
  ledger: readonly LedgerMonth[],
  keyOf: (month: LedgerMonth, vo: string, day: string) => readonly string[],
): readonly (readonly [key: readonly string[], sum: Sum])[] {
  const sums = new Map<string, readonly [readonly string[], Sum]>();
  for (const month of ledger) {
    for (const { day, groups } of month.days) {
      for (const group of groups) {
        const parts = keyOf(month, voOf(group.vo, month.tenant), day);
        const key = JSON.stringify(parts);
        const held = sums.get(key) ?? ([parts, new Sum()] as const);
        held[1].add(group, month.tenant);
        sums.set(key, held);
      }
    }
  }
  return [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, held]) => held);
}

function sumOf(ledger: readonly LedgerMonth[]): Sum {
  return grouped(ledger, () => [])[0]?.[1] ?? new Sum();
}

function monthRow(month: string, { ledger, tenants, now }: ReportInput): Report["byMonth"][number] {
  const own = ledger.filter((each) => each.month === month);
  const begun = (since: string | undefined): number => {
    const from = Math.max(startOf(month), since === undefined ? 0 : startOf(since));
    return Math.max(0, Math.ceil((Math.min(endOfMonth(month), now) - from) / DAY));
  };
  return {
    month,
    days: own.reduce((sum, { days }) => sum + days.length, 0),
    daysOf: tenants.reduce((sum, { since }) => sum + begun(since), 0),
    ...sumOf(own).usage(),
  };
}

function leftOutRows(ledger: readonly LedgerMonth[]): Report["leftOut"] {
  return ledger.flatMap(({ month, tenant, days }) => {
    const counts = leftOutOf(days);
    return LEFT_OUT.filter((reason) => counts[reason] > 0).map((reason) => ({
      month,
      tenant: tenant.name,
      reason,
      pods: counts[reason],
    }));
  });
}

/** Stretches that touch at midnight are one gap. */
function gapRows(ledger: readonly LedgerMonth[]): Report["gaps"] {
  const names = [...new Set(ledger.map(({ tenant }) => tenant.name))];
  return names.flatMap((name) => {
    const own = ledger.filter(({ tenant }) => tenant.name === name);
    const stretches = joined(own.flatMap(({ days }) => days.flatMap(({ gaps }) => gaps)));
    return stretches.map(({ from, to }) => ({ tenant: name, from, to, hours: rounded((to - from) / HOUR) }));
  });
}

function notesOf({ ledger, unknown, tenants }: ReportInput): readonly string[] {
  const older = ledger.reduce((sum, each) => sum + each.older, 0);
  const types = new Set(tenants.map(({ serviceLevel }) => serviceLevel?.type));
  const notes = [
    "Only settled days are in the ledger; the last days of the current month follow when they have settled.",
  ];
  if (!types.has(undefined) || types.size > 1)
    notes.push("Normalised hours are core hours times the benchmark that is configured now, in all months.");
  if (older > 0)
    notes.push(`${older} days were counted under older rules, since Prometheus did not have them any more.`);
  if (unknown.length > 0)
    notes.push(
      `The ledger also has tenants that are not configured, and their usage is not shown: ${unknown.join(", ")}.`,
    );
  return notes;
}
