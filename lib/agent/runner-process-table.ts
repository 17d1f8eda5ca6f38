import { readFileSync } from "node:fs";
import { readFile, readdir } from "node:fs/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import { isErrno } from "../store/fs-error.ts";

/** A process as /proc/PID/stat shows it. */
export type ProcessEntry = {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** clock ticks from boot to its start; with the number it tells a process from a later one that was given the same number */
  readonly start: number;
  /** false for a zombie, which holds nothing and only waits to be reaped by its parent */
  readonly alive: boolean;
  /** a thread of the kernel, which no command ever started */
  readonly kernel: boolean;
};

/** The bit of field `flags` that marks a thread of the kernel (PF_KTHREAD in linux/sched.h). */
const KERNEL_THREAD = 0x20_00_00;

/** Reads the text of /proc/PID/stat (man 5 proc_pid_stat); undefined if it is none. */
export function parseStat(text: string): ProcessEntry | undefined {
  // The second field is the program's name in parentheses and may hold blanks and parentheses itself.
  const closing = text.lastIndexOf(") ");
  const pid = Number.parseInt(text, 10);
  const fields = text.slice(closing + 2).split(" ");
  const [state, parent, group] = fields;
  const start = Number(fields[19]);
  if (closing < 0 || !Number.isSafeInteger(pid) || !Number.isSafeInteger(start)) return undefined;
  const kernel = (Number(fields[6]) & KERNEL_THREAD) !== 0;
  return { pid, parent: Number(parent), group: Number(group), start, alive: state !== "Z" && state !== "X", kernel };
}

/** Whether a file could not be read for want of file descriptors, which says nothing about what is in it. */
export const isStarved = (thrown: unknown): boolean => isErrno(thrown, "EMFILE", "ENFILE");

/**
 * The process of that number now; undefined if there is none, or no /proc. Read synchronously: the kernel answers it from
 * memory and, unlike cmdline or environ, without a lock that a stuck process may hold. Throws for want of file descriptors.
 */
export function readProcess(pid: number): ProcessEntry | undefined {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch (thrown) {
    if (isStarved(thrown)) throw thrown;
    return undefined;
  }
}

/** Whether this very process still runs. While that cannot be told it counts as running. */
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
 * Which numbers were given to processes since those of `first` were; undefined where the circle is too narrow to tell. To be
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
