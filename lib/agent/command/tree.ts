import { readdir } from "node:fs/promises";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { isErrno } from "../../shared/fs.ts";
import { type ProcessEntry, lacksDescriptors, readProcFile, readProcess } from "../../shared/proc.ts";
import { within } from "../../shared/time-limit.ts";
import { RUN_VARIABLE } from "./start.ts";

/** After its leader was reaped, a group's number may be given to another process, but not so soon. Milliseconds. */
const NUMBER_NOT_REUSED = 5_000;

/**
 * One started command and all processes that came of it. The child is made the leader of a session and of a process group, which
 * both have its pid as their number.
 */
export class Tree {
  /** the value of GRIDMETER_RUN in the environment of all its processes */
  readonly mark: string;
  readonly pid: number;
  #start: number | undefined;
  #reapedAt: number | undefined;

  constructor(mark: string, pid: number) {
    this.mark = mark;
    this.pid = pid;
    this.#readStart();
  }

  /** Ticks from boot to the start of the child; undefined without /proc. */
  get start(): number | undefined {
    if (this.#start === undefined) this.#readStart();
    return this.#start;
  }

  /** Only before the child's `exit` event: the pid is the child's for certain until then. */
  #readStart(): void {
    try {
      if (!this.isReaped) this.#start = readProcess(this.pid)?.start;
    } catch {
      // No file descriptor is free: it is read when it is asked for.
    }
  }

  /** To be called in the child's `exit` event: from then on its pid may be given to another process. */
  reaped(): void {
    this.#reapedAt = performance.now();
  }

  get isReaped(): boolean {
    return this.#reapedAt !== undefined;
  }

  /** Whether processes in the group of that number are still the command's. */
  get ownsGroup(): boolean {
    return this.#reapedAt === undefined || performance.now() - this.#reapedAt < NUMBER_NOT_REUSED;
  }

  /** Whether no process is left in the group. Signal 0 does nothing, so this may be asked after the child was reaped. */
  get groupIsEmpty(): boolean {
    return !sent(-this.pid, 0);
  }

  /** Signals the group, but only while its leader is not reaped: afterwards the number may be another group's. */
  signal(signal: "SIGTERM" | "SIGKILL"): void {
    if (!this.isReaped) sent(-this.pid, signal);
  }
}

/** Signals one process outside the group, if it still is the one that was seen. */
export function signalProcess(entry: ProcessEntry, signal: "SIGTERM" | "SIGKILL"): void {
  try {
    if (readProcess(entry.pid)?.start === entry.start) sent(entry.pid, signal);
  } catch {
    // No file descriptor is free, so that the pid may be another process's by now. The entry counts as alive and is signalled later.
  }
}

/** False if no process takes the signal. One that may not be signalled (it became another user's: sudo) counts as there. */
function sent(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch (thrown) {
    return !isErrno(thrown, "ESRCH");
  }
}

/** Pauses between checks whether processes have ended, milliseconds. */
const FIRST_CHECK = 20;
const LAST_CHECK = 1_000;
/** After the first KILL /proc is searched again, soon at first, since a fork may have escaped it; then ever less often. */
const FIRST_SEARCH = 100;
const LAST_SEARCH = 30_000;
/** Fault "D state": a child that KILL does not end keeps the agent from exiting only so long. Milliseconds. */
const HOLDS_PROGRAM = 500;

/**
 * Ends all processes of a command: TERM, so that it may clean up, and `grace` milliseconds later KILL to all that are left (fault
 * "ignores TERM"). Resolves when all are gone, which for a child in uninterruptible sleep may be never: wait for it only within a
 * limit. `killed` is called after the first KILL. Never throws.
 */
