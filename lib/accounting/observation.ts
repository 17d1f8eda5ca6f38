import { CELL } from "./ports.ts";
import type { Sighting, Window } from "./ports.ts";
import { endOfDay, startOf } from "./time.ts";

/** Monitoring that was not seen for so long is a gap (accounting-rules: Gaps; 30 minutes count). */
export const GAP = 1800;
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
