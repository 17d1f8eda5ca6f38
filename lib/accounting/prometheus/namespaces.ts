import type { Window } from "../model/monitoring.ts";
import type { Selection } from "../model/tenant.ts";
import { labelValue, narrowedTo, overTime, quote, renamedPrefix, selector, uidLabels } from "./labels.ts";
import { inParts } from "../model/split.ts";
import type { Client } from "./client.ts";
import type { Sample, Series } from "./response.ts";

/** Points at which the pods of all namespaces are looked at: each costs a sample a pod, the whole window thousands. */
const GLANCES = 24;
const GLANCE_SECONDS = 300;
/** Series at which the names of labels are looked at, and those at which their values are: copies among them say nothing. */
const LOOKED_AT = 3;
const COMPARED = 20;
/** What is asked, for errors. */
const NAMESPACES = "namespaces";

/** The query for namespaces over the whole window, cheap: one series a namespace, and the pods of the tenant's own only. */
export function namespacesQuery(selection: Selection, window: Window): string {
  const seconds = window.to - window.from;
  const { plain, renamed } = labels(selection);
  const own = quote(selection.namespace);
  const states = selector("kube_namespace_status_phase", [`phase="Active"`, ...selection.matchers]);
  const pods = [
    selector("kube_pod_start_time", [`${renamed}=${own}`, ...selection.matchers]),
    selector("kube_pod_start_time", [`${renamed}=""`, `${plain}=${own}`, ...selection.matchers]),
  ];
  const by = `group by (${plain},${renamed})`;
  return `${by} (${overTime("last_over_time", [states], seconds)}) or ${by} (${overTime("last_over_time", pods, seconds)})`;
}

/** The query for the namespaces of all pods seen just now; asked at a few points of the window. */
export function glanceQuery(selection: Selection): string {
  const { plain, renamed } = labels(selection);
  const pods = selector("kube_pod_start_time", selection.matchers);
  return `group by (${plain},${renamed}) (${overTime("last_over_time", [pods], GLANCE_SECONDS)})`;
}

/** The namespaces seen in the window in either spelling, sorted; and other prefixes under which the tenant's own is found. */
export async function findNamespaces(
  client: Client,
  selection: Selection,
  window: Window,
): Promise<{ readonly names: readonly string[]; readonly prefixes: readonly string[] }> {
  const { step, ...glances } = glancesOf(window);
  const parting = { asked: NAMESPACES, uidLabels: uidLabels(selection) };
  const askWhole = (part: Window, uids: readonly string[]): Promise<readonly Sample[]> =>
    client.instant(namespacesQuery(narrowedTo(selection, uids), part), part.to);
  const glance = ({ from, to }: Window, uids: readonly string[]): Promise<readonly Series[]> =>
    client.range(glanceQuery(narrowedTo(selection, uids)), from + step, to, step);
  // One after the other, so that nothing is asked any more once one of them was given up.
  const found = [
    ...(await inParts([window], askWhole, parting)),
    ...(await inParts([glances], glance, { ...parting, shortest: step })),
  ];
  const spelling = { prefix: renamedPrefix(selection) };
  const names = new Set(found.map(({ labels: seen }) => labelValue(seen, "namespace", spelling)));
  names.delete("");
  const isKnown = names.has(selection.namespace);
  return {
    names: [...names].sort(),
    prefixes: isKnown ? [] : await findPrefixes(client, selection, window),
  };
}

/** The points of the window at which pods are looked at: the multiples of `step` from its beginning on. */
function glancesOf({ from, to }: Window): Window & { readonly step: number } {
  const step = Math.max(GLANCE_SECONDS, Math.ceil((to - from) / GLANCES));
  const first = Math.min(from + GLANCE_SECONDS, to);
  return { from: first - step, to: first + Math.floor((to - first) / step) * step, step };
}

/** Prefixes of other labels that hold the tenant's namespace, such as `orig_` of `orig_namespace`. */
async function findPrefixes(client: Client, selection: Selection, window: Window): Promise<readonly string[]> {
  const { plain, renamed } = labels(selection);
  const { step, ...glances } = glancesOf(window);
  const looked = new Set<string>();
  const look = async ({ from, to }: Window, uids: readonly string[]): Promise<readonly never[]> => {
    const pods = selector("kube_pod_start_time", [...selection.matchers, ...uids]);
    const some = `topk(${LOOKED_AT}, ${overTime("last_over_time", [pods], GLANCE_SECONDS)})`;
    for (const series of await client.range(some, from + step, to, step)) Object.keys(series.labels).forEach(add);
    return [];
  };
  const add = (name: string): unknown => looked.add(name);
  const parting = { asked: NAMESPACES, uidLabels: uidLabels(selection) };
  await inParts([glances], look, { ...parting, shortest: step, known: () => looked.size > 0 });
  const candidates = [...looked].filter((name) => name.endsWith(plain) && name !== plain && name !== renamed);
  const prefixes: string[] = [];
  for (const label of candidates) if (await isHeld(label)) prefixes.push(label.slice(0, -plain.length));
  return prefixes;

  async function isHeld(label: string): Promise<boolean> {
    let held = false;
    const ask = async ({ from, to }: Window, uids: readonly string[]): Promise<readonly never[]> => {
      const own = [`${label}=${quote(selection.namespace)}`, ...selection.matchers, ...uids];
      const pods = overTime("last_over_time", [selector("kube_pod_start_time", own)], to - from);
      held ||= (await client.instant(`group(${pods})`, to)).length > 0;
      return [];
    };
    await inParts([window], ask, { ...parting, known: () => held });
    return held;
  }
}

/** Some pods that carry the tenant's namespace in the plain label. */
export function strayQuery(selection: Selection, window: Window): string {
  const { plain, renamed } = labels(selection);
  const own = [`${plain}=${quote(selection.namespace)}`, `${renamed}=""`, ...selection.matchers];
  return `topk(${COMPARED}, last_over_time(${selector("kube_pod_start_time", own)}[${window.to - window.from}s]))`;
}

/** See `Monitoring.strayPrefix`: several pods that all have one name in the plain label have their own under another. */
export async function findStrayPrefix(
  client: Client,
  selection: Selection,
  window: Window,
): Promise<string | undefined> {
  const found: Sample["labels"][] = [];
  const ask = async (part: Window, uids: readonly string[]): Promise<readonly never[]> => {
    const samples = await client.instant(strayQuery(narrowedTo(selection, uids), part), part.to);
    for (const { labels: names } of samples) found.push(names);
    return [];
  };
  const enough = (): boolean => found.length >= COMPARED;
  const parting = { asked: "the labels of the pods", shortest: GLANCE_SECONDS, uidLabels: uidLabels(selection) };
  await inParts([window], ask, { ...parting, known: enough });
  const pods = found;
  const valuesOf = (label: string): ReadonlySet<string> => new Set(pods.map((each) => each[label] ?? ""));
  if (valuesOf("pod").size !== 1 || pods.length < 2) return undefined;
  const prefixes = Object.keys(pods[0] ?? {})
    .filter((name) => name.endsWith("pod") && name !== "pod")
    .map((name) => name.slice(0, -"pod".length));
  return prefixes.find((prefix) => valuesOf(`${prefix}pod`).size > 1 && !valuesOf(`${prefix}namespace`).has(""));
}

function labels(selection: Selection): { plain: string; renamed: string } {
  return { plain: "namespace", renamed: `${renamedPrefix(selection)}namespace` };
}
