import { checkDelivery } from "../delivery/ams-or-spool.ts";
import { type Lease, type LeaseOptions, takeLease } from "../delivery/lease.ts";
import {
  type DeliveryReport,
  type Way,
  deliverInOrder,
  listWaiting,
  refuseStrange,
  waiting,
} from "../delivery/order.ts";
import { type DeliveredMessage, moveToDelivered, moveToRefused, parseOutgoingKey } from "../delivery/outgoing.ts";
import type { LoadedGeneration, LoadedMessage } from "../delivery/supersedes.ts";
import { isJobs } from "../delivery/supersedes.ts";
import { type Unit, unitName } from "../model/tenant.ts";
import type { ObjectStore } from "../store/store.ts";
import { idOf } from "./queue-sender.ts";
import { type MessageReport, type SendReport, type Sender, refusal } from "./sender.ts";

export type BucketSendOptions = {
  readonly lease: LeaseOptions;
  /** only these units; all if absent */
  readonly units?: readonly Unit[];
  /** true once no further message may be begun; the rest waits */
  readonly stop?: () => boolean;
  readonly progress?: (done: number, total: number) => void;
};

/**
 * Sends what is in `outgoing/` of a bucket to AMS, unit by unit and under the rules of `deliverInOrder`, and moves it to `sent/` with
 * the id that AMS gave it. A unit is sent by one at a time, who holds its lease. Killed in between, a message is sent once more, which is
 * harmless (APEL: records replace). What AMS refuses for good ends the sending; all that was not sent stays in `outgoing/`.
 * @throws GridmeterError `store_failed` where the bucket cannot be listed
 */
export async function sendOutgoing(
  store: ObjectStore,
  sender: Sender,
  options: BucketSendOptions,
): Promise<SendReport> {
  const { units, strange } = await listWaiting(store, options.units);
  const total = units.flatMap(({ generations }) => generations.flatMap(({ keys }) => keys)).length;
  const round = new BucketRound(store, sender, options, total);
  for (const { unit } of units) await round.unit(unit);
  if (strange.length > 0) round.add(await refuseStrange(store, strange));
  return { messages: round.messages, errors: round.errors };
}

const ENDED = "the sending ended before it";

class BucketRound {
  readonly messages: MessageReport[] = [];
  readonly errors: unknown[] = [];
  readonly #store: ObjectStore;
  readonly #sender: Sender;
  readonly #options: BucketSendOptions;
  readonly #total: number;
  #ended = false;

  constructor(store: ObjectStore, sender: Sender, options: BucketSendOptions, total: number) {
    this.#store = store;
    this.#sender = sender;
    this.#options = options;
    this.#total = total;
  }

  async unit(unit: Unit): Promise<void> {
    try {
      await this.#underLease(unit);
    } catch (thrown) {
      // The store failed, or the lease was lost: other units may fare better.
      this.errors.push(thrown);
    }
    this.#options.progress?.(this.messages.length, this.#total);
  }

  add({ messages }: DeliveryReport, details: ReadonlyMap<string, MessageReport> = new Map()): void {
    for (const { key, status, reason } of messages) {
      const known = details.get(key);
      const report: MessageReport = known ?? {
        message: key,
        ...factsOf(key),
        status: status === "already_there" ? "already_sent" : status === "delivered" ? "sent" : status,
        ...(reason === undefined ? {} : { reason }),
      };
      this.messages.push(report);
      if (report.status === "refused") this.errors.push(refusal(report));
    }
  }

  async #underLease(unit: Unit): Promise<void> {
    const listed = async () => (await listWaiting(this.#store, [unit])).units[0];
    const before = await listed();
    if (before === undefined) return;
    if (this.#isOver()) return this.add(waiting(before, ENDED));
    const taking = await takeLease(this.#store, unit, this.#options.lease);
    if ("taken" in taking) return this.add(waiting(before, taking.taken));
    const { lease } = taking;
    try {
      // Both may have changed while this one took the lease.
      await checkDelivery(this.#store, "ams");
      const outgoing = await listed();
      if (outgoing === undefined) return;
      const way = new ToAms(this.#store, this.#sender, lease, () => this.#isOver());
      const report = await deliverInOrder(this.#store, outgoing, this.#sender.now(), way);
      this.add(report, way.details);
      if (way.error === undefined) return;
      this.#ended = true;
      this.errors.push(way.error);
    } finally {
      await lease.release();
    }
  }

  #isOver(): boolean {
    return this.#ended || this.#options.stop?.() === true;
  }
}

/** The way of a unit's messages to AMS. */
class ToAms implements Way {
  readonly stage = "sent";
  /** by key, more than the delivery's own report says */
  readonly details = new Map<string, MessageReport>();
  /** what ended the sending */
  error: unknown;
  readonly #store: ObjectStore;
  readonly #sender: Sender;
  readonly #lease: Lease;
  readonly #isOver: () => boolean;

  constructor(store: ObjectStore, sender: Sender, lease: Lease, isOver: () => boolean) {
    this.#store = store;
    this.#sender = sender;
    this.#lease = lease;
    this.#isOver = isOver;
  }

  async deliver({ messages }: LoadedGeneration): Promise<readonly DeliveredMessage[]> {
    // What replaces older figures first, as in the queue.
    const ordered = [...messages.filter((message) => !isJobs(message)), ...messages.filter(isJobs)];
    const results: DeliveredMessage[] = [];
    for (const message of ordered) results.push(await this.#one(message));
    return results;
  }

  async #one(message: LoadedMessage): Promise<DeliveredMessage> {
    const { key } = message;
    if (this.error !== undefined || this.#isOver()) return { key, status: "waiting", reason: ENDED };
    const body = await message.read();
    if (body === undefined)
      return { key, status: "waiting", reason: "its object was removed or changed while it was being sent" };
    let report: MessageReport;
    try {
      report = await this.#sender.send(key, idOf(key, body), body, () => this.#lease.hold());
    } catch (thrown) {
      this.error = thrown;
      return { key, status: "waiting", reason: "AMS failed at it" };
    }
    this.details.set(key, report);
    const { status, reason = "", amsId } = report;
    if (status === "refused") {
      await moveToRefused(this.#store, key, body, reason);
      return { key, status: "refused", reason };
    }
    const at = new Date(this.#sender.now() * 1000).toISOString();
    await moveToDelivered(this.#store, key, body, this.stage, { amsId, at, ...this.#sender.place });
    return { key, status: "delivered" };
  }
}

function factsOf(key: string): Pick<MessageReport, "kind" | "units"> {
  const parsed = parseOutgoingKey(key);
  if (parsed === undefined) return {};
  const { kind, unit } = parsed;
  return { kind, units: [unitName(unit)] };
}
