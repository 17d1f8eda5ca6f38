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
  /** selectors that have the same series between them */
  readonly parts?: readonly string[];
};

/**
 * Points a query. Prometheus allows 11,000 a series and Amazon 32 days: 30 days of cells keep both. Presence is asked of
 * all pods, each of which would hold that many points in the server's memory.
 */
const POINTS = { value: 8640, presence: 288 };
const HOUR = 3600;
/** All pods in parts, by the first digit of the uid; the last part has those whose uid stands under another name. */
const UIDS = Array.from("0123456789abcdef", (digit) => `uid=~"${digit}.*"`).concat(`uid!~"[0-9a-f].*"`);
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
    presence("kube_pod_start_time", matchers),
    presence("kube_pod_status_phase", [`phase="Running"`, ...matchers]),
  ];
}

function presence(metric: string, matchers: readonly string[]): Evidence {
  const parts = UIDS.map((uids) => selector(metric, [...matchers, uids]));
  return { selector: selector(metric, matchers), kind: "presence", parts };
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
    const answers = await Promise.all(spans.map((span) => askSpan(client, evidence, span)));
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

/**
 * Asks in halves, down to an hour, what the server refuses as too large, then for presence by the first digit of the uid; one
 * after the other, so that a refusal ends it.
 */
async function askSpan(client: Client, evidence: Evidence, span: Window): Promise<readonly Series[]> {
  try {
    return await client.range(evidenceQuery(evidence), span.from, span.to, CELL);
  } catch (thrown) {
    const parts = isTooLarge(thrown) ? smaller(evidence, span) : [];
    if (parts.length === 0) throw thrown;
    const answers: Series[] = [];
    for (const part of parts) answers.push(...(await askSpan(client, part.evidence, part.span)));
    return answers;
  }
}

function isTooLarge(thrown: unknown): boolean {
  return thrown instanceof GridmeterError && thrown.code === "prometheus_too_large";
}

function smaller(evidence: Evidence, span: Window): readonly { evidence: Evidence; span: Window }[] {
  if (span.to - span.from >= HOUR) {
    const middle = span.from + Math.floor((span.to - span.from) / (2 * CELL)) * CELL;
    return [
      { evidence, span: { from: span.from, to: middle } },
      { evidence, span: { from: middle + CELL, to: span.to } },
    ];
  }
  return (evidence.parts ?? []).map((part) => ({ evidence: { selector: part, kind: evidence.kind }, span }));
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
