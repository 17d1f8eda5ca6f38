import type { Unit } from "../accounting/tenant.ts";
import type { MessageQueue } from "../outbox/message-queue.ts";
import { listOutgoing, unitPrefix } from "../outbox/outgoing.ts";
import type { OutgoingUnit } from "../outbox/outgoing.ts";
import type { ObjectStore } from "../store/object-store.ts";
import { errorText } from "../errors.ts";
import { readOutgoing } from "./load.ts";
import { moveToRefused } from "./move.ts";
import type { DeliveredMessage, DeliveryReport } from "./report.ts";
import { Round } from "./delivery-round.ts";
import type { RoundOptions } from "./delivery-round.ts";

export type DeliveryOptions = RoundOptions & {
  /** only these units; all if absent */
  readonly units?: readonly Unit[];
};

/**
 * Moves what is in `outgoing/` into ssmsend's queue under the rules of accounting-rules.md "Spooling", generation by
 * generation, and the objects to `spooled/`. May be killed at any instant and repeated: at worst the messages that were put
 * into the queue together last are delivered twice, which is harmless (APEL: records replace).
 * @throws GridmeterError `store_failed`, `store_no_hard_links`
 */
export async function deliverAll(
  store: ObjectStore,
  queue: MessageQueue,
  options: DeliveryOptions,
): Promise<DeliveryReport[]> {
  const before = await waitingFor(store, options);
  if (before.units.length === 0 && before.strange.length === 0) return [];
  const reports = await queue.exclusively(async (open) => {
    // Listed again: another gridmeter may have delivered while this one waited for its turn.
    const { units, strange } = await waitingFor(store, options);
    const round = new Round(store, open, queue.place, options);
    const delivered: DeliveryReport[] = [];
    for (const unit of units) delivered.push(await round.deliverUnit(unit));
    // Last, so that what nobody asked for holds up nothing.
    if (strange.length > 0) delivered.push({ messages: await refuseStrange(store, strange) });
    return delivered;
  });
  if (reports !== "taken") return reports;
  const reason = `another gridmeter is at the queue ${queue.place}; the next round tries again`;
  return before.units.map(({ unit, generations }) => ({
    unit,
    messages: generations.flatMap(({ keys }) => keys.map(({ key }) => ({ key, status: "waiting" as const, reason }))),
  }));
}

async function waitingFor(
  store: ObjectStore,
  { units: wanted }: DeliveryOptions,
): Promise<{ units: readonly OutgoingUnit[]; strange: readonly string[] }> {
  const found = await listOutgoing(store);
  if (wanted === undefined) return found;
  const prefixes = new Set(wanted.map((unit) => unitPrefix(unit)));
  return { units: found.units.filter(({ unit }) => prefixes.has(unitPrefix(unit))), strange: [] };
}

async function refuseStrange(store: ObjectStore, strange: readonly string[]): Promise<DeliveredMessage[]> {
  const messages: DeliveredMessage[] = [];
  for (const key of strange) messages.push(await refuseOne(store, key));
  return messages;
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
