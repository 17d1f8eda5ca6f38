import { close, open, read, readFileSync } from "node:fs";
import { isErrno } from "./fs.ts";

/** A process as /proc/PID/stat shows it. */
export type ProcessEntry = {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** Clock ticks from boot to its start. Together with the pid it identifies a process, as pids are used again. */
  readonly start: number;
  /** false for a zombie, which holds nothing and only waits to be reaped by its parent */
  readonly alive: boolean;
  /** a thread of the kernel, which no command ever started */
  readonly kernel: boolean;
};

/** The bit of field `flags` that marks a thread of the kernel (PF_KTHREAD in linux/sched.h). */
const KERNEL_THREAD = 0x20_00_00;

/** Reads the text of /proc/PID/stat (man 5 proc_pid_stat); undefined if it is another text. */
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

/**
 * The process that has this pid now; undefined if there is none, or no /proc. Read synchronously: the kernel answers it from
 * memory and, unlike cmdline or environ, without a lock that a stuck process may hold. Throws if no file descriptor is free.
 */
export function readProcess(pid: number): ProcessEntry | undefined {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch (thrown) {
    if (lacksDescriptors(thrown)) throw thrown;
    return undefined;
  }
}

/** Whether a file could not be opened because no file descriptor is free, which says nothing about the file. */
export const lacksDescriptors = (thrown: unknown): boolean => isErrno(thrown, "EMFILE", "ENFILE");

/** Whether a file of /proc could not be read because its process is gone, or may not be looked at. */
export const isHidden = (thrown: unknown): boolean => isErrno(thrown, "ENOENT", "ESRCH", "EACCES", "EPERM");

/** Most files of /proc are smaller than this; where one is larger, each further read takes twice as much. Bytes. */
const FIRST_READ = 4096;
const LARGEST_READ = 64 * 1024;

/**
 * Reads a file of /proc that the kernel writes at once, as `cgroup` or `environ` (and not, say, `net/tcp`). Node's `readFile`
 * allocates 64 KiB for each such file, as it has no size, and does twice the work: a node has thousands of processes, and the
 * agent's memory is bounded. Bytes that are no UTF-8 are replaced. Rejects with the error of the system call that failed.
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
          // The kernel fills the buffer as far as the text goes.
          if (bytes === size) next(Math.min(size * 2, LARGEST_READ));
          else end(null);
        });
      next(FIRST_READ);
    });
  });
