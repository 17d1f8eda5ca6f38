import { createHash } from "node:crypto";
import pLimit from "p-limit";
import { z } from "zod";
import { apelKey } from "../apel/replace-keys.ts";
import type { ApelRecord, SyncRecord } from "../apel/record.ts";
import { type Damage, readJson } from "../store/json.ts";
import type { ObjectStore } from "../store/store.ts";
import type { Unit } from "../model/tenant.ts";
import { unitKey } from "./guards.ts";
import { yearAndMonth } from "../model/time.ts";
import type { ManualRecord } from "./manual-file.ts";
import type { MonthlyRecord } from "./records.ts";
import type { Pin, UnitState } from "./state.ts";

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

/** A record that can be pinned; single jobs cannot, since no automatic record has their keys. */
export type PinnedRecord = MonthlyRecord | SyncRecord;

const isMonthly = (record: ApelRecord): record is MonthlyRecord =>
  record.kind === "summary" || record.kind === "normalised";

function syncOf(unit: Unit, numberOfJobs: number): SyncRecord {
  return { kind: "sync", site: unit.site, submitHost: unit.submitHost, numberOfJobs, ...yearAndMonth(unit.month) };
}

/** The records of a pin. */
function recordsOf(unit: Unit, pin: Pin): readonly PinnedRecord[] {
  return pin.sync === null ? pin.records : [...pin.records, syncOf(unit, pin.sync)];
}

/** All that is pinned in a unit. */
function pinnedRecords(state: UnitState): readonly PinnedRecord[] {
  return state.pins.flatMap((pin) => recordsOf(state.unit, pin));
}

/** The pins without some of their records; a pin that holds nothing more is gone. */
function without(state: UnitState, gone: (record: PinnedRecord) => boolean): Pin[] {
  return state.pins.flatMap((pin) => {
    const records = pin.records.filter((record) => !gone(record));
    const sync = pin.sync === null || gone(syncOf(state.unit, pin.sync)) ? null : pin.sync;
    return records.length === 0 && sync === null ? [] : [{ ...pin, records, sync }];
  });
}

/**
 * Pins hand-written records under the content hash of their file. A key pinned before is taken over: APEL holds the
 * newer row. @param at epoch seconds
 */
export function withPins(state: UnitState, records: readonly ApelRecord[], hash: string, at: number): UnitState {
  const monthly = records.filter(isMonthly);
  const sync = records.find((record) => record.kind === "sync");
  if (monthly.length === 0 && sync === undefined) return state;
  const taken = new Set(records.map(apelKey));
  const before = without(state, (record) => taken.has(apelKey(record)));
  const own = before.find((pin) => pin.hash === hash);
  const pin: Pin = {
    records: [...(own?.records ?? []), ...monthly],
    sync: sync?.numberOfJobs ?? own?.sync ?? null,
    hash,
    at,
  };
  return { ...state, pins: [...before.filter((each) => each !== own), pin] };
}

/** The state with some pins lifted, and what was lifted. */
export function liftPins(
  state: UnitState,
  lift: (record: PinnedRecord) => boolean,
): { readonly state: UnitState; readonly lifted: readonly PinnedRecord[] } {
  const lifted = pinnedRecords(state).filter(lift);
  const known = new Map([...state.known, ...lifted.filter(isMonthly)].map((record) => [apelKey(record), record]));
  return {
    lifted,
    state: {
      ...state,
      pins: without(state, lift),
      known: [...known.values()],
      // APEL no longer holds what was published, so the same figures must go out again: no hash is equal to none.
      ...(state.published === undefined ? {} : { published: { ...state.published, hash: "" } }),
    },
  };
}
