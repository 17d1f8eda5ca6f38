import { SendMessageCommand } from "@aws-sdk/client-sqs";
import type { SendMessageCommandInput } from "@aws-sdk/client-sqs";
import type { SQSRecord } from "aws-lambda";
import type { WorkItem } from "../accounting/work-item.ts";
import { unitGroup } from "../outbox/doorbell.ts";
import { sqsError } from "../outbox/sqs-error.ts";
import { needed } from "./lambda-parts.ts";
import type { Parts } from "./lambda-parts.ts";

/** SQS takes these characters in a text and no others. */
const UNSENDABLE = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu;
const LONGEST_REASON = 2000;

/**
 * Puts the rest of a run on the work queue as a message of its own, which spends none of the receive counts that lead to
 * the dead letters. Named after the message it continues: should that come again at once, the rest is not there twice.
 * @throws GridmeterError `queue_failed`
 */
export async function passOn({ env, sqs }: Parts, { messageId }: SQSRecord, item: WorkItem): Promise<void> {
  const QueueUrl = needed(env, "WORK_QUEUE_URL");
  const input = {
    QueueUrl,
    MessageBody: JSON.stringify(item),
    ...fifo(QueueUrl, unitGroup(item), `rest-${messageId}`),
  };
  try {
    await sqs.send(new SendMessageCommand(input));
  } catch (thrown) {
    const left = "What was counted is kept, and the work item comes again.";
    throw sqsError(thrown, "put the rest of the work on", "sqs:SendMessage", QueueUrl, left);
  }
}

/** Sends a message that cannot be made use of to the dead letters, as it came, with the reason. @throws `queue_failed` */
export async function setAside({ env, sqs }: Parts, record: SQSRecord, reason: string): Promise<void> {
  const QueueUrl = needed(env, "WORK_DEAD_LETTER_QUEUE_URL");
  const { messageId, body, attributes } = record;
  const StringValue = reason.replaceAll(UNSENDABLE, "?").slice(0, LONGEST_REASON);
  const input: SendMessageCommandInput = {
    QueueUrl,
    MessageBody: body,
    MessageAttributes: { reason: { DataType: "String", StringValue } },
    ...fifo(QueueUrl, attributes.MessageGroupId ?? messageId, messageId),
  };
  try {
    await sqs.send(new SendMessageCommand(input));
  } catch (thrown) {
    throw sqsError(
      thrown,
      "set a message aside on",
      "sqs:SendMessage",
      QueueUrl,
      "The message stays on the work queue.",
    );
  }
}

function fifo(queueUrl: string, MessageGroupId: string, MessageDeduplicationId: string) {
  return queueUrl.endsWith(".fifo") ? { MessageGroupId, MessageDeduplicationId } : {};
}
