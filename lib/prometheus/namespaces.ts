import type { Window } from "../accounting/ports.ts";
import type { Selection } from "../accounting/tenant.ts";
import type { Sample, Series } from "./answer.ts";
import type { Client } from "./connection.ts";
import { inParts } from "./in-parts.ts";
import { overTime, quote, selector } from "./promql.ts";
import { narrowedTo, uidLabels } from "./uid-parts.ts";

/** Points at which the pods of all namespaces are looked at: each costs a sample a pod, the whole window thousands. */
const GLANCES = 24;
const GLANCE_SECONDS = 300;

/** The query for namespaces over the whole window, cheap: one series a namespace, and the pods of the tenant's own only. */
export function namespacesQuery(selection: Selection, window: Window): string {
  const seconds = window.to - window.from;
  const { plain, prefixed } = labels(selection);
  const own = quote(selection.namespace);
  const states = selector("kube_namespace_status_phase", [`phase="Active"`, ...selection.matchers]);
  const pods = [
    selector("kube_pod_start_time", [`${prefixed}=${own}`, ...selection.matchers]),
    selector("kube_pod_start_time", [`${prefixed}=""`, `${plain}=${own}`, ...selection.matchers]),
  ];
  const by = `group by (${plain},${prefixed})`;
  return `${by} (${overTime("last_over_time", [states], seconds)}) or ${by} (${overTime("last_over_time", pods, seconds)})`;
}

/** The query for the namespaces of all pods seen just now; asked at a few points of the window. */
export function glanceQuery(selection: Selection): string {
  const { plain, prefixed } = labels(selection);
  const pods = selector("kube_pod_start_time", selection.matchers);
  return `group by (${plain},${prefixed}) (${overTime("last_over_time", [pods], GLANCE_SECONDS)})`;
}

/**
 * The namespaces seen in the window, sorted. `names` are those that the tenant's queries can find: under the plain label,
 * or under the prefixed one if a prefix is set. `exportedNames` are, without a prefix, those under `exported_namespace`.
 */
export async function findNamespaces(
  client: Client,
  selection: Selection,
  window: Window,
): Promise<{ readonly names: readonly string[]; readonly exportedNames: readonly string[] }> {
  const { plain, prefixed } = labels(selection);
  const step = Math.max(GLANCE_SECONDS, Math.ceil((window.to - window.from) / GLANCES));
  const first = Math.min(window.from + GLANCE_SECONDS, window.to);
  const last = first + Math.floor((window.to - first) / step) * step;
  const parting = { asked: "namespaces", uidLabels: uidLabels(selection) };
  const askWhole = (part: Window, uids: readonly string[]): Promise<readonly Sample[]> =>
    client.instant(namespacesQuery(narrowedTo(selection, uids), part), part.to);
  const glance = ({ from, to }: Window, uids: readonly string[]): Promise<readonly Series[]> =>
    client.range(glanceQuery(narrowedTo(selection, uids)), from + step, to, step);
  // One after the other, so that nothing is asked any more once one of them was given up.
  const found = [
    ...(await inParts([window], askWhole, parting)),
    ...(await inParts([{ from: first - step, to: last }], glance, { ...parting, shortest: step })),
  ];
  const names = new Set<string>();
  const underPrefix = new Set<string>();
  for (const { labels: seen } of found) {
    const renamed = seen[prefixed] ?? "";
    // Where the namespace is renamed, the plain label is that of kube-state-metrics itself.
    if (renamed !== "") underPrefix.add(renamed);
    else names.add(seen[plain] ?? "");
  }
  names.delete("");
  if (selection.labelPrefix !== "") return { names: [...underPrefix].sort(), exportedNames: [] };
  return { names: [...names].sort(), exportedNames: [...underPrefix].sort() };
}

function labels({ labelPrefix }: Selection): { plain: string; prefixed: string } {
  return { plain: "namespace", prefixed: `${labelPrefix === "" ? "exported_" : labelPrefix}namespace` };
}
