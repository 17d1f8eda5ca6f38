import { GridmeterError, errorText } from "../../shared/errors.ts";
import { messageKeys, replacingKeys } from "../apel/replace-keys.ts";
import type { ObjectStore } from "../store/store.ts";
import {
  type DeliveredMessage,
  type OutgoingKey,
  type OutgoingUnit,
  bodyHash,
  contentFault,
  inStage,
  listDelivered,
  moveToRefused,
} from "./outgoing.ts";
import type { OpenQueue } from "./queue.ts";

/** Whether it is a message of single jobs. */
export const isJobs = ({ kind }: OutgoingKey): boolean => kind === "individual";

/** A message that passed all checks. */
export type LoadedMessage = OutgoingKey & {
  /** its APEL keys as far as they replace earlier figures: none of single jobs */
  readonly keys: readonly string[];
  /** Its text. Those of single jobs may be large together and are read again; undefined where it is gone since, or another. */
  readonly read: () => Promise<string | undefined>;
};
export type LoadedGeneration = { readonly generation: number; readonly messages: readonly LoadedMessage[] };

/**
 * Reads a unit's outgoing messages and sorts out what is not to be sent: what was delivered before, what is damaged, what
 * breaks APEL's rules, and messages older than one of their kind already delivered. An individual message is never too old, since it
 * replaces no other.
 */
export async function loadUnit(
  store: ObjectStore,
  outgoing: OutgoingUnit,
  now: number,
): Promise<{ readonly generations: readonly LoadedGeneration[]; readonly settled: readonly DeliveredMessage[] }> {
  const delivered = await listDelivered(store, outgoing.unit);
  const deliveredKeys = new Set(delivered.map(({ key }) => key));
  // By kind: a run that was killed while it wrote may have delivered a summary whose sync record never came.
  const highest = new Map<string, number>();
  for (const { kind, generation } of delivered) highest.set(kind, Math.max(generation, highest.get(kind) ?? 0));
  const settled: DeliveredMessage[] = [];
  const generations: LoadedGeneration[] = [];
  for (const { generation, keys } of outgoing.generations) {
    const messages: LoadedMessage[] = [];
    for (const key of keys) {
      const object = await readOutgoing(store, key.key);
      if (object === undefined) continue;
      if ("tooLarge" in object) {
        settled.push({ key: key.key, status: "refused", reason: object.tooLarge });
        continue;
      }
      const before = (["spooled", "sent"] as const).find((stage) => deliveredKeys.has(inStage(key.key, stage)));
      if (before !== undefined) {
        await store.remove(key.key);
        settled.push({ key: key.key, status: "already_there", reason: `it was ${before} before` });
        continue;
      }
      const fault = faultOf(key, object.body, highest.get(key.kind) ?? 0, now);
      if (fault === undefined) {
        messages.push(
          isJobs(key)
            ? { ...key, keys: [], read: readAgain(store, key) }
            : { ...key, keys: messageKeys(object.body), read: () => Promise.resolve(object.body) },
        );
      } else {
        await moveToRefused(store, key.key, object.body, fault);
        settled.push({ key: key.key, status: "refused", reason: fault });
      }
    }
    if (messages.length > 0) generations.push({ generation, messages });
  }
  return { generations, settled };
}

/** Of an object that is larger the memory is not risked, not even to move it: it is left where it is, and named each time. */
const LARGEST_MOVED = 16_000_000;

/**
 * An object of `outgoing/`, or why it is not read.
 * @throws GridmeterError `store_failed`
 */
export async function readOutgoing(
  store: ObjectStore,
  key: string,
): Promise<{ readonly body: string } | { readonly tooLarge: string } | undefined> {
  try {
    return await store.get(key, LARGEST_MOVED);
  } catch (thrown) {
    if (thrown instanceof GridmeterError && thrown.code === "object_too_large") return { tooLarge: thrown.message };
    throw thrown;
  }
}

/** Apart from where the text was at hand, which would stay in memory with it. */
function readAgain(store: ObjectStore, { key, hash }: OutgoingKey): () => Promise<string | undefined> {
  return async () => {
    const body = (await store.get(key))?.body;
    return body !== undefined && bodyHash(body) === hash ? body : undefined;
  };
}

