import { createHash } from "node:crypto";
import {
  CopyObjectCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  NoSuchKey,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import type { Context } from "aws-lambda";
import { z } from "zod";
import { LARGEST_FILE } from "../lib/accounting/publishing/manual-file.ts";
import { type ManualFileReport, submitManual } from "../lib/accounting/publishing/manual.ts";
import { encryptionOf, sseInput, awsFailure, awsRemedy, failureText } from "../lib/accounting/store/aws.ts";
import { TooLong, readBody } from "../lib/accounting/store/s3.ts";
import { GridmeterError } from "../lib/shared/errors.ts";
import { shapeText } from "../lib/shared/text.ts";
import {
  type Parts,
  invocation,
  lambdaParts,
  logger,
  needed,
  neededStore,
  notifySpooler,
  warnDamaged,
} from "./common/runtime.ts";

const parts = lambdaParts(process.env);

/** Sends the hand-written records that somebody put under manual/incoming/ of the bucket. A failure makes Lambda try again. */
export const handler = async (event: unknown, context: Context) => {
  return invocation(context, () => manualFiles(event, Math.floor(Date.now() / 1000), parts));
};

/**
 * What became of a file. `gone`: it was dealt with before (S3 may announce a file twice). `ignored`: it is none of ours, or its
 * key in the event is no key; trying again would not help.
 */
type ManualOutcome = {
  readonly key: string;
  readonly outcome: "accepted" | "refused" | "gone" | "ignored";
  readonly sent?: number;
  readonly sentBefore?: number;
  readonly refused?: number;
};

const INCOMING = "manual/incoming/";
/** S3 takes no longer keys, bytes. */
const LONGEST_KEY = 1024;

/**
 * `manual`: sends the good records of a hand-written file, each once, and moves the file to `manual/accepted/`, or if
 * anything in it was refused to `manual/refused/` with the reasons beside it. It may be ended at any instant and repeated.
 * @param now epoch seconds
 * @throws GridmeterError `store_failed`, `store_conflict`, `queue_failed`, `config_invalid`
 */
export async function manualFile(announced: AnnouncedFile, now: number, parts: Parts): Promise<ManualOutcome> {
  const key = keyOf(announced);
  if (key === undefined) {
    const text =
      "is not written as S3 writes keys (percent-encoded UTF-8), so it names no file. Nothing was sent; put the file under manual/incoming/ once more.";
    logger.error(`The key ${JSON.stringify(announced.key)} ${text}`);
    return { key: announced.key, outcome: "ignored" };
  }
  const store = neededStore(parts);
  const incoming = store.fullKey(INCOMING);
  const name = key.startsWith(incoming) ? key.slice(incoming.length) : "";
  if (announced.bucket !== needed(parts.env, "GRIDMETER_BUCKET") || name === "" || name.endsWith("/")) {
    logger.warn(
      `s3://${announced.bucket}/${key} is no file under s3://${store.place.bucket}/${incoming}; it is left alone.`,
    );
    return { key, outcome: "ignored" };
  }
  const file = await readFile(parts, store.place.bucket, key);
  if (file === undefined) return { key, outcome: "gone" };
  const target = (outcome: "accepted" | "refused"): string =>
    store.fullKey(`manual/${outcome}/${keptName(name, incoming)}`);
  const { content } = file;
  if ("tooLarge" in content) {
    const reason = `The file has ${content.tooLarge} bytes or more, more than ${LARGEST_FILE}. Nothing of it was sent. Split it at a record's end.`;
    logger.error(`${name}: ${reason}`);
    await moveFile(parts, store.place.bucket, file, target("refused"), `${reason}\n`);
    return { key, outcome: "refused" };
  }
  const [report] = (
    await submitManual({ store, outbox: store }, [{ name, text: content.text }], { now, damaged: warnDamaged })
  ).files;
  if (report === undefined) throw new TypeError("a file was submitted and there is no report");
  for (const { line, reason } of report.warnings) logger.warn(`${name}:${line}: ${reason}`);
  // Before the file is moved: once it is gone, no invocation would come back to notify the spooler.
  await notifySpooler(unitsOf(report), store, parts);
  const outcome = report.refused.length === 0 ? "accepted" : "refused";
  await moveFile(
    parts,
    store.place.bucket,
    file,
    target(outcome),
    outcome === "accepted" ? undefined : reasons(report),
  );
  return {
    key,
    outcome,
    sent: report.sent.length,
    sentBefore: report.alreadySent.length,
    refused: report.refused.length + report.moreRefused,
  };
}

/** The name under which a file is kept: its own, unless a reason beside it would have too long a key. */
function keptName(name: string, incoming: string): string {
  if (Buffer.byteLength(incoming + name + REASON) <= LONGEST_KEY) return name;
  const kept = createHash("sha256").update(name).digest("hex");
  logger.warn(`${incoming}${name} has too long a name for the reason beside it; it is kept as ${kept}.`);
  return kept;
}

function unitsOf({ sent, alreadySent }: ManualFileReport) {
  const units = [...sent, ...alreadySent].map(({ unit }) => unit);
  return [...new Map(units.map((unit) => [JSON.stringify([unit.site, unit.submitHost, unit.month]), unit])).values()];
}

/** What is beside a refused file. */
function reasons({ sent, alreadySent, refused, moreRefused }: ManualFileReport): string {
  const others = sent.length + alreadySent.length;
  const lines = refused.flatMap(({ problems }) =>
    problems.map(({ line, rule, reason }) => `line ${line}: ${reason} (${rule})`),
  );
  return [
    `${refused.length + moreRefused} records were refused and not sent; ${others} others were sent. Correct the file and put it under`,
    "manual/incoming/ again: what was sent is not sent twice.",
    "",
    ...lines,
    ...(moreRefused > 0 ? [`and ${moreRefused} more records`] : []),
    "",
  ].join("\n");
}

/**
 * Deals with all files of an event; if one fails, the others go on.
 * @throws the first failure; GridmeterError `config_invalid` if the event is none of S3
 */
export async function manualFiles(event: unknown, now: number, parts: Parts) {
  const files: ManualOutcome[] = [];
  const failures: unknown[] = [];
  for (const file of announcedFiles(event)) {
    try {
      const outcome = await manualFile(file, now, parts);
      logger.info(`${outcome.key}: ${outcome.outcome}`, { ...outcome });
      files.push(outcome);
    } catch (error) {
      logger.error(`${file.key} failed`, { code: error instanceof GridmeterError ? error.code : "unexpected" });
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
  return { files };
}

const s3Event = z.object({
  Records: z.array(
    z.object({
      s3: z.object({ bucket: z.object({ name: z.string() }), object: z.object({ key: z.string() }) }),
    }),
  ),
});

/** A file that S3 announces; `key` as it is in the event. */
type AnnouncedFile = { readonly bucket: string; readonly key: string };

/** The files of an event from S3, or of one that somebody wrote by hand. @throws GridmeterError `config_invalid` */
function announcedFiles(event: unknown): readonly AnnouncedFile[] {
  const parsed = s3Event.safeParse(event);
  if (parsed.success)
    return parsed.data.Records.map(({ s3: { bucket, object } }) => ({ bucket: bucket.name, key: object.key }));
  throw new GridmeterError(
    "config_invalid",
    `The event of manual ${JSON.stringify(event)?.slice(0, 300)} is none of S3: ${shapeText(parsed.error)}. ` +
      "No record was sent. Give one like events/manual-s3.json, or put the file under manual/incoming/ once more.",
  );
}

/** The key of a file; S3 writes keys into its events as a form would. Undefined if it is no such text. */
function keyOf({ key }: AnnouncedFile): string | undefined {
  try {
    return decodeURIComponent(key.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}

/** Ends the key of the reason beside a refused file. */
const REASON = ".reason.txt";

/** A file as somebody put it there; its name may hold what the store's own keys never do. */
type IncomingFile = {
  readonly key: string;
  readonly etag: string | undefined;
  /** its size where it is too large, and was not read */
  readonly content: { readonly bytes: Uint8Array; readonly text: string } | { readonly tooLarge: number };
};

/** The file, or undefined if it is no longer there. @throws GridmeterError `store_failed` */
async function readFile({ s3 }: Parts, Bucket: string, key: string): Promise<IncomingFile | undefined> {
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
 * file that was put there again meanwhile stays: S3 announces it too.
 * @throws GridmeterError `store_failed`
 */
async function moveFile(
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
    await s3.send(new PutObjectCommand({ Bucket, Key, Body, ContentType, ...sseInput(encryptionOf(env)) }));
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
    await s3.send(new CopyObjectCommand({ Bucket, Key, CopySource, ...match, ...sseInput(encryptionOf(env)) }));
  } catch (thrown) {
    const { status } = awsFailure(thrown);
    // It was put there again, or removed, after its length was asked.
    if (status === 404 || status === 412) return;
    throw failed(thrown, "copy", "s3:GetObject and s3:PutObject", Bucket, key);
  }
}

function failed(thrown: unknown, doing: string, right: string, bucket: string, key: string): GridmeterError {
  const need = `${right} on arn:aws:s3:::${bucket}/${key}`;
  const text = `Cannot ${doing} s3://${bucket}/${key}: ${failureText(thrown)}. The file comes again; nothing is sent twice. ${awsRemedy(thrown, need)}`;
  return new GridmeterError("store_failed", text, { cause: thrown });
}
