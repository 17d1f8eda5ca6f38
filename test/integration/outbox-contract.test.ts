// From a run's outgoing messages to ssmsend: the same contract for a dirq, a plain directory, and S3 with SQS and the
// spooler. And the ledger's contract for a directory and for S3.
import fsp from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import type { S3Client } from "@aws-sdk/client-s3";
import type { SQSClient } from "@aws-sdk/client-sqs";
import { DirqQueue } from "../../lib/accounting/delivery/dirq.ts";
import { notificationsOf, notify } from "../../lib/accounting/delivery/notifications.ts";
import type { MessageQueue } from "../../lib/accounting/delivery/queue.ts";
import { PlainDirectoryQueue } from "../../lib/accounting/delivery/plain-queue.ts";
import { SpoolRound } from "../../lib/accounting/delivery/spooler.ts";
import { deliverAll } from "../../lib/accounting/delivery/deliver.ts";
import { DirectoryStore } from "../../lib/accounting/store/directory.ts";
import { S3Store } from "../../lib/accounting/store/s3.ts";
import { createS3, createSqs } from "../../lib/accounting/store/aws.ts";
import { spoolPorts } from "../support/aws-spool.ts";
import type { Sent } from "../support/dirq-invariants.ts";
import { NOW } from "../support/dirq-messages.ts";
import { startMoto } from "../support/moto.ts";
import type { Moto } from "../support/moto.ts";
import { outboxDeaths } from "../support/outbox-contract-deaths.ts";
import { RANDOM_KILLS } from "../support/outbox-contract-kills.ts";
import { outboxContract } from "../support/outbox-contract.ts";
import type { OutboxKind, OutboxSubject, Way } from "../support/outbox-contract.ts";
import { ledgerContract } from "../support/outbox-contract-ledger.ts";
import { mortal } from "../support/outbox-contract-life.ts";
import { startDirqReader } from "../support/outbox-contract-reader.ts";
import type { DirqReader } from "../support/outbox-contract-reader.ts";

let moto: Moto;
let s3: S3Client;
let sqs: SQSClient;
let reader: DirqReader;
beforeAll(async () => {
  reader = startDirqReader();
  moto = await startMoto();
  s3 = createS3(moto.env());
  sqs = createSqs(moto.env());
  for (const client of [s3, sqs]) mortal(client);
  neverWaiting(sqs);
});
afterAll(async () => {
  s3.destroy();
  sqs.destroy();
  await moto.stop();
  await reader.stop();
});

/** An empty queue answers at once: the long poll is the only thing that these tests need not see. */
function neverWaiting(client: SQSClient): void {
  client.middlewareStack.add(
    (next) => (args) => {
      if ("WaitTimeSeconds" in args.input) args.input.WaitTimeSeconds = 0;
      return next(args);
    },
    { step: "initialize", name: "neverWaiting" },
  );
}

function local(folder: string, queueOf: (root: string) => MessageQueue): OutboxSubject {
  const root = join(folder, "spool", "queue");
  const way = (): Way => {
    const store = new DirectoryStore(join(folder, "data"));
    return {
      store,
      announce: () => Promise.resolve(),
      send: async () => {
        await deliverAll(store, queueOf(root), { now: NOW });
      },
    };
  };
  return { one: way(), two: way(), root, close: () => Promise.resolve() };
}

const dirq = {
  read: (root: string) => reader.read(root),
  take: (root: string) => reader.take(root),
  holding: async (root: string, work: () => Promise<void>) => {
    const held = await reader.lock(root);
    await work();
    await reader.send(root, held);
  },
};

const dirqKind: OutboxKind = {
  name: "a dirq",
  ...dirq,
  open: async (folder) => local(folder, (root) => new DirqQueue(root, 5000)),
};

/** ssmsend with `path_type: directory`: every regular file, whatever its name, oldest mtime first. */
async function regularFiles(root: string): Promise<readonly Sent[]> {
  const found: (Sent & { readonly mtime: bigint })[] = [];
  for (const name of await fsp.readdir(root).catch(() => [])) {
    const stat = await fsp.stat(join(root, name), { bigint: true });
    if (stat.isFile()) found.push({ name, mtime: stat.mtimeNs, body: await fsp.readFile(join(root, name), "utf8") });
  }
  return found.toSorted((a, b) => (a.mtime === b.mtime ? a.name.localeCompare(b.name) : a.mtime < b.mtime ? -1 : 1));
}

const directoryKind: OutboxKind = {
  name: "a plain directory",
  open: async (folder) => local(folder, (root) => new PlainDirectoryQueue(root, 5000)),
  read: regularFiles,
  take: async (root) => {
    const sent = await regularFiles(root);
    for (const { name } of sent) await fsp.unlink(join(root, name));
    return sent;
  },
};

const s3Kind: OutboxKind = {
  name: "S3 and SQS with the spooler",
  ...dirq,
  open: async (folder) => {
    const root = join(folder, "spool", "queue");
    const bucket = await moto.bucket();
    const url = await moto.queue({ fifo: true });
    const never = new AbortController().signal;
    const way = (): Way => {
      const store = new S3Store({ client: s3, bucket, prefix: "apel" });
      const { ports } = spoolPorts(store, root, { sqs, url, visibility: 1 });
      return {
        store,
        announce: async (keys) => notify(sqs, url, await notificationsOf(store, keys)),
        // As `gridmeter spool` goes on: what the queue tells of, and then a sweep for what it did not tell of.
        send: async () => {
          const round = new SpoolRound(ports);
          for (;;) {
            const messages = await ports.notifications!.receive(1, never);
            if (messages.length === 0 || !(await round.take(messages, ports.notifications!))) break;
          }
          await round.sweep(never);
        },
      };
    };
    return { one: way(), two: way(), root, close: () => Promise.resolve() };
  },
};

for (const kind of [dirqKind, directoryKind, s3Kind]) outboxContract(kind);
outboxDeaths(dirqKind, "every");
outboxDeaths(directoryKind, "every");
outboxDeaths(s3Kind, RANDOM_KILLS.outbox);

ledgerContract("a directory", async (folder) => {
  const open = () => new DirectoryStore(join(folder, "not", "yet", "made"));
  return { one: open(), two: open() };
});

ledgerContract("S3", async () => {
  const bucket = await moto.bucket();
  const open = () => new S3Store({ client: s3, bucket, prefix: "apel/prod" });
  return { one: open(), two: open() };
});
