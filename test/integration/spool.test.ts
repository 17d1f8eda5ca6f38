import {
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SQSClient,
  SendMessageCommand,
  SetQueueAttributesCommand,
} from "@aws-sdk/client-sqs";
import { PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import type { ChildProcess } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import type { Unit } from "../../lib/accounting/model/tenant.ts";
import { DirqQueue } from "../../lib/accounting/delivery/dirq.ts";
import { type NotificationQueue, notificationsOf, notify } from "../../lib/accounting/delivery/notifications.ts";
import { SpoolRound, spoolOnce } from "../../lib/accounting/delivery/spooler.ts";
import { S3Store } from "../../lib/accounting/store/s3.ts";
import { createS3, createSqs } from "../../lib/accounting/store/aws.ts";
import { startAwsFaults } from "../support/aws-faults.ts";
import type { AwsFaults, AwsRequest } from "../support/aws-faults.ts";
import { publishGeneration, spoolPorts } from "../support/aws-spool.ts";
import { at } from "../support/dirq-contract.ts";
import { generationMessages, generationOf, unit } from "../support/dirq-messages.ts";
import { dirqTool } from "../support/dirq-tool.ts";
import { startMoto } from "../support/moto.ts";
import type { Moto } from "../support/moto.ts";
import { bundledCli, runCli, startCli } from "../support/run-cli.ts";
import { scratchDirectory } from "../support/store-script.ts";
import { isLong } from "../support/size.ts";
import { readWritten, rightsIn, statementsOf } from "../support/template.ts";

let moto: Moto;
let faults: AwsFaults;
let s3: S3Client;
let sqs: SQSClient;
let program: readonly string[];
let programs: Awaited<ReturnType<typeof scratchDirectory>>;
beforeAll(async () => {
  moto = await startMoto();
  faults = await startAwsFaults(moto.url);
  s3 = createS3(moto.env(faults.url));
  sqs = createSqs(moto.env(faults.url));
  programs = await scratchDirectory();
  program = bundledCli(programs.path);
});
afterAll(async () => {
  s3.destroy();
  sqs.destroy();
  await faults.stop();
  await moto.stop();
  await programs.remove();
});

let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let root: string;
let bucket: string;
let url: string;
/** not through the proxy */
let direct: S3Store;
/** through the proxy */
let store: S3Store;
beforeEach(async () => {
  faults.set(() => undefined);
  scratch = await scratchDirectory();
  root = join(scratch.path, "queue");
  bucket = await moto.bucket();
  url = await moto.queue();
  direct = new S3Store({ client: moto.s3, bucket, prefix: "apel" });
  store = new S3Store({ client: s3, bucket, prefix: "apel" });
});
afterEach(() => scratch.remove());

const other: Unit = { ...unit, month: "2024-12" };
const never = new AbortController().signal;
const notifications = () => ({ sqs: moto.sqs, url });
const queued = async () => z.array(z.string()).parse(await dirqTool("read", root));
const namesIn = () => at(new DirqQueue(root), async (open) => (await open.list()).map(({ name }) => name));
const generations = async () => (await queued()).map(generationOf);
const messages = (...all: [Unit, number][]) =>
  all.flatMap(([of, n]) => generationMessages(of, n)).map(({ body }) => body);
const say = (text: string) => moto.sqs.send(new SendMessageCommand({ QueueUrl: url, MessageBody: text }));

async function pass() {
  const { ports, lines } = spoolPorts(store, root, { sqs, url });
  return { errors: await spoolOnce(ports, never), lines };
}

/** Messages in the queue: to be taken, and taken but not deleted. */
async function inQueue(): Promise<[number, number]> {
  const names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"] as const;
  const { Attributes = {} } = await moto.sqs.send(
    new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: [...names] }),
  );
  return [Number(Attributes[names[0]]), Number(Attributes[names[1]])];
}

