// Spoolers killed at random instants while generations are published, S3 and SQS misbehave, and the real python-dirq reads.
import { PutObjectCommand } from "@aws-sdk/client-s3";
import { SendMessageCommand } from "@aws-sdk/client-sqs";
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import type { Unit } from "../../lib/accounting/model/tenant.ts";
import { messageKeys } from "../../lib/accounting/apel/replace-keys.ts";
import { type Notification, notificationsOf, notify } from "../../lib/accounting/delivery/notifications.ts";
import { unitPrefix } from "../../lib/accounting/delivery/outgoing.ts";
import { spoolOnce } from "../../lib/accounting/delivery/spooler.ts";
import { S3Store } from "../../lib/accounting/store/s3.ts";
import { Random } from "../simulator/index.ts";
import { startAwsFaults } from "../support/aws-faults.ts";
import type { AwsFault, AwsFaults, AwsRequest } from "../support/aws-faults.ts";
import { publishGeneration, spoolPorts } from "../support/aws-spool.ts";
import { spoolingViolations } from "../support/dirq-invariants.ts";
import { generationMessages, generationOf } from "../support/dirq-messages.ts";
import { startMoto } from "../support/moto.ts";
import type { Moto } from "../support/moto.ts";
import { RANDOM_KILLS } from "../support/outbox-contract-kills.ts";
import { bundledCli, startCli } from "../support/run-cli.ts";
import { scratchDirectory } from "../support/store-script.ts";
import { isLong } from "../support/size.ts";

const KILLS = RANDOM_KILLS.spooler;
const SEED = "spoolers";
const random = new Random(SEED);
const SLOTS = 4;
const READER = fileURLToPath(new URL("../support/dirq-reader.py", import.meta.url));
// Three units at a time are published, and left after a while: a loss is seen where nothing newer hides it.
const AT_A_TIME = 3;
const KILLS_PER_UNITS = 10;
const units: Unit[] = Array.from({ length: (KILLS / KILLS_PER_UNITS) * AT_A_TIME }, (_, index) => ({
  site: "Some-Site",
  submitHost: `host-${index}`,
  month: "2025-01",
}));
const event = z.object({ event: z.string(), name: z.string().optional(), body: z.string().optional() });

let moto: Moto;
/** one for each slot, so that requests can be counted */
let proxies: readonly AwsFaults[];
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let program: readonly string[];
const started = new Set<ChildProcess>();
beforeAll(async () => {
  scratch = await scratchDirectory();
  program = bundledCli(scratch.path);
  moto = await startMoto({ page: 1000 });
  proxies = await Promise.all(Array.from({ length: SLOTS }, () => startAwsFaults(moto.url)));
});
afterAll(async () => {
  for (const child of started) child.kill("SIGKILL");
  for (const proxy of proxies) await proxy.stop();
  await moto.stop();
  await scratch.remove();
});

const S3_FAULTS: readonly AwsFault[] = [
  { kind: "error", status: 500, code: "InternalError" },
  { kind: "error", status: 503, code: "SlowDown" },
  { kind: "error", status: 409, code: "ConditionalRequestConflict" },
  { kind: "lost", how: "500" },
  { kind: "lost", how: "reset" },
  { kind: "cut" },
];
const SQS_FAULTS: readonly AwsFault[] = [
  { kind: "error", status: 500, code: "InternalError" },
  { kind: "lost", how: "reset" },
  { kind: "cut" },
];
const met = new Map<string, number>();
let turn = 0;

function misbehave({ target }: AwsRequest): AwsFault | undefined {
  if (random.unit() > (target === undefined ? 0.04 : 0.15)) return undefined;
  // In turn, so that each comes.
  const faults = target === undefined ? S3_FAULTS : SQS_FAULTS;
  const fault = faults[(turn += 1) % faults.length]!;
  const name = `${target === undefined ? "s3" : "sqs"} ${fault.kind === "error" ? fault.status : fault.kind}`;
  met.set(name, (met.get(name) ?? 0) + 1);
  return fault;
}

/** The first request at all, and the last of so many that count; each may meet a fault. */
function requests(proxy: AwsFaults, count: number, counts: (request: AwsRequest) => boolean) {
  let seen = 0;
  let atFirst = (): void => undefined;
  let atLast = (): void => undefined;
  const first = new Promise<void>((resolve) => (atFirst = resolve));
  const last = new Promise<void>((resolve) => (atLast = resolve));
  proxy.set((request) => {
    atFirst();
    if (counts(request)) seen += 1;
    if (seen >= Math.floor(count)) atLast();
    const name = request.target ?? request.method;
    asked.set(name, (asked.get(name) ?? 0) + 1);
    return misbehave(request);
  });
  return { first, last };
}
const asked = new Map<string, number>();

type Published = { readonly unit: number; readonly generation: number };

