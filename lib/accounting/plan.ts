import { Ledger } from "./counting/ledger.ts";
import { type Damage } from "./store/json.ts";
import { type MonthPlan, planMonth } from "./counting/month-plan.ts";
import { stretches } from "./counting/pieces.ts";
import { type Tenant, type Unit, isIndividual } from "./model/tenant.ts";
import { type Request, periods } from "./model/periods.ts";
import { type UnitState, readState, sourceOf } from "./publishing/state.ts";
import type { ObjectStore } from "./store/store.ts";

/** What a run would do with one tenant's month. */
export type MonthPreview = {
  readonly tenant: Tenant;
  readonly plan: MonthPlan;
  /** the days to ask for; consecutive ones together */
  readonly pieces: readonly (readonly string[])[];
};

/** A unit that a run would publish, or find unchanged: its tenants, and what is known to be published of it. */
export type UnitPreview = {
  readonly unit: Unit;
  readonly tenants: readonly string[];
  readonly state: UnitState | undefined;
};

type Preview = { readonly months: readonly MonthPreview[]; readonly units: readonly UnitPreview[] };

/**
 * What `gridmeter plan` shows of a run at `now`: which days it would ask for, which days are settled in the ledger, and which
 * units it would publish. Prometheus is not asked.
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