describe("one pass", () => {
  test("what the queue tells of and what it does not tell of is spooled, and the queue is empty", async () => {
    const keys = [
      ...(await publishGeneration(direct, unit, 1, notifications())),
      ...(await publishGeneration(direct, other, 3)),
    ];
    expect((await pass()).errors).toEqual([]);
    expect((await queued()).toSorted()).toEqual(messages([unit, 1], [other, 3]).toSorted());
    const kept = (await direct.list("")).filter((key) => !key.startsWith("lease/"));
    expect(kept).toEqual(keys.map((key) => key.replace("outgoing/", "spooled/")).toSorted());
    expect(await inQueue()).toEqual([0, 0]);
  });

  test("messages that come twice, late and out of order change nothing", async () => {
    const first = await publishGeneration(direct, unit, 1);
    const late = await notificationsOf(direct, first);
    await pass();
    const second = await publishGeneration(direct, unit, 2);
    await notify(moto.sqs, url, [...(await notificationsOf(direct, second)).toReversed(), ...late, ...late]);
    expect((await pass()).errors).toEqual([]);
    expect(await generations()).toEqual([2, 2]);
    expect(await inQueue()).toEqual([0, 0]);
  });

  test("an object whose older message ssmsend holds waits, its queue message too", async () => {
    await publishGeneration(direct, unit, 1);
    await pass();
    const names = await namesIn();
    await dirqTool("lock", root, ...names);
    await publishGeneration(direct, unit, 2, notifications());
    const { errors, lines } = await pass();
    expect(errors).toEqual([]);
    expect(lines.filter(({ level }) => level === "warn").map(({ status }) => status)).toContain("waiting");
    expect(await direct.list("outgoing/")).toHaveLength(2);
    // Hidden for a minute, to come again.
    expect(await inQueue()).toEqual([0, 2]);
    await dirqTool("send", root, ...names);
    await pass();
    expect(await generations()).toEqual([2, 2]);
    expect(await direct.list("outgoing/")).toEqual([]);
  });
});

test("a queue message that waits so often that SQS gives it up is only a message: the next sweep takes its object", async () => {
  const dead = await moto.queue();
  const { Attributes = {} } = await moto.sqs.send(
    new GetQueueAttributesCommand({ QueueUrl: dead, AttributeNames: ["QueueArn"] }),
  );
  const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: Attributes["QueueArn"], maxReceiveCount: 2 });
  await moto.sqs.send(new SetQueueAttributesCommand({ QueueUrl: url, Attributes: { RedrivePolicy } }));
  await publishGeneration(direct, unit, 1);
  await pass();
  const names = await namesIn();
  await dirqTool("lock", root, ...names);
  await publishGeneration(direct, unit, 2, notifications());
  const { ports } = spoolPorts(store, root, { sqs, url });
  // It waits no minute here, or the test would.
  const impatient: NotificationQueue = {
    receive: (seconds, stop) => ports.notifications!.receive(seconds, stop),
    remove: (message) => ports.notifications!.remove(message),
    postpone: (message) => ports.notifications!.postpone(message, 0),
  };
  const round = new SpoolRound({ ...ports, notifications: impatient });
  for (let taken = 1; taken > 0;) {
    const messages = await impatient.receive(1, never);
    await round.take(messages, impatient);
    taken = messages.length;
  }
  expect(await inQueue()).toEqual([0, 0]);
  expect(
    (await moto.sqs.send(new ReceiveMessageCommand({ QueueUrl: dead, MaxNumberOfMessages: 10 }))).Messages,
  ).toHaveLength(2);
  expect(await direct.list("outgoing/")).toHaveLength(2);
  await dirqTool("send", root, ...names);
  expect((await pass()).errors).toEqual([]);
  expect(await generations()).toEqual([2, 2]);
  expect(await direct.list("outgoing/")).toEqual([]);
});

