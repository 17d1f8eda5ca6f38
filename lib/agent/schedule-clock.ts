import { uptime } from "node:os";
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

/** Seconds since the machine started: goes on while it is suspended, as nothing that timers go by does. */
export const machineClock = (): number => uptime();
