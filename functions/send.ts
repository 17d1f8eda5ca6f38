import { MetricUnit } from "@aws-lambda-powertools/metrics";
import { paginateListObjectsV2 } from "@aws-sdk/client-s3";
import type { Context, SQSBatchResponse } from "aws-lambda";
import { z } from "zod";
import { setDelivery } from "../lib/accounting/delivery/ams-or-spool.ts";
import { judge, setAside } from "../lib/accounting/delivery/spooler.ts";
import type { Unit } from "../lib/accounting/model/tenant.ts";
import { openSender } from "../lib/accounting/send.ts";
import { sendOutgoing } from "../lib/accounting/sending/bucket-sender.ts";
import type { SendReport } from "../lib/accounting/sending/sender.ts";
import { type AmsSettings, amsPlace } from "../lib/accounting/settings/ams.ts";
import { awsRemedy, failureText } from "../lib/accounting/store/aws.ts";
import type { S3Store } from "../lib/accounting/store/s3.ts";
import { GridmeterError, errorText } from "../lib/shared/errors.ts";
import { shapeText } from "../lib/shared/text.ts";
import {
  type Parts,
  delivery,
  invocation,
  lambdaParts,
  logger,
  metrics,
  needed,
  neededStore,
} from "./common/runtime.ts";
import { parameterText } from "./common/settings.ts";

const parts = lambdaParts(process.env);

/** Sends outgoing messages to APEL's messaging service: those that the queue announces, and on schedule all that it did not announce. */
export const handler = async (event: unknown, context: Context) =>
  invocation(context, () => {
    const remaining = (): number => context.getRemainingTimeInMillis();
    return send(event, { now: () => Math.floor(Date.now() / 1000), remaining }, parts);
  });

type Clocks = {
  /** epoch seconds */
  readonly now: () => number;
  /** milliseconds that are left */
  readonly remaining: () => number;
};

/** No message is begun with less time left, milliseconds: one takes four requests of a minute at the worst. */
const LEAST_LEFT = 270_000;

const queueRecord = z.object({ messageId: z.string(), receiptHandle: z.string(), body: z.string() });
const queueEvent = z.object({ Records: z.array(queueRecord) });
const sweepEvent = z.strictObject({ mode: z.literal("sweep") });

/**
 * `send`: sends what the event is about, newest generation only, and moves it to `sent/` with the id of AMS. Of an event of the queue, the
 * answer names the messages whose objects still wait; they come again. Of a sweep it is what was done.
 * @throws GridmeterError `config_invalid`, `certificate_invalid`, `store_failed`; of a sweep also whatever kept a message from being sent
 */
export async function send(event: unknown, clocks: Clocks, parts: Parts) {
  if (delivery(parts) !== "ams") {
    const text =
      "DELIVERY is spool: messages go into ssmsend's queue. Nothing was sent. Deploy with DELIVERY=ams to send from here.";
    throw new GridmeterError("config_invalid", text);
  }
  if (sweepEvent.safeParse(event).success) return sweep(clocks, parts);
  const parsed = queueEvent.safeParse(event);
  if (parsed.success) return sendAnnounced(parsed.data.Records, clocks, parts);
  throw new GridmeterError(
    "config_invalid",
    `The event of send ${JSON.stringify(event)?.slice(0, 300)} is neither one of SQS nor a sweep: ${shapeText(parsed.error)}. ` +
      'Nothing was sent. Give {"mode":"sweep"}.',
  );
}

async function sweep(clocks: Clocks, parts: Parts) {
  const store = neededStore(parts);
  // A queue message was announced by who has said so; a sweep may be the first of a deployment.
  await setDelivery(store, "ams");
  try {
    const report = await sendUnits(undefined, store, clocks, parts);
    const [first] = report.errors.filter((error) => !isRefusal(error));
    // After all others were tried: the schedule tries again, and the function's alarm rings.
    if (first !== undefined) throw first;
    return { messages: report.messages };
  } finally {
    metrics.addMetric("OldestUnsentSeconds", MetricUnit.Seconds, await oldestUnsent(store, clocks, parts));
    metrics.publishStoredMetrics();
  }
}

async function sendAnnounced(
  records: readonly z.infer<typeof queueRecord>[],
  clocks: Clocks,
  parts: Parts,
): Promise<SQSBatchResponse> {
  const store = neededStore(parts);
  const failed: string[] = [];
  for (const { messageId, receiptHandle, body } of records) {
    const message = { id: messageId, receipt: receiptHandle, text: body };
    const verdict = judge(message, store);
    if (verdict.kind === "poisoned") {
      const key = await setAside(body, verdict.reason, store);
      const where = { setAside: store.fullKey(key), reason: verdict.reason };
      logger.error(`the queue message ${messageId} was set aside`, where);
      metrics.addMetric("SendRefused", MetricUnit.Count, 1);
      continue;
    }
    const { messages, errors } = await sendUnits([verdict.unit], store, clocks, parts);
    const unknown = errors.find((error) => !(error instanceof GridmeterError));
    if (unknown !== undefined) throw unknown;
    // An object that is not outgoing any more was sent before.
    const waits = messages.some((each) => each.message === verdict.key && each.status === "waiting");
    if (waits || errors.some((error) => !isRefusal(error))) failed.push(messageId);
  }
  metrics.publishStoredMetrics();
  return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
}

