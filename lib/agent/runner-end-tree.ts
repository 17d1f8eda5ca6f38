import { setTimeout as sleep } from "node:timers/promises";
import { isAlive } from "./runner-process-table.ts";
import { findStrays } from "./runner-strays.ts";
import { signalProcess } from "./runner-tree.ts";
import type { Tree } from "./runner-tree.ts";

/** Pauses between looks at processes that are to end, milliseconds. */
const FIRST_PAUSE = 20;
const LAST_PAUSE = 1_000;
/** After the first KILLs /proc is searched again, soon at first, since a fork may have slipped through; then ever more seldom. */
const FIRST_SEARCH = 100;
const LAST_SEARCH = 30_000;
/** A program that wants to leave is not kept by a child that nothing can kill: so long after KILL it is, milliseconds. */
const HOLDS_PROGRAM = 500;

/**
 * Ends all processes of a command: TERM, so that it may clean up, and KILL `grace` milliseconds later to all that are left.
 * Resolves when all are gone, which for a child in uninterruptible sleep may be never: nobody should wait for it without a
 * limit. `killed` is called after the first KILL. Never throws.
 */
export async function endTree(tree: Tree, grace: number, killed: () => void): Promise<void> {
  // First the search: once a parent has ended, a child that wiped its environment is nobody's.
  const found = await findStrays(tree);
  tree.signal("SIGTERM");
  for (const stray of found) signalProcess(stray, "SIGTERM");
  const gone = () => tree.isReaped && !found.some(isAlive);
  await until(gone, performance.now() + grace, Infinity);

  const holdsUntil = performance.now() + HOLDS_PROGRAM;
  for (let pause = FIRST_SEARCH; ; pause = Math.min(2 * pause, LAST_SEARCH)) {
    tree.signal("SIGKILL");
    const strays = await findStrays(tree);
    for (const stray of strays) signalProcess(stray, "SIGKILL");
    killed();
    if (tree.isReaped && strays.length === 0) return;
    await until(() => tree.isReaped && !strays.some(isAlive), performance.now() + pause, holdsUntil);
  }
}

/** Waits until the condition holds, at most until `limit`; from `holdsUntil` on it does not keep the program from ending. */
async function until(condition: () => boolean, limit: number, holdsUntil: number): Promise<void> {
  for (let pause = FIRST_PAUSE; !condition() && performance.now() < limit; pause = Math.min(2 * pause, LAST_PAUSE)) {
    const rest = limit - performance.now();
    await sleep(Math.max(0, Math.min(pause, rest)), undefined, { ref: performance.now() < holdsUntil });
  }
}
