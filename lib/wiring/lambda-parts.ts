import type { S3Client } from "@aws-sdk/client-s3";
import type { SQSClient } from "@aws-sdk/client-sqs";
import type { SSMClient } from "@aws-sdk/client-ssm";
import { holdsCredentials, maskServer } from "../config/server.ts";
import { GridmeterError } from "../errors.ts";
import { S3Store } from "../store/s3-store.ts";
import { withoutEnd } from "../without-end.ts";
import { createS3, createSqs, encryptionOf } from "./aws.ts";
import type { Environment } from "./aws.ts";
import { logger } from "./lambda-log.ts";
import { createSsm } from "./ssm.ts";

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
  const text = env[name]?.trim();
  return text === undefined || text === "" ? undefined : text;
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
