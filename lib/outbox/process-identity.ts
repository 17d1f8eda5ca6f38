import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { z } from "zod";

const SIGN = "gridmeter lock ";
/** No lock's text is longer, in bytes. */
export const LOCK_TEXT = 4096;

const identity = z.object({
  host: z.string(),
  /** containers of one host name may each have their own process numbers */
  pidSpace: z.string(),
  boot: z.string(),
  pid: z.number(),
  /** clock ticks from boot to the process's start: tells a process from a later one with the same number */
  started: z.string(),
});

/** Which process left a lock, well enough to tell later whether it still runs. */
export type ProcessIdentity = z.infer<typeof identity>;

function orEmpty(read: () => string): string {
  try {
    return read().trim();
  } catch {
    return ""; // no /proc: not Linux, or no such process
  }
}

/** The process's start in ticks; "" if it does not run (a zombie runs no more) or there is no /proc. */
function startOf(pid: number): string {
  const stat = orEmpty(() => readFileSync(`/proc/${pid}/stat`, "utf8"));
  // The second field is the program's name in parentheses and may hold blanks and parentheses.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" || fields[0] === "X" ? "" : (fields[19] ?? "");
}

export function ownIdentity(): ProcessIdentity {
  return {
    host: hostname(),
    pidSpace: orEmpty(() => readlinkSync("/proc/self/ns/pid")),
    boot: orEmpty(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8")),
    pid: process.pid,
    started: startOf(process.pid),
  };
}

/** The text of a lock left by this process. */
export function lockText(owner: ProcessIdentity): string {
  return `${SIGN}${JSON.stringify(owner)}\n`;
}

/** Whether a gridmeter wrote this lock, whole or not. */
export function isLockText(text: string): boolean {
  return text.startsWith(SIGN);
}

/** Who left the lock; undefined if the text does not say. */
export function readLockText(text: string): ProcessIdentity | undefined {
  if (!isLockText(text)) return undefined;
  try {
    return identity.parse(JSON.parse(text.slice(SIGN.length)));
  } catch {
    return undefined;
  }
}

/** A lock of another host, whose processes cannot be seen from here, counts as left behind after this, milliseconds. */
const FOREIGN_LIMIT = 600_000;

/** Whether the lock's owner may still be at work. `age` is the time since it last touched the lock, milliseconds. */
export function mayBeAlive(owner: ProcessIdentity | undefined, age: number): boolean {
  const own = ownIdentity();
  if (owner === undefined || owner.host !== own.host || owner.pidSpace !== own.pidSpace) return age <= FOREIGN_LIMIT;
  if (owner.boot !== own.boot) return false;
  if (own.started !== "") return startOf(owner.pid) === owner.started;
  try {
    process.kill(owner.pid, 0);
    return true;
  } catch (thrown) {
    return thrown instanceof Error && "code" in thrown && thrown.code === "EPERM";
  }
}
