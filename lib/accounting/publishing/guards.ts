import { GridmeterError } from "../../shared/errors.ts";
import type { CountedMonth } from "../counting/count-month.ts";
import { type Tenant, type Unit, isIndividual, unitName, voOf } from "../model/tenant.ts";
import type { Damage } from "../store/json.ts";
import type { ObjectStore } from "../store/store.ts";
import { type Figure, type UnitState, readStates, sourceOf } from "./state.ts";

type Amount = { readonly jobs: number; readonly milliCoreSeconds: number };

/** A (tenant, VO) that would go down. */
export type Decrease = { readonly tenant: string; readonly vo: string; readonly was: Amount; readonly now: Amount };

/** A configured tenant and, if its month could be counted, its figures by VO. */
type CountedTenant = { readonly tenant: Tenant; readonly figures: readonly Figure[] | undefined };

export const unitKey = (unit: Unit): string => JSON.stringify([unit.site, unit.submitHost, unit.month]);

/** What was last decided: a reserved publication may have been written before its run was killed. */
const baseline = (state: UnitState): readonly Figure[] => (state.pending ?? state.published)?.figures ?? [];

/** What APEL may hold: the run that reserved a publication may just as well have been killed before it wrote a message. */
const publishedFigures = ({ pending, published }: UnitState): readonly Figure[] => [
  ...(published?.figures ?? []),
  ...(pending?.figures ?? []),
];

const isNothing = (figure: Figure): boolean => figure.jobs === 0 && figure.milliCoreSeconds === 0;

/** The tenant that now counts what a published figure counted: the same pods under whatever name, else the same name. */
function ownerOf(figure: Figure, tenants: readonly CountedTenant[]): CountedTenant | undefined {
  return (
    tenants.find(({ tenant }) => sourceOf(tenant) === figure.source) ??
    tenants.find(({ tenant }) => tenant.name === figure.tenant)
  );
}

export type Move = { readonly tenant: string; readonly from: Unit; readonly to: Unit };

/** What the published figures of a month mean for this run. Keys are `unitKey`s. */
export type GuardReport = {
  /** by the unit in which they were published */
  readonly decreases: ReadonlyMap<string, readonly Decrease[]>;
  /** units of no configured tenant any more whose tenants moved to another unit: they are to be zeroed */
  readonly left: readonly Unit[];
  /** tenants whose figures are in one unit and belong in another: both are published, or neither */
  readonly moves: readonly Move[];
};

/**
 * Compares a month's published figures with the new ones, per (tenant, VO), over all units: a tenant that moved to
 * another site or submit host has not gone down, but its old unit must be zeroed in the same run. Units without any
 * configured tenant are left alone: they are another configuration's.
 * @param current the unit in which each configured tenant publishes this month
 */
export function guard(
  states: readonly UnitState[],
  tenants: readonly CountedTenant[],
  current: (tenant: Tenant) => Unit,
): GuardReport {
  const decreases = new Map<string, Decrease[]>();
  const left = new Map<string, Unit>();
  const moves: Move[] = [];
  const configured = new Set(tenants.map(({ tenant }) => unitKey(current(tenant))));
  for (const state of states) {
    const key = unitKey(state.unit);
    for (const figure of publishedFigures(state)) {
      const owner = isNothing(figure) ? undefined : ownerOf(figure, tenants);
      if (owner === undefined || unitKey(current(owner.tenant)) === key) continue;
      left.set(key, state.unit);
      moves.push({ tenant: owner.tenant.name, from: state.unit, to: current(owner.tenant) });
    }
    for (const figure of baseline(state)) {
      if (isNothing(figure)) continue;
      const owner = ownerOf(figure, tenants);
      if (owner === undefined && !configured.has(key)) continue;
      if (owner !== undefined && owner.figures === undefined) continue;
      // What was published under a label that APEL reads as nothing counts under VO_NAME now.
      const vo = owner === undefined ? figure.vo : voOf(figure.vo, owner.tenant);
      const now = sum(owner?.figures?.filter((each) => each.vo === vo) ?? []);
      if (now.jobs >= figure.jobs && now.milliCoreSeconds >= figure.milliCoreSeconds) continue;
      decreases.set(key, [...(decreases.get(key) ?? []), { tenant: figure.tenant, vo: figure.vo, was: figure, now }]);
    }
  }
  // A unit that is left but holds somebody unknown too: zeroing it would take that away, so it counts as going down.
  for (const state of states) {
    const key = unitKey(state.unit);
    if (!left.has(key) || configured.has(key)) continue;
    for (const figure of baseline(state).filter((each) => each.jobs > 0 && ownerOf(each, tenants) === undefined)) {
      decreases.set(key, [
        ...(decreases.get(key) ?? []),
        { tenant: figure.tenant, vo: figure.vo, was: figure, now: { jobs: 0, milliCoreSeconds: 0 } },
      ]);
    }
  }
  return {
    decreases,
    left: [...left.entries()].filter(([key]) => !configured.has(key)).map(([, unit]) => unit),
    moves,
  };
}

