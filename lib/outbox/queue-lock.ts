import { randomUUID } from "node:crypto";
import fsp from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { GridmeterError } from "../errors.ts";
import { makeDirectory, writeDurably } from "../store/durable.ts";
import { isErrno, orIfMissing } from "../store/fs-error.ts";
import { lockText, mayBeAlive, ownIdentity, readLockText } from "./process-identity.ts";

/** Hidden in the queue's directory, on its file system: ssmsend looks at no such name. */
const OWN_DIRECTORY = ".gridmeter";
const STALE = 3_600_000;

/** The lock on a queue while this process holds it. */
export type Held = {
  /** the lock's file: `.lck` files are made as links of it, so that their owner is known */
  readonly marker: string;
  /** a directory for half-written files, on the queue's file system */
  readonly scratch: string;
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
  queue: string,
  patience: number,
  work: (held: Held) => Promise<T>,
): Promise<T | "taken"> {
  const scratch = join(queue, OWN_DIRECTORY);
  await makeDirectory(scratch);
  const deadline = Date.now() + patience;
  for (;;) {
    const marker = await putUp(scratch);
    try {
      if (!(await othersAt(scratch, marker))) return await work({ marker, scratch, refresh: () => touch(marker) });
    } finally {
      await orIfMissing(fsp.unlink(marker), undefined);
    }
    if (Date.now() >= deadline) return "taken";
    await sleep(10 + Math.random() * 90);
  }
}

async function putUp(scratch: string): Promise<string> {
  const id = randomUUID();
  const unfinished = join(scratch, `new-${id}`);
  await writeDurably(unfinished, lockText(ownIdentity()));
  const marker = join(scratch, `lock-${id}`);
  await fsp.rename(unfinished, marker);
  return marker;
}

async function othersAt(scratch: string, own: string): Promise<boolean> {
  let others = false;
  for (const name of await fsp.readdir(scratch)) {
    const path = join(scratch, name);
    if (path === own) continue;
    const stat = await orIfMissing(fsp.stat(path), undefined);
    if (stat === undefined) continue;
    const age = Date.now() - stat.mtimeMs;
    if (name.startsWith("lock-")) {
      const text = await orIfMissing(fsp.readFile(path, "utf8"), undefined);
      if (text === undefined) continue;
      if (mayBeAlive(readLockText(text), age)) {
        others = true;
        continue;
      }
    } else if (age < STALE) continue;
    await orIfMissing(fsp.unlink(path), undefined);
  }
  return others;
}

async function touch(marker: string): Promise<void> {
  const now = new Date();
  try {
    await fsp.utimes(marker, now, now);
  } catch (thrown) {
    if (!isErrno(thrown, "ENOENT")) throw thrown;
    throw new GridmeterError(
      "store_conflict",
      `Another gridmeter took the lock ${marker} for one left behind (was this machine suspended?). ` +
        `The message was not added; it is still in outgoing/. Run again.`,
      { cause: thrown },
    );
  }
}
