import fsp from "node:fs/promises";
import { basename, join } from "node:path";
import { syncDirectory, writeDurably } from "../store/durable.ts";
import { errnoOf, orIfMissing, storeError } from "../store/fs-error.ts";
import { PATIENCE } from "./dirq-queue.ts";
import { newDirqName } from "./dirq-names.ts";
import type { MessageQueue, OpenQueue, QueuedMessage, ReplaceResult } from "./message-queue.ts";
import { withQueueLock } from "./queue-lock.ts";
import type { Held } from "./queue-lock.ts";

/**
 * ssmsend's queue with `path_type: directory`: ssmsend sends every regular file in it, whatever its name, oldest mtime
 * first. So files are written in a hidden directory inside and renamed in when they are whole. This kind of queue has no
 * locks: a message may be replaced while ssmsend sends it; it then was sent before the new one is seen.
 */
export class PlainDirectoryQueue implements MessageQueue {
  readonly place: string;
  readonly #root: string;
  readonly #patience: number;

  constructor(root: string, patience = PATIENCE) {
    this.#root = root;
    this.#patience = patience;
    this.place = `dir:${root}`;
  }

  async exclusively<T>(work: (queue: OpenQueue) => Promise<T>): Promise<T | "taken"> {
    try {
      return await withQueueLock(this.#root, this.#patience, (held) => work(new OpenDirectory(this.#root, held)));
    } catch (thrown) {
      // What is no failed system call comes from the caller's work, and is not the queue's to explain.
      throw errnoOf(thrown) === undefined ? thrown : storeError(thrown, "write to the queue", this.#root);
    }
  }
}

class OpenDirectory implements OpenQueue {
  readonly #root: string;
  readonly #held: Held;

  constructor(root: string, held: Held) {
    this.#root = root;
    this.#held = held;
  }

  async list(): Promise<readonly QueuedMessage[]> {
    const found: (QueuedMessage & { readonly mtime: bigint })[] = [];
    for (const name of await fsp.readdir(this.#root)) {
      const path = join(this.#root, name);
      const stat = await orIfMissing(fsp.stat(path, { bigint: true }), undefined);
      if (!stat?.isFile()) continue;
      const read = (): Promise<string | undefined> => orIfMissing(fsp.readFile(path, "utf8"), undefined);
      found.push({ name, read, mtime: stat.mtimeNs });
    }
    found.sort((a, b) => (a.mtime === b.mtime ? (a.name < b.name ? -1 : 1) : a.mtime < b.mtime ? -1 : 1));
    return found.map(({ name, read }) => ({ name, read }));
  }

  async replace(older: readonly string[], bodies: readonly string[]): Promise<ReplaceResult> {
    await this.#held.refresh();
    const written: string[] = [];
    try {
      for (const body of bodies) {
        const temporary = join(this.#held.scratch, newDirqName().file);
        await writeDurably(temporary, body);
        written.push(temporary);
      }
      for (const name of older) await orIfMissing(fsp.unlink(join(this.#root, name)), undefined);
      // A power cut must not bring an older message back beside a new one.
      await syncDirectory(this.#root);
      const names = written.map((path) => basename(path));
      for (const name of names) await fsp.rename(join(this.#held.scratch, name), join(this.#root, name));
      await syncDirectory(this.#root);
      return { status: "added", names };
    } finally {
      for (const temporary of written) await orIfMissing(fsp.unlink(temporary), undefined);
    }
  }
}
