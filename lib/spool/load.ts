import { messageKeys } from "../apel/keys.ts";
import { GridmeterError } from "../errors.ts";
import { bodyHash, contentFault } from "../outbox/outgoing.ts";
import type { OutgoingKey, OutgoingUnit } from "../outbox/outgoing.ts";
import type { ObjectStore } from "../store/object-store.ts";
import { inStage, listSpooled, moveToRefused } from "./move.ts";
import type { DeliveredMessage } from "./report.ts";

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
 * Reads a unit's outgoing messages and sorts out what is not to be sent: what was spooled before, what is damaged, what
 * breaks APEL's rules, and messages older than one of their kind already spooled. An individual message is never too old, since it
 * replaces no other.
 */
export async function loadUnit(
  store: ObjectStore,
  outgoing: OutgoingUnit,
  now: number,
): Promise<{ readonly generations: readonly LoadedGeneration[]; readonly settled: readonly DeliveredMessage[] }> {
  const spooled = await listSpooled(store, outgoing.unit);
  const spooledKeys = new Set(spooled.map(({ key }) => key));
  // By kind: a run that was killed while it wrote may have spooled a summary whose sync record never came.
  const highest = new Map<string, number>();
  for (const { kind, generation } of spooled) highest.set(kind, Math.max(generation, highest.get(kind) ?? 0));
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
      if (spooledKeys.has(inStage(key.key, "spooled"))) {
        await store.remove(key.key);
        settled.push({ key: key.key, status: "already_there", reason: "it was spooled before" });
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
  return `generation ${key.generation} came after generation ${highest} was spooled and would replace newer figures`;
}