export async function endTree(tree: Tree, grace: number, killed: () => void): Promise<void> {
  // The search comes before TERM: once a parent has ended, a child with an empty environment cannot be found any more.
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

/** Waits until the condition holds, at most until `limit`; from `holdsUntil` on the wait does not keep the agent from exiting. */
export async function until(condition: () => boolean, limit: number, holdsUntil: number): Promise<void> {
  for (let pause = FIRST_CHECK; !condition() && performance.now() < limit; pause = Math.min(2 * pause, LAST_CHECK)) {
    const rest = limit - performance.now();
    await sleep(Math.max(0, Math.min(pause, rest)), undefined, { ref: performance.now() < holdsUntil });
  }
}

/** Whether this very process still runs. While that cannot be read it counts as running. */
export function isAlive(entry: ProcessEntry): boolean {
  try {
    const now = readProcess(entry.pid);
    return now !== undefined && now.start === entry.start && now.alive;
  } catch {
    return true;
  }
}

type Request = { readonly tree: Tree; readonly answer: (orphans: readonly ProcessEntry[]) => void };

/**
 * How long a request that is not urgent waits for others to share its search. There is one after each command, and a search reads all
 * processes of the node (CPU of the agent in bench/results.md). Milliseconds.
 */
const LAZY = 1_000;
/** Without a free file descriptor nothing can be read, and no process counts as gone: pause before the next search, milliseconds. */
const NO_DESCRIPTORS_PAUSE = 250;

let waiting: Request[] = [];
let searching = false;
let timer: NodeJS.Timeout | undefined;

/**
 * Finds the living processes of a command other than the child itself (fault "grandchild in its own session"): those in its group,
 * their descendants, and those whose environment has the run's mark, whatever session they are in. One search of /proc answers all
 * requests that wait for it. `lazily`: within a second is soon enough.
 *
 * Not found: a process that left the group, lost its parent and emptied its environment (`env -i`, sudo, setproctitle); one of a
 * container that a daemon started for the command; without /proc, any. Never throws.
 */
export function findOrphans(tree: Tree, lazily = false): Promise<readonly ProcessEntry[]> {
  return new Promise((answer) => {
    waiting.push({ tree, answer });
    if (lazily) timer ??= setTimeout(searchNow, LAZY).unref();
    else searchNow();
  });
}

/** Begins the search that lazy requests wait for. */
export function searchNow(): void {
  clearTimeout(timer);
  timer = undefined;
  if (!searching) void search();
}

async function search(): Promise<void> {
  searching = true;
  while (waiting.length > 0) {
    const requests = waiting;
    waiting = [];
    const starts = requests.flatMap(({ tree }) => tree.start ?? []);
    try {
      const entries = starts.length === 0 ? [] : await processesSince(Math.min(...starts));
      const marks = await readMarks(entries);
      for (const { tree, answer } of requests) answer(orphansOf(tree, entries, marks));
    } catch {
      waiting.push(...requests);
      await sleep(NO_DESCRIPTORS_PAUSE, undefined, { ref: false });
    }
  }
  searching = false;
}

/** So many processes are read before the event loop goes on: a node has thousands, and /metrics must answer. */
const AT_ONCE = 64;

/** All living processes that started at `start` (ticks) or later. Rejects if no file descriptor is free. */
export async function processesSince(start: number): Promise<ProcessEntry[]> {
  const names = await readdir("/proc").catch((thrown: unknown): string[] => {
    if (lacksDescriptors(thrown)) throw thrown;
    return [];
  });
  const pids = names.map(Number).filter((pid) => Number.isSafeInteger(pid));
  const entries: ProcessEntry[] = [];
  for (let from = 0; from < pids.length; from += AT_ONCE) {
    for (const pid of pids.slice(from, from + AT_ONCE)) {
      const entry = readProcess(pid);
      if (entry !== undefined && entry.alive && entry.start >= start) entries.push(entry);
    }
    await nextTurn();
  }
  return entries;
}

/** Repeated until no descendant is added, as /proc lists processes in no order of descent. */
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

/** A process in the middle of an exec has an empty environment for a moment: it is read again after these pauses, milliseconds. */
const EXEC_PAUSES = [0, 20, 80, 200];

/** The marks of those processes that have one. Read one after the other, so that at most one more read can hang. */
export async function readMarks(
  entries: readonly ProcessEntry[],
  pauses: readonly number[] = EXEC_PAUSES,
): Promise<ReadonlyMap<number, string>> {
  const marks = new Map<number, string>();
  let unread = entries.filter(({ kernel }) => !kernel);
  for (const pause of pauses) {
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

const MARK = `${RUN_VARIABLE}=`;

function markIn(environment: string): string | undefined {
  return environment
    .split("\0")
    .find((entry) => entry.startsWith(MARK))
    ?.slice(MARK.length);
}

/**
 * Fault "D state": the kernel answers environ under a lock that a stuck process may hold for ever, and each read that hangs keeps one
 * of Node's few threads for files. A read is awaited so long, seconds.
 */
const READ_LIMIT = 0.5;
/** While so many reads hang, no other environment is read. */
const MOST_HANGING_READS = 2;
let openReads = 0;

/** Undefined if it cannot be read; empty during an exec, and for a process that has none. Rejects if no file descriptor is free. */
async function readEnvironment(pid: number): Promise<string | undefined> {
  if (openReads >= MOST_HANGING_READS) return undefined;
  openReads++;
  const read = readProcFile(`/proc/${pid}/environ`)
    .catch((thrown: unknown) => {
      if (lacksDescriptors(thrown)) throw thrown;
      return undefined; // it has ended, or belongs to another user
    })
    .finally(() => openReads--);
  return within(READ_LIMIT, read, undefined);
}