test(`${KILLS} spoolers killed with SIGKILL at random instants (seed "${SEED}")`, async () => {
  const bucket = await moto.bucket();
  const url = await moto.queue();
  const root = join(scratch.path, "queue");
  const store = new S3Store({ client: moto.s3, bucket, prefix: "apel" });
  const progress = { killed: 0, delivered: 0, rung: 0, done: false };
  const published: Published[] = [];
  /** Publishes until all are killed; the queue is told at once, late, twice, in any order or never, and of nonsense too. */
  async function publisher(): Promise<void> {
    const generations = units.map(() => 0);
    const late: Notification[] = [];
    let tried = 0;
    while (!progress.done) {
      const first = Math.min(Math.floor(progress.killed / KILLS_PER_UNITS) * AT_A_TIME, units.length - AT_A_TIME);
      const index = first + Math.floor(random.unit() * AT_A_TIME);
      const unit = units[index]!;
      const generation = (generations[index]! += 1);
      if ((tried += 1) % 10 === 0) await poison(unit, generation);
      else {
        const keys = await publishGeneration(store, unit, generation);
        published.push({ unit: index, generation });
        const notifications = await notificationsOf(store, keys);
        const chance = random.unit();
        if (chance < 0.7) await tell(notifications.toReversed());
        if (chance < 0.3) late.push(...notifications);
        if (chance < 0.2) await tell(late.splice(0).toReversed());
      }
      // No faster than the spoolers: they are to be killed at new generations, not at a heap of old ones.
      do await sleep(random.unit() * 120);
      while (!progress.done && (await store.list("outgoing/")).length > 6);
    }
  }

  async function tell(notifications: readonly Notification[]): Promise<void> {
    progress.rung += notifications.length;
    await notify(moto.sqs, url, notifications);
  }

  async function poison(unit: Unit, generation: number): Promise<void> {
    const Key = `apel/${unitPrefix(unit)}${String(generation).padStart(10, "0")}-summary-${"0".repeat(32)}`;
    await moto.s3.send(new PutObjectCommand({ Bucket: bucket, Key, Body: "poison" }));
    await moto.sqs.send(new SendMessageCommand({ QueueUrl: url, MessageBody: `poison ${generation}` }));
  }

  async function slot(proxy: AwsFaults): Promise<void> {
    while (progress.killed < KILLS) {
      progress.killed += 1;
      const place = ["--source", `s3://${bucket}/apel`, "--queue", url, "--output", `dirq:${root}`];
      const { child, ended } = startCli(["spool", ...place, "--visibility", "2s", "--sweep-interval", "1s"], {
        cwd: scratch.path,
        program,
        // The compiled program is kept: starting is most of what a spooler that lives for a second costs.
        env: { ...moto.env(proxy.url), NODE_COMPILE_CACHE: join(scratch.path, "compiled") },
      });
      started.add(child);
      // At any of its requests, or a little later; one that has nothing to do is not waited for. Every second one lives
      // until it is at the queue: a sweep alone takes dozens of requests.
      const atQueue = progress.killed % 2 === 0;
      const { first, last } = atQueue
        ? requests(proxy, 1 + random.unit() * 3, ({ target }) => target !== undefined)
        : requests(proxy, 1 + random.unit() ** 1.5 * 80, () => true);
      await first;
      await Promise.race([last, sleep(atQueue ? 10_000 : 4000)]);
      await sleep(random.unit() * 20);
      expect(child.kill("SIGKILL")).toBe(true);
      const run = await ended;
      started.delete(child);
      expect(run.signal).toBe("SIGKILL");
      progress.delivered += run.stderr.split("\n").filter((line) => line.endsWith('"msg":"delivered"}')).length;
    }
  }

  const publishing = publisher();
  const slots = proxies.map(slot);
  const reader = spawn("/usr/bin/python3", [READER, root, "7"], { stdio: ["pipe", "pipe", "inherit"] });
  started.add(reader);
  let log = "";
  reader.stdout.setEncoding("utf8").on("data", (chunk: string) => (log += chunk));
  await Promise.all(slots);
  progress.done = true;
  await publishing;

  // Quiet: no more faults, one spooler that is left alone.
  const { ports } = spoolPorts(store, root, { sqs: moto.sqs, url, visibility: 2 });
  const never = new AbortController().signal;
  do await spoolOnce(ports, never);
  while ((await store.list("outgoing/")).length > 0);
  reader.stdin.end();
  await once(reader, "close");
  expect(reader.exitCode).toBe(0);

  const events = log
    .trim()
    .split("\n")
    .map((line) => event.parse(JSON.parse(line)));
  const sent = events.flatMap(({ name, body }) => (name === undefined || body === undefined ? [] : [{ name, body }]));
  const keysOf = units.map((unit) => generationMessages(unit, 1).flatMap(({ body }) => messageKeys(body)));
  const written = published.map(({ unit, generation }) => ({ keys: keysOf[unit]!, generation }));
  expect(spoolingViolations({ sent, written, generationOf })).toEqual([]);
  expect(progress.killed).toBeGreaterThanOrEqual(KILLS);

  // What was poison is refused, each with its reason, and nothing else.
  const refused = await store.list("refused/");
  for (const key of refused.filter((each) => !each.endsWith(".reason"))) {
    expect((await store.get(key))?.body).toMatch(/^poison/);
    expect((await store.get(`${key}.reason`))?.body).toMatch(/^(the text's hash is|it is not JSON)/);
  }

  // That it was a real trial.
  expect(new Set(published.map(({ unit }) => unit)).size).toBeGreaterThan(units.length * (isLong ? 0.7 : 0.5));
  expect(refused.length).toBeGreaterThan(0);
  expect(progress.delivered).toBeGreaterThan(KILLS / 4);
  expect(progress.rung).toBeGreaterThan(KILLS);
  expect(sent.length).toBeGreaterThan(KILLS / 2);
  // Among a tenth of the kills not each kind of fault is met.
  if (!isLong) return;
  expect(events.filter(({ event: name }) => name === "crash").length).toBeGreaterThan(0);
  expect([...met.keys()].toSorted()).toEqual([
    "s3 409",
    "s3 500",
    "s3 503",
    "s3 cut",
    "s3 lost",
    "sqs 500",
    "sqs cut",
    "sqs lost",
  ]);
}, 600_000);
