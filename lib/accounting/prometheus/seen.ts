import { hasGapLength } from "../model/gaps.ts";
import { append, greatest } from "../../shared/lists.ts";
import { CELL, type Sighting, type Window } from "../model/monitoring.ts";
import type { Selection } from "../model/tenant.ts";
import { labelValue, narrowedTo, ownPods, renamedPrefix, selector, uidLabels } from "./labels.ts";
import { inParts } from "../model/split.ts";
import { HOUR } from "../model/time.ts";
import type { Client } from "./client.ts";
import type { Sample } from "./response.ts";
import { type Target, cellsOf, findShardGaps, findTargets, runsOf } from "./shard-gaps.ts";

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
 * all pods, each of which would hold that many points in the server's memory; of kube-state-metrics' own pod there is one series.
 */
const POINTS = { value: 8640, presence: 288 };
/** Cells without an answer less than this apart are asked for together. */
const TOGETHER = 288 * CELL;

/**
 * The selectors that show a pod, best first (accounting-rules: Seen or not seen). A later one is asked only for cells that the
 * ones before leave open. `up` is not among them: it may be that of another endpoint, and 1 while no pod is listed.
 */
export function evidenceOf(selection: Selection): readonly Evidence[] {
  const { matchers, monitoringSelector } = selection;
  if (monitoringSelector !== undefined) return [{ selector: monitoringSelector, kind: "value" }];
  return [
    ...ownPods(selection).map((names): Evidence => ({
      selector: selector("kube_pod_info", [...names, ...matchers]),
      kind: "value",
    })),
    presence("kube_pod_start_time", matchers),
    presence("kube_pod_status_phase", [`phase="Running"`, ...matchers]),
    presence("kube_pod_info", matchers),
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
 * When monitoring was seen. Every cell is judged by itself, so the answer does not depend on the window asked for.
 * @param tenantNamespaces the namespaces of all tenants, whose pods may stop at any time
 */
export async function findSeen(
  client: Client,
  selection: Selection,
  window: Window,
  tenantNamespaces: readonly string[],
): Promise<Sighting> {
  const { seen, open } = await findPods(client, selection, window);
  if (selection.monitoringSelector !== undefined) return { cells: seen, partly: [], upOnly: [], silent: [] };
  const targets = await findTargets(client, selection, window);
  const upOnly: Window[] = [];
  const silent: Window[] = [];
  for (const run of runsOf(open)) {
    const up = cellsOf(run).filter((cell) => isUp(targets, cell));
    // Without `up` there is nothing that speaks for a stretch without pods.
    if (up.length === 0) continue;
    if (await isGap(client, selection, run, window, tenantNamespaces)) append(silent, runsOf(up));
    else {
      for (const cell of up) seen.push(cell);
      append(upOnly, runsOf(up));
    }
  }
  const shards = await findShardGaps(client, selection, window, targets);
  const missing = new Set(shards.whole.flatMap(cellsOf));
  const cells = seen.filter((cell) => !missing.has(cell)).sort((a, b) => a - b);
  return { cells, partly: shards.partly, upOnly, silent };
}

const isUp = (targets: readonly Target[], cell: number): boolean => targets.some(({ up }) => up.get(cell) === true);

/** A stretch without pods, though kube-state-metrics was up: a gap if a pod that does not just stop was there at its edge. */
async function isGap(
  client: Client,
  selection: Selection,
  run: Window,
  window: Window,
  tenantNamespaces: readonly string[],
): Promise<boolean> {
  // A shorter stretch is no gap, so that nothing more is asked about it.
  if (!hasGapLength(run)) return false;
  const before = run.from > window.from ? run.from : await lastPodsBefore(client, selection, run.from);
  const edges = [...(before === undefined ? [] : [before]), ...(run.to < window.to ? [run.to + CELL] : [])];
  for (const edge of edges) if (await hasSteadyPod(client, selection, edge, tenantNamespaces)) return true;
  return false;
}

/** The cell in which pods were last seen before a moment, in the days before it: day by day, then cell by cell. */
async function lastPodsBefore(client: Client, selection: Selection, moment: number): Promise<number | undefined> {
  const day = 288 * CELL;
  const from = moment - STEADY_EDGE * day;
  const days = new Set<number>();
  for (const evidence of evidenceOf(selection)) {
    const ask = async (part: Window, uids: readonly string[]): Promise<readonly never[]> => {
      // Days are asked for as such, what is less by the hour.
      const step = (part.to - part.from) % day === 0 ? day : HOUR;
      const query = evidenceQuery(narrowed(evidence, uids), step);
      for (const { values } of await client.range(query, part.from + step, part.to, step))
        for (const [at] of values) days.add(at);
      return [];
    };
    await inParts([{ from, to: moment }], ask, {
      asked: "the last pods before a gap",
      shortest: HOUR,
      uidLabels: evidenceLabels(evidence, selection),
    });
    if (days.size > 0) break;
  }
  if (days.size === 0) return undefined;
  const last = greatest(days);
  const { seen } = await findPods(client, selection, { from: last - day, to: last });
  return seen.length === 0 ? undefined : greatest(seen);
}

/** The cells in which pods were seen, and those in which none was. */
async function findPods(
  client: Client,
  selection: Selection,
  window: Window,
): Promise<{ readonly seen: number[]; readonly open: readonly number[] }> {
  const seen: number[] = [];
  let open: readonly number[] = cellsOf(window);
  for (const evidence of evidenceOf(selection)) {
    const values = await askCells(client, selection, evidence, open);
    const stillOpen: number[] = [];
    for (const cell of open) (isSign(values.get(cell)) ? seen : stillOpen).push(cell);
    open = stillOpen;
    if (open.length === 0) break;
  }
  return { seen, open };
}

const isSign = (value: number | undefined): boolean => value !== undefined && value > 0;

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

/** So many days before a stretch without pods its edge is looked for, where it lies before what is asked. */
const STEADY_EDGE = 30;
/** A pod that has run for longer than this does not just stop (accounting-rules: Seen or not seen), seconds. */
const STEADY_AFTER = 6 * 86_400;
/** What is seen of pods at a moment is looked for in this stretch before it, seconds. */
const GLANCE = 600;
const OWN_NAME = /(?:^|[^a-z0-9])(?:kube-state-metrics|ksm)(?:[^a-z]|$)/;

/**
 * Whether a pod was there at the moment that does not just stop: kube-state-metrics' own, one in kube-system, or one outside
 * the tenants' namespaces that had run for over 6 days and has not finished.
 */
async function hasSteadyPod(
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
