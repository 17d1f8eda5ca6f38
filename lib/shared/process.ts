import { readFileSync } from "node:fs";
import { isErrno } from "./fs.ts";

/** A process as /proc/PID/stat shows it. */
export type ProcessEntry = {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** clock ticks from boot to its start; with the number it distinguishes a process from a later one that was given the same number */
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
// p
