import { createHash, randomUUID } from "node:crypto";
import { rename, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { GetObjectCommand } from "@aws-sdk/client-s3";
import { GetParameterCommand, ParameterNotFound } from "@aws-sdk/client-ssm";
import { GridmeterError } from "../errors.ts";
import { LARGEST_TEXT } from "../config/load.ts";
import { awsFailure, awsRemedy, failureText } from "../store/aws-error.ts";
import { TooLong, readBody } from "../store/s3-body.ts";
import { needed, variable } from "./lambda-parts.ts";
import type { Parts } from "./lambda-parts.ts";

/**
 * The text of the parameter whose name stands in the environment, decrypted; undefined where the variable is not set. It is
 * read anew on every call, so that a changed secret needs no new deployment.
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

/** The text of the bucket's object whose key stands in the environment. @throws as `parameterText` */
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
