// The function send over real S3, SQS and SSM, at a stand-in of AMS over HTTPS.
import { readFileSync } from "node:fs";
import { SendMessageCommand } from "@aws-sdk/client-sqs";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { type Parts, lambdaParts, neededStore, notifySpooler } from "../../functions/common/runtime.ts";
import { send } from "../../functions/send.ts";
import { deliveryOf } from "../../lib/accounting/delivery/ams-or-spool.ts";
import { spoolOnce } from "../../lib/accounting/delivery/spooler.ts";
import type { S3Store } from "../../lib/accounting/store/s3.ts";
import { startAmsSite } from "../support/ams-sender.ts";
import type { AmsFault } from "../support/ams-server.ts";
import { publishGeneration, spoolPorts } from "../support/aws-spool.ts";
import { spoolingViolations, logOf } from "../support/dirq-invariants.ts";
import { generationOf, unit } from "../support/dirq-messages.ts";
import { dirqTool } from "../support/dirq-tool.ts";
import { putParameter } from "../support/functions-world.ts";
import { type Moto, startMoto } from "../support/moto.ts";
import { verified } from "../support/smime.ts";
import { scratchDirectory } from "../support/store-script.ts";
import { type Identity, encrypted } from "../support/tls.ts";
import { drain, takeEvent } from "../support/work-queue.ts";

// Else the logger and the metrics write past the console that is watched here.
vi.hoisted(() => Object.assign(process.env, { POWERTOOLS_DEV: "true", POWERTOOLS_METRICS_DISABLED: "false" }));

const site = await startAmsSite("rsa");
const { authority, host, ams } = site;
let moto: Moto;
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
beforeAll(async () => {
  scratch = await scratchDirectory();
  moto = await startMoto();
  await putParameter(moto, "/gridmeter/test/ams-ca", readFileSync(authority.caFile, "utf8"));
});
afterAll(async () => {
  await Promise.all([moto.stop(), site.stop()]);
  await scratch.remove();
});

let env: Record<string, string>;
let parts: Parts;
let store: S3Store;
let url: string;
let first: number;
let written: string[];
const output = vi.spyOn(console, "log").mockImplementation((line: string) => void written.push(line));
const streams = (["debug", "info", "warn", "error"] as const).map((level) =>
  vi.spyOn(console, level).mockImplementation((line: string) => void written.push(line)),
);
afterAll(() => [output, ...streams].forEach((spy) => spy.mockRestore()));
beforeEach(async () => {
  ams.misbehave(() => undefined);
  ams.registered(undefined);
  first = ams.published.length;
  written = [];
  await keep(host);
  url = await moto.queue({ fifo: true });
  env = {
    ...moto.env(),
    GRIDMETER_BUCKET: await moto.bucket(),
    SPOOL_QUEUE_URL: url,
    DELIVERY: "ams",
    AMS_HOST: ams.host,
    AMS_PORT: String(ams.port),
    AMS_AUTHN_PORT: String(ams.authnPort),
    AMS_CERTIFICATE_PARAMETER: "/gridmeter/test/ams-cert",
    AMS_KEY_PARAMETER: "/gridmeter/test/ams-key",
    AMS_CA_PARAMETER: "/gridmeter/test/ams-ca",
  };
  parts = lambdaParts(env);
  store = neededStore(parts);
  // As account and manual do before they announce anything.
  await notifySpooler([], store, parts);
});

async function keep({ certFile, keyFile }: Identity): Promise<void> {
  await putParameter(moto, "/gridmeter/test/ams-cert", readFileSync(certFile, "utf8"));
  await putParameter(moto, "/gridmeter/test/ams-key", readFileSync(keyFile, "utf8"));
}
const clocks = { now: () => Math.floor(Date.now() / 1000), remaining: () => 600_000 };
const sweep = (more: Partial<typeof clocks> = {}) => send({ mode: "sweep" }, { ...clocks, ...more }, parts);
const byQueue = () =>
  drain(
    moto.sqs,
    url,
    async (event) => (await send(event, clocks, parts)) as { batchItemFailures: { itemIdentifier: string }[] },
    { max: 1 },
  );
const taken = () =>
  ams.published.slice(first).map(({ id, signed }) => ({ name: id, body: verified(signed, authority.caFile, "cms") }));
