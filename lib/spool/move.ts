import { createHash } from "node:crypto";
import type { Unit } from "../accounting/tenant.ts";
import { parseOutgoingKey, unitPrefix } from "../outbox/outgoing.ts";
import type { OutgoingKey } from "../outbox/outgoing.ts";
import type { ObjectStore } from "../store/object-store.ts";

/** Generations of a unit that are kept after they were spooled. */
const KEPT_GENERATIONS = 20;

/** The key of the same object in another stage. */
export function inStage(key: string, stage: "spooled" | "refused"): string {
  return `${stage}/${key.slice("outgoing/".length)}`;
}

/** Ends an object's way. Killed in between, it is in both places, and the next round only finishes the move. */
export async function moveToSpooled(store: ObjectStore, key: string, body: string): Promise<void> {
  await store.put(inStage(key, "spooled"), body, { absent: true });
  await store.remove(key);
}

/** A key with the reason's ending may be longer than a store takes (S3: 1024 bytes, of which the bucket's prefix takes some). */
const LONGEST_KEPT_NAME = 512;

/** Puts an object where nothing sends it, with the reason beside it. */
export async function moveToRefused(store: ObjectStore, key: string, body: string, reason: string): Promise<void> {
  const isLong = key.length > LONGEST_KEPT_NAME && parseOutgoingKey(key) === undefined;
  const target = isLong ? `refused/long/${createHash("sha256").update(key).digest("hex")}` : inStage(key, "refused");
  await store.put(`${target}.reason`, `${isLong ? `${key}: ` : ""}${reason}\n`);
  await store.put(target, body, { absent: true });
  await store.remove(key);
}

/** What of a unit was spooled before. */
export async function listSpooled(store: ObjectStore, unit: Unit): Promise<readonly OutgoingKey[]> {
  const keys = await store.list(unitPrefix(unit, "spooled"));
  return keys.flatMap((key) => parseOutgoingKey(key) ?? []);
}

/** Drops all but the newest spooled generations of a unit. */
export async function pruneSpooled(store: ObjectStore, unit: Unit): Promise<void> {
  const spooled = await listSpooled(store, unit);
  const newestFirst = [...new Set(spooled.map(({ generation }) => generation))].sort((a, b) => b - a);
  const kept = new Set(newestFirst.slice(0, KEPT_GENERATIONS));
  for (const { key, generation } of spooled) if (!kept.has(generation)) await store.remove(key);
}
