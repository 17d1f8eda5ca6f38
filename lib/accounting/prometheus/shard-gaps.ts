import { GAP, hasGapLength } from "../model/gaps.ts";
import { CELL, type Window } from "../model/monitoring.ts";
import type { Selection } from "../model/tenant.ts";
import { labelValue, oneOf, overTime, quote, renamedPrefix, selector, spellings, uidLabels } from "./labels.ts";
import { inParts } from "../model/split.ts";
import type { Client } from "./client.ts";
import type { Sample } from "./response.ts";

/** Whose pods a target shows is looked for in this stretch before it went: jobs come and go. Seconds. */
const SHOWN_OF_LATE = 14 * 86_400;
/** The pods that it showed when it went are looked for in this stretch, seconds. */
const SHOWN = 900;
/** The same where it was away before the window begins, seconds. */
const SHOWN_LONG_AGO = SHOWN_OF_LATE;
/** Cells of one query: 30 days, as Prometheus allows points and Amazon days. */
const MOST_CELLS = 8640;
/** Pods of a target by which another one is known as its copy or its successor; each is named four times in one query. */
const COMPARED = 20;

const SHARDS = "the shards of kube-state-metrics";
const COPIES = "copies of the pods of one kube-state-metrics";

/** `whole`: stretches in which pods of all nodes were missing; `partly`: of single nodes, which never make a day unseen. */
type ShardGaps = { readonly whole: readonly Window[]; readonly partly: readonly Window[] };

/**
 * The stretches in which some of the pods were not seen, because one of several kube-state-metrics that share them was away.
 * Where they say how many shards there are, each must be seen; else the targets of one job are compared. A target that is down is a
 * gap in either case: a shard's endpoint about itself may be up meanwhile.
 */
export async function findShardGaps(
  client: Client,
  selection: Selection,
  window: Window,
  targets: readonly Target[],
): Promise<ShardGaps> {
  const areNumbered = await hasShards(client, selection, window);
  const whole: Window[] = areNumbered ? [...(await missingOrdinals(client, selection, window))] : [];
  const partly: Window[] = [];
  for (const target of targets) {
    for (const away of stretchesAway(target, targets, window)) {
      if (areNumbered && away.how === "gone") continue;
      const gap = await gapOf(client, selection, target, away, window);
      if (gap !== undefined) (gap.isNode ? partly : whole).push({ from: gap.from, to: gap.to });
    }
  }
  return { whole, partly };
}

/** Whether kube-state-metrics says that it is one of several. */
async function hasShards(client: Client, selection: Selection, window: Window): Promise<boolean> {
  let most = 1;
  const ask = async (part: Window): Promise<readonly never[]> => {
    const [found] = await client.instant(totalShardsQuery(selection, part), part.to);
    most = Math.max(most, found?.value ?? 1);
    return [];
  };
  await inParts(windowsOf(window, MOST_CELLS), ask, { asked: SHARDS, known: () => most > 1 });
  return most > 1;
}

/** How many shards kube-state-metrics has, where its self metrics are scraped. */
export function totalShardsQuery({ matchers }: Selection, { from, to }: Window): string {
  return `max(max_over_time(${selector("kube_state_metrics_total_shards", matchers)}[${to - from}s]))`;
}

/** Stretches in which not all shards that there should be were seen. Cells without any self metric are not judged. */
async function missingOrdinals(client: Client, selection: Selection, window: Window): Promise<readonly Window[]> {
  const { matchers } = selection;
  const by = (metric: string): string => `last_over_time(${selector(metric, matchers)}[${CELL}s])`;
  const totals = new Map<number, number>();
  const seen = new Map<number, Set<string>>();
  const ask = async ({ from, to }: Window): Promise<readonly never[]> => {
    const total = `max(${by("kube_state_metrics_total_shards")})`;
    for (const { values } of await client.range(total, from + CELL, to, CELL))
      for (const [at, value] of values) totals.set(at, value);
    const ordinals = `group by (shard_ordinal) (${by("kube_state_metrics_shard_ordinal")})`;
    for (const { labels, values } of await client.range(ordinals, from + CELL, to, CELL))
      for (const [at] of values) seen.set(at, (seen.get(at) ?? new Set()).add(labels["shard_ordinal"] ?? ""));
    return [];
  };
  await inParts(windowsOf(window, MOST_CELLS), ask, { asked: SHARDS, shortest: CELL });
  const lacking = cellsOf(window).filter((cell) => (seen.get(cell)?.size ?? Infinity) < (totals.get(cell) ?? 0));
  return runsOf(lacking).filter(hasGapLength);
}

