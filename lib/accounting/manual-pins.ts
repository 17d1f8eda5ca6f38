import { apelKey } from "../apel/keys.ts";
import type { ApelRecord, SyncRecord } from "../apel/records.ts";
import type { MonthlyRecord } from "./records.ts";
import type { Pin, UnitState } from "./state.ts";
import { yearAndMonth } from "./time.ts";
import type { Unit } from "./tenant.ts";

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
export function pinnedRecords(state: UnitState): readonly PinnedRecord[] {
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
      // APEL no longer holds what was published, so the same figures must go out anew: no hash is equal to none.
      ...(state.published === undefined ? {} : { published: { ...state.published, hash: "" } }),
    },
  };
}
