// Senders killed with SIGKILL at random instants, two at once, while generations are published and S3 and AMS misbehave: from a bucket, and
// from a dirq.
import type { ChildProcess } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { messageKeys } from "../../lib/accounting/apel/replace-keys.ts";
import { setDelivery } from "../../lib/accounting/delivery/ams-or-spool.ts";
import { DirqQueue } from "../../lib/accounting/delivery/dirq.ts";
import { deliverAll } from "../../lib/accounting/delivery/deliver.ts";
import type { Unit } from "../../lib/accounting/model/tenant.ts";
import { MemoryStore } from "../../lib/accounting/store/store.ts";
import { S3Store } from "../../lib/accounting/store/s3.ts";
import { Random } from "../simulator/index.ts";
import { amsSettings, startAmsSite } from "../support/ams-sender.ts";
import type { AmsFault } from "../support/ams-server.ts";
import { type AwsFault, type AwsFaults, startAwsFaults } from "../support/aws-faults.ts";
import { publishGeneration } from "../support/aws-spool.ts";
import { spoolingViolations } from "../support/dirq-invariants.ts";
import { NOW, generationMessages, generationOf, storeGeneration } from "../support/dirq-messages.ts";
import { dirqTool } from "../support/dirq-tool.ts";
import { type Moto, startMoto } from "../support/moto.ts";
import { RANDOM_KILLS } from "../support/outbox-contract-kills.ts";
import { bundledCli, startCli } from "../support/run-cli.ts";
import { isLong } from "../support/size.ts";
import { verified } from "../support/smime.ts";
import { scratchDirectory } from "../support/store-script.ts";

const KILLS = RANDOM_KILLS.sender;
const SEED = "senders";
const random = new Random(SEED);
const units: readonly Unit[] = [0, 1, 2].map((index) => ({
  site: "Some-Site",
  submitHost: `host-${index}`,
  month: "2025-01",
}));

const site = await startAmsSite();
const { authority, ams } = site;
let moto: Moto;
let proxy: AwsFaults;
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let program: readonly string[];
const started = new Set<ChildProcess>();
beforeAll(async () => {
  scratch = await scratchDirectory();
  program = bundledCli(scratch.path);
  moto = await startMoto({ page: 1000 });
  proxy = await startAwsFaults(moto.url);
});
afterAll(async () => {
  for (const child of started) child.kill("SIGKILL");
  await Promise.all([proxy.stop(), site.stop()]);
  await moto.stop();
  await scratch.remove();
});

const S3_FAULTS: readonly AwsFault[] = [
  { kind: "error", status: 503, code: "SlowDown" },
  { kind: "lost", how: "reset" },
  { kind: "lost", how: "500" },
];
const AMS_FAULTS: readonly AmsFault[] = [
  { kind: "lost" },
  { kind: "status", status: 500 },
  { kind: "lost-status", status: 503 },
  { kind: "status", status: 408 },
  { kind: "status", status: 401 },
  { kind: "cut" },
];
const met = new Set<string>();
let turn = 0;

/** What the next request meets, and whether anybody waits for it. */
function misbehaving(onRequest: () => void): void {
  proxy.set(() => {
    onRequest();
    return random.unit() < 0.02 ? S3_FAULTS[(turn += 1) % S3_FAULTS.length] : undefined;
  });
  ams.misbehave(({ what }) => {
    onRequest();
    if (what !== "publish" || random.unit() > 0.25) return undefined;
    const fault = AMS_FAULTS[(turn += 1) % AMS_FAULTS.length]!;
    met.add("status" in fault ? `${fault.kind} ${fault.status}` : fault.kind);
    return fault;
  });
}
function behaving(): void {
  proxy.set(() => undefined);
  ams.misbehave(() => undefined);
}

const env = (): Record<string, string> => ({
  ...moto.env(proxy.url),
  ...amsSettings(site),
  NODE_COMPILE_CACHE: join(scratch.path, "compiled"),
});
const run = (source: string) => startCli(["send", "--source", source], { cwd: scratch.path, program, env: env() });

/**
 * Starts sender after sender in two slots, and kills each at one of its requests or a little later. It goes on until more messages
 * than half the kills arrived and AMS misbehaved: senders that were all killed early try nothing.
 */
