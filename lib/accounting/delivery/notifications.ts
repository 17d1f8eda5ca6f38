import { createHash } from "node:crypto";
import {
  ChangeMessageVisibilityCommand,
  DeleteMessageCommand,
  ReceiveMessageCommand,
  type SQSClient,
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
} from "@aws-sdk/client-sqs";
import { z } from "zod";
import { GridmeterError } from "../../shared/errors.ts";
import { chunks } from "../../shared/lists.ts";
import { parseJson, shapeText } from "../../shared/text.ts";
import type { Unit } from "../model/tenant.ts";
import { isMonth } from "../model/time.ts";
import { awsRemedy, failureText } from "../store/aws.ts";
import type { S3Store } from "../store/s3.ts";
import { LAST_GENERATION, parseOutgoingKey } from "./outgoing.ts";

/** What the queue says of an outgoing object: where it is, what it must be, and whose it is. S3 holds the truth. */
const notificationShape = z.object({
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
export type Notification = z.infer<typeof notificationShape>;

/** SQS takes so many in one batch. */
const BATCH = 10;

/** The hash that a notification carries. */
export function sha256Of(body: string): string {
  return createHash("sha256").update(body).digest("hex");
}

/** Reads a queue message. */
export function parseNotification(
  text: string,
): { readonly ok: true; readonly notification: Notification } | { readonly ok: false; readonly problem: string } {
  const json = parseJson(text);
  if (json === undefined) return { ok: false, problem: "it is not JSON" };
  const parsed = notificationShape.safeParse(json);
  if (parsed.success) return { ok: true, notification: parsed.data };
  return { ok: false, problem: `it has another shape: ${shapeText(parsed.error)}` };
}

/**
 * The notifications of outgoing objects, by their keys in the store. An object that is no longer there was spooled already
 * and needs none.
 * @throws GridmeterError `store_failed`
 */
export async function notificationsOf(outbox: S3Store, keys: readonly string[]): Promise<readonly Notification[]> {
  const notifications: Notification[] = [];
  for (const key of keys) {
    const parsed = parseOutgoingKey(key);
    const object = await outbox.get(key);
    if (parsed === undefined || object === undefined) continue;
    notifications.push({
      v: 1,
      bucket: outbox.place.bucket,
      key: outbox.fullKey(key),
      sha256: sha256Of(object.body),
      ...parsed.unit,
      generation: parsed.generation,
    });
  }
  return notifications;
}

/** The message group of a unit: on a FIFO queue, messages of one unit stay in order. */
export function unitGroup({ site, submitHost, month }: Unit): string {
  return createHash("sha256")
    .update(JSON.stringify([site, submitHost, month]))
    .digest("hex");
}

/**
 * Notifies the spooler of outgoing objects, one message an object. That it may be lost, repeated or never sent harms
 * nothing: the spooler sweeps `outgoing/` for what no message announced. So only the objects of this very run are announced.
 * @throws GridmeterError `queue_failed`; some may have been sent then
 */
export async function notify(sqs: SQSClient, queueUrl: string, objects: readonly Notification[]): Promise<void> {
  const isFifo = queueUrl.endsWith(".fifo");
  const messages = objects.map((object) => ({ MessageBody: JSON.stringify(object), ...(isFifo ? fifo(object) : {}) }));
  try {
    await sendAll(sqs, queueUrl, messages);
  } catch (thrown) {
    const kept = "The messages are stored all the same, and the spooler's next sweep finds them.";
    throw sqsError(thrown, "notify the spooler through", "sqs:SendMessage", queueUrl, kept);
  }
}

/** Sends messages in batches, as many as SQS takes at once. Throws what SQS says; some may have been sent then. */
export async function sendAll(
  sqs: SQSClient,
  QueueUrl: string,
  messages: readonly Omit<SendMessageBatchRequestEntry, "Id">[],
): Promise<void> {
  for (const batch of chunks(messages, BATCH)) {
    const Entries = batch.map((message, index) => ({ Id: String(index), ...message }));
    const { Failed = [] } = await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
    const [first] = Failed;
    if (first !== undefined)
      throw new Error(`${Failed.length} of ${batch.length} messages: ${first.Message ?? first.Code ?? ""}`);
  }
}

function fifo(object: Notification) {
  // A deduplication id holds 128 characters, a key up to 1024.
  return { MessageGroupId: unitGroup(object), MessageDeduplicationId: sha256Of(object.key) };
}

/** A message taken from the queue; others do not see it until its visibility runs out. */
export type TakenMessage = { readonly id: string; readonly receipt: string; readonly text: string };

/** The queue of notifications of outgoing objects. Messages may come twice and out of order. */
export interface NotificationQueue {
  /**
   * Waits up to `seconds` (at most 20) for messages, up to 10; none if `stop` comes first.
   * @throws GridmeterError `queue_failed`
   */
  receive(seconds: number, stop: AbortSignal): Promise<readonly TakenMessage[]>;
  /** The message is dealt with. @throws GridmeterError `queue_failed` */
  remove(message: TakenMessage): Promise<void>;
  /** The message is to come again after so many seconds. @throws GridmeterError `queue_failed` */
  postpone(message: TakenMessage, seconds: number): Promise<void>;
}

/** The longest poll that SQS knows, seconds. */
export const LONGEST_POLL = 20;
const AGAIN = "Messages that were taken come again.";

export class SqsNotifications implements NotificationQueue {
  readonly #sqs: SQSClient;
  readonly #url: string;
  readonly #visibility: number;

  /** @param visibility seconds in which a batch of messages is dealt with at the latest */
  constructor(sqs: SQSClient, url: string, visibility: number) {
    this.#sqs = sqs;
    this.#url = url;
    this.#visibility = visibility;
  }

  async receive(seconds: number, stop: AbortSignal): Promise<readonly TakenMessage[]> {
    const command = new ReceiveMessageCommand({
      QueueUrl: this.#url,
      MaxNumberOfMessages: 10,
      WaitTimeSeconds: Math.max(1, Math.min(LONGEST_POLL, Math.floor(seconds))),
      VisibilityTimeout: this.#visibility,
    });
    try {
      const { Messages = [] } = await this.#sqs.send(command, { abortSignal: stop });
      return Messages.flatMap(({ MessageId: id, ReceiptHandle: receipt, Body: text = "" }) =>
        id === undefined || receipt === undefined ? [] : [{ id, receipt, text }],
      );
    } catch (thrown) {
      if (stop.aborted) return [];
      throw sqsError(thrown, "read", "sqs:ReceiveMessage", this.#url, AGAIN);
    }
  }

  async remove({ receipt }: TakenMessage): Promise<void> {
    try {
      await this.#sqs.send(new DeleteMessageCommand({ QueueUrl: this.#url, ReceiptHandle: receipt }));
    } catch (thrown) {
      throw sqsError(thrown, "delete a message from", "sqs:DeleteMessage", this.#url, AGAIN);
    }
  }

  async postpone({ receipt }: TakenMessage, seconds: number): Promise<void> {
    try {
      const input = { QueueUrl: this.#url, ReceiptHandle: receipt, VisibilityTimeout: seconds };
      await this.#sqs.send(new ChangeMessageVisibilityCommand(input));
    } catch (thrown) {
      throw sqsError(thrown, "postpone a message of", "sqs:ChangeMessageVisibility", this.#url, AGAIN);
    }
  }
}

/** The error for a failed request to a queue. `left` says what became of the messages. */
export function sqsError(
  thrown: unknown,
  doing: string,
  right: string,
  queueUrl: string,
  left: string,
): GridmeterError {
  if (thrown instanceof GridmeterError) return thrown;
  const text = `Cannot ${doing} the queue ${queueUrl}: ${failureText(thrown)}. ${left} ${awsRemedy(thrown, `${right} on that queue`)}`;
  return new GridmeterError("queue_failed", text, { cause: thrown });
}
