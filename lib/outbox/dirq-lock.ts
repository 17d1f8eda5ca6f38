import type { GuardedFolder } from "../store/guarded-folder.ts";
import { isErrno, linkError, orIfMissing } from "../store/fs-error.ts";
import { LOCK_TEXT, isLockText } from "./process-identity.ts";
import type { Marker } from "./queue-lock.ts";

/** `gone`: the message is no longer in the queue, so it was sent. `busy`: ssmsend holds it. */
export type DirqLocking = "held" | "gone" | "busy";

/** A message by its name in its folder. */
export type DirqElement = { readonly folder: GuardedFolder; readonly name: string };

const lockOf = (name: string): string => `${name}.lck`;

/**
 * Locks a message of a dirq against ssmsend. python-dirq locks by link(message, message.lck); ours is a link of `marker`,
 * a file that names its owner, to the same place. So whichever comes first shuts out the other, and yet a lock that a
 * killed gridmeter left is told from ssmsend's, which is another name of the message itself. Such a left lock is taken
 * over as it stands: the caller is the only gridmeter at the queue (`withQueueLock`), so its owner must be gone.
 */
export async function lockMessage(message: DirqElement, marker: Marker): Promise<DirqLocking> {
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
export async function unlockMessage({ folder, name }: DirqElement): Promise<void> {
  if (isGridmeterLock({ folder, name }) === true) await folder.remove(lockOf(name));
}

/** Whether a gridmeter made the message's lock; undefined if there is no lock. */
export function isGridmeterLock({ folder, name }: DirqElement): boolean | undefined {
  const locked = folder.stat(lockOf(name));
  if (locked === undefined) return undefined;
  const message = folder.stat(name);
  if (locked.ino === message?.ino && locked.dev === message.dev) return false;
  const text = folder.read(lockOf(name), LOCK_TEXT);
  return text === undefined ? undefined : typeof text === "string" && isLockText(text);
}