type Away = Window & { readonly how: "down" | "gone" };

/** Stretches of 30 minutes or more in which a target was down, or gone after it had been there, while another one of its job was up. */
function stretchesAway(target: Target, targets: readonly Target[], window: Window): readonly Away[] {
  const others = targets.filter(({ job, instance }) => job === target.job && instance !== target.instance);
  if (others.length === 0) return [];
  const cells = cellsOf(window);
  const first = cells.find((cell) => target.up.has(cell));
  if (first === undefined) return [];
  const away = (how: Away["how"], test: (cell: number) => boolean): readonly Away[] =>
    runsOf(cells.filter((cell) => cell >= first && test(cell)))
      .filter(hasGapLength)
      .filter((run) => cellsOf(run).some((cell) => others.some(({ up }) => up.get(cell) === true)))
      .map((run) => ({ ...run, how }));
  return [...away("down", (cell) => target.up.get(cell) === false), ...away("gone", (cell) => !target.up.has(cell))];
}

type Pod = { readonly namespace: string; readonly uid: string };

/**
 * The gap that a target's absence leaves: none where it showed no pod of the tenant, where another target shows one of its pods
 * within 30 minutes (a copy or its successor), or where it is gone and its unfinished pods never return.
 */
async function gapOf(
  client: Client,
  selection: Selection,
  target: Target,
  away: Away,
  window: Window,
): Promise<(Window & { readonly isNode: boolean }) | undefined> {
  const seconds = away.from === window.from ? SHOWN_LONG_AGO : SHOWN;
  const isMine = ({ namespace }: Pod): boolean => namespace === selection.namespace;
  const running = await podsOf(client, selection, target, away.from, seconds);
  // Pods of other namespaces live longer than jobs as a rule.
  const others = running.filter((pod) => !isMine(pod)).slice(0, COMPARED / 2);
  const compared = [...others, ...running.filter(isMine)].slice(0, COMPARED);
  const copies = seriesOf(selection, compared).flatMap((pods) => othersOf(target).map((other) => [...pods, ...other]));
  // Asked first: after an ordinary redeployment the successor shows them, and nothing more is asked.
  if (compared.length > 0 && (await isThere(client, selection, copies, away.from + GAP, seconds + GAP)))
    return undefined;
  if (!(await hasShownTenant(client, selection, target, away.from))) return undefined;
  const until = Math.min(window.to, away.from + MOST_CELLS * CELL);
  const after = { from: away.from, to: until };
  const isNode = await isOfOneNode(client, selection, target, away.from, seconds);
  if (away.how === "down") {
    const replaced = compared.length === 0 ? undefined : await firstCell(client, selection, copies, after);
    return { from: away.from, to: Math.min(away.to, replaced ?? Infinity), isNode };
  }
  const returned =
    compared.length === 0 ? undefined : await firstCell(client, selection, seriesOf(selection, compared), after);
  return returned === undefined ? undefined : { from: away.from, to: returned, isNode };
}

/** The running pods that a target showed just before a moment. */
async function podsOf(
  client: Client,
  selection: Selection,
  target: Target,
  at: number,
  seconds: number,
): Promise<readonly Pod[]> {
  const prefix = renamedPrefix(selection);
  const ask = async ({ from, to }: Window, uids: readonly string[]): Promise<readonly Sample[]> => {
    const own = [`phase="Running"`, ...matchersOf(target), ...selection.matchers, ...uids];
    const running = `last_over_time(${selector("kube_pod_status_phase", own)}[${to - from}s]) == 1`;
    return client.instant(`group by (namespace,${prefix}namespace,uid,${prefix}uid) (${running})`, to);
  };
  const found = await inParts([{ from: at - seconds, to: at }], ask, {
    asked: "the pods of one kube-state-metrics",
    uidLabels: uidLabels(selection),
  });
  return found.map(({ labels }) => ({
    namespace: labelValue(labels, "namespace", { prefix }),
    uid: labelValue(labels, "uid", { prefix }),
  }));
}

