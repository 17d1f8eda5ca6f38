import { ChangeMessageVisibilityCommand, DeleteMessageCommand, ReceiveMessageCommand } from "@aws-sdk/client-sqs";
import type { Message, SQSClient } from "@aws-sdk/client-sqs";
import type { SQSBatchResponse, SQSEvent, SQSRecord } from "aws-lambda";

/** Messages of a queue as Lambda's event source hands them over; none if nothing is visible. */
export async function takeEvent(sqs: SQSClient, QueueUrl: string, max = 10): Promise<SQSEvent> {
  const { Messages = [] } = await sqs.send(
    new ReceiveMessageCommand({
      QueueUrl,
      MaxNumberOfMessages: max,
      MessageSystemAttributeNames: ["All"],
      MessageAttributeNames: ["All"],
    }),
  );
  return { Records: Messages.map(recordOf) };
}

function recordOf({ MessageId, ReceiptHandle, Body, Attributes = {}, MessageAttributes = {} }: Message): SQSRecord {
  return {
    messageId: MessageId!,
    receiptHandle: ReceiptHandle!,
    body: Body!,
    attributes: Attributes as unknown as SQSRecord["attributes"],
    messageAttributes: Object.fromEntries(
      Object.entries(MessageAttributes).map(([name, { StringValue }]) => [
        name,
        { dataType: "String", ...(StringValue === undefined ? {} : { stringValue: StringValue }) },
      ]),
    ),
    md5OfBody: "",
    eventSource: "aws:sqs",
    eventSourceARN: "arn:aws:sqs:eu-central-1:123456789012:queue",
    awsRegion: "eu-central-1",
  };
}

/** Deletes what was dealt with; the rest is visible again at once, as after its visibility timeout. No answer: all of it. */
export async function settleEvent(
  sqs: SQSClient,
  QueueUrl: string,
  { Records }: SQSEvent,
  answer: SQSBatchResponse | undefined,
): Promise<void> {
  const again = new Set(answer?.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
  for (const { messageId, receiptHandle: ReceiptHandle } of Records) {
    if (answer !== undefined && !again.has(messageId))
      await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
    else await sqs.send(new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout: 0 }));
  }
}

/**
 * Plays Lambda's event source until the queue is empty; gives the events that were handed over. A handler that throws gets
 * its messages again.
 */
export async function drain(
  sqs: SQSClient,
  queueUrl: string,
  handler: (event: SQSEvent) => Promise<SQSBatchResponse | undefined>,
  { max = 1, limit = 60 }: { readonly max?: number; readonly limit?: number } = {},
): Promise<readonly SQSEvent[]> {
  const events: SQSEvent[] = [];
  for (;;) {
    const event = await takeEvent(sqs, queueUrl, max);
    if (event.Records.length === 0) return events;
    events.push(event);
    if (events.length > limit) throw new Error(`the queue is not empty after ${limit} invocations`);
    await settleEvent(sqs, queueUrl, event, await handler(event).catch(() => undefined));
  }
}

/** Takes all messages of a queue off it; gives their bodies and attributes. */
export async function emptied(sqs: SQSClient, queueUrl: string): Promise<readonly SQSRecord[]> {
  const events = await drain(sqs, queueUrl, () => Promise.resolve({ batchItemFailures: [] }), { max: 10, limit: 200 });
  return events.flatMap(({ Records }) => Records);
}