const generations = () => taken().map(({ body }) => generationOf(body));
const publish = (generation: number, announced = true) =>
  publishGeneration(store, unit, generation, announced ? { sqs: moto.sqs, url } : undefined);
const violations = async () => spoolingViolations(await logOf(store, taken()));
const publishing = (fault: AmsFault) => ams.misbehave(({ what }) => (what === "publish" ? fault : undefined));
const metric = (name: string): number[] =>
  written.flatMap((line) => {
    const [, value] = new RegExp(`"${name}":(\\[?)(\\d+)`).exec(line)?.slice(1) ?? [];
    return value === undefined ? [] : [Number(value)];
  });

test("what the queue announces is sent once and lies in sent/; a message that comes twice or late changes nothing", async () => {
  const keys = await publish(1);
  await publish(2);
  expect(await byQueue()).not.toEqual([]);
  expect(generations()).toEqual([2, 2]);
  const event = { Records: [] };
  expect(await send(event, clocks, parts)).toEqual({ batchItemFailures: [] });
  // The first generation's messages, once more and in the wrong order.
  await publishAgain(keys.toReversed());
  await byQueue();
  expect(generations()).toEqual([2, 2]);
  expect(await store.list("outgoing/")).toEqual([]);
  expect((await store.list("sent/")).length).toBe(6);
  expect(await deliveryOf(store)).toBe("ams");
  expect(await violations()).toEqual([]);
  expect(metric("MessagesSent").reduce((a, b) => a + b, 0)).toBe(2);
});

async function publishAgain(keys: readonly string[]): Promise<void> {
  for (const key of keys) {
    const body = JSON.stringify({
      v: 1,
      bucket: env["GRIDMETER_BUCKET"],
      key,
      sha256: `${key.split("-").at(-1)}${"0".repeat(32)}`,
      ...unit,
      generation: 1,
    });
    await moto.sqs.send(
      new SendMessageCommand({
        QueueUrl: url,
        MessageBody: body,
        MessageGroupId: "late",
        MessageDeduplicationId: `late ${key}`,
      }),
    );
  }
}

test("a sweep sends what no message announced, and says how old the oldest unsent one is", async () => {
  await publish(1, false);
  publishing({ kind: "status", status: 403 });
  await expect(sweep()).rejects.toMatchObject({ code: "ams_auth" });
  expect(await store.list("outgoing/")).toHaveLength(2);
  expect(metric("SendRefused")).toEqual([1]);
  ams.misbehave(() => undefined);
  await expect(sweep({ now: () => clocks.now() + 7000 })).resolves.toMatchObject({
    messages: [{ status: "sent" }, { status: "sent" }],
  });
  const [before = 0, after] = metric("OldestUnsentSeconds");
  expect([before >= 0 && before < 600, after]).toEqual([true, 0]);
  expect(metric("CertificateDaysLeft").every((days) => days === 29)).toBe(true);
});

test("AMS that is down: the queue's message comes again, and is sent then", async () => {
  await publish(1);
  publishing({ kind: "status", status: 503 });
  const short = await moto.queue({ fifo: true, visibility: 1 });
  await publishGeneration(store, { ...unit, month: "2024-12" }, 1, { sqs: moto.sqs, url: short });
  const answers: unknown[] = [];
  await drain(
    moto.sqs,
    short,
    async (event) => {
      const answer = (await send(event, clocks, parts)) as { batchItemFailures: { itemIdentifier: string }[] };
      answers.push(answer.batchItemFailures.length);
      ams.misbehave(() => undefined);
      return answer;
    },
    { max: 1 },
  );
  expect(answers[0]).toBe(1);
  expect(answers.at(-1)).toBe(0);
  await byQueue();
  expect(await store.list("outgoing/")).toEqual([]);
  expect(await violations()).toEqual([]);
}, 60_000);

test("a message of the queue that is of no use is set aside with the reason", async () => {
  await moto.sqs.send(
    new SendMessageCommand({ QueueUrl: url, MessageBody: "hello", MessageGroupId: "x", MessageDeduplicationId: "x" }),
  );
  await byQueue();
  const refused = await store.list("refused/queue/");
  expect(refused).toHaveLength(2);
  expect((await store.get(refused[1]!))?.body).toBe("it is not JSON\n");
});

test("nothing is begun for which there is no time", async () => {
  await publish(1, false);
  await expect(sweep({ remaining: () => 200_000 })).resolves.toMatchObject({
    messages: [{ status: "waiting" }, { status: "waiting" }],
  });
  expect(taken()).toEqual([]);
});

