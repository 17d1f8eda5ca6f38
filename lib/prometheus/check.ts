import { DateTime } from "luxon";
import { CELL, type Window } from "../accounting/ports.ts";
import type { Selection } from "../accounting/tenant.ts";
import { GridmeterError } from "../errors.ts";
import type { Client } from "./connection.ts";
import { cellsOf, evidenceOf, evidenceQuery, findSeen } from "./evidence.ts";
import { podSelectors } from "./labels.ts";
import { findNamespaces } from "./namespaces.ts";
import { overTime } from "./promql.ts";
import { voLabelQuery } from "./queries.ts";

/** One answer of `gridmeter check`; `remedy` says what to do where it is not ok. */
export type Finding = {
  readonly question: string;
  readonly ok: boolean;
  readonly answer: string;
  readonly remedy?: string;
};
type Answer = Omit<Finding, "question">;

const HOUR = 3600;
const DAY = 86_400;
/** Days looked at for gaps, for pods, and for the oldest data. */
const LOOKED = { gaps: 35, pods: 7, back: 400 };
/** Amazon takes at most 32 days a query. */
const CHUNK_DAYS = 30;
/** accounting-rules: shorter gaps do not count. */
const GAP = 1800;

/**
 * Asks what a site administrator should know before the first run: reachable, monitoring and its gaps, label names,
 * namespace, age of the data, and whether the needed metrics exist. `now` in epoch seconds. A question that fails is
 * itself a finding; nothing is thrown but programming errors.
 */
