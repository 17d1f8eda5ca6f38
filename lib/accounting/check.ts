import { DateTime } from "luxon";
import { GridmeterError } from "../shared/errors.ts";
import { least } from "../shared/lists.ts";
import { findGaps, joined } from "./model/gaps.ts";
import { explainCpu, lookForCpu } from "./counting/cadvisor.ts";
import { REFUSED_ABOVE } from "./counting/missing-cpu.ts";
import { CELL, type Window } from "./model/monitoring.ts";
import { inParts } from "./model/split.ts";
import { type Selection, type Tenant, isIndividual } from "./model/tenant.ts";
import { DAY, HOUR, showStretches } from "./model/time.ts";
import type { Client } from "./prometheus/client.ts";
import { narrowedTo, overTime, podSelectors, spellings, uidLabels } from "./prometheus/labels.ts";
import { createMonitoring, findVoLabel } from "./prometheus/monitoring.ts";
import { findNamespaces } from "./prometheus/namespaces.ts";
import type { Series } from "./prometheus/response.ts";
import { type Evidence, evidenceLabels, evidenceOf, evidenceQuery, findSeen, narrowed } from "./prometheus/seen.ts";
import { upSelectors } from "./prometheus/shard-gaps.ts";

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
  const answers = await asked("Is Prometheus reachable?", () => reachable(client, now));
  if (!answers.ok) return [answers];
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
  return [answers, ...found];
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

/** One answer of `gridmeter check`; `remedy` says what to do where it is not ok. */
export type Finding = {
  readonly question: string;
  readonly ok: boolean;
  readonly answer: string;
  readonly remedy?: string;
};
type Answer = Omit<Finding, "question">;

/** Days in which gaps are looked for: the previous month and the settling of its last day. */
const GAP_DAYS = 35;
const OLDEST_DAYS = 400;
/** Amazon takes at most 32 days a query. */
const CHUNK_DAYS = 30;
/** Was monitoring seen in the last hour? `now` in epoch seconds, as everywhere here. */
async function lastHour(
  client: Client,
  selection: Selection,
  now: number,
  tenantNamespaces: readonly string[],
): Promise<Answer> {
  const to = Math.floor(now / CELL) * CELL;
  const { cells } = await findSeen(client, selection, { from: to - HOUR, to }, tenantNamespaces);
  const last = cells.at(-1);
  if (last !== undefined) return { ok: true, answer: `yes, last at ${time(last)}` };
  const selectors = evidenceOf(selection).map((evidence) => evidence.selector);
  return {
    ok: false,
    answer: `no: nothing for ${selectors.join(" nor ")}`,
    remedy:
      "See that Prometheus scrapes kube-state-metrics, or set MONITORING_SELECTOR to a selector that is 1 where it does.",
  };
}

/** In which stretches of the last days was it not seen? Days before the first data are no gap. @param first `oldestDay` */
async function gaps(
  client: Client,
  selection: Selection,
  now: number,
  first: Promise<number | undefined>,
  tenantNamespaces: readonly string[],
): Promise<Answer> {
  const to = Math.floor(now / CELL) * CELL;
  const from = Math.max(Math.floor(now / DAY) * DAY - GAP_DAYS * DAY, (await first) ?? 0);
  const { cells, partly, upOnly } = await findSeen(client, selection, { from, to }, tenantNamespaces);
  const missed = joined([...findGaps(cells, { from, to }), ...partly]);
  const quiet = upOnly.filter((stretch) => stretch.to - stretch.from > DAY);
  if (missed.length > 0) {
    return {
      ok: false,
      answer: `not seen: ${showStretches(missed)}`,
      remedy: "Jobs that ended and were removed in these gaps are lost. A whole day unseen needs --allow-incomplete.",
    };
  }
  if (quiet.length === 0) return { ok: true, answer: `it was seen throughout since ${time(from)}` };
  return {
    ok: false,
    answer: `it was up but showed no pod of any namespace: ${showStretches(quiet)}`,
    remedy: "Fine if no pod ran then; else see the rights of kube-state-metrics and its list of namespaces.",
  };
}

