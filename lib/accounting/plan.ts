import { Ledger } from "./counting/ledger.ts";
import { type Damage } from "./store/json.ts";
import { type MonthPlan, planMonth } from "./counting/month-plan.ts";
import { stretches } from "./counting/pieces.ts";
import { type Tenant, type Unit, isIndividual } from "./model/tenant.ts";
import { type Request, periods } from "./model/time.ts";
import { type UnitState, readState, sourceOf } from "./publishing/state.ts";
import type { ObjectStore } from "./store/store.ts";

/** What a run would do with one tenant's month, before anything is asked of Prometheus. */
export type MonthPreview = {
  readonly tenant: Tenant;
  readonly plan: MonthPlan;
  /** days asked for together */
  readonly pieces: readonly (readonly string[])[];
};

/** What is known of a unit that the run would decide about. */
export type UnitPreview = {
  readonly unit: Unit;
  readonly tenants: readonly string[];
  readonly state: UnitState | undefined;
};

type Preview = { readonly months: readonly MonthPreview[]; readonly units: readonly UnitPreview[] };

/**
 * What `gridmeter plan` shows: which months, days and stretches a run at `now` would ask for, which days are settled in the
 * ledger, and which units it would publish. Asks Prometheus nothing.
 * @throws period_invalid, store_failed
 */
export async function preview(
  tenants: readonly Tenant[],
  store: ObjectStore,
  options: {
    readonly now: number;
    readonly request: Request;
    readonly recount: boolean;
    readonly damaged: (damage: Damage) => void;
  },
): Promise<Preview> {
  const { now, request, damaged } = options;
  const months: MonthPreview[] = [];
  const units = new Map<string, UnitPreview>();
  for (const period of periods(request, now)) {
    for (const tenant of tenants) {
      const unit = { site: tenant.site, submitHost: tenant.submitHost, month: period.month };
      const state = (await readState(store, unit, damaged))?.state;
      const published = state?.published?.individual[sourceOf(tenant)] ?? {};
      const plan = await planMonth(tenant, period, new Ledger(store, tenant, damaged), {
        now,
        auto: request.mode === "auto",
        recount: options.recount,
        jobsWanted: (_month, day) => isIndividual(tenant) && published[day] === undefined,
      });
      months.push({ tenant, plan, pieces: stretches(plan.needed) });
      const key = JSON.stringify(unit);
      units.set(key, { unit, tenants: [...(units.get(key)?.tenants ?? []), tenant.name], state });
    }
  }
  return { months, units: [...units.values()] };
}