/** Sends what waits of these units, or of all, and logs what became of it. */
async function sendUnits(
  units: readonly Unit[] | undefined,
  store: S3Store,
  { now, remaining }: Clocks,
  parts: Parts,
): Promise<SendReport> {
  const open = await openFrom(parts, now);
  try {
    const report = await sendOutgoing(store, open.sender, {
      lease: { onHost: false },
      stop: () => remaining() < LEAST_LEFT,
      ...(units === undefined ? {} : { units }),
    });
    logReport(report);
    return report;
  } finally {
    open.client.close();
  }
}

/** Reads certificate and key afresh, so that a renewed one needs no new deployment. */
async function openFrom(parts: Parts, now: () => number) {
  const [certificate, key, token, ca] = await Promise.all([
    parameterText(parts, "AMS_CERTIFICATE_PARAMETER"),
    parameterText(parts, "AMS_KEY_PARAMETER"),
    parameterText(parts, "AMS_TOKEN_PARAMETER"),
    parameterText(parts, "AMS_CA_PARAMETER"),
  ]);
  const named = (setting: string, pem = "") => ({
    name: `the parameter ${needed(parts.env, setting)} (${setting})`,
    pem,
  });
  const settings: AmsSettings = {
    place: amsPlace(parts.env),
    certificate: named("AMS_CERTIFICATE_PARAMETER", certificate),
    key: named("AMS_KEY_PARAMETER", key),
    ...(token === undefined ? {} : { token: () => token.trim() }),
    authorities: ca === undefined ? [] : [ca],
    warnings: [],
    nameWarnings: [],
  };
  try {
    const open = openSender(settings, { dryRun: false, now });
    open.warnings.forEach((warning) => logger.warn(warning));
    metrics.addMetric("CertificateDaysLeft", MetricUnit.Count, Math.floor((open.identity.endsAt - now()) / 86_400));
    return open;
  } catch (error) {
    // A certificate that cannot be used is as bad as one that has ended.
    metrics.addMetric("CertificateDaysLeft", MetricUnit.Count, 0);
    metrics.publishStoredMetrics();
    throw error;
  }
}

/** What keeps a message from ever being sent: it lies among the refused ones, and trying again gives the same. */
function isRefusal(error: unknown): boolean {
  return error instanceof GridmeterError && error.code === "message_invalid";
}

function logReport({ messages, errors }: SendReport): void {
  for (const { message, status, amsId, reason } of messages) {
    const fields = {
      key: message,
      ...(amsId === undefined ? {} : { amsId }),
      ...(reason === undefined ? {} : { reason }),
    };
    if (status === "refused") logger.error(status, fields);
    else if (status === "waiting") logger.warn(status, fields);
    else logger.info(status, fields);
  }
  for (const error of errors) {
    if (isRefusal(error)) continue;
    logger.error(errorText(error), { code: error instanceof GridmeterError ? error.code : "unexpected" });
  }
  // For good, until a person does something: a message of no use, a name that GOCDB does not hold, a topic that is not there.
  const permanent = errors.filter((error) => error instanceof GridmeterError && !error.retryable);
  metrics.addMetric("SendRefused", MetricUnit.Count, permanent.length);
  metrics.addMetric("MessagesSent", MetricUnit.Count, messages.filter(({ status }) => status === "sent").length);
}

/** How long the oldest message has been outgoing, seconds; 0 if none is. @throws GridmeterError `store_failed` */
async function oldestUnsent(store: S3Store, { now }: Clocks, { s3, env }: Parts): Promise<number> {
  const Bucket = needed(env, "GRIDMETER_BUCKET");
  const Prefix = store.fullKey("outgoing/");
  let oldest = now();
  try {
    for await (const { Contents = [] } of paginateListObjectsV2({ client: s3 }, { Bucket, Prefix }))
      for (const { LastModified } of Contents) oldest = Math.min(oldest, (LastModified?.getTime() ?? Infinity) / 1000);
  } catch (thrown) {
    const need = `s3:ListBucket on arn:aws:s3:::${Bucket}`;
    const text = `Cannot list s3://${Bucket}/${Prefix}: ${failureText(thrown)}. How old the oldest message is, is not known. ${awsRemedy(thrown, need)}`;
    throw new GridmeterError("store_failed", text, { cause: thrown });
  }
  return now() - oldest;
}
