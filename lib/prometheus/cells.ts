import { CELL, type Window } from "../accounting/ports.ts";

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
export function windowsOf(window: Window, cells: number): readonly Window[] {
  const count = Math.ceil((window.to - window.from) / (cells * CELL));
  return Array.from({ length: count }, (_, index) => {
    const from = window.from + index * cells * CELL;
    return { from, to: Math.min(window.to, from + cells * CELL) };
  });
}