describe("poison is set aside with its reason, and the rest goes on", () => {
  test("queue messages", async () => {
    const keys = await publishGeneration(direct, unit, 1, notifications());
    const [good] = await notificationsOf(direct, keys);
    const poison = [
      "hello",
      JSON.stringify({ ...good, bucket: "other" }),
      JSON.stringify({ ...good, sha256: "0".repeat(64) }),
    ];
    for (const text of [...poison, poison[0]!]) await say(text);
    const { errors } = await pass();
    expect(errors).toHaveLength(4);
    expect(errors).toEqual(errors.map(() => expect.objectContaining({ code: "message_invalid" })));
    expect(await queued()).toEqual(messages([unit, 1]));
    expect(await inQueue()).toEqual([0, 0]);
    const aside = (await direct.list("refused/queue/")).filter((key) => !key.endsWith(".reason"));
    const bodies = await Promise.all(aside.map(async (key) => (await direct.get(key))?.body));
    expect(new Set(bodies)).toEqual(new Set(poison));
    expect(bodies).toHaveLength(3);
    for (const key of aside)
      expect((await direct.get(`${key}.reason`))?.body).toMatch(/^(it is not JSON|its bucket|its sha256).*\n$/);
  });

  test("objects", async () => {
    const [summary = "", sync = ""] = await publishGeneration(direct, unit, 1, notifications());
    await publishGeneration(direct, other, 5, notifications());
    const write = (Key: string, Body: string | Uint8Array) =>
      moto.s3.send(new PutObjectCommand({ Bucket: bucket, Key: `apel/${Key}`, Body }));
    await write(summary, Uint8Array.of(0xff, 0xfe, 0x00));
    await write("outgoing/stray", "x");
    await write("outgoing/of/another program", "x");
    const { errors, lines } = await pass();
    expect(errors).toEqual([
      expect.objectContaining({ code: "message_invalid" }),
      expect.objectContaining({ code: "message_invalid" }),
    ]);
    expect((await queued()).toSorted()).toEqual([...messages([other, 5]), messages([unit, 1])[1]!].toSorted());
    const refused = (await direct.list("refused/")).filter((key) => !key.endsWith(".reason"));
    expect(refused).toEqual([summary.replace("outgoing/", "refused/"), "refused/stray"].toSorted());
    expect(lines.filter(({ level }) => level === "error")).toHaveLength(2);
    expect(await direct.get(sync)).toBeUndefined();
  });

  test("an object that cannot be read holds up no other unit, and its queue message stays", async () => {
    const [summary = ""] = await publishGeneration(direct, other, 1, notifications());
    await publishGeneration(direct, unit, 1, notifications());
    faults.set(({ method, path }) =>
      method === "GET" && path.includes(summary.slice(-32))
        ? { kind: "error", status: 403, code: "AccessDenied" }
        : undefined,
    );
    const { errors } = await pass();
    expect(errors.length).toBeGreaterThan(0);
    expect(errors).toEqual(errors.map(() => expect.objectContaining({ code: "store_failed" })));
    expect(await queued()).toEqual(messages([unit, 1]));
    expect(await inQueue()).toEqual([0, 2]);
  });
});

describe("the command line", () => {
  const args = (...more: string[]) => [
    "spool",
    "--source",
    `s3://${bucket}/apel`,
    "--queue",
    url,
    "--output",
    `dirq:${root}`,
    ...more,
  ];
  const options = (through = moto.url) => ({ cwd: scratch.path, program, env: moto.env(through) });
  const logOf = (text: string) =>
    text
      .trim()
      .split("\n")
      .map((line) => z.looseObject({ level: z.number(), msg: z.string() }).parse(JSON.parse(line)));

  const children = new Set<ChildProcess>();
  afterEach(() => {
    for (const child of children) child.kill("SIGKILL");
    children.clear();
  });
  const start = (...parameters: Parameters<typeof startCli>): ReturnType<typeof startCli> => {
    const started = startCli(...parameters);
    children.add(started.child);
    return started;
  };

  const listening = async () => {
    while (!faults.requests.some(({ target }) => target === "AmazonSQS.ReceiveMessage")) await sleep(20);
  };

  test("--once: exit 0, logs in JSON on stderr, nothing on stdout", async () => {
    await publishGeneration(direct, unit, 1, notifications());
    const run = await runCli(args("--once"), options());
    expect(run).toMatchObject({ code: 0, stdout: "" });
    expect(logOf(run.stderr).map(({ msg }) => msg)).toEqual(["spooling", "delivered", "delivered", "one pass is done"]);
    expect(await generations()).toEqual([1, 1]);
  });

  test("--once: exit 2 if something was set aside, 4 if the queue or the bucket cannot be had", async () => {
    await say("hello");
    expect((await runCli(args("--once"), options())).code).toBe(2);
    const noQueue = await runCli(args("--once", "--queue", `${url}-none`), options());
    expect(noQueue.code).toBe(4);
    expect(noQueue.stderr).toContain("queue_failed");
    const noBucket = await runCli(args("--once", "--source", "s3://not-there"), options());
    expect(noBucket.code).toBe(4);
    expect(noBucket.stderr).toContain("Create the bucket");
  });

  test.each([
    [["--source", "bucket/x"], "s3://BUCKET/PREFIX"],
    [["--queue", "spool.fifo"], "is no queue's URL"],
    [["--output", "s3://bucket/x"], "is no queue on this host"],
    [["--sweep-interval", "soon"], "--sweep-interval"],
    [["--visibility", "13h"], "from 1s to 12h"],
  ])("%j: exit 2", async (more, text) => {
    const run = await runCli(args(...more), options());
    expect(run.code).toBe(2);
    expect(run.stderr).toContain(text);
  });

  test.each(["SIGTERM", "SIGINT"] as const)("%s finishes what is in hand, then exit 0", async (signal) => {
    const { child, ended } = start(args(), options(faults.url));
    await listening();
    // The signal comes while the object is on its way.
    let seen = 0;
    faults.set(({ method, path }) => {
      if (method === "GET" && /outgoing\/.*-[0-9a-f]{32}/.test(path)) seen += 1;
      if (seen === 1) child.kill(signal);
      return undefined;
    });
    await publishGeneration(direct, unit, 1, notifications());
    const run = await ended;
    expect(run).toMatchObject({ code: 0, stdout: "" });
    expect(await generations()).toEqual([1, 1]);
    expect(await direct.list("outgoing/")).toEqual([]);
    expect((await inQueue())[0] + (await inQueue())[1]).toBeLessThanOrEqual(1);
  });

  test("idle: SIGTERM ends the long poll at once", async () => {
    const { child, ended } = start(args(), options(faults.url));
    await listening();
    const before = performance.now();
    child.kill("SIGTERM");
    expect((await ended).code).toBe(0);
    expect(performance.now() - before).toBeLessThan(3000);
  });

  test.runIf(isLong)(
    "S3 and SQS failing for a while end nothing: all is spooled afterwards, without a rush of requests",
    async () => {
      faults.set(({ target }) => ({
        kind: "error",
        status: target === undefined ? 503 : 500,
        code: target === undefined ? "SlowDown" : "InternalError",
      }));
      const { child, ended } = start(args("--sweep-interval", "1s"), options(faults.url));
      await publishGeneration(direct, unit, 1, notifications());
      // A client tries five times by itself, so this is the third time around.
      while (faults.requests.length === 0) await sleep(20);
      const began = performance.now();
      while (faults.requests.length < 11) await sleep(20);
      expect(performance.now() - began).toBeGreaterThan(2000);
      expect(child.exitCode).toBeNull();
      faults.set(() => undefined);
      while ((await direct.list("outgoing/")).length > 0) await sleep(100);
      child.kill("SIGTERM");
      expect((await ended).code).toBe(0);
      expect(await generations()).toEqual([1, 1]);
    },
  );
});

