import { availableParallelism } from "node:os";
import type { Comparison } from "./compare.ts";
import type { Level } from "./growth.ts";
import type { Run } from "./measure.ts";
import type { ColdMonth } from "./sections.ts";
import { type Table, bytes, count, ratio, seconds } from "./tables.ts";

const MB = 1e6;
const cores = availableParallelism();

/** A target, what was found, and where it was missed what the figures say about why. */
export type Target = {
  readonly what: string;
  readonly wanted: string;
  readonly found: string;
  readonly reached: boolean;
  readonly why?: string;
};

/** The targets of one length of blocks. */
export function blockTargets(hours: number, cold: ColdMonth, daily: Comparison | undefined): readonly Target[] {
  const on = `blocks of ${hours} h`;
  const faster = cold.reference.middle.seconds / cold.ours.middle.seconds;
  const over = cold.ours.middle.seconds / cold.limit.middle.seconds - 1;
  return [
    {
      what: `cold month against the reference, wall time, ${on}`,
      wanted: "at least 3.5 x faster",
      found: ratio(faster),
      reached: faster >= 3.5,
      why:
        `of ${seconds(cold.ours.middle.seconds)}, ${seconds(cold.limit.middle.seconds)} is what its queries take with nobody reading the ` +
        `answers; the reference takes ${seconds(cold.reference.middle.seconds)}. Prometheus' own work for our queries is ` +
        `${seconds(cold.ours.middle.cpuSeconds)} of CPU (${seconds(cold.reference.middle.cpuSeconds)} for the reference's, which come one after ` +
        `the other), so that with ${cores} cores no program that asks them is done in less than ${seconds(cold.ours.middle.cpuSeconds / cores)}`,
    },
    {
      what: `cold month over the bare limit, ${on}`,
      wanted: "at most 15 %",
      found: `${(over * 100).toFixed(0)} %`,
      reached: over <= 0.15,
      why:
        `${seconds(cold.ours.middle.seconds)} against ${seconds(cold.limit.middle.seconds)}; starting the program takes ` +
        `${seconds(cold.start.seconds)}, and the program shares the cores with Prometheus`,
    },
    {
      what: `gap run over a settled, published month, ${on}`,
      wanted: "no query",
      found: `${cold.again.queries} queries`,
      reached: cold.again.queries === 0,
    },
    ...(daily === undefined ? [] : [dailyTarget(on, daily)]),
  ];
}

function dailyTarget(on: string, { reference, ours }: Comparison): Target {
  const less = reference.middle.querySeconds / ours.middle.querySeconds;
  const cpu = reference.middle.cpuSeconds / ours.middle.cpuSeconds;
  return {
    what: `daily run against the reference's, Prometheus' query time, ${on}`,
    wanted: "at least 50 x less",
    found: `${ratio(less)} (CPU ${ratio(cpu)})`,
    reached: less >= 50,
    why: `${seconds(ours.middle.querySeconds)} in ${ours.middle.queries} queries against ${seconds(reference.middle.querySeconds)}`,
  };
}

/** The targets of memory and growth. @param levels by size, smallest first */
export function sizeTargets(
  levels: readonly Level[],
  normal: number,
  several: { readonly months: number; readonly run: Omit<Run, "stdout"> } | undefined,
): readonly Target[] {
  const limits = new Map([
    [normal, 200],
    [3 * normal, 300],
  ]);
  const memory = levels.flatMap(({ jobs, ours }): Target[] => {
    const most = [...limits].find(([size]) => Math.abs(jobs / size - 1) < 0.05)?.[1];
    if (most === undefined) return [];
    return [
      {
        what: `peak RSS at ${count(jobs)} jobs a month`,
        wanted: `under ${most} MB`,
        found: bytes(ours.peakBytes),
        reached: ours.peakBytes < most * MB,
      },
    ];
  });
  return [...memory, ...sameMemory(levels, normal, several), ...growth(levels)];
}

function sameMemory(
  levels: readonly Level[],
  normal: number,
  several: { readonly months: number; readonly run: Omit<Run, "stdout"> } | undefined,
): readonly Target[] {
  const one = levels.find(({ jobs }) => Math.abs(jobs / normal - 1) < 0.05);
  if (one === undefined || several === undefined) return [];
  const more = several.run.peakBytes / one.ours.peakBytes - 1;
  return [
    {
      what: `peak RSS for ${several.months} months against one`,
      wanted: "the same (within 15 %)",
      found: `${bytes(several.run.peakBytes)} against ${bytes(one.ours.peakBytes)}`,
      reached: more <= 0.15,
    },
  ];
}

function growth(levels: readonly Level[]): readonly Target[] {
  return levels.slice(1).flatMap((level, index): Target[] => {
    const before = levels[index];
    if (before === undefined) return [];
    const [jobs, time] = [level.jobs / before.jobs, level.ours.seconds / before.ours.seconds];
    return [
      {
        what: `time from ${count(before.jobs)} to ${count(level.jobs)} jobs`,
        wanted: `at most ${ratio(jobs)}`,
        found: ratio(time),
        reached: time <= jobs,
      },
    ];
  });
}

export function targetTable(targets: readonly Target[]): Table {
  return {
    title: "Targets",
    head: ["target", "wanted", "found", "reached"],
    rows: targets.map(({ what, wanted, found, reached }) => [what, wanted, found, reached ? "yes" : "**no**"]),
  };
}

/** What the figures say about the targets that were missed, one line each. */
export function misses(targets: readonly Target[]): readonly string[] {
  return targets
    .filter(({ reached }) => !reached)
    .map(
      ({ what, wanted, found, why }) => `${what}: ${found} instead of ${wanted}${why === undefined ? "" : `; ${why}`}.`,
    );
}
