import { CELL, type Window } from "../accounting/ports.ts";
import type { Selection } from "../accounting/tenant.ts";
import { GridmeterError } from "../errors.ts";
import type { Series } from "./answer.ts";
import type { Client } from "./connection.ts";
import { selector } from "./promql.ts";

/** One way to see that monitoring worked. */
export type Evidence = {
  readonly selector: string;
  /** `value`: a value above 0 means seen, and there are few series; `presence`: any sample does, and every pod has one. */
  readonly kind: "value" | "presence";
};

/**
 * Points a query. Prometheus allows 11,000 a series and Amazon 32 days: 30 days of cells keep both. Presence is asked of
 * all pods, each of which would hold that many points in the server's memory.
 */
const POINTS = { value: 8640, presence: 288 };
const HOUR = 3600;
/** Cells without an answer less than this apart are asked for together. */
const TOGETHER = 288 * CELL;

/**
 * The selectors that show monitoring at work, best first. A later one counts only in cells where the ones before have no
 * series at all: an `up` of 0 is an answer.
 */
export function evidenceOf(selection: Selection): readonly Evidence[] {
  const { matchers, monitoringSelector } = selection;
  if (monitoringSelector !== undefined) return [{ selector: monitoringSelector, kind: "value" }];
  return [
    { selector: selector("up", [`job=~".*kube-state-metrics.*"`, ...matchers]), kind: "value" },
    { selector: selector("kube_pod_start_time", matchers), kind: "presence" },
    { selector: selector("kube_pod_status_phase", [`phase="Running"`, ...matchers]), kind: "presence" },
  ];
}

/** The query of one kind of evidence; its value is above 0 where monitoring was seen in the last `seconds`. */
export function evidenceQuery(evidence: Evidence, seconds: number = CELL): string {
  return evidence.kind === "presence"
    ? `group(last_over_time(${evidence.selector}[${seconds}s]))`
    : `max(max_over_time(${evidence.selector}[${seconds}s]))`;
}

/**
 * The ends of the cells in which monitoring was seen, ascending. Every cell is judged by itself, so the answer does not
 * depend on the window asked for.
 */
export async function findSeen(client: Client, selection: Selection, window: Window): Promise<readonly number[]> {
  const seen: number[] = [];
  let open: readonly number[] = cellsOf(window);
  for (const evidence of evidenceOf(selection)) {
    const spans = spansOf(open, POINTS[evidence.kind]);
    const query = evidenceQuery(evidence);
    const answers = await Promise.all(spans.map((span) => askSpan(client, query, span)));
    const values = new Map<number, number>();
    for (const series of answers.flat()) for (const [time, value] of series.values) values.set(time, value);
    const stillOpen: number[] = [];
    for (const cell of open) {
      const value = values.get(cell);
      if (value === undefined) stillOpen.push(cell);
      else if (value > 0) seen.push(cell);
    }
    open = stillOpen;
    if (open.length === 0) break;
  }
  return seen.sort((a, b) => a - b);
}

/** Asks in halves, down to an hour, what the server refuses as too large; one after the other, so that a refusal ends it. */
async function askSpan(client: Client, query: string, span: Window): Promise<readonly Series[]> {
  try {
    return await client.range(query, span.from, span.to, CELL);
  } catch (thrown) {
    const tooLarge = thrown instanceof GridmeterError && thrown.code === "prometheus_too_large";
    if (!tooLarge || span.to - span.from < HOUR) throw thrown;
    const middle = span.from + Math.floor((span.to - span.from) / (2 * CELL)) * CELL;
    const first = await askSpan(client, query, { from: span.from, to: middle });
    return [...first, ...(await askSpan(client, query, { from: middle + CELL, to: span.to }))];
  }
}

/** The ends of the window's cells. */
export function cellsOf(window: Window): readonly number[] {
  const first = Math.ceil(window.from / CELL) + 1;
  const count = Math.max(0, Math.floor(window.to / CELL) - first + 1);
  return Array.from({ length: count }, (_, index) => (first + index) * CELL);
}

/** Cells (ascending) as spans of at most `points` cells, first to last; cells close to each other share a span. */
function spansOf(cells: readonly number[], points: number): readonly Window[] {
  const spans: { from: number; to: number }[] = [];
  for (const cell of cells) {
    const last = spans.at(-1);
    const joins = last !== undefined && cell - last.to <= TOGETHER && (cell - last.from) / CELL < points;
    if (joins) last.to = cell;
    else spans.push({ from: cell, to: cell });
  }
  return spans;
}
