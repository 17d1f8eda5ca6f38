import { findGaps, joined } from "../model/gaps.ts";
import { CELL, type Monitoring, type Sighting, type Window } from "../model/monitoring.ts";
import { DAY, HOUR, endOfDay, startOf } from "../model/time.ts";

/** A day with a gap settles this long after its end, seconds. */
const SETTLE_AFTER_GAP = 2 * DAY;
/** Monitoring is looked for from this long before the first day on, so that a gap over midnight is seen whole. Seconds. */
const BEFORE = HOUR;
/** Monitoring is first looked for up to this long after the last day has settled, seconds. */
const AFTER = 10 * DAY;

/** When monitoring was seen, and the window in which it was looked for. */
export type Coverage = { readonly sighting: Sighting; readonly window: Window | undefined };

/** The coverage where no day is needed, so that nothing is looked for. */
export const NOT_LOOKED_FOR: Coverage = {
  sighting: { cells: [], partly: [], upOnly: [], silent: [] },
  window: undefined,
};

/**
 * Looks for monitoring on the needed days and after them, until the last one has settled or up to now.
 * @param needed ascending
 * @param settle SETTLE, seconds
 */
export async function findCoverage(
  needed: readonly string[],
  settle: number,
  monitoring: Monitoring,
  now: number,
): Promise<Coverage> {
  const [first] = needed;
  const last = needed.at(-1);
  if (first === undefined || last === undefined) return NOT_LOOKED_FOR;
  const windowTo = (moment: number): Window => ({
    from: startOf(first) - BEFORE,
    to: Math.floor(moment / CELL) * CELL,
  });
  const window = windowTo(Math.min(now, endOfDay(last) + settle + AFTER));
  const sighting = await monitoring.seen(window);
  const upToNow = windowTo(now);
  const isSettled = observe([last], sighting, window, settle, now)[0]?.settled === true;
  if (isSettled || upToNow.to <= window.to) return { sighting, window };
  return { sighting: await monitoring.seen(upToNow), window: upToNow };
}

/** What the monitoring saw of a day, and until when the day's jobs must be looked for. */
export type Observation = {
  readonly day: string;
  /** gaps, each cut to the day: pods may be missing there */
  readonly gaps: readonly Window[];
  /** the day is over, and monitoring was not seen on it at all */
  readonly unseen: boolean;
  /** nothing after `until` can change the day's figures */
  readonly settled: boolean;
  /** the moment at which the day settled, or now; epoch seconds */
  readonly until: number;
};

/**
 * Judges days by the cells in which monitoring was seen. A day is settled once kube-state-metrics was *observed* for
 * `settle` seconds after the day's end. So an outage at midnight moves that moment, and no job is lost.
 * @param window what `sighting` was asked for; it holds the days and goes on past their ends
 */
export function observe(
  days: readonly string[],
  { cells, partly }: Pick<Sighting, "cells" | "partly">,
  window: Window,
  settle: number,
  now: number,
): readonly Observation[] {
  const gaps = joined([...findGaps(cells, window), ...partly]);
  return days.map((day) => observeDay(day, cells, gaps, settle, now));
}

function observeDay(
  day: string,
  cells: readonly number[],
  allGaps: readonly Window[],
  settle: number,
  now: number,
): Observation {
  const from = startOf(day);
  const end = endOfDay(day);
  const cut = (gap: Window): Window => ({ from: Math.max(gap.from, from), to: Math.min(gap.to, end) });
  const gaps = allGaps.map(cut).filter((gap) => gap.to > gap.from);
  const unseen = end <= now && (cells[firstAfter(cells, from)] ?? Infinity) > end;
  const observedFor = cells[firstAfter(cells, end) + Math.max(0, Math.ceil(settle / CELL) - 1)];
  const moment =
    observedFor === undefined ? undefined : Math.max(observedFor, gaps.length > 0 ? end + SETTLE_AFTER_GAP : 0);
  const settled = moment !== undefined && moment <= now;
  return { day, gaps, unseen, settled, until: settled ? moment : now };
}

/** The index of the first cell that ends after the moment. A binary search, since a year has a hundred thousand cells. */
function firstAfter(cells: readonly number[], moment: number): number {
  let low = 0;
  let high = cells.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((cells[middle] ?? Infinity) > moment) high = middle;
    else low = middle + 1;
  }
  return low;
}
