import { GridmeterError } from "../../shared/errors.ts";
import { greatest, least } from "../../shared/lists.ts";
import type { Monitoring, Row, Window } from "../model/monitoring.ts";
import type { Tenant } from "../model/tenant.ts";
import { type Request, periods } from "../model/periods.ts";
import { ask } from "../model/split.ts";

/** So many uids of a tenant are looked for among those of another one. */
const SAMPLED = 100;

/**
 * Refuses tenants that select the same pods in the months asked for, since their jobs would count twice (accounting-rules: A uid
 * counts once). Tenants of one namespace are compared by a sample of uids, unless their matchers already show that they are apart.
 * @throws tenants_overlap; period_invalid
 */
export async function refuseOverlap(
  tenants: readonly Tenant[],
  monitoring: (tenant: Tenant) => Monitoring,
  request: Request,
  now: number,
): Promise<void> {
  const months = periods(request, now);
  const window = {
    from: least(months.map((month) => month.from)),
    to: Math.min(now, greatest(months.map((month) => month.to))),
  };
  for (const [index, tenant] of tenants.entries()) {
    for (const other of tenants.slice(0, index)) {
      if (other.selection.namespace !== tenant.selection.namespace || areApart(tenant, other)) continue;
      const shared = await sharedUidOf(monitoring(tenant), monitoring(other), window);
      if (shared !== undefined) throw overlapError(other, tenant, shared);
    }
  }
}

/** A matcher of one value, e.g. `cluster="a"`. */
const EQUALITY = /^(?<label>\w+)="(?<value>(?:[^"\\]|\\.)*)"$/;
/** Labels of scrapes and of Prometheus itself: a pod has several series, with different values of them. */
const OF_COPIES = /^(?:job|instance|node|endpoint|service|pod|container|prometheus|.*replica.*|app.*)$/;

/** Whether two selections on one server want different values of a label that no pod has two values of. */
function areApart(tenant: Tenant, other: Tenant): boolean {
  if (tenant.server !== other.server) return false;
  const values = equalities(tenant);
  return [...equalities(other)].some(([label, value]) => values.has(label) && values.get(label) !== value);
}

function equalities({ selection }: Tenant): ReadonlyMap<string, string> {
  return new Map(
    selection.matchers.flatMap((matcher): [string, string][] => {
      const { label, value } = EQUALITY.exec(matcher)?.groups ?? {};
      return label === undefined || value === undefined || OF_COPIES.test(label) ? [] : [[label, value]];
    }),
  );
}

/**
 * A uid that both have, in the sample of either. If one of them does not answer, none is found: its own count fails as well, and
 * the fault of one tenant must not fail another.
 */
async function sharedUidOf(one: Monitoring, other: Monitoring, window: Window): Promise<string | undefined> {
  try {
    return (await sharedUid(one, other, window)) ?? (await sharedUid(other, one, window));
  } catch (thrown) {
    if (thrown instanceof GridmeterError) return undefined;
    throw thrown;
  }
}

/** A uid of the first one's sample that the other has too. */
async function sharedUid(monitoring: Monitoring, other: Monitoring, window: Window): Promise<string | undefined> {
  const uids = await monitoring.sample(window, SAMPLED);
  if (uids.length === 0) return undefined;
  const wanted = new Set(uids);
  let shared: string | undefined;
  const take = ({ uid }: Row): void => {
    if (wanted.has(uid)) shared ??= uid;
  };
  await ask(other, "start", window, take, undefined, uids);
  return shared;
}

function overlapError(one: Tenant, other: Tenant, uid: string): GridmeterError {
  return new GridmeterError(
    "tenants_overlap",
    `The tenants "${one.name}" and "${other.name}" both select the pod with uid ${uid} of namespace "${one.selection.namespace}", so its job would count twice. ` +
      "Nothing was published. Give them PROMETHEUS_LABELS that no pod matches twice, or make them one tenant with VO_LABEL.",
  );
}
