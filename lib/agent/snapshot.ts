import type { JoinedMetrics, Readings } from "../probes/readings.ts";
import type { ProbeFigures } from "./meta-probe.ts";
import type { Probe, ProbeRun } from "./probe.ts";
import type { Metric } from "./types.ts";

/** Makes metrics of several probes' readings. All that it is given is fresh; what is not is not there. Pure. */
export type Join = (fresh: Readings) => JoinedMetrics;

/**
 * Makes further metrics, which may say something about a probe without data (that it timed out), from what is fresh and from
 * the account of all probes. It sees to it by itself that nothing in them is old.
 */
export type Extra = (fresh: Readings, figures: ReadonlyMap<string, ProbeFigures>) => JoinedMetrics;

/** The last run of a probe. */
export type Held = {
  readonly probe: string;
  readonly run: ProbeRun<Readings>;
  /** until when it may be shown at the longest; seconds of the monotonic clock */
  readonly until: number;
};

/** Beyond interval and timeout a run's data are still shown for so long, seconds: timers are late on a busy machine. */
const MARGIN = 5;

/**
 * Until when a run's data may be shown. The next run settles before that unless the program or the whole machine stood still:
 * then what was read is old, and nobody was there to take it back.
 */
export const shownUntil = ({ interval, timeout }: Pick<Probe, "interval" | "timeout">, settledAt: number): number =>
  settledAt + interval + timeout + MARGIN;

/** Whether data of the run may be shown: only those of a run that was ok, and only for so long. */
export const isFresh = ({ run, until }: Held, now: number): boolean => run.kind === "ok" && now <= until;

/** What may be joined at this time. */
export const freshReadings = (held: readonly Held[], now: number): Readings =>
  held.filter((each) => isFresh(each, now)).reduce<Readings>((all, { run }) => ({ ...all, ...run.readings }), {});

/**
 * The data of all probes: each one's own metrics, and what the joins make of the readings of those that are fresh. A probe that
 * is not fresh has none, not even joined ones. In the order of `held`; probes without data are missing. Pure, if the joins are.
 */
export function freshData(
  held: readonly Held[],
  now: number,
  joins: readonly Join[],
): ReadonlyMap<string, readonly Metric[]> {
  const own = held.filter((each) => isFresh(each, now)).map(({ probe, run }) => [probe, run.metrics] as const);
  const readings = freshReadings(held, now);
  const data = new Map<string, readonly Metric[]>(own);
  for (const join of joins) {
    for (const [probe, metrics] of join(readings)) {
      const before = data.get(probe);
      if (before !== undefined) data.set(probe, [...before, ...metrics]);
    }
  }
  return data;
}
