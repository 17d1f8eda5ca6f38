import { setTimeout as sleep } from "node:timers/promises";
import { type ProcessEntry, isStarved } from "../../shared/process.ts";
import { type Tree, isAlive, processesSince, readProcFile, signalProcess } from "./processes.ts";
import { RUN_VARIABLE } from "./start.ts";
import { within } from "../../shared/time-limit.ts";

/** How long a look that is not urgent waits for others to share it, milliseconds. */
const LAZY = 1_000;
/** The kernel answers environ under a lock that a stuck process may hold for ever: so long is waited, milliseconds ... */
const READ_LIMIT = 500;
/** ... and so many reads may hang (each keeps one of Node's few threads for files) until environments are read no more. */
const HANGING_READS = 2;
/** A process in the middle of an exec has no environment for a moment: it is read again after these pauses, milliseconds. */
const EXEC_PAUSES = [0, 20, 80, 200];
/** Without file descriptors nothing can be seen, and nobody be called gone: it is looked again after this pause, milliseconds. */
const STARVED_PAUSE = 250;

type Request = { readonly tree: Tree; readonly answer: (orphans: readonly ProcessEntry[]) => void };

let waiting: Request[] = [];
let looking = false;
let timer: NodeJS.Timeout | undefined;
let hangingReads = 0;

/**
 * The living processes of a command other than the child itself: those in its group, their children and children's children,
 * and those whose environment carries the run's mark, also in a session of their own (setsid, a daemon). One look at /proc
 * serves all who wait for it. `lazily`: within a second is soon enough.
 *
 * Not found: a process that left the group, lost its parent and wiped its environment (`env -i`, sudo, setproctitle); one of
 * a container that a daemon started on the command's behalf; without /proc, any. Never throws.
 */
export function findOrphans(tree: Tree, lazily = false): Promise<readonly ProcessEntry[]> {
  return new Promise((answer) => {
    waiting.push({ tree, answer });
    if (lazily) timer ??= setTimeout(lookNow, LAZY).unref();
    else lookNow();
  });
}

/** Starts the look for those who are not in a hurry too. */
export function lookNow(): void {
  clearTimeout(timer);
  timer = undefined;
  if (!looking) void look();
}

async function look(): Promise<void> {
  looking = true;
  while (waiting.length > 0) {
    const requests = waiting;
    waiting = [];
    const starts = requests.flatMap(({ tree }) => tree.start ?? []);
    try {
      const first = requests.every(({ tree }) => tree.isRecent) ? requests.map(({ tree }) => tree.pid) : undefined;
      const entries = starts.length === 0 ? [] : await processesSince(Math.min(...starts), first);
      const marks = await readMarks(entries);
      for (const { tree, answer } of requests) answer(orphansOf(tree, entries, marks));
    } catch {
      waiting.push(...requests);
      await sleep(STARVED_PAUSE, undefined, { ref: false });
    }
  }
  looking = false;
}

function orphansOf(
  tree: Tree,
  entries: readonly ProcessEntry[],
  marks: ReadonlyMap<number, string>,
): readonly ProcessEntry[] {
  const inGroup = (entry: ProcessEntry) => tree.ownsGroup && entry.group === tree.pid;
  const others = entries.filter((entry) => entry.pid !== tree.pid && entry.pid !== process.pid);
  const family = new Set(tree.isReaped ? [] : [tree.pid]);
  const orphans = new Set<ProcessEntry>();
  for (let before = -1; before !== orphans.size;) {
    before = orphans.size;
    for (const entry of others) {
      if (!inGroup(entry) && marks.get(entry.pid) !== tree.mark && !family.has(entry.parent)) continue;
      orphans.add(entry);
      family.add(entry.pid);
    }
  }
  return [...orphans];
}

/** The marks of those processes that carry one. One after the other, so that at most one more read can get stuck. */
async function readMarks(entries: readonly ProcessEntry[]): Promise<ReadonlyMap<number, string>> {
  const marks = new Map<number, string>();
  let unread = entries.filter(({ kernel }) => !kernel);
  for (const pause of EXEC_PAUSES) {
    if (unread.length === 0) break;
    if (pause > 0) await sleep(pause);
    const empty: ProcessEntry[] = [];
    for (const entry of unread) {
      const environment = await readEnvironment(entry.pid);
      const mark = markIn(environment ?? "");
      if (mark !== undefined) marks.set(entry.pid, mark);
      if (environment === "" && isAlive(entry)) empty.push(entry);
    }
    unread = empty;
  }
  return marks;
}

const NAME = `${RUN_VARIABLE}=`;

function markIn(environment: string): string | undefined {
  return environment
    .split("\0")
    .find((entry) => entry.startsWith(NAME))
    ?.slice(NAME.length);
}

/** Undefined if it cannot be read; empty during an exec, and for a process that has none. Rejects for want of file descriptors. */
async function readEnvironment(pid: number): Promise<string | undefined> {
  if (hangingReads >= HANGING_READS) return undefined;
  hangingReads++;
  const read = readProcFile(`/proc/${pid}/environ`)
    .catch((thrown: unknown) => {
      if (isStarved(thrown)) throw thrown;
      return undefined; // it ended meanwhile, or belongs to another user
    })
    .finally(() => hangingReads--);
  return within(READ_LIMIT / 1000, read, undefined);
}

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
  const found = await findOrphans(tree);
  tree.signal("SIGTERM");
  for (const orphan of found) signalProcess(orphan, "SIGTERM");
  const gone = () => tree.isReaped && !found.some(isAlive);
  await until(gone, performance.now() + grace, Infinity);

  const holdsUntil = performance.now() + HOLDS_PROGRAM;
  for (let pause = FIRST_SEARCH; ; pause = Math.min(2 * pause, LAST_SEARCH)) {
    tree.signal("SIGKILL");
    const orphans = await findOrphans(tree);
    for (const orphan of orphans) signalProcess(orphan, "SIGKILL");
    killed();
    if (tree.isReaped && orphans.length === 0) return;
    await until(() => tree.isReaped && !orphans.some(isAlive), performance.now() + pause, holdsUntil);
  }
}

/** Waits until the condition holds, at most until `limit`; from `holdsUntil` on it does not keep the program from ending. */
async function until(condition: () => boolean, limit: number, holdsUntil: number): Promise<void> {
  for (let pause = FIRST_PAUSE; !condition() && performance.now() < limit; pause = Math.min(2 * pause, LAST_PAUSE)) {
    const rest = limit - performance.now();
    await sleep(Math.max(0, Math.min(pause, rest)), undefined, { ref: performance.now() < holdsUntil });
  }
}
