import { Buffer } from "node:buffer";
import { createHash, randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import {
  DeleteObjectCommand,
  GetObjectCommand,
  type GetObjectCommandOutput,
  HeadObjectCommand,
  NoSuchKey,
  PutObjectCommand,
  type S3Client,
  paginateListObjectsV2,
} from "@aws-sdk/client-s3";
import { GridmeterError } from "../../shared/errors.ts";
import { type Encryption, awsFailure, awsRemedy, failureText, mayHaveHappened, sseInput } from "./aws.ts";
import {
  LARGEST_OBJECT,
  type ObjectStore,
  type PutResult,
  type StoredObject,
  checkedKey,
  isKey,
  tooLarge,
} from "./store.ts";

/** A bucket and the part of it that is ours; the prefix has no slash at its ends and may be empty. */
type S3Place = { readonly bucket: string; readonly prefix: string };

type S3StoreOptions = S3Place & {
  readonly client: S3Client;
  readonly encryption?: Encryption;
  /** Told of objects that gridmeter cannot have put, such as a console's folder markers. They are never listed. */
  readonly foreign?: (key: string) => void;
};

/** Metadata: which put made the object, and the hash of its body. */
const PUT_ID = "gridmeter-put";
const SHA256 = "gridmeter-sha256";

class CutShort extends Error {}

function contentTypeOf(key: string): string {
  if (key.endsWith(".json")) return "application/json";
  return key.endsWith(".html") ? "text/html; charset=utf-8" : "text/plain; charset=utf-8";
}

/**
 * Objects in S3 or a store that speaks its protocol with conditional puts. A version is the ETag, which conditions go by,
 * and the id of the put. The id also shows after a lost answer whether it was our put that came through. S3's ETag is the
 * same for equal bodies: compare-and-set therefore takes "put back as it was" for "unchanged", which is true of the body.
 */
export class S3Store implements ObjectStore {
  readonly place: S3Place;
  readonly #client: S3Client;
  readonly #encryption: Encryption | undefined;
  readonly #foreign: ((key: string) => void) | undefined;

  constructor({ client, bucket, prefix, encryption, foreign }: S3StoreOptions) {
    this.place = { bucket, prefix };
    this.#client = client;
    this.#encryption = encryption;
    this.#foreign = foreign;
  }

  /** The key in the bucket. */
  fullKey(key: string): string {
    return this.place.prefix === "" ? key : `${this.place.prefix}/${key}`;
  }

  /** The reverse of `fullKey`; undefined if the key lies outside the prefix or no store could hold it. */
  ownKey(fullKey: string): string | undefined {
    const start = this.fullKey("");
    const key = fullKey.startsWith(start) ? fullKey.slice(start.length) : undefined;
    return key !== undefined && isKey(key) ? key : undefined;
  }

  async get(key: string, most = LARGEST_OBJECT): Promise<StoredObject | undefined> {
    const input = this.#at(key);
    try {
      return await withRetries(
        async () => wholeObject(await this.#client.send(new GetObjectCommand(input)), most),
        (thrown) => thrown instanceof CutShort || metAnother(thrown),
      );
    } catch (thrown) {
      if (thrown instanceof NoSuchKey) return undefined;
      if (thrown instanceof TooLong) throw tooLarge(`s3://${input.Bucket}/${input.Key}`, thrown.size, most);
      throw this.#error(thrown, "read", "s3:GetObject", key);
    }
  }

  async put(key: string, body: string, condition?: Parameters<ObjectStore["put"]>[2]): Promise<PutResult> {
    const id = randomUUID();
    const bytes = Buffer.from(body, "utf8");
    const command = new PutObjectCommand({
      ...this.#at(key),
      Body: bytes,
      ContentType: contentTypeOf(key),
      Metadata: { [PUT_ID]: id, [SHA256]: sha256(bytes) },
      ...sseInput(this.#encryption),
      ...conditionInput(condition),
    });
    try {
      await withRetries(() => this.#client.send(command), metAnother);
      return "stored";
    } catch (thrown) {
      const { status } = awsFailure(thrown);
      if (status === 404 && condition !== undefined && thrown instanceof NoSuchKey) return "conflict";
      // Also a 412 may be our own doing: the first try was stored, its answer was lost, and the SDK tried again.
      if (status === 412) return (await this.#isFrom(key, id)) ? "stored" : "conflict";
      if (mayHaveHappened(thrown) && (await this.#isFrom(key, id).catch(() => false))) return "stored";
      throw this.#error(thrown, "write", "s3:PutObject", key);
    }
  }

  async list(prefix: string): Promise<string[]> {
    const keys: string[] = [];
    try {
      const input = { Bucket: this.place.bucket, Prefix: this.fullKey(prefix) };
      for await (const page of paginateListObjectsV2({ client: this.#client }, input)) {
        for (const { Key: full = "" } of page.Contents ?? []) {
          const key = this.ownKey(full);
          if (key === undefined) this.#foreign?.(full);
          else keys.push(key);
        }
      }
    } catch (thrown) {
      throw this.#error(thrown, "list", "s3:ListBucket", prefix);
    }
    return keys.sort();
  }

  async remove(key: string): Promise<void> {
    try {
      const command = new DeleteObjectCommand(this.#at(key));
      await withRetries(() => this.#client.send(command), metAnother);
    } catch (thrown) {
      // Some S3-compatible stores answer 404 where AWS answers 204.
      if (awsFailure(thrown).name === "NoSuchKey") return;
      throw this.#error(thrown, "remove", "s3:DeleteObject", key);
    }
  }

  #at(key: string): { readonly Bucket: string; readonly Key: string } {
    return { Bucket: this.place.bucket, Key: this.fullKey(checkedKey(key)) };
  }

  /** Whether the object that is there now was made by this very put. */
  async #isFrom(key: string, id: string): Promise<boolean> {
    try {
      const { Metadata } = await this.#client.send(new HeadObjectCommand(this.#at(key)));
      return Metadata?.[PUT_ID] === id;
    } catch (thrown) {
      if (awsFailure(thrown).status === 404) return false;
      throw this.#error(thrown, "read", "s3:GetObject", key);
    }
  }

  #error(thrown: unknown, doing: "read" | "write" | "list" | "remove", right: string, key: string): GridmeterError {
    const { bucket } = this.place;
    const full = this.fullKey(key);
    const resource = right === "s3:ListBucket" ? `arn:aws:s3:::${bucket}` : `arn:aws:s3:::${bucket}/${full}`;
    const left = doing === "write" ? " It was not stored, as far as is known; storing it again is safe." : "";
    const text = `Cannot ${doing} s3://${bucket}/${full}: ${failureText(thrown)}.${left} ${awsRemedy(thrown, `${right} on ${resource}`)}`;
    return new GridmeterError("store_failed", text, { cause: thrown });
  }
}

/** 409: two requests met at one key, and S3 wants this one again. */
function metAnother(thrown: unknown): boolean {
  return awsFailure(thrown).status === 409;
}

/** Reads the body to its end and checks that it is all of it. */
async function wholeObject(answer: GetObjectCommandOutput, most: number): Promise<StoredObject> {
  const { ContentLength, ETag, Metadata } = answer;
  let bytes: Uint8Array;
  try {
    bytes = await readBody(answer, most);
  } catch (thrown) {
    if (thrown instanceof TooLong) throw thrown;
    throw new CutShort(`the answer broke off (${failureText(thrown)})`, { cause: thrown });
  }
  if (ContentLength !== undefined && bytes.length !== ContentLength)
    throw new CutShort(`${bytes.length} of ${ContentLength} bytes came`);
  const hash = Metadata?.[SHA256];
  if (hash !== undefined && hash !== sha256(bytes))
    throw new CutShort("what came is not what was stored (its sha256 differs)");
  return {
    body: new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes),
    version: `${Metadata?.[PUT_ID] ?? ""} ${ETag ?? ""}`,
  };
}

function conditionInput(condition: Parameters<ObjectStore["put"]>[2]) {
  if (condition === undefined) return {};
  if ("absent" in condition) return { IfNoneMatch: "*" };
  return { IfMatch: condition.version.slice(condition.version.indexOf(" ") + 1) };
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

const TRIES = 6;
/** of the first wait, milliseconds; it doubles each time */
const FIRST_WAIT = 100;

/**
 * Repeats what the SDK does not repeat by itself (it does so for 429, 500, 503, SlowDown and lost connections): a 409, and
 * a body that came cut short. Waits grow and are random, so that two that met do not meet again.
 */
async function withRetries<T>(attempt: () => Promise<T>, again: (thrown: unknown) => boolean): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await attempt();
    } catch (thrown) {
      if (tries >= TRIES || !again(thrown)) throw thrown;
      await sleep(Math.random() * FIRST_WAIT * 2 ** tries);
    }
  }
}

/** A body that was not read to its end, or not at all. `size`: bytes, as announced, or as many as came. */
export class TooLong extends Error {
  readonly size: number;

  constructor(size: number) {
    super(`the object has ${size} bytes or more`);
    this.size = size;
  }
}

/**
 * Reads an object's body. Its length is asked before the first byte; a body that is longer than announced is cut off.
 * @param most bytes
 * @throws TooLong; whatever breaks the answer off
 */
export async function readBody({ Body, ContentLength }: GetObjectCommandOutput, most: number): Promise<Uint8Array> {
  if (Body === undefined) return new Uint8Array();
  if (!(Body instanceof Readable)) throw new TypeError("The body of an answer is no stream of Node");
  try {
    if (ContentLength !== undefined && ContentLength > most) throw new TooLong(ContentLength);
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of Body) {
      const bytes = chunk instanceof Uint8Array ? chunk : Buffer.from(String(chunk));
      size += bytes.length;
      if (size > Math.min(most, ContentLength ?? most)) throw new TooLong(size);
      chunks.push(bytes);
    }
    return Buffer.concat(chunks);
  } finally {
    // What was not read is not sent either.
    Body.destroy();
  }
}
