import type { Schedule, Stretch } from "./schedule.ts";

/** [from, to) with one value, or a value that never falls within the segment. */
export type Segment = Stretch & { readonly value: number | ((time: number) => number) };

/** A series before it is scraped: what the exporter would answer. */
export type Exported = {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly segments: readonly Segment[];
};

/** A series as Prometheus keeps it. It ends where its segments end. */
export type Series = Exported & { readonly schedule: Schedule };

export function valueAt(segment: Segment, time: number): number {
  return typeof segment.value === "number" ? segment.value : segment.value(time);
}

/** The samples [time, value], ascending; of [from, to) only if given. */
export function* samples(series: Series, from = -Infinity, to = Infinity): Generator<readonly [number, number]> {
  for (const segment of series.segments) {
    for (const time of series.schedule.times(Math.max(from, segment.from), Math.min(to, segment.to))) {
      yield [time, valueAt(segment, time)];
    }
  }
}

/** The last sample in the closed window, as last_over_time. */
export function lastIn(series: Series, from: number, to: number): number | undefined {
  for (let index = series.segments.length - 1; index >= 0; index -= 1) {
    const value = lastOf(series, series.segments[index]!, from, to);
    if (value !== undefined) return value;
  }
  return undefined;
}

/** The greatest sample in the closed window, as max_over_time. */
export function maxIn(series: Series, from: number, to: number): number | undefined {
  let max: number | undefined;
  for (const segment of series.segments) {
    // Within a segment values never fall, so its last sample is its greatest.
    const value = lastOf(series, segment, from, to);
    if (value !== undefined && (max === undefined || value > max)) max = value;
  }
  return max;
}

function lastOf(series: Series, segment: Segment, from: number, to: number): number | undefined {
  // The window is closed, segments are half-open, and all times are whole seconds.
  const end = Math.min(segment.to, Math.floor(to) + 1);
  const start = Math.max(segment.from, from);
  if (end <= start) return undefined;
  const time = series.schedule.last(start, end);
  return time === undefined ? undefined : valueAt(segment, time);
}

/** Cuts the segments to a stretch. */
export function clip(segments: readonly Segment[], stretch: Stretch): Segment[] {
  return segments
    .map((segment) => ({
      ...segment,
      from: Math.max(segment.from, stretch.from),
      to: Math.min(segment.to, stretch.to),
    }))
    .filter((segment) => segment.to > segment.from);
}
