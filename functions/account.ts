import { SendMessageCommand, type SendMessageCommandInput } from "@aws-sdk/client-sqs";
import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from "aws-lambda";
import { sqsError, unitGroup } from "../lib/accounting/delivery/notifications.ts";
import { unitName } from "../lib/accounting/model/tenant.ts";
import { GridmeterError } from "../lib/shared/errors.ts";
import { publishFigures } from "./common/metrics.ts";
import { type Parts, invocation, lambdaParts, logger, needed, neededStore } from "./common/runtime.ts";
import { wantsReport, writeReport } from "./common/report.ts";
import { lambdaSettings } from "./common/settings.ts";
import { type ItemResult, MOST_PARTS, type RunItem, parseWorkItem, partOf, runItem } from "./common/work-item.ts";

const parts = lambdaParts(process.env);

/** Counts and publishes the units that the work queue asks for. Work that is to come again is in the answer by its id. */
export const handler = async (event: SQSEvent, context: Context): Promise<SQSBatchResponse> => {
  return invocation(context, () => accountBatch(event.Records, () => context.getRemainingTimeInMillis(), parts));
};

/**
 * `account`: counts and publishes the unit of each work item, one after the other.
 * - Done, or refused (the guard, pins, unseen monitoring): acknowledged. A refusal is an answer; trying again gives the same.
 * - Out of time: the rest is a new message, sent before this one is acknowledged, so a crash in between only repeats work. A run
 *   that comes to no end goes to the dead letters.
 * - What nothing but a person can mend (no work item, an unknown unit, Prometheus refusing the credentials) goes to the dead
 *   letters at once, with the reason; otherwise it would hold its unit up for hours.
 * - What may pass (Prometheus or S3 failing) is reported as failed and comes again, and so does all that follows it in its
 *   group, since the order within a group must hold.
 * - Anything else is a fault of the program and is thrown: the whole batch comes again and the function's alarm rings.
 * @throws GridmeterError `config_invalid` for settings that are wrong
 */
export async function accountBatch(
  records: readonly SQSRecord[],
  remaining: () => number,
  parts: Parts,
): Promise<SQSBatchResponse> {
  const failed: string[] = [];
  const heldUp = new Set<string>();
  for (const record of records) {
    const group = record.attributes.MessageGroupId ?? record.messageId;
    const done = !heldUp.has(group) && (await handle(record, remaining, parts));
    if (done) continue;
    heldUp.add(group);
    failed.push(record.messageId);
  }
  return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
}

/** Whether the message is dealt with and may be acknowledged. */
async function handle(record: SQSRecord, remaining: () => number, parts: Parts): Promise<boolean> {
  const parsed = parseWorkItem(record.body);
  if (!parsed.ok) return poison(record, parsed.problem, parts);
  const settings = await lambdaSettings(parts);
  const store = neededStore(parts);
  const withReport = wantsReport(parts.env);
  // A message that comes again has its first id and time: it is the same run and goes on with the pieces that it kept.
  const run = parsed.item.run ?? {
    id: record.messageId,
    now: Math.floor(Number(record.attributes.SentTimestamp) / 1000),
  };
  const item = { ...parsed.item, run };
  const started = Date.now();
  let result: ItemResult;
  try {
    result = await runItem(item, settings, store, remaining, parts);
    if (result.kind === "continued") {
      if (partOf(item) >= MOST_PARTS) result = { kind: "hopeless", result: result.result, error: tooLong(item) };
      else await passOn(parts, record, item);
    }
  } catch (error) {
    if (!(error instanceof GridmeterError)) throw error;
    result = { kind: error.retryable ? "failed" : "hopeless", error };
  }
  await publishFigures(item, result, (Date.now() - started) / 1000, parts);
  if (withReport && (result.kind === "done" || result.kind === "refused"))
    await writeReport(settings, store, remaining);
  switch (result.kind) {
    case "done":
    case "refused":
    case "continued":
      return true;
    case "failed":
      return false;
    case "hopeless":
      return poison(record, `${result.error.code}: ${result.error.message}`, parts);
  }
}

async function poison(record: SQSRecord, reason: string, parts: Parts): Promise<boolean> {
  logger.error(`work item ${record.messageId} is set aside: ${reason}`, { body: record.body });
  try {
    await setAside(parts, record, reason);
    return true;
  } catch (error) {
    if (!(error instanceof GridmeterError)) throw error;
    logger.error(error.message, { code: error.code });
    // It comes again until the queue itself moves it to the dead letters.
    return false;
  }
}

/** SQS takes these characters in a text and no others. */
const UNSENDABLE = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu;
const LONGEST_REASON = 2000;

/**
 * Puts the rest of a run on the work queue as a message of its own, which spends none of the receive counts that lead to
 * the dead letters. Named after the message it continues: should that come again at once, the rest is not there twice.
 * @throws GridmeterError `queue_failed`
 */
async function passOn({ env, sqs }: Parts, { messageId }: SQSRecord, item: RunItem): Promise<void> {
  const QueueUrl = needed(env, "WORK_QUEUE_URL");
  const rest: RunItem = { ...item, run: { ...item.run, part: partOf(item) + 1 } };
  const input = {
    QueueUrl,
    MessageBody: JSON.stringify(rest),
    ...fifo(QueueUrl, unitGroup(item), `rest-${messageId}`),
  };
  try {
    await sqs.send(new SendMessageCommand(input));
  } catch (thrown) {
    const left = "What was counted is kept, and the work item comes again.";
    throw sqsError(thrown, "put the rest of the work on", "sqs:SendMessage", QueueUrl, left);
  }
}

function tooLong(item: RunItem): GridmeterError {
  const text =
    `${unitName(item)} was not counted within ${MOST_PARTS} invocations, which is the most that a run may take. ` +
    "Nothing was published, and the days that are settled are kept. See in the log whether Prometheus answers slowly or refuses " +
    "queries; count the month with `gridmeter account --ledger s3://BUCKET --output s3://BUCKET` on a host, which has no such limit.";
  return new GridmeterError("run_too_long", text);
}

/** Sends a message that cannot be made use of to the dead letters, as it came, with the reason. @throws `queue_failed` */
async function setAside({ env, sqs }: Parts, record: SQSRecord, reason: string): Promise<void> {
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
