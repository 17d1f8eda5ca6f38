// Which way a bucket's messages go. A message in ssmsend's queue could be sent after a newer one that went to AMS, so the bucket says
// which of the two holds, and who finds that it is the other stops.
import { z } from "zod";
import { GridmeterError } from "../../shared/errors.ts";
import { parseJson } from "../../shared/text.ts";
import type { ObjectStore } from "../store/store.ts";

const KEY = "delivery/way.json";
const text = z.object({ v: z.literal(1), delivery: z.enum(["ams", "spool"]) });

/** `ams`: sent to AMS. `spool`: into ssmsend's queue. */
export type Delivery = z.infer<typeof text>["delivery"];

/** Which way holds; undefined where nobody ever said: a spooler takes that for its own. @throws GridmeterError `store_failed` */
export async function deliveryOf(store: ObjectStore): Promise<Delivery | undefined> {
  const held = await store.get(KEY);
  if (held === undefined) return undefined;
  const read = text.safeParse(parseJson(held.body));
  if (read.success) return read.data.delivery;
  throw new GridmeterError(
    "store_failed",
    `${KEY} in the bucket does not say which way its messages go. Nothing was delivered. Say it again: deploy once more, or give --take-over.`,
  );
}

/** Says which way holds from now on. Written only where that changes. @throws GridmeterError `store_failed` */
export async function setDelivery(store: ObjectStore, delivery: Delivery): Promise<void> {
  const held = await store.get(KEY);
  if (held === undefined && delivery === "spool") return;
  const body = `${JSON.stringify({ v: 1, delivery })}\n`;
  if (held?.body !== body) await store.put(KEY, body);
}

/** @throws GridmeterError `delivery_elsewhere` where the other way holds; `store_failed` */
export async function checkDelivery(store: ObjectStore, own: Delivery): Promise<void> {
  const delivery = (await deliveryOf(store)) ?? "spool";
  if (delivery !== own) throw elsewhere(delivery);
}

function elsewhere(delivery: Delivery): GridmeterError {
  const [way, advice] =
    delivery === "ams"
      ? ["are sent to AMS, not through a spooler", "Stop this spooler, or deploy with delivery: spool"]
      : [
          "go through a spooler into ssmsend's queue, not to AMS",
          "Let ssmsend empty its queue first, then deploy with delivery: ams",
        ];
  return new GridmeterError(
    "delivery_elsewhere",
    `The messages of this bucket ${way}: ${KEY} in it says so. Nothing was delivered. ${advice}; without a deployment give --take-over once (docs/sending.md).`,
  );
}

/**
 * For the command line, which no deployment speaks for: takes the bucket for AMS if it is told to, or if nothing was ever spooled
 * from it. @throws GridmeterError `delivery_elsewhere`, `store_failed`
 */
export async function claimForAms(store: ObjectStore, takeOver: boolean): Promise<void> {
  if (takeOver || ((await deliveryOf(store)) === undefined && (await store.list("spooled/")).length === 0))
    await setDelivery(store, "ams");
  else await checkDelivery(store, "ams");
}
