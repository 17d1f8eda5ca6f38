// The lock by which one gridmeter at a time is at a queue. ssmsend knows nothing of it: against ssmsend each message has a lock of its own
// (python-dirq's protocol, in dirq.ts). A newer message may go only after the older ones of its APEL keys were taken out of the
// queue, which two at once would undo. A lock names its process, so that one that was killed is known and shuts nobody out.
import { readProcess } from "../../shared/proc.ts";
import { randomUUID } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { GridmeterError } from "../../shared/errors.ts";
import { errnoOf, isErrno, storeError } from "../../shared/fs.ts";
import { parseJson } from "../../shared/text.ts";
import { GuardedFolder, Odd } from "../store/guarded-folder.ts";
import { checkQueueOwner } from "../store/ownership.ts";
import { isDirqElement } from "./queue.ts";

/** How long to wait for another gridmeter, milliseconds. */
export const LOCK_WAIT_MS = 30_000;
/** Hidden in the queue's directory, on its file system: ssmsend looks at no such name. */
const OWN_DIRECTORY = ".gridmeter";
const STALE = 3_600_000;
const LOCK = /^lock-[0-9a-f-]{36}$/;
const UNFINISHED = /^new-[0-9a-f-]{36}$/;

/** The lock's file: `.lck` files are made as links of it, so that their owner is known. */
export type Marker = { readonly folder: GuardedFolder; readonly name: string };

/** The lock on a queue while this process holds it. */
export type Held = {
  readonly marker: Marker;
  /** a directory for half-written files and what is set aside, on the queue's file system */
  readonly own: GuardedFolder;
  /** Says that the owner is at work; throws `store_conflict` if another gridmeter took the lock for a left one. */
  refresh(): Promise<void>;
};

/**
 * Opens a queue's directory, which is made if it is missing, for one gridmeter at a time.
 * @param work what to do with the directory while the lock is held; afterwards the directory is closed
 * @returns "taken" if others held it for `lockWaitMs` milliseconds
 * @throws GridmeterError `queue_owner`, `store_failed`, `store_no_hard_links`; whatever `work` throws
 */
export async function withQueueLock<T>(
  path: string,
  lockWaitMs: number,
  warn: (text: string) => void,
  work: (root: GuardedFolder, held: Held) => Promise<T>,
): Promise<T | "taken"> {
  checkQueueOwner(path);
  let opened: GuardedFolder | undefined;
  try {
    const root = (opened = await GuardedFolder.makeRoot(path, "queue"));
    return await whileLocked(root, lockWaitMs, warn, (held) => work(root, held));
  } catch (thrown) {
    // What is no failed system call comes from the caller's work, and is not the queue's to explain.
    throw errnoOf(thrown) === undefined ? thrown : storeError(thrown, "write to the queue", path);
  } finally {
    opened?.close();
  }
}

/**
 * Each process that wants it first puts up a file of its own and then looks for
 * others: of two, at least one sees the other and steps back. A file of a dead process is removed by the process that sees it;
 * names are never used twice, so nobody can remove a living one's by mistake.
 */
async function whileLocked<T>(
  queue: GuardedFolder,
  lockWaitMs: number,
  warn: (text: string) => void,
  work: (held: Held) => Promise<T>,
): Promise<T | "taken"> {
  const ownFolder = await queue.own(OWN_DIRECTORY, warn);
  try {
    const deadline = Date.now() + lockWaitMs;
    for (;;) {
      const name = await putUp(ownFolder);
      const marker = { folder: ownFolder, name };
      try {
        if (!(await othersAt(ownFolder, name, warn)))
          return await work({ marker, own: ownFolder, refresh: () => touch(marker) });
      } finally {
        await ownFolder.remove(name);
      }
      if (Date.now() >= deadline) return "taken";
      await sleep(10 + Math.random() * 90);
    }
  } finally {
    ownFolder.close();
  }
}

async function putUp(ownFolder: GuardedFolder): Promise<string> {
  const id = randomUUID();
  await ownFolder.write(`new-${id}`, lockText(ownIdentity()));
  await ownFolder.rename(`new-${id}`, ownFolder, `lock-${id}`);
  return `lock-${id}`;
}

/** Looks for others and clears away what dead ones left: only files that have names of gridmeter's making. */
async function othersAt(ownFolder: GuardedFolder, own: string, warn: (text: string) => void): Promise<boolean> {
  let others = false;
  for (const name of ownFolder.names()) {
    const isLock = LOCK.test(name);
    if (name === own || !(isLock || UNFINISHED.test(name) || isDirqElement(name))) continue;
    const stat = ownFolder.stat(name);
    if (stat === undefined) continue;
    const age = Date.now() - Number(stat.mtimeMs);
    if (isLock) {
      const text = ownFolder.read(name, LOCK_TEXT);
      if (text instanceof Odd)
        warn(`${ownFolder.path}/${name} is ${text.what}. It counts as no lock and is left alone.`);
      if (typeof text !== "string") continue;
      if (mayBeAlive(readLockText(text), age)) {
        others = true;
        continue;
      }
    } else if (age < STALE || !stat.isFile()) continue;
    await ownFolder.remove(name);
  }
  return others;
}

async function touch({ folder, name }: Marker): Promise<void> {
  try {
    await folder.touch(name);
  } catch (thrown) {
    if (!isErrno(thrown, "ENOENT")) throw thrown;
    throw new GridmeterError(
      "store_conflict",
      `Another gridmeter took the lock ${folder.path}/${name} for one left behind (was this machine suspended?). ` +
        `The message was not added; it is still in outgoing/. Run again.`,
      { cause: thrown },
    );
  }
}

const SIGN = "gridmeter lock ";
/** No lock's text is longer, in bytes. */
export const LOCK_TEXT = 4096;

export const identity = z.object({
  host: z.string(),
  /** containers of one host name may each have their own process numbers */
  pidSpace: z.string(),
  boot: z.string(),
  pid: z.number(),
  /** clock ticks from boot to the process's start: distinguishes a process from a later one with the same number */
  started: z.string(),
});

/**
 * Whether a process is known to be gone: one of this very machine, as seen from here, that runs no more. False where nothing can be
 * known of it.
 */
export function isKnownGone(owner: ProcessIdentity): boolean {
  const own = ownIdentity();
  const isHere = owner.host === own.host && owner.pidSpace === own.pidSpace && owner.boot === own.boot;
  return isHere && own.started !== "" && startOf(owner.pid) !== owner.started;
}

/** Which process left a lock, well enough to know later whether it still runs. */
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
  const found = readProcess(pid);
  return found?.alive === true ? String(found.start) : "";
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
function readLockText(text: string): ProcessIdentity | undefined {
  if (!isLockText(text)) return undefined;
  return identity.safeParse(parseJson(text.slice(SIGN.length))).data;
}

/** A lock of another host, whose processes cannot be seen from here, counts as left behind after this, milliseconds. */
const FOREIGN_LIMIT = 600_000;

/** Whether the lock's owner may still be at work. `age` is the time since it last touched the lock, milliseconds. */
function mayBeAlive(owner: ProcessIdentity | undefined, age: number): boolean {
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
