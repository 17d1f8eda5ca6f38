import { isDeepStrictEqual } from "node:util";
import { apelKey } from "../apel/keys.ts";
import { append } from "../lists.ts";
import type { ObjectStore } from "../store/object-store.ts";
import { MANUAL_TRIES } from "./manual.ts";
import type { ManualInput, ManualOptions } from "./manual.ts";
import { readManualFile } from "./manual-file.ts";
import { byUnit } from "./manual-message.ts";
import { liftPins } from "./manual-pins.ts";
import type { PinnedRecord } from "./manual-pins.ts";
import { conflictError } from "./publish.ts";
import { readState, writeState } from "./state.ts";
import type { Unit } from "./tenant.ts";

/** Which pins to lift: those of the records in these files, or all of a unit. */
export type UnpinTarget = { readonly files: readonly ManualInput[] } | { readonly unit: Unit };

/** What was lifted in one unit. `left`: pinned records that still hold up automatic runs. */
export type UnpinnedUnit = { readonly unit: Unit; readonly lifted: readonly string[]; readonly left: number };

/** `nothing`: the files of which no record was pinned. */
export type UnpinReport = { readonly units: readonly UnpinnedUnit[]; readonly nothing: readonly string[] };

/**
 * Lifts pins, so that automatic runs publish again. Nothing is sent now: what was pinned is remembered, and the next
 * publication of the unit covers or zeroes it. A record whose pin was lifted may be sent by hand again.
 * @throws GridmeterError `store_failed`; `store_conflict` if another run keeps changing a unit's state
 */
export async function unpin(store: ObjectStore, target: UnpinTarget, options: ManualOptions): Promise<UnpinReport> {
  if ("unit" in target) {
    const unit = await unpinUnit(store, target.unit, () => true, options);
    return { units: unit.lifted.length === 0 ? [] : [unit], nothing: [] };
  }
  const units: UnpinnedUnit[] = [];
  const nothing: string[] = [];
  for (const { name, text } of target.files) {
    const found: UnpinnedUnit[] = [];
    // By its records and not its hash: of a file that was corrected and sent again, all is lifted.
    for (const { unit, records } of byUnit(readManualFile(text, Infinity).records)) {
      const held = new Map(records.map(({ key, record }) => [key, record]));
      const own = (record: PinnedRecord) => isDeepStrictEqual(held.get(apelKey(record)), record);
      found.push(await unpinUnit(store, unit, own, options));
    }
    const lifted = found.filter((unit) => unit.lifted.length > 0);
    append(units, lifted);
    if (lifted.length === 0) nothing.push(name);
  }
  return { units, nothing };
}

async function unpinUnit(
  store: ObjectStore,
  unit: Unit,
  lift: (record: PinnedRecord) => boolean,
  { damaged = () => undefined }: ManualOptions,
): Promise<UnpinnedUnit> {
  for (let attempt = 0; attempt < MANUAL_TRIES; attempt += 1) {
    const held = await readState(store, unit, damaged);
    if (held?.state === undefined) return { unit, lifted: [], left: 0 };
    const { state, lifted } = liftPins(held.state, lift);
    const left = state.pins.reduce((sum, pin) => sum + pin.records.length + (pin.sync === null ? 0 : 1), 0);
    if (lifted.length === 0) return { unit, lifted: [], left };
    if ((await writeState(store, state, held.version)) === "stored") return { unit, lifted: lifted.map(apelKey), left };
  }
  throw conflictError(unit, MANUAL_TRIES);
}
