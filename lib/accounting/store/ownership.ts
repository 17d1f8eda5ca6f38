import fs, { type Stats } from "node:fs";
import { dirname, resolve } from "node:path";
import { GridmeterError } from "../../shared/errors.ts";

/** What a root folder is for: ssmsend's queue, the ledger, or a folder above one of them that is not there yet. */
export type Purpose = "queue" | "ledger" | "above";

/** Whose the entries are that gridmeter makes in a root folder, and with which rights; what is absent is as the system does it. */
export type Belonging = {
  readonly owner?: { readonly uid: number; readonly gid: number };
  readonly fileMode?: number;
  readonly folderMode?: number;
};

/** Linux lets a user make hard links, ssmsend's locks, only of files that it owns or may read and write (protected_hardlinks). */
const SHARED = { fileMode: 0o660, folderMode: 0o2770 };
const PRIVATE = { fileMode: 0o600, folderMode: 0o700 };
const GROUP_MAY_ALL = 0o070;

type Account = { readonly uid: number; readonly gid: number; readonly groups: readonly number[] };

/** Who gridmeter runs as; undefined where the system has no users. */
function ownAccount(): Account | undefined {
  const [uid, gid] = [process.geteuid?.(), process.getegid?.()];
  return uid === undefined || gid === undefined ? undefined : { uid, gid, groups: process.getgroups?.() ?? [gid] };
}

export function groupMayWrite({ mode }: Pick<Stats, "mode">): boolean {
  return (mode & GROUP_MAY_ALL) === GROUP_MAY_ALL;
}

/**
 * Decides by a root folder whose the entries are that are made in it: root gives them to the folder's owner and group, the owner
 * makes them as ever, another user shares them with the folder's group. Undefined: the queue's owner could not lock or remove them.
 */
export function belongingIn(
  folder: Pick<Stats, "uid" | "gid" | "mode">,
  purpose: Purpose,
  own: Account | undefined = ownAccount(),
): Belonging | undefined {
  const modes = purpose === "ledger" ? PRIVATE : {};
  if (own === undefined) return modes;
  const { uid, gid } = folder;
  const owner = { uid, gid };
  if (own.uid === 0) {
    if (uid === 0 && (gid === own.gid || purpose === "above")) return modes;
    // root's own folder that another group may write in: the reader is of that group.
    const shared = purpose === "queue" && uid === 0 && groupMayWrite(folder);
    return { owner, ...(shared ? SHARED : modes) };
  }
  if (uid === own.uid || purpose !== "queue") return modes;
  const member = gid === own.gid || own.groups.includes(gid);
  return member && groupMayWrite(folder) ? { owner: { uid: own.uid, gid }, ...SHARED } : undefined;
}

/** The error for a queue whose owner could not lock what gridmeter would write there. */
export function queueOwnerError(path: string, { uid, gid }: Pick<Stats, "uid" | "gid">): GridmeterError {
  const text =
    `The queue ${path} belongs to the user ${uid} and the group ${gid}, and gridmeter runs as the user ` +
    `${ownAccount()?.uid ?? "?"}: ssmsend could not lock or remove its messages. Nothing was put into the queue. Run ` +
    `gridmeter as the queue's owner or as root, or put its user into the group ${gid} and run: chmod g+rwxs ${path}`;
  return new GridmeterError("queue_owner", text);
}

/**
 * Refuses a queue whose owner could not lock what gridmeter would write there, before anything is published. A queue that is not
 * there must not be made in another user's folder either. What cannot be looked at is met when it is written to.
 * @throws GridmeterError `queue_owner`
 */
export function checkQueueOwner(path: string): void {
  const own = ownAccount();
  const queue = resolve(path);
  for (let place = queue; ; place = dirname(place)) {
    let stat: Stats | undefined;
    try {
      stat = fs.statSync(place, { throwIfNoEntry: false });
    } catch {
      return;
    }
    if (stat === undefined && dirname(place) !== place) continue;
    if (stat === undefined) return;
    const refused =
      place === queue
        ? belongingIn(stat, "queue") === undefined
        : own !== undefined && own.uid !== 0 && stat.uid !== 0 && stat.uid !== own.uid;
    if (refused) throw place === queue ? queueOwnerError(path, stat) : missingQueueError(path, place, stat);
    return;
  }
}

function missingQueueError(path: string, above: string, { uid }: Stats): GridmeterError {
  const text =
    `There is no queue ${path}, and ${above} belongs to another user (${uid}), who could not lock the messages in a queue ` +
    `that gridmeter's user makes there. Nothing was put into the queue. Let that user make it, or run gridmeter as that user or as root.`;
  return new GridmeterError("queue_owner", text);
}
