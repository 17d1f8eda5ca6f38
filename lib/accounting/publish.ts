import { readMessage } from "../apel/from-fields.ts";
import { apelKey } from "../apel/keys.ts";
import type { ApelRecord } from "../apel/records.ts";
import { GridmeterError, errorText } from "../errors.ts";
import { greatest } from "../lists.ts";
import { contentFault, listGenerations, putGeneration } from "../outbox/outgoing.ts";
import type { OutgoingKey } from "../outbox/outgoing.ts";
import type { ObjectStore } from "../store/object-store.ts";
import type { Decision } from "./decide.ts";
import type { MonthlyRecord } from "./records.ts";
import { readState, writeState } from "./state.ts";
import type { HeldState, UnitState } from "./state.ts";
import { setAsideDamaged } from "./ledger.ts";
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
  return { state: await recover(outbox, unit, now, damaged), version: held?.version };
}

async function recover(
  outbox: ObjectStore,
  unit: Unit,
  now: number,
  damaged: (damage: Damage) => void,
): Promise<UnitState> {
  const generations = await listGenerations(outbox, unit);
  const generation = Math.max(0, greatest(generations.keys()));
  const known = new Map<string, MonthlyRecord>();
  // All that is kept and not the newest only: a hand-written generation does not hold the whole unit.
  for (const key of [...generations.values()].flat()) {
    for (const record of await monthlyOf(outbox, key, now, damaged)) known.set(apelKey(record), record);
  }
  return { ...blank(unit), generation, known: [...known.values()] };
}

/** The monthly records of a message; none of one that is not what its key says, which nothing sends either. */
async function monthlyOf(
  outbox: ObjectStore,
  key: OutgoingKey,
  now: number,
  damaged: (damage: Damage) => void,
): Promise<readonly MonthlyRecord[]> {
  const object = key.kind === "individual" ? undefined : await outbox.get(key.key);
  if (object === undefined) return [];
  const read = recordsUnder(key, object.body, now);
  if ("fault" in read) {
    damaged(await setAsideDamaged(outbox, key.key, object.body, read.fault));
    return [];
  }
  return read.records.filter((record) => record.kind === "summary" || record.kind === "normalised");
}

function recordsUnder(
  key: OutgoingKey,
  body: string,
  now: number,
): { readonly fault: string } | { readonly records: readonly ApelRecord[] } {
  const fault = contentFault(key, body, now);
  if (fault !== undefined) return { fault };
  try {
    return { records: readMessage(body, now) };
  } catch (thrown) {
    return { fault: errorText(thrown) };
  }
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
