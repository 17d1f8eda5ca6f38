import { HeadObjectCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import pLimit from "p-limit";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { errorText } from "../../lib/shared/errors.ts";
import { S3Store } from "../../lib/accounting/store/s3.ts";
import { createS3 } from "../../lib/accounting/store/aws.ts";
import { Random } from "../simulator/index.ts";
import { startAwsFaults } from "../support/aws-faults.ts";
import type { AwsFault, AwsFaults } from "../support/aws-faults.ts";
import { PAGE, startMoto } from "../support/moto.ts";
import type { Moto } from "../support/moto.ts";
import { countOf, countUp, objectStoreContract } from "../support/object-store-contract.ts";

const SEED = Date.now() % 2 ** 31;

/**
 * moto looks at IfMatch and stores in two steps, so of two puts at the same instant both may win there; S3 lets one win. One
 * put at a time is in the server, whatever the clients do around it.
 */
const onePut = pLimit(1);
function atomicPuts(client: S3Client): void {
  client.middlewareStack.add(
    (next, context) => (args) =>
      context["commandName"] === "PutObjectCommand" ? onePut(() => next(args)) : next(args),
    { step: "deserialize", name: "onePutAtATime" },
  );
}

let moto: Moto;
let faults: AwsFaults;
let through: S3Client;
beforeAll(async () => {
  moto = await startMoto();
  faults = await startAwsFaults(moto.url);
  through = createS3(moto.env(faults.url));
  atomicPuts(moto.s3);
  atomicPuts(through);
});
afterAll(async () => {
  through.destroy();
  await faults.stop();
  await moto.stop();
});

for (const prefix of ["", "some/prefix"]) {
  objectStoreContract(`S3Store with the prefix "${prefix}"`, async () => {
    const bucket = await moto.bucket();
    const open = () => new S3Store({ client: moto.s3, bucket, prefix });
    return { one: open(), two: open(), close: async () => undefined };
  });
}

let bucket: string;
let direct: S3Store;
let store: S3Store;
beforeEach(async () => {
  faults.set(() => undefined);
  bucket = await moto.bucket();
  direct = new S3Store({ client: moto.s3, bucket, prefix: "p" });
  store = new S3Store({ client: through, bucket, prefix: "p" });
});

/** These faults for the first requests of a method, then none. */
function first(method: string, ...list: readonly AwsFault[]): void {
  const left = [...list];
  faults.set((request) => (request.method === method ? left.shift() : undefined));
}
const error = (status: number, code: string): AwsFault => ({ kind: "error", status, code });
const calls = (method: string): number => faults.requests.filter((request) => request.method === method).length;

describe("faults", () => {
  test("cut bodies are read again, and never taken for whole", async () => {
    await direct.put("k", "x".repeat(5000));
    first("GET", { kind: "cut" }, { kind: "cut" });
    expect((await store.get("k"))?.body).toBe("x".repeat(5000));
    expect(calls("GET")).toBe(3);
  });

  test("a body that is always cut short is a failure", async () => {
    await direct.put("k", "x".repeat(5000));
    faults.set(() => ({ kind: "cut" }));
    await expect(store.get("k")).rejects.toMatchObject({
      code: "store_failed",
      message: expect.stringContaining("broke off"),
    });
  });

  test("another body under the same metadata is not taken for what was stored", async () => {
    await direct.put("k", "abc");
    const { Metadata = {} } = await moto.s3.send(new HeadObjectCommand({ Bucket: bucket, Key: "p/k" }));
    await moto.s3.send(new PutObjectCommand({ Bucket: bucket, Key: "p/k", Body: "abd", Metadata }));
    await expect(store.get("k")).rejects.toMatchObject({ message: expect.stringContaining("sha256") });
  });

  test.each([
    ["GET", 500, "InternalError"],
    ["GET", 503, "SlowDown"],
    ["PUT", 500, "InternalError"],
    ["PUT", 503, "SlowDown"],
    ["PUT", 409, "ConditionalRequestConflict"],
    ["DELETE", 503, "SlowDown"],
  ])("%s answered %i %s twice: tried again", async (method, status, code) => {
    await direct.put("k", "1");
    first(method, error(status, code), error(status, code));
    expect((await store.get("k"))?.body).toBe("1");
    expect(await store.put("new", "2", { absent: true })).toBe("stored");
    await store.remove("k");
    expect(await direct.list("")).toEqual(["new"]);
    expect(calls(method)).toBeGreaterThanOrEqual(3);
  });

  test.each(["500", "reset"] as const)(
    "a put that was carried out, its answer lost (%s), is stored and no conflict",
    async (how) => {
      first("PUT", { kind: "lost", how });
      expect(await store.put("k", "1", { absent: true })).toBe("stored");
      const { version } = (await store.get("k"))!;
      first("PUT", { kind: "lost", how });
      expect(await store.put("k", "2", { version })).toBe("stored");
      expect((await direct.get("k"))?.body).toBe("2");
    },
  );

  test("a put whose answers are all lost is stored if the object is ours", async () => {
    faults.set(({ method }) => (method === "PUT" ? { kind: "lost", how: "500" } : undefined));
    expect(await store.put("k", "1", { absent: true })).toBe("stored");
    expect(await store.put("k", "2")).toBe("stored");
  });

  test("a put whose answers are all lost is a failure if another's object is there, of an equal body too", async () => {
    await direct.put("k", "1");
    faults.set(({ method }) => (method === "PUT" ? error(500, "InternalError") : undefined));
    await expect(store.put("k", "1")).rejects.toMatchObject({ code: "store_failed" });
  });

  test(`compare-and-set loses no update among random faults (seed ${SEED})`, async () => {
    const random = new Random(SEED);
    const kinds: readonly AwsFault[] = [error(500, "InternalError"), error(409, "OperationAborted"), { kind: "cut" }];
    faults.set(({ method }) => (method !== "HEAD" && random.unit() < 0.15 ? random.pick(kinds) : undefined));
    await Promise.all([countUp(store, "counter", 10), countUp(store, "counter", 10)]);
    expect(countOf((await direct.get("counter"))?.body)).toBe(20);
  });
});

describe("errors say what to do", () => {
  const failing = async (status: number, code: string, call: () => Promise<unknown>): Promise<string> => {
    faults.set(() => error(status, code));
    const thrown: unknown = await call().catch((caught: unknown) => caught);
    expect(thrown).toMatchObject({ code: "store_failed" });
    return errorText(thrown);
  };

  test.each([
    ["s3:GetObject", () => store.get("a/b"), () => `arn:aws:s3:::${bucket}/p/a/b`],
    ["s3:PutObject", () => store.put("a/b", ""), () => `arn:aws:s3:::${bucket}/p/a/b`],
    ["s3:DeleteObject", () => store.remove("a/b"), () => `arn:aws:s3:::${bucket}/p/a/b`],
    ["s3:ListBucket", () => store.list("a/"), () => `arn:aws:s3:::${bucket} `],
  ])("AccessDenied names %s and what on", async (right, call, resource) => {
    const text = await failing(403, "AccessDenied", call);
    expect(text).toContain(`AccessDenied (HTTP 403)`);
    expect(text).toContain(`Allow ${right} on ${resource().trim()}`);
  });

  test("a bucket that is not there", async () => {
    const none = new S3Store({ client: moto.s3, bucket: "not-there", prefix: "" });
    for (const call of [
      () => none.get("k"),
      () => none.put("k", "", { absent: true }),
      () => none.list(""),
      () => none.put("k", "", { version: "x y" }),
    ])
      await expect(call()).rejects.toThrow(/s3:\/\/not-there.*NoSuchBucket.*Create the bucket/);
  });

  test("a store that cannot do conditional puts", async () => {
    expect(await failing(501, "NotImplemented", () => store.put("k", "", { absent: true }))).toContain(
      "conditional puts",
    );
  });

  test("nobody there", async () => {
    const client = createS3(moto.env("http://127.0.0.1:9"));
    await expect(new S3Store({ client, bucket, prefix: "" }).get("k")).rejects.toThrow(
      /Cannot read .*AWS_ENDPOINT_URL/,
    );
  });
});

test("objects of others are told of and not listed, and nothing outside the prefix is", async () => {
  const told: string[] = [];
  const watching = new S3Store({ client: moto.s3, bucket, prefix: "p", foreign: (key) => told.push(key) });
  for (const Key of ["p/a/", "p/a/with blank", "q/a/x", "p2/a/x"])
    await moto.s3.send(new PutObjectCommand({ Bucket: bucket, Key, Body: "x" }));
  await watching.put("a/x", "");
  expect(await watching.list("a/")).toEqual(["a/x"]);
  expect(told.sort()).toEqual(["p/a/", "p/a/with blank"]);
  expect(["p/a/x", "p2/a/x", "a/x", "p/a/"].map((key) => watching.ownKey(key))).toEqual([
    "a/x",
    undefined,
    undefined,
    undefined,
  ]);
});

test("more than a page of keys is listed whole and sorted", async () => {
  const keys = Array.from(
    { length: 3 * PAGE + 1 },
    (_, n) => `many/${String((n * 7) % (3 * PAGE + 1)).padStart(4, "0")}`,
  );
  for (const key of keys) await direct.put(key, key);
  expect(await store.list("many/")).toEqual(keys.toSorted());
  expect(calls("GET")).toBe(4);
});

test.each([
  [{ sse: "AES256" as const }, { ServerSideEncryption: "AES256" }],
  [
    { sse: "aws:kms" as const, keyId: "alias/grid" },
    { ServerSideEncryption: "aws:kms", SSEKMSKeyId: "alias/grid" },
  ],
])("encryption at rest: %j", async (encryption, expected) => {
  const encrypted = new S3Store({ client: moto.s3, bucket, prefix: "", encryption });
  await encrypted.put("k", "1");
  expect(await moto.s3.send(new HeadObjectCommand({ Bucket: bucket, Key: "k" }))).toMatchObject(expected);
  expect((await encrypted.get("k"))?.body).toBe("1");
});

test("an object that gridmeter did not put is read, whatever its bytes", async () => {
  await moto.s3.send(new PutObjectCommand({ Bucket: bucket, Key: "p/k", Body: Uint8Array.of(0xff, 0x41) }));
  const held = await store.get("k");
  expect(held?.body).toBe("\u{FFFD}A");
  expect(await store.put("k", "2", { version: held!.version })).toBe("stored");
});
