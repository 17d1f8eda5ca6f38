import { isErrno, linkError, orIfMissing } from "../../shared/fs.ts";
import { GuardedFolder, Odd, oddError } from "../store/guarded-folder.ts";
import { type Held, LOCK_TEXT, LOCK_WAIT_MS, type Marker, isLockText, withQueueLock } from "./lock.ts";
import { dealtWith } from "./refused-folder.ts";
import {
  type Dealt,
  LARGEST_QUEUED,
  type MessageQueue,
  type OpenQueue,
  type QueuedMessage,
  type ReplaceResult,
  type TakeResult,
  isDirqDirectory,
  isDirqElement,
  newDirqName,
  timeOfDirqElement,
} from "./queue.ts";

/** ssmsend's queue with `path_type: dirq`, file by file as python-dirq's QueueSimple reads it. */
export class DirqQueue implements MessageQueue {
  readonly place: string;
  readonly #root: string;
  readonly #lockWaitMs: number;
  readonly #warn: (text: string) => void;

  constructor(root: string, lockWaitMs = LOCK_WAIT_MS, warn: (text: string) => void = () => undefined) {
    this.#root = root;
    this.#lockWaitMs = lockWaitMs;
    this.#warn = warn;
    this.place = `dirq:${root}`;
  }

  async exclusively<T>(work: (queue: OpenQueue) => Promise<T>): Promise<T | "taken"> {
    const warn = this.#warn;
    return withQueueLock(this.#root, this.#lockWaitMs, warn, (root, held) => work(new OpenDirq(root, held, warn)));
  }
}

/** A new message in the making. */
type Temporary = { readonly folder: GuardedFolder; readonly directory: string; readonly name: string };

class OpenDirq implements OpenQueue {
  readonly #root: GuardedFolder;
  readonly #held: Held;
  readonly #warn: (text: string) => void;

  constructor(root: GuardedFolder, held: Held, warn: (text: string) => void) {
    this.#root = root;
    this.#held = held;
    this.#warn = warn;
  }

