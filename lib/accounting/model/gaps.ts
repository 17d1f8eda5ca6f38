import { CELL, type Window } from "./monitoring.ts";
import { HOUR } from "./time.ts";

/** Monitoring that was not seen for this long or longer is a gap (accounting-rules: Gaps), seconds. */
export const GAP = HOUR / 2;

/** Whether a stretch in which something was not seen is long enough to be a gap. */
export function hasGapLength({ from, to }: Window): boolean {
  return to - from >= GAP;
}

/** The gaps of a window. @param seen the cells in which monitoring was seen, ascending (`Sighting.cells`) */
export function findGaps(seen: readonly number[], window: Window): readonly Window[] {
  const gaps: Window[] = [];
  let last = window.from;
  for (const cell of [...seen, window.to + CELL]) {
    const unseen = { from: last, to: cell - CELL };
    if (hasGapLength(unseen)) gaps.push(unseen);
    last = Math.max(last, cell);
  }
  return gaps;
}

/** Stretches in ascending order; those that touch or overlap become one. */
export function joined(stretches: readonly Window[]): readonly Window[] {
  const found: { from: number; to: number }[] = [];
  for (const { from, to } of stretches.toSorted((a, b) => a.from - b.from)) {
    const last = found.at(-1);
    if (last !== undefined && from <= last.to) last.to = Math.max(last.to, to);
    else found.push({ from, to });
  }
  return found;
}
