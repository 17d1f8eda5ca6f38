/** The states of ps(1): a closed set, so that it can be a label. */
export const PROCESS_STATES = ["D", "I", "R", "S", "T", "t", "W", "X", "Z"] as const;
export type ProcessState = (typeof PROCESS_STATES)[number];

export type Process = {
  readonly state: ProcessState;
  readonly residentBytes: number;
  readonly pid: number;
  /** the command line as printed, or `[name]` where there is none; the kernel's name where ps was asked for that */
  readonly commandLine: string;
  /** the name by which it is counted. A user may give a process any name. */
  readonly name: string;
  /** whether root started it and it runs as root; undefined where ps was not asked */
  readonly isRoot?: boolean;
  /** the function of the kernel in which it waits; undefined where ps was not asked or may not know */
  readonly wait?: string | undefined;
};

/**
 * What a process waits for in state D because its user wants it to, for as long as the user likes: a child of vfork, a group that is
 * frozen (a paused container), a page that another process hands out (userfaultfd), a file system that the user serves (FUSE).
 * Nothing hangs in the kernel then. Kernels name the function of vfork differently.
 */
const WAITS_OF_USERS: ReadonlySet<string> = new Set([
  "wait_for_vfork_done",
  "kernel_clone",
  "_do_fork",
  "do_fork",
  "__refrigerator",
  "handle_userfault",
  "request_wait_answer",
]);

/** Whether a process in state D waits for what its own user holds back. Compilers add endings to names: `.part.0`, `.isra.0`. */
export const waitsForItsUser = ({ state, wait }: Process): boolean =>
  state === "D" && wait !== undefined && WAITS_OF_USERS.has(wait.slice(0, 64).split(".", 1)[0] ?? "");