  async list(): Promise<readonly QueuedMessage[]> {
    const messages: QueuedMessage[] = [];
    for (const directory of this.#root.names().filter(isDirqDirectory).sort()) {
      const folder = this.#root.open(directory);
      if (folder instanceof Odd) await this.#passOver(directory, folder);
      if (!(folder instanceof GuardedFolder)) continue;
      try {
        const files = folder.names();
        for (const file of files.filter(isDirqElement).sort()) {
          const name = `${directory}/${file}`;
          messages.push({ name, order: name, since: timeOfDirqElement(file), read: () => this.#read(name) });
        }
        await dropOrphans(folder, files);
      } finally {
        folder.close();
      }
    }
    return messages;
  }

  async replace(older: readonly string[], bodies: readonly string[]): Promise<ReplaceResult> {
    await this.#held.refresh();
    const opened: GuardedFolder[] = [];
    const locked: DirqElement[] = [];
    const written: Temporary[] = [];
    try {
      for (const name of older) {
        const message = this.#find(name);
        if (message === undefined) continue;
        opened.push(message.folder);
        const locking = await lockMessage(message, this.#held.marker);
        if (locking === "busy") return { status: "busy", name };
        if (locking === "held") locked.push(message);
      }
      // All that can fail for want of space comes before the first removal.
      for (const body of bodies) written.push(await this.#writeTemporary(body));
      for (const { folder, name } of locked) await folder.remove(name);
      // A power cut must not bring an older message back beside a new one.
      for (const folder of new Map(locked.map((each) => [each.folder.path, each.folder])).values()) await folder.sync();
      const names: string[] = [];
      for (const temporary of written) names.push(await publish(temporary));
      return { status: "added", names };
    } finally {
      for (const { folder, name } of written) await folder.remove(name);
      // Only after the message itself is gone (or stays after all): else ssmsend could take it in between.
      for (const message of locked) await unlockMessage(message);
      for (const folder of [...opened, ...written.map((each) => each.folder)]) folder.close();
    }
  }

  async take(name: string, deal: (text: string) => Promise<Dealt>): Promise<TakeResult> {
    await this.#held.refresh();
    const message = this.#find(name);
    if (message === undefined) return "gone";
    const { folder } = message;
    try {
      const locking = await lockMessage(message, this.#held.marker);
      if (locking !== "held") return locking;
      try {
        const text = folder.read(message.name, LARGEST_QUEUED);
        if (text instanceof Odd) this.#warn(await folder.setAside(message.name, text, this.#held.own));
        if (typeof text !== "string") return "gone";
        return await dealtWith(await deal(text), folder, message.name, this.#held.own);
      } finally {
        await unlockMessage(message);
      }
    } finally {
      folder.close();
    }
  }

  /** Reads a message. What is none is locked as a message is, and moved out of ssmsend's way too. */
  async #read(name: string): Promise<string | undefined> {
    const message = this.#find(name);
    if (message === undefined) return undefined;
    try {
      const text = message.folder.read(message.name, LARGEST_QUEUED);
      if (!(text instanceof Odd)) return text;
      await this.#setAside(message, text);
      return undefined;
    } finally {
      message.folder.close();
    }
  }

  async #setAside(message: DirqElement, odd: Odd): Promise<void> {
    const { folder, name } = message;
    let locking: DirqLocking | "refused";
    try {
      locking = await lockMessage(message, this.#held.marker);
    } catch {
      locking = "refused";
    }
    if (locking === "held") {
      this.#warn(await folder.setAside(name, odd, this.#held.own));
      await unlockMessage(message);
    } else if (locking !== "gone") {
      const why = locking === "busy" ? "ssmsend holds it" : "This user may not lock it";
      this.#warn(`${folder.path}/${name} is ${odd.what}. ${why}, so it is left alone; the rest goes on.`);
    }
  }

  /** The caller closes the folder. */
  #find(name: string): DirqElement | undefined {
    const [directory = "", file = ""] = name.split("/");
    const folder = this.#root.open(directory);
    return folder instanceof GuardedFolder ? { folder, name: file } : undefined;
  }

  async #passOver(directory: string, odd: Odd): Promise<void> {
    if (!odd.foreign) this.#warn(await this.#root.setAside(directory, odd, this.#held.own));
    else this.#warn(`${this.#root.path}/${directory} is ${odd.what}. It is left alone, with what is in it.`);
  }

  async #writeTemporary(body: string): Promise<Temporary> {
    for (;;) {
      const { directory, file } = newDirqName();
      const folder = await this.#root.make(directory);
      if (folder instanceof Odd) {
        this.#warn(await this.#root.setAside(directory, folder, this.#held.own));
        if (this.#root.stat(directory) !== undefined) throw oddError(`${this.#root.path}/${directory}`, folder);
        continue;
      }
      const name = `${file}.tmp`;
      try {
        await folder.write(name, body);
        return { folder, directory, name };
      } catch (thrown) {
        folder.close();
        // ENOENT: ssmsend's purge removed the empty directory.
        if (!isErrno(thrown, "ENOENT", "EEXIST")) throw thrown;
      }
    }
  }
}

/** Makes a finished message visible: from here on ssmsend may take it. The caller removes the temporary file. */
async function publish({ folder, directory, name }: Temporary): Promise<string> {
  for (;;) {
    const { file } = newDirqName();
    try {
      await folder.link(name, folder, file);
    } catch (thrown) {
      if (isErrno(thrown, "EEXIST")) continue;
      throw linkError(thrown, `${folder.path}/${file}`);
    }
    await folder.sync();
    return `${directory}/${file}`;
  }
}

/** Locks of a gridmeter killed after it removed the message and before it removed the lock. */
async function dropOrphans(folder: GuardedFolder, files: readonly string[]): Promise<void> {
  for (const file of files) {
    const name = file.slice(0, -".lck".length);
    if (!file.endsWith(".lck") || !isDirqElement(name) || files.includes(name)) continue;
    if (isGridmeterLock({ folder, name }) === true) await unlockMessage({ folder, name });
  }
}

/** `gone`: the message is no longer in the queue, so it was sent. `busy`: ssmsend holds it. */
type DirqLocking = "held" | "gone" | "busy";

/** A message by its name in its folder. */
type DirqElement = { readonly folder: GuardedFolder; readonly name: string };

const lockOf = (name: string): string => `${name}.lck`;

/**
 * Locks a message of a dirq against ssmsend. python-dirq locks by link(message, message.lck); ours is a link of `marker`,
 * a file that names its owner, to the same place. So whichever comes first shuts out the other, and yet a lock that a
 * killed gridmeter left is distinguished from ssmsend's, which is another name of the message itself. Such a left lock is taken
 * over as it is: the caller is the only gridmeter at the queue (`withQueueLock`), so its owner must be gone.
 */
async function lockMessage(message: DirqElement, marker: Marker): Promise<DirqLocking> {
  const { folder, name } = message;
  for (;;) {
    try {
      await marker.folder.link(marker.name, folder, lockOf(name));
      // Unlike ssmsend's link, ours succeeds for a message that is no longer there.
      if (folder.stat(name) !== undefined) return "held";
      await folder.remove(lockOf(name));
      return "gone";
    } catch (thrown) {
      // No such directory: ssmsend removed it with the message (the marker is there, `refresh` has seen to it).
      if (isErrno(thrown, "ENOENT")) return "gone";
      if (!isErrno(thrown, "EEXIST")) throw linkError(thrown, `${folder.path}/${lockOf(name)}`);
    }
    const found = await whose(message);
    if (found !== "nobody") return found;
  }
}

async function whose({ folder, name }: DirqElement): Promise<DirqLocking | "nobody"> {
  const left = isGridmeterLock({ folder, name });
  if (left === undefined) return "nobody";
  if (folder.stat(name) === undefined) {
    // Between ssmsend's two unlinks, or a gridmeter was killed between its own.
    if (left) await folder.remove(lockOf(name));
    return "gone";
  }
  if (!left) return "busy";
  // ssmsend's purge drops locks older than ten minutes: make this one young again before relying on it.
  const touched = await orIfMissing(
    folder.touch(lockOf(name)).then(() => true),
    false,
  );
  return touched ? "held" : "nobody";
}

/** Takes our lock off; one that ssmsend made meanwhile (its purge had dropped ours) stays. */
async function unlockMessage({ folder, name }: DirqElement): Promise<void> {
  if (isGridmeterLock({ folder, name }) === true) await folder.remove(lockOf(name));
}

/** Whether a gridmeter made the message's lock; undefined if there is no lock. */
function isGridmeterLock({ folder, name }: DirqElement): boolean | undefined {
  const locked = folder.stat(lockOf(name));
  if (locked === undefined) return undefined;
  const message = folder.stat(name);
  if (locked.ino === message?.ino && locked.dev === message.dev) return false;
  const text = folder.read(lockOf(name), LOCK_TEXT);
  return text === undefined ? undefined : typeof text === "string" && isLockText(text);
}
