import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { GridmeterError } from "../../../../lib/shared/errors.ts";
import { PlainDirectoryQueue } from "../../../../lib/accounting/delivery/plain-queue.ts";
import type { NotificationQueue } from "../../../../lib/accounting/delivery/notifications.ts";
import { type SpoolPorts, spoolForever, spoolOnce } from "../../../../lib/accounting/delivery/spooler.ts";
import { S3Store } from "../../../../lib/accounting/store/s3.ts";
import { createS3 } from "../../../../lib/accounting/store/aws.ts";

class EmptyStore extends S3Store {
  lists = 0;
  override async get(): Promise<undefined> {
    return undefined;
  }
  override async list(): Promise<string[]> {
    this.lists += 1;
    return [];
  }
}
class DownStore extends EmptyStore {
  override async list(): Promise<string[]> {
    this.lists += 1;
    throw new GridmeterError("store_failed", "down");
  }
}

function ports(Store: typeof EmptyStore, receive?: NotificationQueue["receive"]) {
  const store = new Store({ client: createS3({ AWS_REGION: "x" }), bucket: "b", prefix: "" });
  const lines: string[] = [];
  const tell = (_: object, text: string): unknown => lines.push(text);
  const done = async (): Promise<void> => undefined;
  const all: SpoolPorts = {
    store,
    queue: new PlainDirectoryQueue("/nowhere"),
    log: { info: tell, warn: tell, error: tell },
    now: () => 0,
    ...(receive === undefined ? {} : { notifications: { receive, remove: done, postpone: done } }),
  };
  return { all, store, lines };
}

/** Runs for a while, then stops; gives how long it took to end after that, milliseconds. */
async function runFor(milliseconds: number, spooler: SpoolPorts, sweepInterval: number): Promise<number> {
  const controller = new AbortController();
  const polling = { first: 0.02, most: 0.2 };
  const running = spoolForever(spooler, { sweepInterval, stop: controller.signal, polling });
  await sleep(milliseconds);
  const stopped = performance.now();
  controller.abort();
  await running;
  return performance.now() - stopped;
}

test("without a queue it sweeps at the start and at every interval, and stops at once", async () => {
  const { all, store } = ports(EmptyStore);
  expect(await runFor(500, all, 0.1)).toBeLessThan(100);
  expect(store.lists).toBeGreaterThanOrEqual(3);
  expect(store.lists).toBeLessThanOrEqual(6);
});

test("a queue that always fails is asked with growing waits, and sweeps go on", async () => {
  let asked = 0;
  const { all, store, lines } = ports(EmptyStore, async () => {
    asked += 1;
    throw new GridmeterError("queue_failed", "down");
  });
  expect(await runFor(700, all, 0.3)).toBeLessThan(100);
  // 20, 40, 80, 160, then 200 ms, each between half of it and all.
  expect(asked).toBeGreaterThanOrEqual(4);
  expect(asked).toBeLessThanOrEqual(12);
  expect(store.lists).toBeGreaterThanOrEqual(2);
  expect(lines.filter((line) => line === "down")).toHaveLength(asked);
});

test("a store that always fails is asked with growing waits, and no message is taken meanwhile", async () => {
  let asked = 0;
  const { all, store } = ports(DownStore, async () => {
    asked += 1;
    return [];
  });
  expect(await runFor(700, all, 0.3)).toBeLessThan(100);
  expect(store.lists).toBeGreaterThanOrEqual(4);
  expect(store.lists).toBeLessThanOrEqual(12);
  expect(asked).toBe(0);
});

test("one pass gives the faults back", async () => {
  const errors = await spoolOnce(ports(DownStore, async () => []).all, new AbortController().signal);
  expect(errors).toEqual([expect.objectContaining({ code: "store_failed" })]);
});
