import { setTimeout as sleep } from "node:timers/promises";
import { lookNow } from "./runner-strays.ts";

/** A run that is not over: its child or something that came of it may live. */
export type LiveRun = {
  /** settles its result as `killed` if it has none yet, and begins to end its processes */
  readonly kill: (why: string) => void;
  /** KILL to its group, at once and in this very turn */
  readonly killNow: () => void;
  /** resolves when nothing of it is left */
  readonly over: Promise<void>;
};

const live = new Set<LiveRun>();
let hooked = false;

/** Keeps the run in mind until it is over. When the program ends without having called `killAll`, its group is killed. */
export function keepAlive(run: LiveRun): void {
  live.add(run);
  void run.over.then(() => live.delete(run));
  if (hooked) return;
  hooked = true;
  process.once("exit", () => {
    for (const left of live) left.killNow();
  });
}

/** How many runs are not over. */
export function liveRuns(): number {
  return live.size;
}

/**
 * Ends all that ever was started and still lives, for the end of the agent: results that are open become `killed`, TERM, grace
 * and KILL follow. Resolves when all is gone, at the latest after `limit` seconds, since a child in uninterruptible sleep
 * cannot be awaited. Call it before the program ends on its own accord, too: a timed-out command may be in its grace.
 */
export async function killAll(why = "the agent is ending", limit = 3): Promise<void> {
  const runs = [...live];
  for (const run of runs) run.kill(why);
  lookNow();
  const timer = new AbortController();
  const late = sleep(limit * 1000, undefined, { signal: timer.signal }).catch(() => undefined);
  await Promise.race([Promise.all(runs.map((run) => run.over)), late]);
  timer.abort();
}
