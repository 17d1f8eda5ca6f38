import { GridmeterError } from "../../shared/errors.ts";
import { CELL, GAP, type Monitoring, type Sighting, type Window } from "../model/monitoring.ts";
import type { Tenant } from "../model/tenant.ts";
import { endOfDay, startOf } from "../model/time.ts";

/** A day with a gap settles this long after its end. */
const SETTLE_AFTER_GAP = 48 * 3600;

/** How well a day was watched, and until when its jobs must be looked for. */
export type Observation = {
  readonly day: string;
  /** stretches of the day in which pods may have been missed, of 30 minutes or more (each clipped to the day) */
  readonly gaps: readonly Window[];
  /** a complete day of which nothing was seen */
  readonly unseen: boolean;
  /** nothing after the moment `until` can change the day's figures */
  readonly settled: boolean;
  /** how far to look for the day's jobs: the moment it settled, or now */
  readonly until: number;
};

/** Stretches of the window in which no cell was seen, at least 30 minutes long. `seen` is ascending (see `Sighting.cells`). */
export function findGaps(seen: readonly number[], window: Window): readonly Window[] {
  const gaps: Window[] = [];
  let last = window.from;
  for (const cellEnd of [...seen, window.to + CELL]) {
    const cellStart = cellEnd - CELL;
    if (cellStart - last >= GAP) gaps.push({ from: last, to: cellStart });
    last = Math.max(last, cellEnd);
  }
  return gaps;
}

/**
 * Judges days by the cells in which monitoring was seen. Settled means: kube-state-metrics was *observed* for `settle`
 * seconds after the day's end, so an outage at midnight moves the moment and loses no job.
 * @param watched the stretch that was asked for evidence; it holds the days and goes on past their ends
 */
export function observe(
  days: readonly string[],
  { cells: seen, partly }: Pick<Sighting, "cells" | "partly">,
  watched: Window,
  settle: number,
  now: number,
): readonly Observation[] {
  const gaps = joined([...findGaps(seen, watched), ...partly]);
  return days.map((day) => observeDay(day, seen, gaps, settle, now));
}

/** Stretches in order, those that touch or overlap as one. */
export function joined(stretches: readonly Window[]): readonly Window[] {
  const found: { from: number; to: number }[] = [];
  for (const { from, to } of stretches.toSorted((a, b) => a.from - b.from)) {
    const last = found.at(-1);
    if (last !== undefined && from <= last.to) last.to = Math.max(last.to, to);
    else found.push({ from, to });
  }
  return found;
}

function observeDay(
  day: string,
  seen: readonly number[],
  allGaps: readonly Window[],
  settle: number,
  now: number,
): Observation {
  const from = startOf(day);
  const end = endOfDay(day);
  const clip = (gap: Window): Window => ({ from: Math.max(gap.from, from), to: Math.min(gap.to, end) });
  const gaps = allGaps.map(clip).filter((gap) => gap.to > gap.from);
  const unseen = end <= now && (seen[firstAfter(seen, from)] ?? Infinity) > end;
  const enough = seen[firstAfter(seen, end) + Math.max(0, Math.ceil(settle / CELL) - 1)];
  const moment = enough === undefined ? undefined : Math.max(enough, gaps.length > 0 ? end + SETTLE_AFTER_GAP : 0);
  const settled = moment !== undefined && moment <= now;
  return { day, gaps, unseen, settled, until: settled ? moment : now };
}

