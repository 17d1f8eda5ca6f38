import { createHash, randomUUID } from "node:crypto";
import { rename, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { GetObjectCommand } from "@aws-sdk/client-s3";
import { GetParameterCommand, ParameterNotFound } from "@aws-sdk/client-ssm";
import { LARGEST_TEXT, type LoadedSettings, loadSettings } from "../../lib/accounting/settings/load.ts";
import { awsFailure, awsRemedy, failureText } from "../../lib/accounting/store/aws.ts";
import { TooLong, readBody } from "../../lib/accounting/store/s3.ts";
import { GridmeterError } from "../../lib/shared/errors.ts";
import { type Parts, logger, needed, refuseCredentials, variable } from "./runtime.ts";

/**
 * The event says what the run covers, and the bucket is where its messages go and its ledger is. Metrics are pushed by
 * functions/common/metrics.ts, and a fault in their settings fails no run.
 */
const NOT_HERE = [
  "PUBLISHING_MODE",
  "QUERY_START",
  "QUERY_END",
  "OUTPUT_PATH",
  "LEDGER_PATH",
  "PUSHGATEWAY_URL",
  "PUSHGATEWAY_AUTH_HEADER",
  "PUSHGATEWAY_CA_FILE",
  "METRICS_FILE",
];

/**
 * The settings of a function: the command line's variables, and those of which only a name is in the environment
 * (PROMETHEUS_AUTH_HEADER_PARAMETER, PROMETHEUS_CA_PARAMETER, PROMETHEUS_CLIENT_CERT_PARAMETER,
 * PROMETHEUS_CLIENT_KEY_PARAMETER, TENANTS_PARAMETER, TENANTS_OBJECT).
 * @throws GridmeterError `config_invalid` with all that is wrong; `store_failed` if a parameter cannot be read
 */
export async function lambdaSettings(parts: Parts): Promise<LoadedSettings> {
  const { env } = parts;
  const named = ["TENANTS_PARAMETER", "TENANTS_OBJECT", "TENANTS_FILE"].filter((name) => variable(env, name));
  if (named.length > 1) {
    const text = `${named.join(" and ")} are set, and it is not clear which holds. Nothing was published. Set one of them.`;
    throw new GridmeterError("config_invalid", text);
  }
  refuseCredentials(env, "PROMETHEUS_SERVER", "PROMETHEUS_AUTH_HEADER_PARAMETER");
  const [header, ca, clientCert, clientKey, listed, stored] = await Promise.all([
    parameterText(parts, "PROMETHEUS_AUTH_HEADER_PARAMETER"),
    parameterText(parts, "PROMETHEUS_CA_PARAMETER"),
    parameterText(parts, "PROMETHEUS_CLIENT_CERT_PARAMETER"),
    parameterText(parts, "PROMETHEUS_CLIENT_KEY_PARAMETER"),
    parameterText(parts, "TENANTS_PARAMETER"),
    objectText(parts, "TENANTS_OBJECT"),
  ]);
  const tenants = listed ?? stored;
  const settings = loadSettings({
    env: {
      ...Object.fromEntries(Object.entries(env).filter(([name]) => !NOT_HERE.includes(name))),
      ...(header === undefined ? {} : { PROMETHEUS_AUTH_HEADER: header.trim() }),
      ...(ca === undefined ? {} : { PROMETHEUS_CA_FILE: await fileOf(ca) }),
      ...(clientCert === undefined ? {} : { PROMETHEUS_CLIENT_CERT_FILE: await fileOf(clientCert) }),
      ...(clientKey === undefined ? {} : { PROMETHEUS_CLIENT_KEY_FILE: await fileOf(clientKey) }),
      ...(tenants === undefined ? {} : { TENANTS_FILE: await fileOf(tenants) }),
    },
  });
  for (const warning of settings.warnings) logger.warn(warning);
  return settings;
}

/**
 * The settings with each query's limit cut to `seconds`. A function that is ended in the middle of a query learns nothing;
 * one whose query was refused in time asks for less at once.
 */
export function withQueryLimit(settings: LoadedSettings, seconds: number): LoadedSettings {
  const tenants = settings.tenants.map(({ tenant, connection }) => ({
    tenant,
    connection: {
      ...connection,
      timeoutSeconds: Math.max(1, Math.min(connection.timeoutSeconds, Math.floor(seconds))),
    },
  }));
  return { ...settings, tenants };
}

/**
 * The text of the parameter whose name is in the environment, decrypted; undefined where the variable is not set. It is
 * read again on every call, so that a changed secret needs no new deployment.
 * @throws GridmeterError `config_invalid` if there is none; `store_failed` if it cannot be read
 */
export async function parameterText({ env, ssm }: Parts, setting: string): Promise<string | undefined> {
  const Name = variable(env, setting);
  if (Name === undefined) return undefined;
  let text: string | undefined;
  try {
    const { Parameter } = await ssm.send(new GetParameterCommand({ Name, WithDecryption: true }));
    text = Parameter?.Value;
  } catch (thrown) {
    if (!(thrown instanceof ParameterNotFound)) throw unread(setting, Name, thrown, `ssm:GetParameter on ${Name}`);
  }
  if (text !== undefined && text.trim() !== "") return text;
  throw new GridmeterError(
    "config_invalid",
    `${setting} names the parameter ${JSON.stringify(Name)}, but there is none or it is empty. Nothing was published. ` +
      "Store it with `aws ssm put-parameter`, or correct the name.",
  );
}

/** The text of the bucket's object whose key is in the environment. @throws as `parameterText` */
export async function objectText({ env, s3 }: Parts, setting: string): Promise<string | undefined> {
  const Key = variable(env, setting);
  if (Key === undefined) return undefined;
  const Bucket = needed(env, "GRIDMETER_BUCKET");
  try {
    const bytes = await readBody(await s3.send(new GetObjectCommand({ Bucket, Key })), LARGEST_TEXT);
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  } catch (thrown) {
    if (thrown instanceof TooLong)
      throw new GridmeterError(
        "config_invalid",
        `${setting} names s3://${Bucket}/${Key}, which has ${thrown.size} bytes or more; at most ${LARGEST_TEXT} are read. Nothing was published. Put the right file there, or correct the key.`,
      );
    if (awsFailure(thrown).name !== "NoSuchKey")
      throw unread(setting, `s3://${Bucket}/${Key}`, thrown, `s3:GetObject on arn:aws:s3:::${Bucket}/${Key}`);
  }
  throw new GridmeterError(
    "config_invalid",
    `${setting} names s3://${Bucket}/${Key}, but there is no such object. Nothing was published. Put it there, or correct the key.`,
  );
}

/** A file that holds the text, readable by this function alone. The same text is the same file. */
export async function fileOf(text: string): Promise<string> {
  const path = join(tmpdir(), `gridmeter-${createHash("sha256").update(text).digest("hex").slice(0, 32)}`);
  const unfinished = `${path}.${randomUUID()}`;
  await writeFile(unfinished, text, { mode: 0o600 });
  await rename(unfinished, path);
  return path;
}

function unread(setting: string, name: string, thrown: unknown, right: string): GridmeterError {
  const text = `Cannot read ${name} (${setting}): ${failureText(thrown)}. Nothing was published. ${awsRemedy(thrown, right)}`;
  return new GridmeterError("store_failed", text, { cause: thrown });
}
