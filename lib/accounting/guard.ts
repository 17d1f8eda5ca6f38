import { sourceOf } from "./state.ts";
import type { Figure, UnitState } from "./state.ts";
import { voOf } from "./tenant.ts";
import type { Tenant, Unit } from "./tenant.ts";

type Amount = { readonly jobs: number; readonly milliCoreSeconds: number };

/** A (tenant, VO) that would go down. */
export type Decrease = { readonly tenant: string; readonly vo: string; readonly was: Amount; readonly now: Amount };

/** A configured tenant and, if its month could be counted, its figures by VO. */
export type CountedTenant = { readonly tenant: Tenant; readonly figures: readonly Figure[] | undefined };

export const unitKey = (unit: Unit): string => JSON.stringify([unit.site, unit.submitHost, unit.month]);

/** What was last decided: a reserved publication may have been written before its run was killed. */
const baseline = (state: UnitState): readonly Figure[] => (state.pending ?? state.published)?.figures ?? [];

/** What APEL may hold: the run that reserved a publication may just as well have been killed before it wrote a message. */
const standing = ({ pending, published }: UnitState): readonly Figure[] => [
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
  /** tenants whose figures stand in one unit and belong in another: both are published, or neither */
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
    for (const figure of standing(state)) {
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

function sum(figures: readonly Figure[]): Amount {
  return figures.reduce<Amount>(
    (total, each) => ({
      jobs: total.jobs + each.jobs,
      milliCoreSeconds: total.milliCoreSeconds + each.milliCoreSeconds,
    }),
    { jobs: 0, milliCoreSeconds: 0 },
  );
}