async function killSenders(source: string, kills: number): Promise<void> {
  let killed = 0;
  const before = ams.published.length;
  const isTrial = (): boolean => ams.published.length - before > kills / 2 && met.size > 0;
  const waiters = new Set<() => void>();
  misbehaving(() => waiters.forEach((tell) => tell()));
  async function slot(): Promise<void> {
    while ((killed += 1) <= kills || !isTrial()) {
      const { child, ended } = run(source);
      started.add(child);
      let left = 1 + Math.floor(random.unit() ** 1.5 * 120);
      await new Promise<void>((resolve) => {
        const tell = (): void => {
          if ((left -= 1) <= 0) resolve();
        };
        waiters.add(tell);
        void ended.then(() => resolve());
      });
      await sleep(random.unit() * 15);
      child.kill("SIGKILL");
      await ended;
      started.delete(child);
    }
  }
  await Promise.all([slot(), slot()]);
  behaving();
}

const taken = () =>
  ams.published.map(({ id, signed }) => ({ name: `message ${id}`, body: verified(signed, authority.caFile, "cms") }));
const keysOf = new Map(
  units.map((unit) => [unit, generationMessages(unit, 1).flatMap(({ body }) => messageKeys(body))]),
);

test(`${KILLS} senders from a bucket, killed at random instants (seed "${SEED}")`, async () => {
  const bucket = await moto.bucket();
  const store = new S3Store({ client: moto.s3, bucket, prefix: "apel" });
  await setDelivery(store, "ams");
  const written: { readonly keys: readonly string[]; readonly generation: number }[] = [];
  const progress = { done: false };
  async function publisher(): Promise<void> {
    for (let generation = 1; !progress.done; generation += 1) {
      const unit = units[Math.floor(random.unit() * units.length)]!;
      await publishGeneration(store, unit, generation);
      written.push({ keys: keysOf.get(unit)!, generation });
      do await sleep(random.unit() * 150);
      while (!progress.done && (await store.list("outgoing/")).length > 6);
    }
  }
  const publishing = publisher();
  await killSenders(`s3://${bucket}/apel`, KILLS);
  progress.done = true;
  await publishing;
  const last = await run(`s3://${bucket}/apel`).ended;
  expect([last.code, last.stderr]).toEqual([0, ""]);
  expect(await store.list("outgoing/")).toEqual([]);
  expect(await store.list("refused/")).toEqual([]);
  expect(spoolingViolations({ sent: taken(), written, generationOf })).toEqual([]);
  expect(ams.published.length).toBeGreaterThan(KILLS / 2);
  // Among a tenth of the kills not each kind of fault is met.
  expect(met.size).toBeGreaterThan(isLong ? 4 : 0);
}, 300_000);

test(`${KILLS / 2} senders from a dirq`, async () => {
  const root = join(scratch.path, "queue");
  await mkdir(root);
  const before = ams.published.length;
  const outbox = new MemoryStore();
  const written: { readonly keys: readonly string[]; readonly generation: number }[] = [];
  const progress = { done: false };
  async function publisher(): Promise<void> {
    for (let generation = 1; !progress.done; generation += 1) {
      const unit = units[Math.floor(random.unit() * units.length)]!;
      await storeGeneration(outbox, unit, generation, generationMessages(unit, generation));
      await deliverAll(outbox, new DirqQueue(root), { now: NOW });
      written.push({ keys: keysOf.get(unit)!, generation });
      await sleep(random.unit() * 200);
    }
  }
  const publishing = publisher();
  await killSenders(`dirq:${root}`, KILLS / 2);
  progress.done = true;
  await publishing;
  // A lock that a killed sender left is taken over by the next one.
  while ((await outbox.list("outgoing/")).length > 0) await deliverAll(outbox, new DirqQueue(root), { now: NOW });
  const last = await run(`dirq:${root}`).ended;
  expect([last.code, last.stderr]).toEqual([0, ""]);
  expect(z.array(z.string()).parse(await dirqTool("read", root))).toEqual([]);
  expect(spoolingViolations({ sent: taken().slice(before), written, generationOf })).toEqual([]);
  expect(ams.published.length - before).toBeGreaterThan(KILLS / 4);
}, 300_000);
