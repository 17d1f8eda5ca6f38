import { Logger } from "@aws-lambda-powertools/logger";
import { Metrics } from "@aws-lambda-powertools/metrics";
import type { S3Client } from "@aws-sdk/client-s3";
import type { SQSClient } from "@aws-sdk/client-sqs";
import { SSMClient } from "@aws-sdk/client-ssm";
import type { Context } from "aws-lambda";
import type { Damage } from "../../lib/accounting/store/json.ts";
import type { Unit } from "../../lib/accounting/model/tenant.ts";
import { type Delivery, setDelivery } from "../../lib/accounting/delivery/ams-or-spool.ts";
import { notificationsOf, notify } from "../../lib/accounting/delivery/notifications.ts";
import { parseOutgoingKey, unitPrefix } from "../../lib/accounting/delivery/outgoing.ts";
import { type Environment, commonSettings, createS3, createSqs, encryptionOf } from "../../lib/accounting/store/aws.ts";
import { S3Store } from "../../lib/accounting/store/s3.ts";
import { filled } from "../../lib/shared/config-values.ts";
import { GridmeterError, errorSummary } from "../../lib/shared/errors.ts";
import { holdsCredentials, maskServer } from "../../lib/shared/server-url.ts";
import { plainText, withoutEnd } from "../../lib/shared/text.ts";

/** What a function is given from outside; built once and kept between invocations. */
export type Parts = {
  readonly env: Environment;
  readonly s3: S3Client;
  readonly sqs: SQSClient;
  readonly ssm: SSMClient;
};

export function lambdaParts(env: Environment): Parts {
  return { env, s3: createS3(env), sqs: createSqs(env), ssm: createSsm(env) };
}

/** A variable of the function's environment; undefined where it is not set or empty. */
export function variable(env: Environment, name: string): string | undefined {
  return filled(env[name]);
}

/** A variable that the function cannot do without. @throws GridmeterError `config_invalid` */
export function needed(env: Environment, name: string): string {
  const text = variable(env, name);
  if (text !== undefined) return text;
  throw new GridmeterError(
    "config_invalid",
    `${name} is not set. Nothing was published. Set it in the function's environment (serverless.yml does).`,
  );
}

/**
 * Refuses an address with a user, a password or a token in it: a function's environment is plain text to all who may look at the
 * function, and so is the template of its stack.
 * @param parameter the variable that names the parameter in which they belong
 * @throws GridmeterError `config_invalid`
 */
export function refuseCredentials(env: Environment, name: string, parameter: string): void {
  const text = variable(env, name);
  if (text === undefined || !holdsCredentials(text)) return;
  throw new GridmeterError(
    "config_invalid",
    `${name}=${JSON.stringify(maskServer(text))} holds credentials, which a function's environment does not keep secret. Nothing was published. ` +
      `Take them out of it, store the header (Basic and the base64 of user:password) as a SecureString with \`aws ssm put-parameter\`, and name that in ${parameter}.`,
  );
}

/** The store of ledger, state and messages, or undefined where no bucket is set. @throws GridmeterError `config_invalid` */
export function storeOf({ env, s3 }: Parts): S3Store | undefined {
  const bucket = variable(env, "GRIDMETER_BUCKET");
  if (bucket === undefined) return undefined;
  const encryption = encryptionOf(env);
  return new S3Store({
    client: s3,
    bucket,
    prefix: withoutEnd((variable(env, "GRIDMETER_PREFIX") ?? "").replace(/^\/+/, ""), "/"),
    foreign: (key) => logger.debug("an object that gridmeter did not make", { key }),
    ...(encryption === undefined ? {} : { encryption }),
  });
}

/** The same where a bucket must be set. @throws GridmeterError `config_invalid` */
export function neededStore(parts: Parts): S3Store {
  needed(parts.env, "GRIDMETER_BUCKET");
  const store = storeOf(parts);
  if (store === undefined) throw new TypeError("there is a bucket and no store");
  return store;
}

