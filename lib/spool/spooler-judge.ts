import type { Unit } from "../accounting/tenant.ts";
import { parseDoorbell } from "../outbox/doorbell.ts";
import { bodyHash, parseOutgoingKey } from "../outbox/outgoing.ts";
import type { TakenMessage } from "../outbox/sqs-bell.ts";
import type { S3Store } from "../store/s3-store.ts";

/** What a queue message is: told of an object of ours (`key` in the store), or never to be of use. */
export type Verdict =
  | { readonly kind: "rung"; readonly key: string; readonly unit: Unit }
  | { readonly kind: "poisoned"; readonly reason: string };

const poisoned = (reason: string): Verdict => ({ kind: "poisoned", reason });

/**
 * Judges a queue message by itself. That the object's body has the hash is checked with the object, on its way into the
 * queue: a message whose hash fits the key promises the same as the key does.
 */
export function judge({ text }: TakenMessage, store: Pick<S3Store, "place" | "ownKey">): Verdict {
  const parsed = parseDoorbell(text);
  if (!parsed.ok) return poisoned(parsed.problem);
  const { bucket, key: fullKey, sha256, site, submitHost, month, generation } = parsed.doorbell;
  const { place } = store;
  if (bucket !== place.bucket) return poisoned(`its bucket is ${JSON.stringify(bucket)}, not ${place.bucket}`);
  const key = store.ownKey(fullKey);
  const named = key === undefined ? undefined : parseOutgoingKey(key);
  if (key?.startsWith("outgoing/") !== true || named === undefined)
    return poisoned(
      `its key ${JSON.stringify(fullKey)} is none of an outgoing message in s3://${place.bucket}/${place.prefix}`,
    );
  const { unit } = named;
  const same =
    unit.site === site && unit.submitHost === submitHost && unit.month === month && named.generation === generation;
  if (!same) return poisoned(`its site, submit host, month or generation is not that of its key ${fullKey}`);
  if (!sha256.startsWith(named.hash)) return poisoned(`its sha256 ${sha256} does not fit its key ${fullKey}`);
  return { kind: "rung", key, unit };
}

/** Puts a queue message where it can be looked at, with the reason beside it; the same message twice is one object. */
export async function setAside(text: string, reason: string, store: S3Store): Promise<string> {
  const key = `refused/queue/${bodyHash(text)}`;
  await store.put(`${key}.reason`, `${reason}\n`);
  await store.put(key, text, { absent: true });
  return key;
}
