import { errorText } from "../../shared/errors.ts";
import { append } from "../../shared/lists.ts";
import type { Unit } from "../model/tenant.ts";
import type { ObjectStore } from "../store/store.ts";
import {
  type Delivered,
  type DeliveredMessage,
  type OutgoingUnit,
  listOutgoing,
  moveToDelivered,
  moveToRefused,
  pruneDelivered,
  unitPrefix,
} from "./outgoing.ts";
import { type LoadedGeneration, type LoadedMessage, Superseded, loadUnit, readOutgoing } from "./supersedes.ts";

/** What became of a unit's outgoing messages. Keys that gridmeter did not make belong to no unit. */
export type DeliveryReport = { readonly unit?: Unit; readonly messages: readonly DeliveredMessage[] };

/** One way of delivering: into ssmsend's queue, or to AMS. */
export type Way = {
  /** where a message is kept that went this way */
  readonly stage: Delivered;
  /** Delivers a generation of which nothing older waits and nothing newer makes it needless. Moves what it delivered. */
  deliver(generation: LoadedGeneration): Promise<readonly DeliveredMessage[]>;
};

/**
 * Delivers a unit under the rules of accounting-rules.md "Spooling", whichever the way: generation by generation, none that a
 * later one holds, none that is older than what was delivered before, and none before an older one that has to wait.
 * @param now epoch seconds, for APEL's rules about the future
 * @throws GridmeterError `store_failed`
 */
export async function deliverInOrder(
  store: ObjectStore,
  outgoing: OutgoingUnit,
  now: number,
  way: Way,
): Promise<DeliveryReport> {
  const { generations, settled } = await loadUnit(store, outgoing, now);
  const messages = [...settled];
  const superseded = new Superseded();
  let waitsFor: string | undefined;
  for (const [index, generation] of generations.entries()) {
    if (waitsFor !== undefined) {
      append(messages, all(generation.messages, "waiting", waitsFor));
      continue;
    }
    const later = await superseded.by(generation, generations.slice(index + 1));
    const results =
      later === undefined
        ? await way.deliver(generation)
        : await supersede(store, generation, later.generation, way.stage);
    append(messages, results);
    if (results.some(({ status }) => status === "waiting"))
      waitsFor = `generation ${generation.generation} is to go first, and it waits`;
  }
  await pruneDelivered(store, outgoing.unit, way.stage);
  return { unit: outgoing.unit, messages };
}

async function supersede(
  store: ObjectStore,
  generation: LoadedGeneration,
  later: number,
  stage: Delivered,
): Promise<readonly DeliveredMessage[]> {
  for (const { key, read } of generation.messages) {
    const body = await read();
    if (body !== undefined) await moveToDelivered(store, key, body, stage);
  }
  return all(generation.messages, "superseded", `generation ${later} holds all its keys`);
}

/** The same for each of some messages. */
export function all(
  messages: readonly LoadedMessage[],
  status: "waiting" | "superseded",
  reason: string,
): readonly DeliveredMessage[] {
  return messages.map(({ key }) => ({ key, status, reason }));
}

/** All messages of a unit that wait for one reason. */
export function waiting({ unit, generations }: OutgoingUnit, reason: string): DeliveryReport {
  const messages = generations.flatMap(({ keys }) =>
    keys.map(({ key }) => ({ key, status: "waiting" as const, reason })),
  );
  return { unit, messages };
}

/** What is in `outgoing/` of these units, or of all with the keys that gridmeter did not make. @throws GridmeterError `store_failed` */
export async function listWaiting(
  store: ObjectStore,
  wanted: readonly Unit[] | undefined,
): Promise<{ readonly units: readonly OutgoingUnit[]; readonly strange: readonly string[] }> {
  const found = await listOutgoing(store);
  if (wanted === undefined) return found;
  const prefixes = new Set(wanted.map((unit) => unitPrefix(unit)));
  return { units: found.units.filter(({ unit }) => prefixes.has(unitPrefix(unit))), strange: [] };
}

/** Sets aside what has keys that gridmeter did not make. */
export async function refuseStrange(store: ObjectStore, strange: readonly string[]): Promise<DeliveryReport> {
  const messages: DeliveredMessage[] = [];
  for (const key of strange) messages.push(await refuseOne(store, key));
  return { messages };
}

async function refuseOne(store: ObjectStore, key: string): Promise<DeliveredMessage> {
  const reason = "its key is none that gridmeter makes";
  try {
    const object = await readOutgoing(store, key);
    if (object !== undefined && "tooLarge" in object)
      return { key, status: "refused", reason: `${reason}; ${object.tooLarge}` };
    if (object !== undefined) await moveToRefused(store, key, object.body, reason);
    return { key, status: "refused", reason };
  } catch (thrown) {
    // Of others' objects some cannot be read (archived, encrypted with a key of their own).
    return { key, status: "waiting", reason: `${reason}, and it could not be set aside: ${errorText(thrown)}` };
  }
}