test("all that it asks of AWS is in the policy that is documented, and nothing more is", async () => {
  await publishGeneration(direct, unit, 1, notifications());
  await pass();
  const names = await namesIn();
  await dirqTool("lock", root, ...names);
  await publishGeneration(direct, unit, 2, notifications());
  await pass();
  await dirqTool("send", root, ...names);
  for (const text of ["hello", "hello"]) await say(text);
  // More generations than are kept, and an answer that is lost, so that it looks whose object is there.
  for (let generation = 3; generation < 24; generation += 1) await publishGeneration(direct, unit, generation);
  const asked = [...faults.requests];
  let lost = false;
  faults.set(({ method, path }) => {
    if (lost || method !== "PUT" || !path.includes("spooled")) return undefined;
    lost = true;
    return { kind: "lost", how: "500" };
  });
  await pass();
  asked.push(...faults.requests);
  const policy = await readWritten(new URL("../../deploy/cloudformation/spooler.yml", import.meta.url), []);
  const allowed = statementsOf(policy, "SpoolerPolicy").flatMap((statement) => {
    const under: readonly string[] = statement.Condition?.StringLike["s3:prefix"] ?? [""];
    return under.flatMap((prefix) =>
      rightsIn([{ ...statement, Condition: undefined }]).map(
        (right) => right + (prefix === "" ? "" : ` under ${prefix}`),
      ),
    );
  });
  expect([...new Set(asked.flatMap(rightsOf))].toSorted()).toEqual(allowed.toSorted());
});

/** The IAM rights that a request takes, as the policy writes them. A missing object is told of only to who may list it. */
function rightsOf({ method, path, target }: AwsRequest): readonly string[] {
  if (target !== undefined) return [`${target.replace("AmazonSQS.", "sqs:")} SpoolQueue.Arn`];
  const bucket = "arn:aws:s3:::gridmeter-dev-123456789012-eu-central-1";
  const listed = new URL(path, "http://s3").searchParams.get("prefix");
  const stage = /^apel\/([a-z]+)\//.exec(listed ?? path.split("/").slice(2).join("/"))?.[1];
  const listing = `s3:ListBucket ${bucket} under ${stage}/*`;
  if (listed !== null) return [listing];
  const action = method === "PUT" ? "Put" : method === "DELETE" ? "Delete" : "Get";
  const right = `s3:${action}Object ${bucket}/${stage}/*`;
  return action === "Get" ? [right, listing] : [right];
}
