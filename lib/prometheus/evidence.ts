import { CELL, type Window } from "../accounting/ports.ts";
import type { Selection } from "../accounting/tenant.ts";
import type { Client } from "./connection.ts";
import { inParts } from "./in-parts.ts";
import { selector } from "./promql.ts";
import { uidLabels } from "./uid-parts.ts";

/** One way to see that monitoring worked. */
export type Evidence = {
  readonly selector: string;
  /** `value`: a value above 0 means seen, and there are few series; `presence`: any sample does, and every pod has one. */
  readonly kind: "value" | "presence";
  /** the same selector narrowed by more matchers; absent where it is a text of the settings */
  readonly narrowed?: (matchers: readonly string[]) => string;
};

/**
 * Points a query. Prometheus allows 11,000 a series and Amazon 32 days: 30 days of cells keep both. Presence is asked of
 * all pods, each of which would hold that many points in the server's memory.
 */
const POINTS = { value: 8640, presence: 288 };
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
  const narrowed = (more: readonly string[]): string => selector(metric, [...matchers, ...more]);
  return { selector: narrowed([]), kind: "presence", narrowed };
}

/** The query of one kind of evidence; its value is above 0 where monitoring was seen in the last `seconds`. */
export function evidenceQuery(evidence: Evidence, seconds: number = CELL): string {
  return evidence.kind === "presence"
    ? `group(last_over_time(${evidence.selector}[${seconds}s]))`
    : `max(max_over_time(${evidence.selector}[${seconds}s]))`;
}

/** The evidence of some pods only. @param matchers those of the pods; none: all */
export function narrowed(evidence: Evidence, matchers: readonly string[]): Evidence {
  return { kind: evidence.kind, selector: evidence.narrowed?.(matchers) ?? evidence.selector };
}

/** Labels by which evidence can be asked of some pods at a time; none where it is not about pods. */
export function evidenceLabels(evidence: Evidence, selection: Selection): readonly string[] {
  return evidence.narrowed === undefined ? [] : uidLabels(selection);
}

/**
 * The ends of the cells in which monitoring was seen, ascending. Every cell is judged by itself, so the answer does not
 * depend on the window asked for.
 */
export async function findSeen(client: Client, selection: Selection, window: Window): Promise<readonly number[]> {
  const seen: number[] = [];
  let open: readonly number[] = cellsOf(window);
  for (const evidence of evidenceOf(selection)) {
    const values = await askCells(client, selection, evidence, open);
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
 * The values of the cells that have one. What the server refuses is asked for fewer cells at once, and the pods of a single
 * cell by their uids, until one of them is found: they all have the same to say.
 */
async function askCells(
  client: Client,
  selection: Selection,
  evidence: Evidence,
  cells: readonly number[],
): Promise<ReadonlyMap<number, number>> {
  const { kind } = evidence;
  const values = new Map<number, number>();
  const ask = async ({ from, to }: Window, uids: readonly string[]): Promise<readonly never[]> => {
    const query = evidenceQuery(narrowed(evidence, uids));
    for (const series of await client.range(query, from + CELL, to, CELL))
      for (const [time, value] of series.values) values.set(time, Math.max(value, values.get(time) ?? value));
    return [];
  };
  const parting = {
    asked: `signs of monitoring (${evidence.selector})`,
    shortest: CELL,
    uidLabels: evidenceLabels(evidence, selection),
    known: (part: Window) => kind === "presence" && cellsOf(part).every((cell) => values.has(cell)),
  };
  await inParts(spansOf(cells, POINTS[kind]), ask, parting);
  return values;
}

/** The ends of the window's cells. */
export function cellsOf(window: Window): readonly number[] {
  const first = Math.ceil(window.from / CELL) + 1;
  const count = Math.max(0, Math.floor(window.to / CELL) - first + 1);
  return Array.from({ length: count }, (_, index) => (first + index) * CELL);
}

/** Cells (ascending) in windows of at most `points` cells; cells close to each other share one. */
function spansOf(cells: readonly number[], points: number): readonly Window[] {
  const spans: { from: number; to: number }[] = [];
  for (const cell of cells) {
    const last = spans.at(-1);
    const joins = last !== undefined && cell - last.to <= TOGETHER && (cell - last.from) / CELL <= points;
    if (joins) last.to = cell;
    else spans.push({ from: cell - CELL, to: cell });
  }
  return spans;
}
