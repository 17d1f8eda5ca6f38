import { createHash } from "node:crypto";
import { SendMessageBatchCommand } from "@aws-sdk/client-sqs";
import type { SQSClient } from "@aws-sdk/client-sqs";
import { z } from "zod";
import type { Unit } from "../accounting/tenant.ts";
import { GridmeterError } from "../errors.ts";
import { shapeText } from "../shape-text.ts";
import type { S3Store } from "../store/s3-store.ts";
import { isMonth } from "../apel/month.ts";
import { LAST_GENERATION, parseOutgoingKey } from "./outgoing.ts";
import { sqsError } from "./sqs-error.ts";

/** What the queue tells of an outgoing object: where it is, what it must be, and whose it is. S3 holds the truth. */
const doorbell = z.object({
  v: z.literal(1),
  bucket: z.string().min(1),
  /** the object's whole key in the bucket */
  key: z.string().min(1),
  /** of the object's body, 64 hexadecimal digits */
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  site: z.string(),
  submitHost: z.string(),
  month: z.string().refine(isMonth),
  generation: z.int().min(1).max(LAST_GENERATION),
});
export type Doorbell = z.infer<typeof doorbell>;

/** SQS takes so many in one batch. */
const BATCH = 10;

/** The hash that a doorbell carries. */
export function sha256Of(body: string): string {
  return createHash("sha256").update(body).digest("hex");
}

/** Reads a queue message. */
export function parseDoorbell(
  text: string,
): { readonly ok: true; readonly doorbell: Doorbell } | { readonly ok: false; readonly problem: string } {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { ok: false, problem: "it is not JSON" };
  }
  const parsed = doorbell.safeParse(json);
  if (parsed.success) return { ok: true, doorbell: parsed.data };
  return { ok: false, problem: `it has another shape: ${shapeText(parsed.error)}` };
}

/**
 * The doorbells of outgoing objects, by their keys in the store. An object that is no longer there was spooled already
 * and needs none.
 * @throws GridmeterError `store_failed`
 */
export async function doorbellsOf(outbox: S3Store, keys: readonly string[]): Promise<readonly Doorbell[]> {
  const doorbells: Doorbell[] = [];
  for (const key of keys) {
    const parsed = parseOutgoingKey(key);
    const object = await outbox.get(key);
    if (parsed === undefined || object === undefined) continue;
    doorbells.push({
      v: 1,
      bucket: outbox.place.bucket,
      key: outbox.fullKey(key),
      sha256: sha256Of(object.body),
      ...parsed.unit,
      generation: parsed.generation,
    });
  }
  return doorbells;
}

/** The message group of a unit: on a FIFO queue, messages of one unit stay in order. */
export function unitGroup({ site, submitHost, month }: Unit): string {
  return createHash("sha256")
    .update(JSON.stringify([site, submitHost, month]))
    .digest("hex");
}

/**
 * Tells the spooler of outgoing objects, one message an object. That it may be lost, repeated or never sent harms
 * nothing: the spooler sweeps `outgoing/` for what no message told of. So only the objects of this very run are rung for.
 * @throws GridmeterError `queue_failed`; some may have been sent then
 */
export async function ring(sqs: SQSClient, queueUrl: string, objects: readonly Doorbell[]): Promise<void> {
  for (let from = 0; from < objects.length; from += BATCH) {
    const batch = objects.slice(from, from + BATCH);
    const command = new SendMessageBatchCommand({
      QueueUrl: queueUrl,
      Entries: batch.map((object, index) => ({
        Id: String(index),
        MessageBody: JSON.stringify(object),
        ...(queueUrl.endsWith(".fifo") ? fifo(object) : {}),
      })),
    });
    try {
      const { Failed = [] } = await sqs.send(command);
      const [first] = Failed;
      if (first !== undefined)
        throw new Error(`${Failed.length} of ${batch.length} messages: ${first.Message ?? first.Code ?? ""}`);
    } catch (thrown) {
      throw unrung(thrown, queueUrl);
    }
  }
}

function fifo(object: Doorbell) {
  // A deduplication id holds 128 characters, a key up to 1024.
  return { MessageGroupId: unitGroup(object), MessageDeduplicationId: sha256Of(object.key) };
}

function unrung(thrown: unknown, queueUrl: string): GridmeterError {
  const kept = "The messages are stored all the same, and the spooler's next sweep finds them.";
  return sqsError(thrown, "tell the spooler through", "sqs:SendMessage", queueUrl, kept);
}