/** How far back does the data go? @param first `oldestDay` */
async function oldest(now: number, first: Promise<number | undefined>): Promise<Answer> {
  const day = await first;
  if (day === undefined) {
    return {
      ok: false,
      answer: `there is none in the last ${OLDEST_DAYS} days`,
      remedy: "Check PROMETHEUS_SERVER and PROMETHEUS_LABELS, and that kube-state-metrics is scraped.",
    };
  }
  const days = Math.floor((now - day) / DAY);
  const answer = `to ${time(day).slice(0, 10)}, ${days} ${days === 1 ? "day" : "days"}`;
  if (days >= GAP_DAYS) return { ok: true, answer };
  return {
    ok: false,
    answer,
    remedy:
      "The previous month is not there as a whole: raise --storage.tsdb.retention.time to 40d or more, or set " +
      "ACCOUNTING_SINCE for a younger cluster.",
  };
}

/** The first UTC day (its start) with any sign of monitoring, among the last 400; a point a day is asked for. */
async function oldestDay(client: Client, selection: Selection, now: number): Promise<number | undefined> {
  const midnight = Math.floor(now / DAY) * DAY;
  const chunks = Array.from({ length: Math.ceil(OLDEST_DAYS / CHUNK_DAYS) }, (_, index): Window => {
    const to = midnight - index * CHUNK_DAYS * DAY;
    return { from: to - CHUNK_DAYS * DAY, to };
  });
  const windows = [...chunks, { from: now - DAY, to: now }];
  const timesOf = async (evidence: Evidence): Promise<readonly number[]> => {
    const ask = async ({ from, to }: Window, uids: readonly string[]): Promise<readonly Series[]> => {
      // All pods over whole days would be costly, so they are looked at just before midnight only.
      const seconds = evidence.kind === "value" ? DAY : CELL;
      return client.range(evidenceQuery(narrowed(evidence, uids), seconds), from + DAY, to, DAY);
    };
    const parting = { asked: "the oldest data", shortest: DAY, uidLabels: evidenceLabels(evidence, selection) };
    return (await inParts(windows, ask, parting)).flatMap(({ values }) => values.map(([at]) => at));
  };
  // Where pods run by day only, and no other is listed, `up` is what shows how old the data is.
  const up: readonly Evidence[] =
    selection.monitoringSelector === undefined
      ? upSelectors(selection).map((up): Evidence => ({ selector: up, kind: "value" }))
      : [];
  const times = (await Promise.all([...evidenceOf(selection), ...up].map(timesOf))).flat();
  if (times.length === 0) return undefined;
  return Math.floor((least(times) - 1) / DAY) * DAY;
}

function time(epoch: number): string {
  return DateTime.fromSeconds(epoch, { zone: "utc" }).toFormat("yyyy-MM-dd HH:mm 'UTC'");
}

/**
 * Does cAdvisor report CPU use of the namespace's pods?
 * @param needed whether a month without it is refused (wallclock); single jobs only lack MemoryReal then
 */
async function cpuUse(client: Client, selection: Selection, window: Window, needed: boolean): Promise<Answer> {
  const seen = await lookForCpu(createMonitoring(client, selection), window);
  const { ofPods, unreadable } = seen;
  if (ofPods > 0 && unreadable <= (ofPods + unreadable) * REFUSED_ABOVE) {
    return { ok: true, answer: "yes" };
  }
  const { what, remedy } = explainCpu(seen);
  if (!needed) return { ok: true, answer: `no, so records have no MemoryReal: ${what}` };
  const nothing = ofPods + unreadable + seen.withoutId === 0;
  return {
    ok: false,
    answer: `no: ${what}`,
    remedy: `${nothing ? "Fine if no pod ran there lately. " : ""}${remedy}.`,
  };
}