export async function checkPrometheus(client: Client, selection: Selection, now: number): Promise<readonly Finding[]> {
  const reach = await asked("Is Prometheus reachable?", () => reachable(client, now));
  if (!reach.ok) return [reach];
  const pods: Window = { from: now - LOOKED.pods * DAY, to: now };
  const metric = (metric: string, extra: readonly string[], remedy: string): Promise<Finding> =>
    asked(`Does ${metric} exist in the namespace?`, () => exists(client, selection, pods, metric, extra, remedy));
  const found = await Promise.all([
    asked("Was monitoring seen in the last hour?", () => lastHour(client, selection, now)),
    asked(`When was it not seen in the last ${LOOKED.gaps} days?`, () => gaps(client, selection, now)),
    asked("Do labels have their own names?", () => labelNames(client, selection, pods)),
    asked("Is the namespace there?", () => namespace(client, selection, pods)),
    asked("How far back does the data go?", () => oldest(client, selection, now)),
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

async function lastHour(client: Client, selection: Selection, now: number): Promise<Answer> {
  const to = Math.floor(now / CELL) * CELL;
  const cells = await findSeen(client, selection, { from: to - HOUR, to });
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

async function gaps(client: Client, selection: Selection, now: number): Promise<Answer> {
  const to = Math.floor(now / CELL) * CELL;
  const first = await oldestDay(client, selection, now);
  const from = Math.max(Math.floor(now / DAY) * DAY - LOOKED.gaps * DAY, first ?? 0);
  const seen = new Set(await findSeen(client, selection, { from, to }));
  const unseen: { from: number; to: number }[] = [];
  for (const cell of cellsOf({ from, to })) {
    if (seen.has(cell)) continue;
    const last = unseen.at(-1);
    if (last?.to === cell - CELL) last.to = cell;
    else unseen.push({ from: cell - CELL, to: cell });
  }
  const long = unseen.filter((gap) => gap.to - gap.from > GAP);
  if (long.length === 0) return { ok: true, answer: `it was seen throughout since ${time(from)}` };
  const shown = long.slice(0, 10).map((gap) => `${time(gap.from)} to ${time(gap.to)}`);
  const more = long.length > shown.length ? `, and ${long.length - shown.length} more` : "";
  return {
    ok: false,
    answer: `not seen: ${shown.join(", ")}${more}`,
    remedy: "Jobs that ended and were removed in these gaps are lost. A whole day unseen needs --allow-incomplete.",
  };
}

async function labelNames(client: Client, selection: Selection, window: Window): Promise<Answer> {
  const { names, exportedNames } = await findNamespaces(client, selection, window);
  if (selection.labelPrefix !== "") {
    if (names.length > 0) return { ok: true, answer: `they are found with the prefix ${selection.labelPrefix}` };
    return {
      ok: false,
      answer: `no namespace is found under ${selection.labelPrefix}namespace`,
      remedy: "Unset PROMETHEUS_LABEL_PREFIX if kube-state-metrics is scraped with honor_labels: true.",
    };
  }
  if (exportedNames.length === 0) return { ok: true, answer: "yes, none is exported_" };
  return {
    ok: false,
    answer: `no: they are renamed to exported_namespace, exported_pod, ... (${list(exportedNames)})`,
    remedy: "Scrape kube-state-metrics with honor_labels: true, or set PROMETHEUS_LABEL_PREFIX=exported_.",
  };
}

async function namespace(client: Client, selection: Selection, window: Window): Promise<Answer> {
  const { names } = await findNamespaces(client, selection, window);
  if (names.includes(selection.namespace)) return { ok: true, answer: `yes, ${selection.namespace}` };
  return {
    ok: false,
    answer: `no, "${selection.namespace}" was not seen in the last ${LOOKED.pods} days; known are: ${list(names)}`,
    remedy: "Set NAMESPACE to one of them, or check PROMETHEUS_LABELS.",
  };
}

async function oldest(client: Client, selection: Selection, now: number): Promise<Answer> {
  const day = await oldestDay(client, selection, now);
  if (day === undefined) {
    return {
      ok: false,
      answer: `there is none in the last ${LOOKED.back} days`,
      remedy: "Check PROMETHEUS_SERVER and PROMETHEUS_LABELS, and that kube-state-metrics is scraped.",
    };
  }
  const days = Math.floor((now - day) / DAY);
  const answer = `to ${time(day).slice(0, 10)}, ${days} days`;
  if (days >= LOOKED.gaps) return { ok: true, answer };
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
  const queries = evidenceOf(selection).flatMap((evidence) => {
    // All pods over whole days would be costly, so they are looked at just before midnight only.
    const query = evidenceQuery(evidence, evidence.kind === "value" ? DAY : CELL);
    const chunks = Array.from({ length: Math.ceil(LOOKED.back / CHUNK_DAYS) }, (_, index) => {
      const to = midnight - index * CHUNK_DAYS * DAY;
      return client.range(query, to - (CHUNK_DAYS - 1) * DAY, to, DAY);
    });
    return [...chunks, client.range(query, now, now, DAY)];
  });
  const answers = await Promise.all(queries);
  const times = answers.flat().flatMap((series) => series.values.map(([at]) => at));
  if (times.length === 0) return undefined;
  return Math.floor((Math.min(...times) - 1) / DAY) * DAY;
}

async function exists(
  client: Client,
  selection: Selection,
  window: Window,
  metric: string,
  extra: readonly string[],
  remedy: string,
): Promise<Answer> {
  const selectors = podSelectors(metric, selection, undefined, extra);
  const query = `count(${overTime("last_over_time", selectors, window.to - window.from)})`;
  const count = (await client.instant(query, window.to))[0]?.value ?? 0;
  if (count > 0) return { ok: true, answer: `yes, ${count} series in the last ${LOOKED.pods} days` };
  return { ok: false, answer: `no, not in the last ${LOOKED.pods} days`, remedy };
}

async function vo(client: Client, selection: Selection, window: Window): Promise<Answer> {
  const seen = (await client.instant(voLabelQuery(selection, window), window.to)).length > 0;
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

function time(epoch: number): string {
  return DateTime.fromSeconds(epoch, { zone: "utc" }).toFormat("yyyy-MM-dd HH:mm 'UTC'");
}
