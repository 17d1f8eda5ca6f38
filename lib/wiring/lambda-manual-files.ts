import {
  CopyObjectCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  NoSuchKey,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import { LARGEST_FILE } from "../accounting/manual-file.ts";
import { GridmeterError } from "../errors.ts";
import { awsFailure, awsRemedy, failureText } from "../store/aws-error.ts";
import { TooLong, readBody } from "../store/s3-body.ts";
import { encryptionOf } from "./aws.ts";
import type { Parts } from "./lambda-parts.ts";

/** Ends the key of the reason beside a refused file. */
export const REASON = ".reason.txt";

/** A file as somebody put it there; its name may hold what the store's own keys never do. */
export type IncomingFile = {
  readonly key: string;
  readonly etag: string | undefined;
  /** its size where it is too large, and was not read */
  readonly content: { readonly bytes: Uint8Array; readonly text: string } | { readonly tooLarge: number };
};

/** The file, or undefined if it is no longer there. @throws GridmeterError `store_failed` */
export async function readFile({ s3 }: Parts, Bucket: string, key: string): Promise<IncomingFile | undefined> {
  let etag: string | undefined;
  try {
    const answer = await s3.send(new GetObjectCommand({ Bucket, Key: key }));
    etag = answer.ETag;
    const bytes = await readBody(answer, LARGEST_FILE);
    // Whatever is not UTF-8 becomes a character that APEL does not take, so it is refused with its line.
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
    return { key, etag, content: { bytes, text } };
  } catch (thrown) {
    if (thrown instanceof TooLong) return { key, etag, content: { tooLarge: thrown.size } };
    if (thrown instanceof NoSuchKey) return undefined;
    throw failed(thrown, "read", "s3:GetObject", Bucket, key);
  }
}

/**
 * Moves the very bytes that were read, and puts the reason beside them; a file that is too large to be read S3 itself copies. A
 * file that was put there anew meanwhile stays: S3 tells of it too.
 * @throws GridmeterError `store_failed`
 */
export async function moveFile(
  parts: Parts,
  Bucket: string,
  { key, etag, content }: IncomingFile,
  target: string,
  reason: string | undefined,
): Promise<void> {
  if (reason !== undefined) await put(parts, Bucket, `${target}${REASON}`, Buffer.from(reason, "utf8"));
  if ("bytes" in content) await put(parts, Bucket, target, content.bytes);
  else await copy(parts, Bucket, { key, etag }, target);
  const match = etag === undefined ? {} : { IfMatch: etag };
  try {
    await parts.s3.send(new DeleteObjectCommand({ Bucket, Key: key, ...match }));
  } catch (thrown) {
    const { status } = awsFailure(thrown);
    if (status === 404 || status === 409 || status === 412) return;
    throw failed(thrown, "remove", "s3:DeleteObject", Bucket, key);
  }
}

async function put({ s3, env }: Parts, Bucket: string, Key: string, Body: Uint8Array): Promise<void> {
  const ContentType = "text/plain; charset=utf-8";
  try {
    await s3.send(new PutObjectCommand({ Bucket, Key, Body, ContentType, ...atRest(env) }));
  } catch (thrown) {
    throw failed(thrown, "write", "s3:PutObject", Bucket, Key);
  }
}

async function copy(
  { s3, env }: Parts,
  Bucket: string,
  { key, etag }: Pick<IncomingFile, "key" | "etag">,
  Key: string,
): Promise<void> {
  const CopySource = [Bucket, ...key.split("/")].map(encodeURIComponent).join("/");
  const match = etag === undefined ? {} : { CopySourceIfMatch: etag };
  try {
    await s3.send(new CopyObjectCommand({ Bucket, Key, CopySource, ...match, ...atRest(env) }));
  } catch (thrown) {
    const { status } = awsFailure(thrown);
    // It was put there anew, or removed, after its length was asked.
    if (status === 404 || status === 412) return;
    throw failed(thrown, "copy", "s3:GetObject and s3:PutObject", Bucket, key);
  }
}

function atRest(env: Parts["env"]) {
  const encryption = encryptionOf(env);
  const keyId = encryption?.sse === "aws:kms" ? encryption.keyId : undefined;
  return {
    ...(encryption === undefined ? {} : { ServerSideEncryption: encryption.sse }),
    ...(keyId === undefined ? {} : { SSEKMSKeyId: keyId }),
  };
}

function failed(thrown: unknown, doing: string, right: string, bucket: string, key: string): GridmeterError {
  const need = `${right} on arn:aws:s3:::${bucket}/${key}`;
  const text = `Cannot ${doing} s3://${bucket}/${key}: ${failureText(thrown)}. The file comes again; nothing is sent twice. ${awsRemedy(thrown, need)}`;
  return new GridmeterError("store_failed", text, { cause: thrown });
}
