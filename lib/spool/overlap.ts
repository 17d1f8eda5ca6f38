import { replacingKeys } from "../apel/keys.ts";
import { errorText } from "../errors.ts";
import type { OpenQueue } from "../outbox/message-queue.ts";
import { bodyHash } from "../outbox/outgoing.ts";

/** A file in ssmsend's queue and the APEL keys whose figures it replaces; none if it is no APEL message. */
export type KeyedFile = { readonly name: string; readonly keys: ReadonlySet<string> };

/**
 * Reads what is in the queue, one text at a time. `there`: which of our own texts, by their hashes; `others`: all else. Files
 * that are no APEL messages are left alone; `strange` is told of them.
 */
export async function readQueue(
  queue: OpenQueue,
  own: ReadonlySet<string>,
  strange: (name: string, reason: string) => void,
): Promise<{ readonly there: ReadonlySet<string>; readonly others: readonly KeyedFile[] }> {
  const there = new Set<string>();
  const others: KeyedFile[] = [];
  for (const { name, read } of await queue.list()) {
    const body = await read();
    if (body === undefined) continue;
    const hash = bodyHash(body);
    if (own.has(hash)) there.add(hash);
    else others.push({ name, keys: keysOf(body, (reason) => strange(name, reason)) });
  }
  return { there, others };
}

function keysOf(body: string, strange: (reason: string) => void): ReadonlySet<string> {
  try {
    return new Set(replacingKeys(body));
  } catch (thrown) {
    strange(errorText(thrown));
    return new Set();
  }
}

/** `older`: files to take out first. `uncovered`: a file that must be sent before, since it holds keys the new one lacks. */
export type Overlap =
  | { readonly older: readonly string[] }
  | { readonly uncovered: string; readonly lacking: readonly string[] };

/**
 * Which files in the queue the new keys replace. APEL: a summary loaded later replaces the row, so a file with any of the
 * keys must not be sent after the new ones, and may be dropped only if they hold all its keys.
 */
export function overlapWith(files: readonly KeyedFile[], newKeys: ReadonlySet<string>): Overlap {
  const older: string[] = [];
  for (const { name, keys } of files) {
    const lacking = [...keys].filter((key) => !newKeys.has(key));
    if (lacking.length === keys.size) continue;
    if (lacking.length > 0) return { uncovered: name, lacking };
    older.push(name);
  }
  return { older };
}