/** Whether a target has shown any pod of the tenant of late. */
async function hasShownTenant(client: Client, selection: Selection, target: Target, at: number): Promise<boolean> {
  const own = spellings(selection).map(({ namespace }) => [...namespace, ...matchersOf(target), ...selection.matchers]);
  return isThere(client, selection, own, at, SHOWN_OF_LATE);
}

const matchersOf = ({ job, instance }: Target): readonly string[] => [
  `job=${quote(job)}`,
  `instance=${quote(instance)}`,
];

/** What selects all targets but this one: two lists of matchers. */
const othersOf = ({ job, instance }: Target): readonly (readonly string[])[] => [
  [`instance!=${quote(instance)}`],
  [`instance=${quote(instance)}`, `job!=${quote(job)}`],
];

/** What selects the series of pods by their uids, in either spelling. */
function seriesOf(selection: Selection, pods: readonly Pod[]): readonly (readonly string[])[] {
  const { pattern } = oneOf(pods.map(({ uid }) => uid));
  const renamed = `${renamedPrefix(selection)}uid`;
  return [
    [`uid=~${quote(pattern)}`, `${renamed}=""`, ...selection.matchers],
    [`${renamed}=~${quote(pattern)}`, ...selection.matchers],
  ];
}

/** @param uids matchers of those that are asked for in this part */
const phases = (selectors: readonly (readonly string[])[], uids: readonly string[], seconds: number): string =>
  selectors
    .map((each) => `last_over_time(${selector("kube_pod_status_phase", [...each, ...uids])}[${seconds}s])`)
    .join(" or ");

/** Whether any of the series was there in the seconds before a moment. */
async function isThere(
  client: Client,
  selection: Selection,
  selectors: readonly (readonly string[])[],
  at: number,
  seconds: number,
): Promise<boolean> {
  let found = false;
  const ask = async ({ from, to }: Window, uids: readonly string[]): Promise<readonly never[]> => {
    found ||= (await client.instant(`group(${phases(selectors, uids, to - from)})`, to)).length > 0;
    return [];
  };
  await inParts([{ from: at - seconds, to: at }], ask, {
    asked: COPIES,
    uidLabels: uidLabels(selection),
    known: () => found,
  });
  return found;
}

/** The beginning of the first cell of the window in which any of the series was there. */
async function firstCell(
  client: Client,
  selection: Selection,
  selectors: readonly (readonly string[])[],
  window: Window,
): Promise<number | undefined> {
  let first: number | undefined;
  const ask = async ({ from, to }: Window, uids: readonly string[]): Promise<readonly never[]> => {
    const [found] = await client.range(`group(${phases(selectors, uids, CELL)})`, from + CELL, to, CELL);
    const [at] = found?.values[0] ?? [];
    if (at !== undefined) first = Math.min(at - CELL, first ?? Infinity);
    return [];
  };
  if (window.to - window.from >= CELL)
    await inParts([window], ask, {
      asked: COPIES,
      shortest: CELL,
      uidLabels: uidLabels(selection),
      known: () => first !== undefined,
    });
  return first;
}

/** Whether all pods of a target are on one node, of which no other target of its job shows any: a shard of a DaemonSet. */
async function isOfOneNode(
  client: Client,
  selection: Selection,
  target: Target,
  at: number,
  seconds: number,
): Promise<boolean> {
  const own = await nodesOf(client, selection, matchersOf(target), at, seconds);
  const [node] = own;
  if (node === undefined || own.size > 1) return false;
  const elsewhere = [`job=${quote(target.job)}`, `instance!=${quote(target.instance)}`];
  const others = await nodesOf(client, selection, elsewhere, at, seconds);
  return others.size > 0 && !others.has(node);
}

