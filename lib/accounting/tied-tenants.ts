import type { ObjectStore } from "../store/object-store.ts";
import { guard, unitKey } from "./guard.ts";
import type { Damage } from "./ledger.ts";
import { readStates } from "./state.ts";
import type { Tenant, Unit } from "./tenant.ts";

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
