import { GridmeterError } from "../../lib/shared/errors.ts";
import type { MessageQueue } from "../../lib/accounting/delivery/queue.ts";
import { deliverAll } from "../../lib/accounting/delivery/deliver.ts";
import type { DeliveryReport } from "../../lib/accounting/delivery/order.ts";
import type { ObjectStore } from "../../lib/accounting/store/store.ts";
import type { OpenLedger, OpenOutbox } from "../../lib/accounting/ports.ts";
import { tellDelivery } from "../show/run.ts";
import { say } from "./options.ts";

/** What came of sending on: the reports of the queue on this host (none of a bucket), and what went wrong. */
export type Sent = { readonly delivery: readonly DeliveryReport[]; readonly faults: readonly unknown[] };

/** Where a run's outgoing messages are stored: in the bucket, or beside the ledger. */
export function outboxStore(outbox: OpenOutbox, ledger: OpenLedger): ObjectStore {
  return outbox.kind === "s3" ? outbox.store : ledger.store;
}

/**
 * Sends on what was published: into the queue on this host, all that is outgoing; to a bucket, by telling the spooler of
 * `keys`, which are this run's. Of earlier runs' objects nobody knows whether it was notified; its sweep finds them.
 * A fault here is no fault of the counting, whose figures are still to be shown.
 */
export async function sendOn(
  outbox: OpenOutbox,
  ledger: OpenLedger,
  keys: readonly string[],
  now: number,
): Promise<Sent> {
  if (outbox.kind === "local") {
    const sent = await deliver(ledger, outbox.queue, now);
    tellDelivery(sent.delivery, outbox.place, say);
    return sent;
  }
  if (keys.length > 0)
    say(`${keys.length} messages are in ${outbox.place}; gridmeter spool or gridmeter send takes them from there`);
  try {
    await outbox.announce(keys);
    return { delivery: [], faults: [] };
  } catch (error) {
    return { delivery: [], faults: [error] };
  }
}

async function deliver({ store, remembers }: OpenLedger, queue: MessageQueue, now: number): Promise<Sent> {
  try {
    const delivery = await deliverAll(store, queue, { now, warn: say });
    return { delivery, faults: remembers ? [] : forgotten(delivery) };
  } catch (error) {
    if (!(error instanceof GridmeterError)) return { delivery: [], faults: [error] };
    const kept = remembers
      ? "The messages wait in the ledger's outgoing/; the next run puts them into the queue."
      : "Without a ledger nothing keeps the messages: what is not in the queue was not published.";
    return { delivery: [], faults: [new GridmeterError(error.code, `${error.message} ${kept}`, { cause: error })] };
  }
}

/** Without a ledger nothing keeps a message that has to wait. */
function forgotten(delivery: readonly DeliveryReport[]): readonly GridmeterError[] {
  const waiting = delivery.flatMap(({ messages }) => messages.filter(({ status }) => status === "waiting"));
  return waiting.map(
    ({ key, reason }) =>
      new GridmeterError(
        "queue_busy",
        `${key} could not be put into the queue (${reason ?? ""}) and, without a ledger, is not kept. It was not published. Run again later, or with a ledger.`,
      ),
  );
}
