import { type GuardedFolder, Odd } from "../store/guarded-folder.ts";
import { type Held, LOCK_WAIT_MS, withQueueLock } from "./lock.ts";
import { dealtWith } from "./refused-folder.ts";
import {
  type Dealt,
  LARGEST_QUEUED,
  type MessageQueue,
  type OpenQueue,
  type QueuedMessage,
  type ReplaceResult,
  type TakeResult,
  newDirqName,
} from "./queue.ts";

/**
 * ssmsend's queue with `path_type: directory`: ssmsend sends every regular file in it, whatever its name, oldest mtime
 * first. So files are written in a hidden directory inside and renamed in when they are whole. This kind of queue has no
 * locks: a message may be replaced while ssmsend sends it; it then was sent before the new one is seen.
 */
export class PlainDirectoryQueue implements MessageQueue {
  readonly place: string;
  readonly #root: string;
  readonly #lockWaitMs: number;
  readonly #warn: (text: string) => void;

  constructor(root: string, lockWaitMs = LOCK_WAIT_MS, warn: (text: string) => void = () => undefined) {
    this.#root = root;
    this.#lockWaitMs = lockWaitMs;
    this.#warn = warn;
    this.place = `dir:${root}`;
  }

  async exclusively<T>(work: (queue: OpenQueue) => Promise<T>): Promise<T | "taken"> {
    const warn = this.#warn;
    return withQueueLock(this.#root, this.#lockWaitMs, warn, (root, held) => work(new OpenDirectory(root, held, warn)));
  }
}

class OpenDirectory implements OpenQueue {
  readonly #root: GuardedFolder;
  readonly #held: Held;
  readonly #warn: (text: string) => void;

  constructor(root: GuardedFolder, held: Held, warn: (text: string) => void) {
    this.#root = root;
    this.#held = held;
    this.#warn = warn;
  }

  async list(): Promise<readonly QueuedMessage[]> {
    const found: (Omit<QueuedMessage, "since"> & { readonly mtime: bigint })[] = [];
    for (const name of this.#root.names()) {
      const stat = this.#root.stat(name);
      // ssmsend passes over folders, but follows a link to a file.
      if (stat === undefined || stat.isDirectory()) continue;
      found.push({ name, order: String(stat.mtimeNs), read: () => this.#read(name), mtime: stat.mtimeNs });
    }
    found.sort((a, b) => (a.mtime === b.mtime ? (a.name < b.name ? -1 : 1) : a.mtime < b.mtime ? -1 : 1));
    return found.map(({ name, order, read, mtime }) => ({
      name,
      order,
      read,
      since: Number(mtime / 1_000_000_000n),
    }));
  }

  async replace(older: readonly string[], bodies: readonly string[]): Promise<ReplaceResult> {
    await this.#held.refresh();
    const root = this.#root;
    const { own } = this.#held;
    const written: string[] = [];
    try {
      for (const body of bodies) {
        const name = newDirqName().file;
        await own.write(name, body);
        written.push(name);
      }
      for (const name of older) await root.remove(name);
      // A power cut must not bring an older message back beside a new one.
      await root.sync();
      for (const name of written) await own.rename(name, root, name);
      await root.sync();
      return { status: "added", names: written };
    } finally {
      for (const name of written) await own.remove(name);
    }
  }

  /** Without locks ssmsend may send the message too, which is harmless: the same text twice. */
  async take(name: string, deal: (text: string) => Promise<Dealt>): Promise<TakeResult> {
    await this.#held.refresh();
    const text = await this.#read(name);
    return text === undefined ? "gone" : dealtWith(await deal(text), this.#root, name, this.#held.own);
  }

  async #read(name: string): Promise<string | undefined> {
    const text = this.#root.read(name, LARGEST_QUEUED);
    if (!(text instanceof Odd)) return text;
    this.#warn(await this.#root.setAside(name, text, this.#held.own));
    return undefined;
  }
}
