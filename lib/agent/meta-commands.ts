import type { Family, Sample } from "./exposition.ts";
import { DURATION_BUCKETS } from "./meta-catalogue.ts";
import { family } from "./meta-family.ts";
import type { CommandRun } from "./probe.ts";
import type { ResultKind } from "./types.ts";

/** How often one command ran, and for how long. */
export type CommandFigures = {
  readonly command: string;
  /** how many runs took at most as long as each bound, seconds; the bounds of `durationBounds` */
  readonly buckets: readonly { readonly bound: number; readonly count: number }[];
  /** seconds of all runs together */
  readonly sum: number;
  readonly count: number;
  readonly results: ReadonlyMap<ResultKind, number>;
};

/**
 * The histogram's upper bounds, seconds: the catalogue's, doubled on until one is beyond the longest timeout, so that a command
 * that always hangs is seen above every quantile's bound but that last one.
 */
export function durationBounds(longestTimeout: number): readonly number[] {
  const bounds: number[] = [...DURATION_BUCKETS];
  for (let last = bounds.at(-1) ?? 1; last <= longestTimeout; last *= 2) bounds.push(last * 2);
  return bounds;
}

type Counts = { readonly atMost: number[]; sum: number; count: number; readonly results: Map<ResultKind, number> };

/** What was skipped or could not be started took no time: as durations of 0 they would make the command look quick. */
const NEVER_RAN: ReadonlySet<ResultKind> = new Set(["skipped_in_flight", "disabled", "not_found", "not_executable"]);

/** Counts the commands of one probe; runs that timed out or failed are counted as all others. */
export class CommandCounts {
  readonly #bounds: readonly number[];
  readonly #commands = new Map<string, Counts>();

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
  }

  add({ command, kind, seconds }: CommandRun): void {
    const fresh = { atMost: this.#bounds.map(() => 0), sum: 0, count: 0, results: new Map<ResultKind, number>() };
    const counts = this.#commands.get(command) ?? fresh;
    this.#commands.set(command, counts);
    counts.results.set(kind, (counts.results.get(kind) ?? 0) + 1);
    if (NEVER_RAN.has(kind)) return;
    counts.sum += seconds;
    counts.count += 1;
    for (const [index, bound] of this.#bounds.entries()) {
      if (seconds <= bound) counts.atMost[index] = (counts.atMost[index] ?? 0) + 1;
    }
  }

  figures(): readonly CommandFigures[] {
    return [...this.#commands].map(([command, { atMost, sum, count, results }]) => ({
      command,
      buckets: this.#bounds.map((bound, index) => ({ bound, count: atMost[index] ?? 0 })),
      sum,
      count,
      results: new Map(results),
    }));
  }

  families(): readonly Family[] {
    const figures = this.figures();
    const runs = figures.flatMap(({ command, results }) =>
      [...results].map(([result, value]) => ({ labels: { command, result }, value })),
    );
    const durations = figures.filter(({ count }) => count > 0).flatMap(histogram);
    return [family("gridmeter_command_duration_seconds", durations), family("gridmeter_command_runs_total", runs)];
  }
}

function histogram({ command, buckets, sum, count }: CommandFigures): readonly Sample[] {
  const bucket = (le: string, value: number): Sample => ({ labels: { command, le }, value, suffix: "_bucket" });
  return [
    ...buckets.map(({ bound, count: atMost }) => bucket(String(bound), atMost)),
    bucket("+Inf", count),
    { labels: { command }, value: sum, suffix: "_sum" },
    { labels: { command }, value: count, suffix: "_count" },
  ];
}
