import { ChangeMessageVisibilityCommand, DeleteMessageCommand, ReceiveMessageCommand } from "@aws-sdk/client-sqs";
import type { SQSClient } from "@aws-sdk/client-sqs";
import { sqsError } from "./sqs-error.ts";

/** A message taken from the queue; others do not see it until its visibility runs out. */
export type TakenMessage = { readonly id: string; readonly receipt: string; readonly text: string };

/** The queue that tells of outgoing objects. Messages may come twice and out of order. */
export interface BellQueue {
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

export class SqsBell implements BellQueue {
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