function faultOf(key: OutgoingKey, body: string, highest: number, now: number): string | undefined {
  const hash = bodyHash(body);
  if (hash !== key.hash)
    return `the text's hash is ${hash}, not ${key.hash} as its key says: it was changed or damaged`;
  const fault = contentFault(key, body, now);
  if (fault !== undefined) return fault;
  if (key.generation >= highest || isJobs(key)) return undefined;
  return `generation ${key.generation} came after generation ${highest} was delivered and would replace newer figures`;
}

/** The least and the greatest of a message's APEL keys; none where its text is gone. */
type KeyRange = { readonly least: string; readonly greatest: string } | undefined;

/** Which of a unit's waiting generations need not be sent, since a later one holds all their APEL keys. */
export class Superseded {
  /** of messages of single jobs, by their objects' keys: each is read once to be compared with all others */
  readonly #keyRanges = new Map<string, KeyRange>();

  /** The first of the later generations that supersedes this one. */
  async by(generation: LoadedGeneration, later: readonly LoadedGeneration[]): Promise<LoadedGeneration | undefined> {
    for (const other of later) if (await this.#supersedes(other, generation)) return other;
    return undefined;
  }

  async #supersedes(later: LoadedGeneration, earlier: LoadedGeneration): Promise<boolean> {
    const keys = new Set(later.messages.flatMap((message) => message.keys));
    if (!earlier.messages.every((message) => message.keys.every((key) => keys.has(key)))) return false;
    const hashes = new Set(later.messages.map(({ hash }) => hash));
    const jobs = later.messages.filter(isJobs);
    for (const message of earlier.messages)
      if (isJobs(message) && !hashes.has(message.hash) && !(await this.#holds(jobs, message))) return false;
    return true;
  }

  /** Whether some of these messages together hold all jobs of one. Only those are read that reach into its keys. */
  async #holds(messages: readonly LoadedMessage[], one: LoadedMessage): Promise<boolean> {
    const range = await this.#keyRangeOf(one);
    const held = new Set<string>();
    for (const message of messages) {
      const others = await this.#keyRangeOf(message);
      if (range === undefined || others === undefined) continue;
      if (others.greatest < range.least || others.least > range.greatest) continue;
      for (const key of await keysIn(message)) held.add(key);
    }
    return held.size > 0 && (await keysIn(one)).every((key) => held.has(key));
  }

  async #keyRangeOf(message: LoadedMessage): Promise<KeyRange> {
    if (!this.#keyRanges.has(message.key)) this.#keyRanges.set(message.key, keyRangeOf(await keysIn(message)));
    return this.#keyRanges.get(message.key);
  }
}

async function keysIn({ read }: LoadedMessage): Promise<readonly string[]> {
  const body = await read();
  return body === undefined ? [] : messageKeys(body);
}

function keyRangeOf([first, ...others]: readonly string[]): KeyRange {
  if (first === undefined) return undefined;
  const least = others.reduce((a, b) => (b < a ? b : a), first);
  return { least, greatest: others.reduce((a, b) => (b > a ? b : a), first) };
}

/** A file in ssmsend's queue and the APEL keys whose figures it replaces; none if it is no APEL message. */
type KeyedFile = { readonly name: string; readonly keys: ReadonlySet<string> };

/**
 * Reads what is in the queue, one text at a time. `there`: which of our own texts, by their hashes; `others`: all else. Files
 * that are no APEL messages are left alone; `strange` gets their names and why.
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
type SupersededFiles =
  | { readonly older: readonly string[] }
  | { readonly uncovered: string; readonly lacking: readonly string[] };

/**
 * Which files in the queue the new keys replace. APEL: a summary loaded later replaces the row, so a file with any of the
 * keys must not be sent after the new ones, and may be dropped only if they hold all its keys.
 */
export function supersededFiles(files: readonly KeyedFile[], newKeys: ReadonlySet<string>): SupersededFiles {
  const older: string[] = [];
  for (const { name, keys } of files) {
    const lacking = [...keys].filter((key) => !newKeys.has(key));
    if (lacking.length === keys.size) continue;
    if (lacking.length > 0) return { uncovered: name, lacking };
    older.push(name);
  }
  return { older };
}
