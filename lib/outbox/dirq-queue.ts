import fsp from "node:fs/promises";
import { dirname, join } from "node:path";
import { makeDirectory, syncDirectory, writeDurably } from "../store/durable.ts";
import { errnoOf, isErrno, linkError, orIfMissing, storeError } from "../store/fs-error.ts";
import { isGridmeterLock, lockMessage, unlockMessage } from "./dirq-lock.ts";
import { isDirqDirectory, isDirqElement, newDirqName } from "./dirq-names.ts";
import type { MessageQueue, OpenQueue, QueuedMessage, ReplaceResult } from "./message-queue.ts";
import { withQueueLock } from "./queue-lock.ts";
import type { Held } from "./queue-lock.ts";

/** How long to wait for another gridmeter, milliseconds. */
export const PATIENCE = 30_000;

/** ssmsend's queue with `path_type: dirq`, file by file as python-dirq's QueueSimple reads it. */
export class DirqQueue implements MessageQueue {
  readonly place: string;
  readonly #root: string;
  readonly #patience: number;

  constructor(root: string, patience = PATIENCE) {
    this.#root = root;
    this.#patience = patience;
    this.place = `dirq:${root}`;
  }

  async exclusively<T>(work: (queue: OpenQueue) => Promise<T>): Promise<T | "taken"> {
    try {
      return await withQueueLock(this.#root, this.#patience, (held) => work(new OpenDirq(this.#root, held)));
    } catch (thrown) {
      // What is no failed system call comes from the caller's work, and is not the queue's to explain.
      throw errnoOf(thrown) === undefined ? thrown : storeError(thrown, "write to the queue", this.#root);
    }
  }
}

class OpenDirq implements OpenQueue {
  readonly #root: string;
  readonly #held: Held;

  constructor(root: string, held: Held) {
    this.#root = root;
    this.#held = held;
  }

  async list(): Promise<readonly QueuedMessage[]> {
    const messages: QueuedMessage[] = [];
    for (const directory of (await fsp.readdir(this.#root)).filter(isDirqDirectory).sort()) {
      const files = await orIfMissing(fsp.readdir(join(this.#root, directory)), []);
      for (const file of files.filter(isDirqElement).sort()) {
        const name = `${directory}/${file}`;
        messages.push({ name, read: () => orIfMissing(fsp.readFile(join(this.#root, name), "utf8"), undefined) });
      }
      await dropOrphans(join(this.#root, directory), files);
    }
    return messages;
  }

  async replace(older: readonly string[], bodies: readonly string[]): Promise<ReplaceResult> {
    await this.#held.refresh();
    const locked: string[] = [];
    const written: string[] = [];
    try {
      for (const name of older) {
        const message = join(this.#root, name);
        const locking = await lockMessage(message, this.#held.marker);
        if (locking === "busy") return { status: "busy", name };
        if (locking === "held") locked.push(message);
      }
      // All that can fail for want of space comes before the first removal.
      for (const body of bodies) written.push(await writeTemporary(this.#root, body));
      for (const message of locked) await orIfMissing(fsp.unlink(message), undefined);
      // A power cut must not bring an older message back beside a new one.
      for (const directory of new Set(locked.map(dirname))) await syncDirectory(directory);
      const names: string[] = [];
      for (const temporary of written) names.push(await publish(temporary));
      return { status: "added", names };
    } finally {
      for (const temporary of written) await orIfMissing(fsp.unlink(temporary), undefined);
      // Only after the message itself is gone (or stays after all): else ssmsend could take it in between.
      for (const message of locked) await unlockMessage(message);
    }
  }
}

async function writeTemporary(root: string, body: string): Promise<string> {
  for (;;) {
    const { directory, file } = newDirqName();
    const temporary = join(root, directory, `${file}.tmp`);
    try {
      await writeDurably(temporary, body);
      return temporary;
    } catch (thrown) {
      // ENOENT: a new minute, or ssmsend's purge removed the empty directory.
      if (isErrno(thrown, "ENOENT")) await makeDirectory(dirname(temporary));
      else if (!isErrno(thrown, "EEXIST")) throw thrown;
    }
  }
}

/** Makes a finished message visible: from here on ssmsend may take it. The caller removes the temporary file. */
async function publish(temporary: string): Promise<string> {
  const directory = dirname(temporary);
  for (;;) {
    const { file } = newDirqName();
    try {
      await fsp.link(temporary, join(directory, file));
    } catch (thrown) {
      if (isErrno(thrown, "EEXIST")) continue;
      throw linkError(thrown, join(directory, file));
    }
    await syncDirectory(directory);
    return `${directory.slice(-8)}/${file}`;
  }
}

/** Locks of a gridmeter killed after it removed the message and before it removed the lock. */
async function dropOrphans(directory: string, files: readonly string[]): Promise<void> {
  for (const file of files) {
    const element = file.slice(0, -".lck".length);
    if (!file.endsWith(".lck") || files.includes(element)) continue;
    const message = join(directory, element);
    if (await isGridmeterLock(message, join(directory, file))) await unlockMessage(message);
  }
}