/** The nodes of the pods that some targets show. */
async function nodesOf(
  client: Client,
  selection: Selection,
  targets: readonly string[],
  at: number,
  seconds: number,
): Promise<ReadonlySet<string>> {
  const prefix = renamedPrefix(selection);
  const ask = ({ from, to }: Window, uids: readonly string[]): Promise<readonly Sample[]> => {
    const nodes = ["kube_pod_info", "kube_pod_container_resource_requests"].map((metric) => {
      const shown = selector(metric, [`node!=""`, ...targets, ...selection.matchers, ...uids]);
      return `last_over_time(${shown}[${to - from}s])`;
    });
    return client.instant(`group by (node,${prefix}node) (${nodes.join(" or ")})`, to);
  };
  const found = await inParts([{ from: at - seconds, to: at }], ask, {
    asked: "the nodes of one kube-state-metrics",
    uidLabels: uidLabels(selection),
  });
  return new Set(found.map(({ labels }) => labelValue(labels, "node", { prefix })));
}

/** A scrape target of kube-state-metrics, and in which cells it was up (true) or down; cells without `up` are absent. */
export type Target = { readonly job: string; readonly instance: string; readonly up: ReadonlyMap<number, boolean> };

/** Points a query and series: Prometheus allows 11,000, Amazon 32 days. */
const POINTS = 8640;

/**
 * Labels of `up` that name kube-state-metrics: where one job scrapes the services of all kinds (kubernetes-service-endpoints of the
 * chart prometheus), the service and its labels do, where the target is written down, its address does.
 */
const NAMED_BY = ["job", "service", "app_kubernetes_io_name", "kubernetes_name", "instance"];

/** `up` of kube-state-metrics' targets. */
export function upSelectors({ matchers }: Selection): readonly string[] {
  return NAMED_BY.map((label) => selector("up", [`${label}=~".*kube-state-metrics.*"`, ...matchers]));
}

/** Whether each target of kube-state-metrics was up, cell by cell. */
export function targetsQuery(selection: Selection): string {
  return `max by (job,instance) (${overTime("max_over_time", upSelectors(selection), CELL)})`;
}

/** The targets of kube-state-metrics in the window; none where Prometheus has no `up` of them. */
export async function findTargets(client: Client, selection: Selection, window: Window): Promise<readonly Target[]> {
  const found = new Map<string, { job: string; instance: string; up: Map<number, boolean> }>();
  const ask = async ({ from, to }: Window): Promise<readonly never[]> => {
    for (const { labels, values } of await client.range(targetsQuery(selection), from + CELL, to, CELL)) {
      const { job = "", instance = "" } = labels;
      const key = JSON.stringify([job, instance]);
      const target = found.get(key) ?? { job, instance, up: new Map<number, boolean>() };
      found.set(key, target);
      for (const [at, value] of values) target.up.set(at, value > 0);
    }
    return [];
  };
  await inParts(windowsOf(window, POINTS), ask, { asked: "the targets of kube-state-metrics", shortest: CELL });
  return [...found.values()];
}

/** The ends of the window's cells. */
export function cellsOf(window: Window): readonly number[] {
  const first = Math.ceil(window.from / CELL) + 1;
  const count = Math.max(0, Math.floor(window.to / CELL) - first + 1);
  return Array.from({ length: count }, (_, index) => (first + index) * CELL);
}

/** The stretches that cells (ascending) make without a break. */
export function runsOf(cells: readonly number[]): readonly Window[] {
  const runs: { from: number; to: number }[] = [];
  for (const cell of cells) {
    const last = runs.at(-1);
    if (last?.to === cell - CELL) last.to = cell;
    else runs.push({ from: cell - CELL, to: cell });
  }
  return runs;
}

/** The window in parts of at most so many cells. */
function windowsOf(window: Window, cells: number): readonly Window[] {
  const count = Math.ceil((window.to - window.from) / (cells * CELL));
  return Array.from({ length: count }, (_, index) => {
    const from = window.from + index * cells * CELL;
    return { from, to: Math.min(window.to, from + cells * CELL) };
  });
}
