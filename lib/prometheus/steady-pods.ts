import type { Window } from "../accounting/ports.ts";
import type { Selection } from "../accounting/tenant.ts";
import type { Sample } from "./answer.ts";
import type { Client } from "./connection.ts";
import { inParts } from "./in-parts.ts";
import { labelValue, renamedPrefix } from "./labels.ts";
import { selector } from "./promql.ts";
import { narrowedTo, uidLabels } from "./uid-parts.ts";

/** So many days before a stretch without pods its edge is looked for, where it lies before what is asked. */
export const STEADY_EDGE = 30;
/** A pod that has run for longer than this does not just stop (accounting-rules: Seen or not seen), seconds. */
const STEADY_AFTER = 6 * 86_400;
/** What is seen of pods at a moment is looked for in this stretch before it, seconds. */
const GLANCE = 600;
const OWN_NAME = /(?:^|[^a-z0-9])(?:kube-state-metrics|ksm)(?:[^a-z]|$)/;

/**
 * Whether a pod was there at the moment that does not just stop: kube-state-metrics' own, one in kube-system, or one outside
 * the tenants' namespaces that had run for over 6 days and has not finished.
 */
export async function hasSteadyPod(
  client: Client,
  selection: Selection,
  at: number,
  tenantNamespaces: readonly string[],
): Promise<boolean> {
  const spelling = { prefix: renamedPrefix(selection) };
  const isSteady = (labels: Sample["labels"]): boolean =>
    labelValue(labels, "namespace", spelling) === "kube-system" || isOwn(labels, spelling);
  const isForeign = (labels: Sample["labels"]): boolean =>
    !tenantNamespaces.includes(labelValue(labels, "namespace", spelling));
  return (
    (await hasPod(client, selection, at, podsQuery, isSteady)) ||
    (await hasPod(client, selection, at, (narrowed) => oldPodsQuery(narrowed, at), isForeign))
  );
}

/** Whether one of the pods that a query gives is as wanted; asked for in parts by uid where the server refuses all at once. */
async function hasPod(
  client: Client,
  selection: Selection,
  at: number,
  queryOf: (narrowed: Selection) => string,
  isWanted: (labels: Sample["labels"]) => boolean,
): Promise<boolean> {
  let found = false;
  const ask = async (_part: Window, uids: readonly string[]): Promise<readonly never[]> => {
    const pods = await client.instant(queryOf(narrowedTo(selection, uids)), at);
    found ||= pods.some(({ labels }) => isWanted(labels));
    return [];
  };
  await inParts([{ from: at - GLANCE, to: at }], ask, {
    asked: "the pods at the edge of a gap",
    shortest: GLANCE,
    uidLabels: uidLabels(selection),
    known: () => found,
  });
  return found;
}

/** kube-state-metrics' own pod is named so, or has the address that Prometheus scrapes. */
function isOwn(labels: Sample["labels"], spelling: { readonly prefix: string }): boolean {
  const { pod_ip: address = "", instance = "" } = labels;
  const isScraped = address !== "" && instance.startsWith(`${address}:`);
  return isScraped || OWN_NAME.test(labelValue(labels, "pod", spelling));
}

const names = (selection: Selection): string => {
  const prefix = renamedPrefix(selection);
  return ["namespace", "pod"].flatMap((label) => [label, `${prefix}${label}`]).join(",");
};

/** All pods seen just before the evaluation. */
export function podsQuery(selection: Selection): string {
  const { matchers } = selection;
  const seen = [
    selector("kube_pod_info", matchers),
    selector("kube_pod_status_phase", [`phase="Running"`, ...matchers]),
    selector("kube_pod_start_time", matchers),
  ];
  const by = `${names(selection)},pod_ip,instance`;
  return `group by (${by}) (${seen.map((each) => `last_over_time(${each}[${GLANCE}s])`).join(" or ")})`;
}

/** The pods among them that started long ago and have not finished. */
export function oldPodsQuery(selection: Selection, at: number): string {
  const { matchers } = selection;
  const on = `uid,${renamedPrefix(selection)}uid`;
  const started = `last_over_time(${selector("kube_pod_start_time", matchers)}[${GLANCE}s]) < ${at - STEADY_AFTER}`;
  const finished = selector("kube_pod_status_phase", [`phase=~"Succeeded|Failed"`, ...matchers]);
  return `group by (${names(selection)}) (${started} unless on (${on}) (last_over_time(${finished}[${GLANCE}s]) == 1))`;
}