/** Index of the first cell that ends after the moment. A year has a hundred thousand cells, so it is searched by halves. */
function firstAfter(seen: readonly number[], moment: number): number {
  let low = 0;
  let high = seen.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((seen[middle] ?? Infinity) > moment) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Names listed in a message; more are only counted. */
const LISTED = 20;

function list(names: readonly string[]): string {
  const more = names.length - LISTED;
  return names.slice(0, LISTED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function once(check: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  return () => (running ??= check());
}

/**
 * No pods at all is not the same as no jobs: a wrong namespace and renamed labels look alike. Asks, at most once, whether
 * the namespace is known.
 * @throws namespace_unknown, labels_exported
 */
export function checkNamespace(
  tenant: Tenant,
  monitoring: Monitoring,
  window: Window | undefined,
  known: boolean,
): () => Promise<void> {
  return once(async () => {
    if (known || window === undefined) return;
    const { namespace } = tenant.selection;
    const { names, prefixes } = await monitoring.namespaces(window);
    if (names.includes(namespace)) return;
    const [prefix] = prefixes;
    if (prefix !== undefined)
      throw exported(`${tenant.name}: namespace "${namespace}" is found under the label ${prefix}namespace`, prefix);
    throw new GridmeterError(
      "namespace_unknown",
      `${tenant.name}: Prometheus knows no namespace "${namespace}" in this period. Nothing was published. ` +
        `Correct NAMESPACE (or PROMETHEUS_LABELS); known are: ${names.length === 0 ? "none" : list(names)}.`,
    );
  });
}

function exported(found: string, prefix: string): GridmeterError {
  return new GridmeterError(
    "labels_exported",
    `${found}, where no query looks for it. ` +
      `Nothing was published. Set honor_labels: true where kube-state-metrics is scraped, or PROMETHEUS_LABEL_PREFIX=${prefix} here.`,
  );
}

/**
 * Pods were counted by their namespace: asks, at most once, whether it is their own, and not that of kube-state-metrics.
 * @throws labels_exported
 */
export function checkOwnLabels(tenant: Tenant, monitoring: Monitoring): (lastEnd: number) => Promise<void> {
  let running: Promise<void> | undefined;
  const look = async (lastEnd: number): Promise<void> => {
    const prefix = await monitoring.strayPrefix?.({ from: lastEnd - 2 * CELL, to: lastEnd });
    if (prefix === undefined) return;
    const { namespace } = tenant.selection;
    throw exported(
      `${tenant.name}: "${namespace}" is the namespace of kube-state-metrics, and that of a pod is under the label ${prefix}namespace`,
      prefix,
    );
  };
  return (lastEnd) => (running ??= look(lastEnd));
}

/**
 * There are jobs but none has the VO label: asks, at most once, whether the label was ever seen.
 * @throws vo_label_missing (accounting-rules: a VO label that never appears in the data is an error, not the default VO)
 */
export function checkVoLabel(
  tenant: Tenant,
  monitoring: Monitoring,
  window: Window | undefined,
  known: boolean,
): () => Promise<void> {
  return once(async () => {
    const { voLabel } = tenant.selection;
    if (known || window === undefined || voLabel === undefined || (await monitoring.voLabelSeen(window))) return;
    throw new GridmeterError(
      "vo_label_missing",
      `${tenant.name}: no pod of namespace "${tenant.selection.namespace}" has the label ${voLabel} in kube_pod_labels. Nothing was published. ` +
        "Add the label to kube-state-metrics' --metric-labels-allowlist=pods=[...], or remove VO_LABEL.",
    );
  });
}

/** Jobs lack the VO label: looks, at most once, whether kube-state-metrics has split it in two, and gives the warning. */
export function voLabelWarning(
  tenant: Tenant,
  monitoring: Monitoring,
  window: Window | undefined,
): () => Promise<string | undefined> {
  let running: Promise<string | undefined> | undefined;
  const look = async (): Promise<string | undefined> => {
    const { voLabel } = tenant.selection;
    if (voLabel === undefined || window === undefined) return undefined;
    const pods = await monitoring.voLabelSplit(window);
    if (pods === 0) return undefined;
    return (
      `${tenant.name}: ${pods} pods have the label ${voLabel} only as ${voLabel}_conflict1, so they count for VO_NAME. ` +
      "Two labels of these pods have the same name in Prometheus (such as example.org/vo and example_org/vo): remove one of them."
    );
  };
  return () => (running ??= look());
}
