import { GridmeterError } from "../../shared/errors.ts";
import type { Monitoring, Row, Window } from "../model/monitoring.ts";
import type { Tenant } from "../model/tenant.ts";
import { ask } from "../prometheus/split.ts";

/** Uids of a tenant that are looked for among those of another one. */
const SAMPLED = 100;
const EQUALITY = /^(?<label>\w+)="(?<value>(?:[^"\\]|\\.)*)"$/;

/**
 * Refuses tenants that count the same pods (accounting-rules: A uid counts once). Tenants of one namespace are compared by a sample of
 * uids, unless their matchers show that they are apart.
 * @param window the days that are asked for
 * @throws tenants_overlap
 */
export async function checkOverlap(
  tenants: readonly Tenant[],
  monitoring: (tenant: Tenant) => Monitoring,
  window: Window,
): Promise<void> {
  for (const [index, tenant] of tenants.entries()) {
    for (const other of tenants.slice(0, index)) {
      if (other.selection.namespace !== tenant.selection.namespace || areApart(tenant, other)) continue;
      const shared = await sharedUidOf(monitoring(tenant), monitoring(other), window);
      if (shared !== undefined) throw overlapError(other, tenant, shared);
    }
  }
}

/** Labels of scrapes and of Prometheus itself: the same pod has series with several values of them. */
const OF_COPIES = /^(?:job|instance|node|endpoint|service|pod|container|prometheus|.*replica.*|app.*)$/;

/** Whether two selections of one server ask for different values of a label that tells jobs apart. */
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
 * A uid that both have, looked for from either side. Where one of them does not answer, there is none: its own count fails too, and
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

/** A uid that both have, if there is one in the sample of the first. */
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
