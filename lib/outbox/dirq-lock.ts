import fsp from "node:fs/promises";
import { isErrno, linkError, orIfMissing } from "../store/fs-error.ts";
import { isLockText } from "./process-identity.ts";

/** `gone`: the message is no longer in the queue, so it was sent. `busy`: ssmsend holds it. */
export type DirqLocking = "held" | "gone" | "busy";

/**
 * Locks a message of a dirq against ssmsend. python-dirq locks by link(message, message.lck); ours is a link of `marker`,
 * a file that names its owner, to the same place. So whichever comes first shuts out the other, and yet a lock that a
 * killed gridmeter left is told from ssmsend's, which is another name of the message itself. Such a left lock is taken
 * over as it stands: the caller is the only gridmeter at the queue (`withQueueLock`), so its owner must be gone.
 */
export async function lockMessage(message: string, marker: string): Promise<DirqLocking> {
  const lock = `${message}.lck`;
  for (;;) {
    try {
      await fsp.link(marker, lock);
      // Unlike ssmsend's link, ours succeeds for a message that is no longer there.
      if ((await inode(message)) !== undefined) return "held";
      await orIfMissing(fsp.unlink(lock), undefined);
      return "gone";
    } catch (thrown) {
      // No such directory: ssmsend removed it with the message (the marker is there, `refresh` has seen to it).
      if (isErrno(thrown, "ENOENT")) return "gone";
      if (!isErrno(thrown, "EEXIST")) throw linkError(thrown, lock);
    }
    const found = await whose(message, lock);
    if (found !== "nobody") return found;
  }
}

async function whose(message: string, lock: string): Promise<DirqLocking | "nobody"> {
  const left = await isGridmeterLock(message, lock);
  if (left === undefined) return "nobody";
  if ((await inode(message)) === undefined) {
    // Between ssmsend's two unlinks, or a gridmeter was killed between its own.
    if (left) await orIfMissing(fsp.unlink(lock), undefined);
    return "gone";
  }
  if (!left) return "busy";
  // ssmsend's purge drops locks older than ten minutes: make this one young again before relying on it.
  const now = new Date();
  const touched = await orIfMissing(
    fsp.utimes(lock, now, now).then(() => true),
    false,
  );
  return touched ? "held" : "nobody";
}

/** Takes our lock off; one that ssmsend made meanwhile (its purge had dropped ours) stays. */
export async function unlockMessage(message: string): Promise<void> {
  const lock = `${message}.lck`;
  if (await isGridmeterLock(message, lock)) await orIfMissing(fsp.unlink(lock), undefined);
}

/** Whether a gridmeter made the lock; undefined if there is no lock. */
export async function isGridmeterLock(message: string, lock: string): Promise<boolean | undefined> {
  const locked = await inode(lock);
  if (locked === undefined) return undefined;
  if (locked === (await inode(message))) return false;
  const text = await orIfMissing(fsp.readFile(lock, "utf8"), undefined);
  return text === undefined ? undefined : isLockText(text);
}

async function inode(path: string): Promise<bigint | undefined> {
  return (await orIfMissing(fsp.lstat(path, { bigint: true }), undefined))?.ino;
}
