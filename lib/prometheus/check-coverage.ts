import { DateTime } from "luxon";
import { findGaps, joined } from "../accounting/observation.ts";
import { CELL, type Window } from "../accounting/ports.ts";
import type { Selection } from "../accounting/tenant.ts";
import { showStretches } from "../accounting/time.ts";
import { least } from "../lists.ts";
import type { Series } from "./answer.ts";
import type { Client } from "./connection.ts";
import { type Evidence, evidenceLabels, evidenceOf, evidenceQuery, findSeen, narrowed } from "./evidence.ts";
import { inParts } from "./in-parts.ts";
import { upSelectors } from "./targets.ts";

/** One answer of `gridmeter check`; `remedy` says what to do where it is not ok. */
export type Finding = {
  readonly question: string;
  readonly ok: boolean;
  readonly answer: string;
  readonly remedy?: string;
};
export type Answer = Omit<Finding, "question">;

const HOUR = 3600;
const DAY = 86_400;
/** Days in which gaps are looked for: the previous month and the settling of its last day. */
export const GAP_DAYS = 35;
const OLDEST_DAYS = 400;
/** Amazon takes at most 32 days a query. */
const CHUNK_DAYS = 30;
/** Was monitoring seen in the last hour? `now` in epoch seconds, as everywhere here. */
export async function lastHour(
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
export async function gaps(
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
export async function oldest(now: number, first: Promise<number | undefined>): Promise<Answer> {
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
export async function oldestDay(client: Client, selection: Selection, now: number): Promise<number | undefined> {
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
