import { isIndividual } from "../accounting/records.ts";
import type { Selection, Tenant } from "../accounting/tenant.ts";
import type { Window } from "../accounting/ports.ts";
import { GridmeterError } from "../errors.ts";
import { type Answer, type Finding, GAP_DAYS, gaps, lastHour, oldest, oldestDay } from "./check-coverage.ts";
import { cpuUse } from "./check-cpu.ts";
import type { Client } from "./connection.ts";
import { inParts } from "./in-parts.ts";
import { podSelectors, spellings } from "./labels.ts";
import { findNamespaces } from "./namespaces.ts";
import { overTime } from "./promql.ts";
import { narrowedTo, uidLabels } from "./uid-parts.ts";
import { findVoLabel } from "./vo-label.ts";

export type { Finding };

const DAY = 86_400;
/** Days in which pods, namespaces and labels are looked for. */
const POD_DAYS = 7;

/**
 * Asks what a site administrator should know of the monitoring of a tenant: reachable, gaps, label names, namespace, age of the
 * data, and whether the metrics exist. `now` in epoch seconds. What is not as it should be is a warning: whether a month can be published is
 * judged by counting it. A question that fails is itself a finding; nothing is thrown but programming errors.
 * @param tenantNamespaces the namespaces of all tenants
 */
export async function checkPrometheus(
  client: Client,
  tenant: Tenant,
  now: number,
  tenantNamespaces: readonly string[],
): Promise<readonly Finding[]> {
  const { selection } = tenant;
  const reach = await asked("Is Prometheus reachable?", () => reachable(client, now));
  if (!reach.ok) return [reach];
  const pods: Window = { from: now - POD_DAYS * DAY, to: now };
  const metric = (metric: string, extra: readonly string[], remedy: string): Promise<Finding> =>
    asked(`Does ${metric} exist in the namespace?`, () => exists(client, selection, pods, metric, extra, remedy));
  const first = oldestDay(client, selection, now);
  const needsCpu = tenant.model === "wallclock";
  const found = await Promise.all([
    asked("Was monitoring seen in the last hour?", () => lastHour(client, selection, now, tenantNamespaces)),
    asked(`When was it not seen in the last ${GAP_DAYS} days?`, () =>
      gaps(client, selection, now, first, tenantNamespaces),
    ),
    asked("Is the namespace there?", () => namespace(client, selection, pods)),
    asked("How far back does the data go?", () => oldest(now, first)),
    metric("kube_pod_status_phase", [], "Let kube-state-metrics export it: without it no job counts as finished."),
    metric(
      "kube_pod_completion_time",
      [],
      "Fine if no pod finished there lately; else let kube-state-metrics export it.",
    ),
    metric("kube_pod_start_time", [], "Let kube-state-metrics export it: without it no job has a duration."),
    metric(
      "kube_pod_container_resource_requests",
      [`resource="cpu"`],
      "Let kube-state-metrics 2 export it and jobs request CPU, or set DEFAULT_CORES.",
    ),
    ...(needsCpu || isIndividual(tenant)
      ? [asked("Does cAdvisor report CPU use of the namespace?", () => cpuUse(client, selection, pods, needsCpu))]
      : []),
    ...(selection.voLabel === undefined ? [] : [asked("Does the VO label exist?", () => vo(client, selection, pods))]),
  ]);
  return [reach, ...found];
}

async function asked(question: string, answer: () => Promise<Answer>): Promise<Finding> {
  try {
    return { question, ...(await answer()) };
  } catch (thrown) {
    if (thrown instanceof GridmeterError) return { question, ok: false, answer: `${thrown.code}: ${thrown.message}` };
    throw thrown;
  }
}

async function reachable(client: Client, now: number): Promise<Answer> {
  await client.instant("vector(1)", now);
  const version = await client.version();
  return { ok: true, answer: version === undefined ? "yes; it does not tell its version" : `yes, version ${version}` };
}

async function namespace(client: Client, selection: Selection, window: Window): Promise<Answer> {
  const { names, prefixes } = await findNamespaces(client, selection, window);
  if (names.includes(selection.namespace)) return { ok: true, answer: `yes, ${selection.namespace}` };
  const [prefix] = prefixes;
  if (prefix !== undefined) {
    return {
      ok: false,
      answer: `only under the label ${prefix}namespace`,
      remedy: `Scrape kube-state-metrics with honor_labels: true, or set PROMETHEUS_LABEL_PREFIX=${prefix}.`,
    };
  }
  return {
    ok: false,
    answer: `no, "${selection.namespace}" was not seen in the last ${POD_DAYS} days; known are: ${list(names)}`,
    remedy: "Set NAMESPACE to one of them, or check PROMETHEUS_LABELS.",
  };
}

async function exists(
  client: Client,
  selection: Selection,
  window: Window,
  metric: string,
  extra: readonly string[],
  remedy: string,
): Promise<Answer> {
  let count = 0;
  let wasWhole = false;
  const ask = async (part: Window, uids: readonly string[]): Promise<readonly never[]> => {
    const narrow = narrowedTo(selection, uids);
    const selectors = spellings(narrow).flatMap((spelling) => podSelectors(metric, narrow, spelling, undefined, extra));
    const query = `count(${overTime("last_over_time", selectors, part.to - part.from)})`;
    count = (await client.instant(query, part.to))[0]?.value ?? 0;
    wasWhole = part.from === window.from && part.to === window.to && uids.length === 0;
    return [];
  };
  await inParts([window], ask, { asked: metric, uidLabels: uidLabels(selection), known: () => count > 0 });
  const series = wasWhole ? count : `at least ${count}`;
  if (count > 0) return { ok: true, answer: `yes, ${series} series in the last ${POD_DAYS} days` };
  return { ok: false, answer: `no, not in the last ${POD_DAYS} days`, remedy };
}

async function vo(client: Client, selection: Selection, window: Window): Promise<Answer> {
  const seen = await findVoLabel(client, selection, window);
  if (seen) return { ok: true, answer: `yes, ${selection.voLabel}` };
  return {
    ok: false,
    answer: `no pod has ${selection.voLabel} in kube_pod_labels`,
    remedy: "Name the label in kube-state-metrics' --metric-labels-allowlist=pods=[...], and set it on the pods.",
  };
}

function list(names: readonly string[]): string {
  if (names.length === 0) return "none";
  const more = names.length > 50 ? `, and ${names.length - 50} more` : "";
  return `${names.slice(0, 50).join(", ")}${more}`;
}
