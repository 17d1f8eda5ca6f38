// A gridmeter that publishes and delivers until it is killed: dirq-writer.ts STORE QUEUE UNITS (JSON). It reserves a
// generation in the unit's state, puts its messages, reports `written <unit> <generation>`, and delivers. The fourth argument
// is the seed by which units are chosen; with "once" in its place it only delivers, until nothing is outgoing any more.
import { writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import type { Unit } from "../../lib/accounting/model/tenant.ts";
import { safeSegment } from "../../lib/accounting/store/store.ts";
import { DirqQueue } from "../../lib/accounting/delivery/dirq.ts";
import { deliverAll } from "../../lib/accounting/delivery/deliver.ts";
import { DirectoryStore } from "../../lib/accounting/store/directory.ts";
import { Random } from "../simulator/random.ts";
import { NOW, generationMessages, storeGeneration } from "./dirq-messages.ts";

const [storeRoot = "", queueRoot = "", unitsJson = "", seed = ""] = process.argv.slice(2);
const once = seed === "once";
const random = new Random(seed);
const units = z
  .array(z.object({ site: z.string(), submitHost: z.string(), month: z.string() }))
  .parse(JSON.parse(unitsJson));
const store = new DirectoryStore(storeRoot);
const queue = new DirqQueue(queueRoot, once ? 30_000 : 200);

const report = (line: string): unknown => writeSync(1, `${line}\n`);

async function reserve(unit: Unit): Promise<number> {
  const key = `state/${safeSegment(unit.submitHost)}`;
  for (;;) {
    const held = await store.get(key);
    const generation = Number(held?.body ?? 0) + 1;
    const condition = held === undefined ? ({ absent: true } as const) : { version: held.version };
    if ((await store.put(key, String(generation), condition)) === "stored") return generation;
  }
}

async function publish(): Promise<void> {
  const index = random.int(0, units.length - 1);
  const unit = units[index]!;
  const generation = await reserve(unit);
  await storeGeneration(store, unit, generation, generationMessages(unit, generation));
  report(`written ${index} ${generation}`);
}

async function deliver(): Promise<void> {
  report("delivering");
  await deliverAll(store, queue, { now: NOW });
  report("idle");
}

if (!once) {
  for (;;) {
    await publish();
    await deliver();
  }
} else {
  while ((await store.list("outgoing/")).length > 0) {
    await deliver();
    await sleep(50);
  }
}