describe("certificate and key", () => {
  test.each<[string, () => Identity, RegExp]>([
    [
      "expired",
      () => authority.issue("old", -1),
      /The parameter \/gridmeter\/test\/ams-cert \(AMS_CERTIFICATE_PARAMETER\) expired/,
    ],
    [
      "of two pairs",
      () => ({ ...host, keyFile: authority.issue("other", 30).keyFile }),
      /ams-key \(AMS_KEY_PARAMETER\) holds another key/,
    ],
    ["encrypted", () => ({ ...host, keyFile: encrypted(host) }), /ams-key .*is encrypted/],
  ])("that are %s: nothing is sent, and the alarm rings", async (_, identity, message) => {
    await keep(identity());
    await publish(1, false);
    await expect(sweep()).rejects.toMatchObject({
      code: "certificate_invalid",
      message: expect.stringMatching(message) as string,
    });
    expect([taken(), metric("CertificateDaysLeft")]).toEqual([[], [0]]);
    expect(await store.list("outgoing/")).toHaveLength(2);
  });

  test("a renewed one counts at once, and neither key nor token is ever written", async () => {
    await publish(1);
    await byQueue();
    const renewed = authority.issue("renewed", 30);
    await keep(renewed);
    await publish(2);
    publishing({ kind: "status", status: 401 });
    await sweep().catch((error: unknown) => written.push(JSON.stringify(error), String(error)));
    const secrets = [host, renewed].flatMap(({ keyFile }) =>
      readFileSync(keyFile, "utf8")
        .split("\n")
        .filter((line) => line.length > 40),
    );
    const all = written.join("\n");
    expect(all).toContain("ams_auth");
    expect([...secrets, "token-"].filter((secret) => all.includes(secret))).toEqual([]);
  });
});

test("with delivery: spool it sends nothing, whoever calls it", async () => {
  await publish(1, false);
  parts = lambdaParts({ ...env, DELIVERY: "spool" });
  await expect(sweep()).rejects.toMatchObject({
    code: "config_invalid",
    message: expect.stringContaining("DELIVERY is spool") as string,
  });
  parts = lambdaParts({ ...env, DELIVERY: "both" });
  await expect(sweep()).rejects.toThrow(/DELIVERY="both" is neither/);
  expect(taken()).toEqual([]);
});

test("from spool to ams and back: each message goes one way, once, and who finds that it is not his stops", async () => {
  const root = `${scratch.path}/queue`;
  const { ports } = spoolPorts(store, root);
  const spool = () => spoolOnce(ports, new AbortController().signal);
  const deploy = async (delivery: "ams" | "spool") => {
    parts = lambdaParts({ ...env, DELIVERY: delivery });
    // What account and manual do whenever they have published.
    await notifySpooler([unit], store, parts);
  };
  await deploy("spool");
  expect(await deliveryOf(store)).toBe("spool");
  await publish(1, false);
  expect(await spool()).toEqual([]);
  const inQueue = async () => ((await dirqTool("read", root)) as string[]).map(generationOf);
  expect(await inQueue()).toEqual([1, 1]);

  await publish(2, false);
  await deploy("ams");
  expect(await spool()).toMatchObject([{ code: "delivery_elsewhere" }]);
  expect(await inQueue()).toEqual([1, 1]);
  await sweep();
  expect(generations()).toEqual([2, 2]);

  await publish(3, false);
  await deploy("spool");
  await expect(sweep()).rejects.toMatchObject({ code: "config_invalid" });
  expect(await spool()).toEqual([]);
  expect(await inQueue()).toEqual([3, 3]);
  // An invocation with the settings of before finds the change, too.
  await publish(4);
  const event = await takeEvent(moto.sqs, url);
  expect(await send(event, clocks, lambdaParts(env))).toMatchObject({
    batchItemFailures: event.Records.map(({ messageId }) => ({ itemIdentifier: messageId })),
  });
  expect(generations()).toEqual([2, 2]);
  expect(await spool()).toEqual([]);
  expect(await inQueue()).toEqual([4, 4]);
  const sent = [
    ...taken(),
    ...((await dirqTool("read", root)) as string[]).map((body, index) => ({ name: `queue ${index}`, body })),
  ];
  expect(spoolingViolations(await logOf(store, sent))).toEqual([]);
});
