import { setTimeout as sleep } from "node:timers/promises";
import pLimit from "p-limit";
import { LONGEST_TIMEOUT, checkLimit } from "./runner-limits.ts";
import type { CommandResult } from "./types.ts";

export type FanOutLimits = {
  /** how many are at work at a time */
  readonly concurrency: number;
  /** seconds from now for all of them together */
  readonly deadline: number;
};

export type FanOutEntry<T> = { readonly item: T; readonly result: CommandResult };

/** With less time left than this, milliseconds, a command would only be started to be killed. */
const LEAST_TIME = 10;

/**
 * Runs one command an item, a few at a time, all within one deadline. `work` is told the seconds left and takes the smaller of
 * them and its own timeout. At the deadline this is done, whatever `work` does: what is at work then, and what was not started,
 * is `timeout`. One entry an item, in their order. Rejects only if `work` does.
 *
 * @throws GridmeterError config_invalid if the deadline is not finite and above 0
 */
export async function fanOut<T>(
  items: readonly T[],
  work: (item: T, secondsLeft: number) => Promise<CommandResult>,
  { concurrency, deadline }: FanOutLimits,
): Promise<readonly FanOutEntry<T>[]> {
  checkLimit("the commands run once a container", "deadline", deadline, LONGEST_TIMEOUT, "seconds");
  const ends = performance.now() + deadline * 1000;
  const shown = Number(deadline.toFixed(3));
  const limit = pLimit(concurrency);
  const timer = new AbortController();
  const late = sleep(deadline * 1000, "late" as const, { signal: timer.signal }).catch(() => "late" as const);
  const one = async (item: T): Promise<FanOutEntry<T>> => {
    const started = performance.now();
    if (started > ends - LEAST_TIME) return { item, result: timeout(0, `it was not started within ${shown} s`) };
    const result = await Promise.race([work(item, (ends - started) / 1000), late]);
    if (result !== "late") return { item, result };
    const seconds = (performance.now() - started) / 1000;
    return { item, result: timeout(seconds, `it had not ended when the ${shown} s for all were over`) };
  };
  try {
    return await Promise.all(items.map((item) => limit(one, item)));
  } finally {
    limit.clearQueue();
    timer.abort();
  }
}

function timeout(seconds: number, detail: string): CommandResult {
  return { kind: "timeout", seconds, detail };
}
