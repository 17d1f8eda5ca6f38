import { DeleteObjectCommand, GetObjectCommand, NoSuchKey, PutObjectCommand } from "@aws-sdk/client-s3";
import { GridmeterError } from "../errors.ts";
import { awsFailure, awsRemedy, failureText } from "../store/aws-error.ts";
import { encryptionOf } from "./aws.ts";
import type { Parts } from "./lambda-parts.ts";

/** A year of a large site's records is a hundredth of this. */
export const LARGEST_FILE = 5_000_000;

/** Ends the key of the reason beside a refused file. */
export const REASON = ".reason.txt";

/** A file as somebody put it there; its name may hold what the store's own keys never do. */
export type IncomingFile = {
  readonly key: string;
  readonly etag: string | undefined;
  readonly bytes: Uint8Array;
  /** undefined where the file is too large to be read */
  readonly text: string | undefined;
};

/** The file, or undefined if it is no longer there. @throws GridmeterError `store_failed` */
export async function readFile({ s3 }: Parts, Bucket: string, key: string): Promise<IncomingFile | undefined> {
  try {
    const { Body, ETag: etag } = await s3.send(new GetObjectCommand({ Bucket, Key: key }));
    const bytes = (await Body?.transformToByteArray()) ?? new Uint8Array();
    // Whatever is not UTF-8 becomes a character that APEL does not take, so it is refused with its line.
    const text = bytes.length > LARGEST_FILE ? undefined : new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
    return { key, etag, bytes, text };
  } catch (thrown) {
    if (thrown instanceof NoSuchKey) return undefined;
    throw failed(thrown, "read", "s3:GetObject", Bucket, key);
  }
}

/**
 * Moves the very bytes that were read, and puts the reason beside them. A file that was put there anew meanwhile stays: S3
 * tells of it too.
 * @throws GridmeterError `store_failed`
 */
export async function moveFile(
  parts: Parts,
  Bucket: string,
  { key, etag, bytes }: IncomingFile,
  target: string,
  reason: string | undefined,
): Promise<void> {
  if (reason !== undefined) await put(parts, Bucket, `${target}${REASON}`, Buffer.from(reason, "utf8"));
  await put(parts, Bucket, target, bytes);
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
  const encryption = encryptionOf(env);
  const keyId = encryption?.sse === "aws:kms" ? encryption.keyId : undefined;
  const command = new PutObjectCommand({
    Bucket,
    Key,
    Body,
    ContentType: "text/plain; charset=utf-8",
    ...(encryption === undefined ? {} : { ServerSideEncryption: encryption.sse }),
    ...(keyId === undefined ? {} : { SSEKMSKeyId: keyId }),
  });
  try {
    await s3.send(command);
  } catch (thrown) {
    throw failed(thrown, "write", "s3:PutObject", Bucket, Key);
  }
}

function failed(thrown: unknown, doing: string, right: string, bucket: string, key: string): GridmeterError {
  const need = `${right} on arn:aws:s3:::${bucket}/${key}`;
  const text = `Cannot ${doing} s3://${bucket}/${key}: ${failureText(thrown)}. The file comes again; nothing is sent twice. ${awsRemedy(thrown, need)}`;
  return new GridmeterError("store_failed", text, { cause: thrown });
}