/** A unit under which APEL has single jobs of a source, or may have them. */
type PublishedJobRecords = { readonly source: string; readonly unit: Unit };

function publishedJobRecords(states: readonly UnitState[]): readonly PublishedJobRecords[] {
  return states.flatMap(({ unit, published, pending }) =>
    [published, pending].flatMap((publication) =>
      Object.entries(publication?.individual ?? {})
        .filter(([, days]) => Object.values(days).some((jobs) => jobs > 0))
        .map(([source]) => ({ source, unit })),
    ),
  );
}

/**
 * Single jobs cannot be taken back: APEL has no tombstone for them. So a site that has some of a month cannot publish
 * summaries of it (APEL: mixing kinds for one site and month counts double), and a source that has some cannot move to
 * another site (APEL keys jobs by site). Another submit host is fine, since it is no part of their key.
 * @param months the unit's counted tenants; @param states all units of the month
 */
export function jobRecordsFault(
  unit: Unit,
  months: readonly CountedMonth[],
  states: readonly UnitState[],
): GridmeterError | undefined {
  const name = unitName(unit);
  const jobRecords = publishedJobRecords(states);
  for (const { tenant, days } of months) {
    if (days.every((day) => day.groups.length === 0)) continue;
    const elsewhere = jobRecords.find(
      ({ source, unit: { site } }) => source === sourceOf(tenant) && site !== unit.site,
    );
    if (isIndividual(tenant)) {
      if (elsewhere === undefined) continue;
      return new GridmeterError(
        "moved_tenant_refused",
        `${name}: single jobs of tenant ${tenant.name} are published for this month under the site ${elsewhere.unit.site} and cannot be taken back; ` +
          `under ${unit.site} they would count twice. Nothing was published for it. Keep the old site for this month and change it for the next.`,
      );
    }
    const found = elsewhere ?? jobRecords.find(({ unit: { site } }) => site === unit.site);
    if (found === undefined) continue;
    return new GridmeterError(
      "format_refused",
      `${name}: individual records of this month are published already (of ${found.source.trim()}); a ${tenant.format} ` +
        "message would make APEL count the jobs twice. Nothing was published for it. Keep the individual format for this month and change it for the next.",
    );
  }
  return undefined;
}

/**
 * The tenants that must be counted to publish a unit: its own, and those of units tied to it by a tenant that moved
 * between them. Units tied together are published all or none, and days that are not settled are in no ledger.
 * @throws GridmeterError `store_failed`
 */
export async function tiedTenants(
  unit: Unit,
  tenants: readonly Tenant[],
  store: ObjectStore,
  damaged: (damage: Damage) => void,
): Promise<readonly string[]> {
  const unitOf = ({ site, submitHost }: Tenant): Unit => ({ site, submitHost, month: unit.month });
  const states = (await readStates(store, unit.month, damaged)).map(({ state }) => state);
  const uncounted = tenants.map((tenant) => ({ tenant, figures: undefined }));
  const { moves } = guard(states, uncounted, unitOf);
  const tied = new Set([unitKey(unit)]);
  for (let before = 0; before !== tied.size;) {
    before = tied.size;
    for (const { from, to } of moves) {
      if (tied.has(unitKey(from)) || tied.has(unitKey(to))) tied.add(unitKey(from)).add(unitKey(to));
    }
  }
  return tenants.filter((tenant) => tied.has(unitKey(unitOf(tenant)))).map(({ name }) => name);
}

function sum(figures: readonly Figure[]): Amount {
  return figures.reduce<Amount>(
    (total, each) => ({
      jobs: total.jobs + each.jobs,
      milliCoreSeconds: total.milliCoreSeconds + each.milliCoreSeconds,
    }),
    { jobs: 0, milliCoreSeconds: 0 },
  );
}
