import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { GridmeterError } from "../errors.ts";
import { isErrno } from "../store/fs-error.ts";
import { Odd } from "../store/guarded-folder.ts";
import type { GuardedFolder } from "../store/guarded-folder.ts";
import { isDirqElement } from "./dirq-names.ts";
import { LOCK_TEXT, lockText, mayBeAlive, ownIdentity, readLockText } from "./process-identity.ts";

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
  readonly scratch: GuardedFolder;
  /** Says that the owner is at work; throws `store_conflict` if another gridmeter took the lock for a left one. */
  refresh(): Promise<void>;
};

/**
 * One gridmeter at a time at a queue. Each process that wants it first puts up a file of its own and then looks for
 * others: of two, at least one sees the other and steps back. A file of a dead process is removed by whoever sees it;
 * names are never used twice, so nobody can remove a living one's by mistake.
 * @returns "taken" if others held it for `patience` milliseconds
 */
export async function withQueueLock<T>(
  queue: GuardedFolder,
  patience: number,
  warn: (text: string) => void,
  work: (held: Held) => Promise<T>,
): Promise<T | "taken"> {
  const scratch = await queue.own(OWN_DIRECTORY, warn);
  try {
    const deadline = Date.now() + patience;
    for (;;) {
      const name = await putUp(scratch);
      const marker = { folder: scratch, name };
      try {
        if (!(await othersAt(scratch, name, warn)))
          return await work({ marker, scratch, refresh: () => touch(marker) });
      } finally {
        await scratch.remove(name);
      }
      if (Date.now() >= deadline) return "taken";
      await sleep(10 + Math.random() * 90);
    }
  } finally {
    scratch.close();
  }
}

async function putUp(scratch: GuardedFolder): Promise<string> {
  const id = randomUUID();
  await scratch.write(`new-${id}`, lockText(ownIdentity()));
  await scratch.rename(`new-${id}`, scratch, `lock-${id}`);
  return `lock-${id}`;
}

/** Looks for others and clears away what dead ones left: only files that have names of gridmeter's making. */
async function othersAt(scratch: GuardedFolder, own: string, warn: (text: string) => void): Promise<boolean> {
  let others = false;
  for (const name of scratch.names()) {
    const isLock = LOCK.test(name);
    if (name === own || !(isLock || UNFINISHED.test(name) || isDirqElement(name))) continue;
    const stat = scratch.stat(name);
    if (stat === undefined) continue;
    const age = Date.now() - Number(stat.mtimeMs);
    if (isLock) {
      const text = scratch.read(name, LOCK_TEXT);
      if (text instanceof Odd) warn(`${scratch.path}/${name} is ${text.what}. It counts as no lock and is left alone.`);
      if (typeof text !== "string") continue;
      if (mayBeAlive(readLockText(text), age)) {
        others = true;
        continue;
      }
    } else if (age < STALE || !stat.isFile()) continue;
    await scratch.remove(name);
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
