import { isErrno } from "../store/fs-error.ts";
import { readProcess } from "./runner-process-table.ts";
import type { ProcessEntry } from "./runner-process-table.ts";

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

  /** Only while the child cannot have been reaped: that happens in the event loop, where `reaped` is told at once. */
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
