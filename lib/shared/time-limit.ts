import { setTimeout as timer } from "node:timers/promises";

/** Resolves after so many seconds, or at once when the signal is raised; never rejects. */
export type Sleep = (seconds: number, signal: AbortSignal) => Promise<void>;

/** Timers of Node count milliseconds in 32 bits, and fire at once beyond. Seconds. */
const LONGEST_SLEEP = 2_000_000;

export const sleep: Sleep = (seconds, signal) =>
  timer(Math.min(Math.max(0, seconds), LONGEST_SLEEP) * 1000, undefined, { signal }).catch(() => undefined);

type LimitOptions = {
  /** ends the wait early, with `otherwise` */
  readonly stop?: AbortSignal;
  /** for tests with a clock of their own */
  readonly sleep?: Sleep;
};

/**
 * What the work gives, or `otherwise` once the seconds are over. The work itself goes on: what it comes to later, a failure
 * included, is ignored. Rejects only if the work fails in time.
 */
export async function within<T, Otherwise>(
  seconds: number,
  work: Promise<T>,
  otherwise: Otherwise,
  { stop, sleep: wait = sleep }: LimitOptions = {},
): Promise<T | Otherwise> {
  if (seconds <= 0) {
    work.catch(() => undefined);
    return otherwise;
  }
  const settled = new AbortController();
  const end = () => settled.abort();
  if (stop?.aborted) end();
  stop?.addEventListener("abort", end, { once: true });
  try {
    return await Promise.race([work, wait(seconds, settled.signal).then(() => otherwise)]);
  } finally {
    settled.abort();
    stop?.removeEventListener("abort", end);
  }
}