/** The client of SSM, where functions find settings. It is half as large as all else of AWS, and no command needs it. */
export function createSsm(env: Environment): SSMClient {
  return new SSMClient(commonSettings(env, "SSM"));
}

const serviceName = process.env["POWERTOOLS_SERVICE_NAME"] ?? "gridmeter";

/** The functions' log: one JSON object a line; POWERTOOLS_LOG_LEVEL sets how much. */
export const logger = new Logger({
  serviceName,
  // What reads the log prints it on a terminal.
  jsonReplacerFn: (_key, value) => (typeof value === "string" ? plainText(value) : value),
});

/** CloudWatch metrics in the log (EMF), under the dimension `service` alone; the alarms go by them. */
export const metrics = new Metrics({
  namespace: process.env["POWERTOOLS_METRICS_NAMESPACE"] ?? "gridmeter",
  serviceName,
});

/**
 * Runs an invocation's work and logs what it throws, with its code. An error of ours is thrown on without its stack, since the
 * message says what to do, and lines of a bundle help nobody; a fault of the program keeps it.
 */
export async function invocation<T>(context: Context, work: () => Promise<T>): Promise<T> {
  logger.addContext(context);
  try {
    return await work();
  } catch (thrown) {
    const { code, message, retryable } = errorSummary(thrown);
    const isOurs = thrown instanceof GridmeterError;
    logger.error(isOurs ? message : `A fault of the program, please report it: ${message}`, { code, retryable });
    if (isOurs) thrown.stack = `${thrown.name}: ${code}: ${message}`;
    throw thrown;
  }
}

/** A stored object that was damaged and set aside is a warning: what it held is made again. */
export function warnDamaged({ key, setAside, what }: Damage): void {
  logger.warn(`${key} was damaged; it is set aside and made again`, { key, setAside, what });
}

/** Of an invocation's time this much at most is kept for what is in flight when counting stops, milliseconds. */
const LONGEST_MARGIN = 300_000;

type TimeLimit = {
  /** true once no further piece may be started */
  readonly stop: () => boolean;
  /** limit of one query, seconds: a piece that is too large is refused early enough to be asked in smaller ones */
  readonly querySeconds: number;
};

/**
 * Divides what is left of an invocation: counting may start pieces until the margin begins; the margin is for the pieces in
 * flight, for publishing and for passing the rest on.
 * @param remaining milliseconds that are left, as Lambda's context gives them
 */
export function stopBefore(remaining: () => number): TimeLimit {
  const margin = Math.min(LONGEST_MARGIN, remaining() * 0.4);
  return { stop: () => remaining() < margin, querySeconds: Math.max(1, margin / 2000) };
}

/** DELIVERY: which way the deployment's messages go; `spool` where it is not set. @throws GridmeterError `config_invalid` */
export function delivery({ env }: Parts): Delivery {
  const text = variable(env, "DELIVERY") ?? "spool";
  if (text === "ams" || text === "spool") return text;
  throw new GridmeterError(
    "config_invalid",
    `DELIVERY=${JSON.stringify(text)} is neither ams nor spool. Nothing was delivered. Set it to one of them and deploy.`,
  );
}

/**
 * Announces to the spooler, or to the function send, all that is in `outgoing/` of the units, older generations first. The keys are read from the store
 * and not from the run, so that those of an invocation that was ended between publishing and announcing are announced too.
 * @throws GridmeterError `store_failed`, `queue_failed`
 */
export async function notifySpooler(units: readonly Unit[], store: S3Store, parts: Parts): Promise<void> {
  const { env, sqs } = parts;
  // Before any notification: a spooler or sender that finds the messages not its own stops.
  await setDelivery(store, delivery(parts));
  const queueUrl = variable(env, "SPOOL_QUEUE_URL");
  // Without a queue sweeps find all.
  if (queueUrl === undefined) return;
  for (const unit of units) {
    const keys = (await store.list(unitPrefix(unit))).filter((key) => parseOutgoingKey(key) !== undefined);
    await notify(sqs, queueUrl, await notificationsOf(store, keys));
  }
}
