import { setTimeout as timer } from "node:timers/promises";

/** Time for what happens again and again; injected, so that tests can let hours pass. */
export type Clock = {
  /** seconds since some moment; never goes back, whatever the node's clock is set to */
  now(): number;
  /** resolves after so many seconds, or at once when the signal is raised; never rejects */
  sleep(seconds: number, signal: AbortSignal): Promise<void>;
};

/** Timers of Node count milliseconds in 32 bits. */
const LONGEST_SLEEP = 2_000_000;

export const steadyClock: Clock = {
  now: () => performance.now() / 1000,
  sleep: (seconds, signal) =>
    timer(Math.min(Math.max(0, seconds), LONGEST_SLEEP) * 1000, undefined, { signal }).catch(() => undefined),
};

/**
 * What `work` comes to, or `late` if it takes longer than these seconds. The work goes on then, and what it comes to is not
 * awaited. Rejects as `work` does.
 * @param stop when it is raised, the time is over at once
 */
export async function within<T, Late>(
  seconds: number,
  work: Promise<T>,
  late: Late,
  { clock = steadyClock, stop }: { readonly clock?: Pick<Clock, "sleep">; readonly stop?: AbortSignal } = {},
): Promise<T | Late> {
  if (seconds <= 0) {
    work.catch(() => undefined);
    return late;
  }
  const done = new AbortController();
  const signal = stop === undefined ? done.signal : AbortSignal.any([done.signal, stop]);
  try {
    return await Promise.race([work, clock.sleep(seconds, signal).then(() => late)]);
  } finally {
    done.abort();
  }
}
