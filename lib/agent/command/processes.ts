import { close, open, read } from "node:fs";
import { readFile, readdir } from "node:fs/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import { isErrno } from "../../shared/fs.ts";
import { type ProcessEntry, isStarved, readProcess } from "../../shared/process.ts";

/** Whether this very process still runs. While that cannot be known it counts as running. */
export function isAlive(entry: ProcessEntry): boolean {
  try {
    const now = readProcess(entry.pid);
    return now !== undefined && now.start === entry.start && now.alive;
  } catch {
    return true;
  }
}

const AT_ONCE = 64;

/** Numbers of processes are given out in a circle; one of a million is not gone round within a minute. */
const WIDE_CIRCLE = 1_000_000;

/**
 * Which numbers were given to processes since those of `first` were; undefined where the circle is too narrow to know. To be
 * called once the processes were listed. Rejects for want of file descriptors.
 */
async function givenSince(first: readonly number[]): Promise<((pid: number) => boolean) | undefined> {
  try {
    const circle = Number(await readFile("/proc/sys/kernel/pid_max", "utf8"));
    // The last field of /proc/loadavg: the number that was given last (man 5 proc_loadavg).
    const last = Number((await readFile("/proc/loadavg", "utf8")).split(" ").at(-1));
    if (!(circle >= WIDE_CIRCLE && last > 0)) return undefined;
    return (pid) => first.some((one) => inCircle(pid, one, last));
  } catch (thrown) {
    if (isStarved(thrown)) throw thrown;
    return undefined;
  }
}

/** Whether a number lies between two others, these included, on a circle. */
export const inCircle = (pid: number, first: number, last: number): boolean =>
  first <= last ? first <= pid && pid <= last : first <= pid || pid <= last;

/**
 * All living processes that started at `start` (ticks) or later. In small steps: a node has thousands, and a scrape waits. Rejects
 * for want of file descriptors.
 * @param first numbers of processes of this last minute: only those since one of them are wanted, and the thousands before need
 *   not be read
 */
export async function processesSince(start: number, first?: readonly number[]): Promise<ProcessEntry[]> {
  const names = await readdir("/proc").catch((thrown: unknown): string[] => {
    if (isStarved(thrown)) throw thrown;
    return [];
  });
  const isWanted = first === undefined ? undefined : await givenSince(first);
  const all = names.map(Number).filter((pid) => Number.isSafeInteger(pid));
  const pids = isWanted === undefined ? all : all.filter(isWanted);
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

/** Most of these files are smaller by far; where one is not, each further read takes twice as much. */
const CHUNK = 4096;
const LARGEST_CHUNK = 64 * 1024;

/**
 * Reads a file of /proc as text, one that the kernel writes at once, as `cgroup` or `environ` (and not, say, `net/tcp`). With half
 * the work of `readFile`, which asks for the size first (such a file has none) and takes room for a large one: of these files,
 * thousands may be read at a time. Bytes that are no UTF-8 are replaced. Rejects as the system call that failed.
 */
export const readProcFile = (path: string): Promise<string> =>
  new Promise((resolve, reject) => {
    open(path, "r", (failure, file) => {
      if (failure) return reject(failure);
      const chunks: Buffer[] = [];
      const end = (thrown: Error | null): void =>
        close(file, () => (thrown ? reject(thrown) : resolve(Buffer.concat(chunks).toString("utf8"))));
      const next = (size: number): void =>
        read(file, Buffer.allocUnsafe(size), 0, size, null, (thrown, bytes, chunk) => {
          if (thrown) return end(thrown);
          if (bytes > 0) chunks.push(chunk.subarray(0, bytes));
          // The kernel gives as much of such a text as there is room for.
          if (bytes === size) next(Math.min(size * 2, LARGEST_CHUNK));
          else end(null);
        });
      next(CHUNK);
    });
  });

/** Whether a file of /proc could not be read since its process is gone, or may not be looked at. */
export const isHidden = (thrown: unknown): boolean => isErrno(thrown, "ENOENT", "ESRCH", "EACCES", "EPERM");

/** After its child was reaped, the number of a group may be given to others; for so long (milliseconds) it surely was not. */
const NUMBER_STAYS_OURS = 5_000;

/** Milliseconds. */
const RECENT = 60_000;

/**
 * One started command and all that came of it. The child is made the leader of a session and of a process group, both of
 * which carry its number.
 */
export class Tree {
  /** the value of GRIDMETER_RUN in the environment of all its processes */
  readonly mark: string;
  readonly pid: number;
  #start: number | undefined;
  readonly #seenAt = performance.now();
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

  /** Only while the child cannot have been reaped: that happens in the event loop, where `reaped` is set at once. */
  #readStart(): void {
    try {
      if (!this.isReaped) this.#start = readProcess(this.pid)?.start;
    } catch {
      // No file descriptors are left: it is read when it is asked for.
    }
  }

  /** To be called in the child's `exit` event: from then on its number is not ours for good. */
  reaped(): void {
    this.#reapedAt = performance.now();
  }

  get isReaped(): boolean {
    return this.#reapedAt !== undefined;
  }

  /** Whether it was started within the last minute. */
  get isRecent(): boolean {
    return performance.now() - this.#seenAt < RECENT;
  }

  /** Whether processes in the group of that number are still the command's. */
  get ownsGroup(): boolean {
    return this.#reapedAt === undefined || performance.now() - this.#reapedAt < NUMBER_STAYS_OURS;
  }

  /** Whether anybody is left in the group. Signal 0 harms nobody, so this may be asked after the child was reaped. */
  get groupIsEmpty(): boolean {
    return !sent(-this.pid, 0);
  }

  /** Signals the group, but only while its leader is un-reaped: afterwards the number may be somebody else's. */
  signal(signal: "SIGTERM" | "SIGKILL"): void {
    if (!this.isReaped) sent(-this.pid, signal);
  }
}

/** Signals one process outside the group, if it still is the one that was seen. */
export function signalProcess(entry: ProcessEntry, signal: "SIGTERM" | "SIGKILL"): void {
  try {
    if (readProcess(entry.pid)?.start === entry.start) sent(entry.pid, signal);
  } catch {
    // Nobody knows whose number it is now. It is asked again, as it counts as alive.
  }
}

/** False if there is nobody to take it. One that may not be signalled (it became another user: sudo) counts as there. */
function sent(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch (thrown) {
    return !isErrno(thrown, "ESRCH");
  }
}
