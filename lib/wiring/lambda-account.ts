import type { SQSBatchResponse, SQSRecord } from "aws-lambda";
import { parseWorkItem } from "../accounting/work-item.ts";
import { GridmeterError } from "../errors.ts";
import { runItem } from "./lambda-item.ts";
import type { ItemResult } from "./lambda-item.ts";
import { logger } from "./lambda-log.ts";
import { neededStore } from "./lambda-parts.ts";
import type { Parts } from "./lambda-parts.ts";
import { tellItem } from "./lambda-metrics.ts";
import { lambdaSettings } from "./lambda-settings.ts";
import { passOn, setAside } from "./lambda-work-queue.ts";

/**
 * `account`: counts and publishes the unit of each work item, one after the other.
 * - Done, or refused (the guard, pins, unseen monitoring): acknowledged. A refusal is an answer; trying again gives the same.
 * - Out of time: the rest is a new message, sent before this one is acknowledged, so a crash in between only repeats work.
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
    if (result.kind === "continued") await passOn(parts, record, item);
  } catch (error) {
    if (!(error instanceof GridmeterError)) throw error;
    result = { kind: error.retryable ? "failed" : "hopeless", error };
  }
  await tellItem(item, result, (Date.now() - started) / 1000, parts);
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
