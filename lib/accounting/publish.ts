import { readMessage } from "../apel/from-fields.ts";
import { apelKey } from "../apel/keys.ts";
import { GridmeterError } from "../errors.ts";
import { listGenerations, putGeneration } from "../outbox/outgoing.ts";
import type { ObjectStore } from "../store/object-store.ts";
import type { Decision } from "./decide.ts";
import type { MonthlyRecord } from "./records.ts";
import { readState, writeState } from "./state.ts";
import type { HeldState, UnitState } from "./state.ts";
import type { Damage } from "./ledger.ts";
import type { Unit } from "./tenant.ts";

const blank = (unit: Unit): UnitState => ({ unit, generation: 0, pins: [], known: [] });

/**
 * The state of a unit; a new or a damaged one begins where the messages in the store end, so that no generation is ever
 * given twice and rows that were published are still known.
 */
export async function openState(
  { store, outbox }: Stores,
  unit: Unit,
  now: number,
  damaged: (damage: Damage) => void,
): Promise<{ state: UnitState; version: string | undefined }> {
  const held = await readState(store, unit, damaged);
  if (held?.state !== undefined) return { state: held.state, version: held.version };
  return { state: await recover(outbox, unit, now), version: held?.version };
}

async function recover(outbox: ObjectStore, unit: Unit, now: number): Promise<UnitState> {
  const generations = await listGenerations(outbox, unit);
  const generation = Math.max(0, ...generations.keys());
  const known = new Map<string, MonthlyRecord>();
  // All that is kept and not the newest only: a hand-written generation does not hold the whole unit.
  for (const key of [...generations.values()].flat()) {
    const object = await outbox.get(key);
    const records = object === undefined ? [] : readMessage(object.body, now);
    for (const record of records) {
      if (record.kind === "summary" || record.kind === "normalised") known.set(apelKey(record), record);
    }
  }
  return { ...blank(unit), generation, known: [...known.values()] };
}

/** Where a unit's state lives, and where its messages go. */
export type Stores = { readonly store: ObjectStore; readonly outbox: ObjectStore };

export type Published = { readonly generation: number; readonly keys: readonly string[] };

/**
 * Publishes a decision under a new generation: reserves it in the unit's state, stores the messages, then confirms. It may
 * be killed between any two steps: the state then says "pending", and the next run publishes anew with a later generation.
 * @param held the state that the decision was made from
 * @returns undefined if another run changed the state meanwhile; nothing was written then
 * @throws message_invalid, store_failed
 */
export async function publish(
  { store, outbox }: Stores,
  decision: Extract<Decision, { action: "publish" }>,
  held: { readonly state: UnitState; readonly version: string | undefined },
  now: number,
): Promise<Published | undefined> {
  const { unit } = held.state;
  const generation = held.state.generation + 1;
  const publication = { ...decision.publication, generation };
  const reserved: UnitState = { ...held.state, generation, pending: publication };
  if ((await writeState(store, reserved, held.version)) === "conflict") return undefined;
  const keys = await putGeneration(outbox, unit, generation, decision.messages, now);
  await confirm(store, unit, generation);
  return { generation, keys };
}

/** Turns the reserved publication into the published one, unless a later run has reserved another since. */
async function confirm(store: ObjectStore, unit: Unit, generation: number): Promise<void> {
  const held: HeldState | undefined = await readState(store, unit, () => undefined);
  if (held?.state?.pending?.generation !== generation) return;
  const { pending, known: _covered, ...rest } = held.state;
  await writeState(store, { ...rest, published: pending, known: [] }, held.version);
}

/** The error after too many conflicts. */
export function conflictError(unit: Unit, times: number): GridmeterError {
  return new GridmeterError(
    "store_conflict",
    `${unit.site} ${unit.submitHost} ${unit.month}: another run changed its state ${times} times while this one was publishing. ` +
      "Nothing of this run was published for it. See that not two schedules run the same accounting, and run it again.",
  );
}
