import { createHash } from "node:crypto";
import pLimit from "p-limit";
import { z } from "zod";
import type { ObjectStore } from "../store/object-store.ts";
import { unitKey } from "./guard.ts";
import { readJson } from "./ledger.ts";
import type { Damage } from "./ledger.ts";
import type { ManualRecord } from "./manual-file.ts";
import { pinnedRecords } from "./manual-pins.ts";
import type { UnitState } from "./state.ts";
import { apelKey } from "../apel/keys.ts";

/** Objects read or written at once: a file of single jobs has hundreds. */
const AT_ONCE = 8;

/** What was sent last by hand under an APEL key. */
const memory = z.object({
  unit: z.object({ site: z.string(), submitHost: z.string(), month: z.string() }),
  generation: z.number().int(),
  content: z.string(),
});
type Memory = z.infer<typeof memory>;
type HeldMemory = { readonly value: Memory | undefined; readonly version: string } | undefined;

/**
 * One object per APEL key and not per content: after A, B, A of one key APEL must hold A, so only the last one sent
 * counts as sent.
 */
function memoryKey(record: ManualRecord): string {
  return `manual/${createHash("sha256").update(record.key).digest("hex")}`;
}

/**
 * Parts records into those that are to be sent and those that APEL holds, or will once the queue is empty. A monthly
 * record is to be sent again once its pin was lifted, or a later publication went over it (--force).
 */
export async function sortOut(
  store: ObjectStore,
  records: readonly ManualRecord[],
  state: UnitState,
  damaged: (damage: Damage) => void,
): Promise<{ readonly fresh: readonly ManualRecord[]; readonly alreadySent: readonly ManualRecord[] }> {
  const pinned = new Set(pinnedRecords(state).map(apelKey));
  const latest = Math.max(state.published?.generation ?? 0, state.pending?.generation ?? 0);
  const limit = pLimit(AT_ONCE);
  const held = await limit.map(records, (record) => readJson(store, memoryKey(record), memory, damaged));
  const isSent = (record: ManualRecord, index: number): boolean => {
    const known = held[index]?.value;
    if (known === undefined || known.content !== record.content || unitKey(known.unit) !== unitKey(state.unit)) {
      return false;
    }
    return record.record.kind === "individual" || (pinned.has(record.key) && known.generation > latest);
  };
  return {
    fresh: records.filter((record, index) => !isSent(record, index)),
    alreadySent: records.filter(isSent),
  };
}

/**
 * Remembers records whose message is stored. Only afterwards: killed in between, they are sent once more under a later
 * generation, which is harmless; the other way round they would be lost.
 */
export async function remember(
  store: ObjectStore,
  records: readonly ManualRecord[],
  generation: number,
  damaged: (damage: Damage) => void,
): Promise<void> {
  const limit = pLimit(AT_ONCE);
  await limit.map(records, async (record) => {
    const key = memoryKey(record);
    const body: Memory = { unit: record.unit, generation, content: record.content };
    for (;;) {
      const held: HeldMemory = await readJson(store, key, memory, damaged);
      if (held?.value !== undefined && isLater(held.value, body)) return;
      const condition = held === undefined ? { absent: true as const } : { version: held.version };
      if ((await store.put(key, JSON.stringify(body), condition)) === "stored") return;
    }
  });
}

/** Another run sent another record of the same key after this one. */
function isLater(held: Memory, own: Memory): boolean {
  return unitKey(held.unit) === unitKey(own.unit) && held.generation > own.generation;
}
