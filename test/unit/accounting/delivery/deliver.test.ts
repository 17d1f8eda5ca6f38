import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Unit } from "../../../../lib/accounting/model/tenant.ts";
import { MemoryStore, type ObjectStore } from "../../../../lib/accounting/store/store.ts";
import type { IndividualRecord } from "../../../../lib/accounting/apel/record.ts";
import { type ApelMessage, writeMessages } from "../../../../lib/accounting/apel/write.ts";
import { DirqQueue } from "../../../../lib/accounting/delivery/dirq.ts";
import type { MessageQueue } from "../../../../lib/accounting/delivery/queue.ts";
import { unitPrefix } from "../../../../lib/accounting/delivery/outgoing.ts";
import { type DeliveryOptions, deliverAll } from "../../../../lib/accounting/delivery/deliver.ts";
import { at } from "../../../support/dirq-contract.ts";
import {
  NOW,
  generationMessages,
  generationOf,
  summaryBody,
  unit,
  storeGeneration,
} from "../../../support/dirq-messages.ts";
import { dirqTool } from "../../../support/dirq-tool.ts";
import { scratchDirectory } from "../../../support/store-script.ts";

let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let root: string;
let store: MemoryStore;
let queue: DirqQueue;
beforeEach(async () => {
  scratch = await scratchDirectory();
  root = join(scratch.path, "queue");
  store = new MemoryStore();
  queue = new DirqQueue(root);
});
afterEach(() => scratch.remove());

const put = (generation: number, vos?: readonly string[]) =>
  storeGeneration(store, unit, generation, generationMessages(unit, generation, vos));
const queued = () =>
  at(queue, async (open) => Promise.all((await open.list()).map(async ({ read }) => (await read())!)));
const generations = async () => (await queued()).map(generationOf);
const foreign = async (body: string) =>
  at(queue, async (open) => {
    const result = await open.replace([], [body]);
    return result.status === "added" ? result.names[0]! : "";
  });

/** Delivers, and gives each message as [generation, kind, status]. */
async function deliver(options: Partial<DeliveryOptions> = {}) {
  const reports = await deliverAll(store, queue, { now: NOW, ...options });
  const messages = reports.flatMap((report) => report.messages);
  const rows = messages.map(({ key, status }) => {
    const [generation = "", kind = ""] = key.split("/").at(-1)!.split("-");
    return [Number(generation), kind, status];
  });
  return { rows, reasons: messages.map(({ reason }) => reason) };
}

test("what is outgoing comes into the queue, and is kept as spooled", async () => {
  const keys = await put(1);
  expect((await deliver()).rows).toEqual([
    [1, "summary", "delivered"],
    [1, "sync", "delivered"],
  ]);
  expect(await queued()).toEqual(generationMessages(unit, 1).map(({ body }) => body));
  expect(await store.list("")).toEqual(keys.map((key) => key.replace("outgoing/", "spooled/")));
  expect(await deliverAll(store, queue, { now: NOW })).toEqual([]);
});

test("only the units asked for", async () => {
  const other: Unit = { ...unit, month: "2024-12" };
  await put(1);
  await storeGeneration(store, other, 4, generationMessages(other, 4));
  const reports = await deliverAll(store, queue, { now: NOW, units: [other] });
  expect(reports.map((report) => report.unit)).toEqual([other]);
  expect(await generations()).toEqual([4, 4]);
  expect(await store.list(unitPrefix(unit))).toHaveLength(2);
});

describe("generations", () => {
  test("a later one in the queue's place: the older is taken out first", async () => {
    await put(1);
    await deliver();
    await put(2);
    await deliver();
    expect(await generations()).toEqual([2, 2]);
  });

  test("superseded: one that a later one covers wholly is not sent", async () => {
    await put(1);
    await put(2);
    expect((await deliver()).rows).toEqual([
      [1, "summary", "superseded"],
      [1, "sync", "superseded"],
      [2, "summary", "delivered"],
      [2, "sync", "delivered"],
    ]);
    expect(await generations()).toEqual([2, 2]);
    expect(await store.list("outgoing/")).toEqual([]);
    expect(await store.list("spooled/")).toHaveLength(4);
  });

  test("one with a key that the later lacks is sent before it", async () => {
    await put(1, ["atlas", "cms"]);
    await put(2, ["atlas"]);
    const { rows, reasons } = await deliver();
    expect(rows.map(([, , status]) => status)).toEqual(["delivered", "delivered", "waiting", "waiting"]);
    expect(reasons[2]).toMatch(/holds some of the same APEL keys.*cms/s);
    expect(await generations()).toEqual([1, 1]);
    for (const { name } of await at(queue, (open) => open.list())) {
      await dirqTool("lock", root, name);
      await dirqTool("send", root, name);
    }
    expect((await deliver()).rows.map(([, , status]) => status)).toEqual(["delivered", "delivered"]);
    expect(await generations()).toEqual([2, 2]);
  });

  test("one that comes after a later one was spooled is refused, with the reason beside it", async () => {
    await put(7);
    await deliver();
    const [key] = await put(5);
    expect((await deliver()).rows).toEqual([
      [5, "summary", "refused"],
      [5, "sync", "refused"],
    ]);
    expect(await generations()).toEqual([7, 7]);
    const refused = key!.replace("outgoing/", "refused/");
    expect((await store.get(refused))?.body).toBe(generationMessages(unit, 5)[0]!.body);
    expect((await store.get(`${refused}.reason`))?.body).toMatch(/generation 5 came after generation 7/);
    expect(await store.list("outgoing/")).toEqual([]);
  });

  test("the 20 newest are kept as spooled", async () => {
    for (let generation = 1; generation <= 23; generation += 1) {
      await put(generation);
      await deliver();
    }
    const kept = (await store.list("spooled/")).map((key) => Number(key.split("/").at(-1)!.slice(0, 10)));
    expect([...new Set(kept)]).toEqual(Array.from({ length: 20 }, (_, index) => index + 4));
  });
});

describe("while ssmsend holds an older message", () => {
  test("the new generation and all after it wait; then the newest goes", async () => {
    await put(1);
    await deliver();
    const [first] = await at(queue, (open) => open.list());
    await dirqTool("lock", root, first!.name);
    await put(2, ["atlas", "cms"]);
    await put(3, ["atlas"]);
    const { rows, reasons } = await deliver();
    expect(rows.map(([, , status]) => status)).toEqual(["waiting", "waiting", "waiting", "waiting"]);
    expect(reasons[0]).toContain(first!.name);
    expect(await generations()).toEqual([1, 1]);
    await dirqTool("send", root, first!.name);
    expect((await deliver()).rows.map(([, , status]) => status)).toEqual([
      "delivered",
      "delivered",
      "waiting",
      "waiting",
    ]);
    expect(await generations()).toEqual([2, 2]);
  });

  test("another unit's messages go on", async () => {
    const name = await foreign(summaryBody(unit, 0));
    await dirqTool("lock", root, name);
    const other: Unit = { ...unit, site: "Zzz" };
    await put(1);
    await storeGeneration(store, other, 1, generationMessages(other, 1));
    expect((await deliver()).rows.map(([, , status]) => status)).toEqual([
      "waiting",
      "waiting",
      "delivered",
      "delivered",
    ]);
  });
});

describe("files that gridmeter did not write", () => {
  test("with the same keys are replaced if the new ones cover all of them", async () => {
    await foreign(summaryBody(unit, 0, ["cms"]));
    await put(1, ["atlas", "cms"]);
    await deliver();
    expect(await generations()).toEqual([1, 1]);
  });

  test("with further keys must be sent first", async () => {
    const name = await foreign(summaryBody(unit, 0, ["atlas", "lhcb"]));
    await put(1);
    const { rows, reasons } = await deliver();
    expect(rows.map(([, , status]) => status)).toEqual(["waiting", "waiting"]);
    expect(reasons[0]).toContain(name);
    expect(reasons[0]).toContain("lhcb");
    expect(await generations()).toEqual([0]);
  });

  test("with the very text are the message: nothing to add", async () => {
    await foreign(summaryBody(unit, 1));
    await put(1);
    expect((await deliver()).rows).toEqual([
      [1, "summary", "already_there"],
      [1, "sync", "delivered"],
    ]);
    expect(await generations()).toEqual([1, 1]);
  });

  test("that are no APEL messages are left alone and reported once", async () => {
    const name = await foreign("hello\n");
    await put(1);
    const warnings: string[] = [];
    await deliver({ warn: (text) => warnings.push(text) });
    expect(warnings).toEqual([expect.stringContaining(name)]);
    expect(await queued()).toContain("hello\n");
    expect(await queued()).toHaveLength(3);
  });
});

/** A message of single jobs with these LocalJobIds. */
function jobMessage(ids: readonly string[]): ApelMessage {
  const records = ids.map((localJobId): IndividualRecord => ({
    kind: "individual",
    site: unit.site,
    submitHost: unit.submitHost,
    vo: "atlas",
    infrastructureType: "grid",
    machineName: "pod",
    localJobId,
    wallDuration: 3600,
    cpuDuration: 3600,
    startTime: 1_736_000_000,
    endTime: 1_736_003_600,
    processors: 1,
    nodeCount: 1,
    serviceLevel: { type: "si2k", value: 2500 },
  }));
  return writeMessages(records, "individual-0.3")[0]!;
}
const putJobs = (generation: number, ...messages: readonly (readonly string[])[]) =>
  storeGeneration(store, unit, generation, messages.map(jobMessage));
const queuedJobs = async () =>
  (await queued()).map((body) => [...body.matchAll(/^LocalJobId: (.+)$/gm)].map(([, id]) => id).join());

describe("individual messages", () => {
  test("replace nothing and are never too old", async () => {
    await putJobs(5, ["b"]);
    await deliver();
    await putJobs(4, ["a"]);
    await putJobs(6, ["c"]);
    expect((await deliver()).rows.map(([, , status]) => status)).toEqual(["delivered", "delivered"]);
    expect(await queuedJobs()).toEqual(["b", "a", "c"]);
  });

  test("are not sent where a later generation holds all their jobs, in whatever messages", async () => {
    await putJobs(1, ["a", "b"], ["c"]);
    await putJobs(2, ["b", "c"], ["a", "d"]);
    await putJobs(3, ["a", "b"], ["c"], ["d", "e"]);
    expect((await deliver()).rows.map(([generation, , status]) => `${generation} ${status}`)).toEqual([
      "1 superseded",
      "1 superseded",
      "2 superseded",
      "2 superseded",
      "3 delivered",
      "3 delivered",
      "3 delivered",
    ]);
    expect((await queuedJobs()).toSorted()).toEqual(["a,b", "c", "d,e"]);
  });

  test("are sent where a later generation lacks one of their jobs", async () => {
    await putJobs(1, ["a", "b"]);
    await storeGeneration(store, unit, 2, [...generationMessages(unit, 2), jobMessage(["a", "c"])]);
    const { rows } = await deliver();
    expect(rows.map(([, kind, status]) => `${kind} ${status}`)).toEqual([
      "individual delivered",
      "summary delivered",
      "sync delivered",
      "individual delivered",
    ]);
    expect((await queuedJobs()).filter((ids) => ids !== "")).toEqual(["a,b", "a,c"]);
  });

  /** The store, with something done before each object is read. */
  const reading = (before: (key: string) => Promise<unknown>): ObjectStore => ({
    get: async (key) => {
      await before(key);
      return store.get(key);
    },
    put: (...args) => store.put(...args),
    list: (prefix) => store.list(prefix),
    remove: (key) => store.remove(key),
  });

  test.each([
    ["removed", (key: string) => store.remove(key), []],
    ["changed", (key: string) => store.put(key, "else"), [[1, "individual", "refused"]]],
  ] as const)("one that is %s while it is delivered waits, and the others go", async (_what, spoil, next) => {
    const [, second] = await putJobs(1, ["a"], ["b"]);
    await putJobs(2, ["c"]);
    let reads = 0;
    const spoiling = reading(async (key) => {
      reads += key === second ? 1 : 0;
      // Checked and compared first, then read for the queue.
      if (key === second && reads === 3) await spoil(key);
    });
    const [report] = await deliverAll(spoiling, queue, { now: NOW });
    expect(report!.messages.map(({ status }) => status).toSorted()).toEqual(["delivered", "waiting", "waiting"]);
    expect(report!.messages.find(({ key }) => key === second)?.reason).toContain("removed or changed");
    expect(await queuedJobs()).toEqual(["a"]);
    expect((await deliver()).rows).toEqual([...next, [2, "individual", "delivered"]]);
    expect(await queuedJobs()).toEqual(["a", "c"]);
    expect(await store.list("outgoing/")).toEqual([]);
  });

  test("are sent once each where the store fails in the middle and ssmsend has sent what was there", async () => {
    const ids = Array.from({ length: 21 }, (_, index) => String(index));
    await storeGeneration(store, unit, 1, [...generationMessages(unit, 1), ...ids.map((id) => jobMessage([id]))]);
    let reads = 0;
    const failing = reading(async () => {
      reads += 1;
      // All 23 were read once; then those of the first batch, and some of the second.
      if (reads === 23 + 12) throw new Error("S3 answered 500");
    });
    await expect(deliverAll(failing, queue, { now: NOW })).rejects.toThrow("S3 answered 500");
    const sent = await queuedJobs();
    expect(sent).toHaveLength(2 + 8);
    queue = new DirqQueue(join(root, "sent-since"));
    await deliver();
    const all = [...sent, ...(await queuedJobs())].filter((each) => each !== "");
    expect(all.toSorted()).toEqual(ids.toSorted());
  });

  test("of many waiting generations each is read a few times, not once for each of the others", async () => {
    for (let day = 1; day <= 15; day += 1) {
      const jobs = [1, 2, 3].map((message) => jobMessage([`${String(day).padStart(2, "0")}-${message}`]));
      await storeGeneration(store, unit, day, [...generationMessages(unit, 1), ...jobs]);
    }
    let reads = 0;
    await deliverAll(
      reading(async () => void (reads += 1)),
      queue,
      { now: NOW },
    );
    expect(await store.list("outgoing/")).toEqual([]);
    // As they are loaded, to be compared, and for the queue.
    expect(reads).toBeLessThan(15 * 5 * 3 + 1);
  });
});

describe("damaged objects", () => {
  test("a text that its key's hash does not fit is refused; the rest goes on", async () => {
    const [key] = await put(1);
    await store.put(key!, summaryBody(unit, 9));
    expect((await deliver()).rows).toEqual([
      [1, "summary", "refused"],
      [1, "sync", "delivered"],
    ]);
    const reason = await store.get(`${key!.replace("outgoing/", "refused/")}.reason`);
    expect(reason?.body).toContain("hash");
  });

  test("a refused generation supersedes nothing", async () => {
    await put(1);
    for (const key of await put(2)) await store.put(key, "damaged");
    const { rows } = await deliver();
    expect(rows.filter(([generation]) => generation === 1).map(([, , status]) => status)).toEqual([
      "delivered",
      "delivered",
    ]);
    expect(await generations()).toEqual([1, 1]);
  });

  test("a text that breaks APEL's rules is refused", async () => {
    await storeGeneration(store, unit, 1, generationMessages(unit, 1));
    const early = Date.UTC(2024, 11, 31) / 1000;
    const { rows, reasons } = await deliver({ now: early });
    expect(rows.map(([, , status]) => status)).toEqual(["refused", "refused"]);
    expect(reasons[0]).toContain("month-in-future");
  });

  test("a key that gridmeter does not make is refused", async () => {
    await store.put("outgoing/strange", "text");
    const reports = await deliverAll(store, queue, { now: NOW });
    expect(reports).toEqual([
      { messages: [{ key: "outgoing/strange", status: "refused", reason: "its key is none that gridmeter makes" }] },
    ]);
    expect((await store.get("refused/strange"))?.body).toBe("text");
    expect(await store.list("outgoing/")).toEqual([]);
  });
});

test("another gridmeter at the queue: all waits", async () => {
  await put(1);
  await at(queue, async () => {
    const reports = await deliverAll(store, new DirqQueue(root, 50), { now: NOW });
    expect(reports[0]!.messages.map(({ status }) => status)).toEqual(["waiting", "waiting"]);
  });
  expect(await store.list("outgoing/")).toHaveLength(2);
});

describe("stopped at any step, and run again", () => {
  /** Lets `steps` calls pass, then fails all: as a kill between two calls would leave things. */
  function stopping(steps: number): { store: ObjectStore; queue: MessageQueue; stopped: () => boolean } {
    let left = steps;
    const step = <T>(call: () => Promise<T>): Promise<T> => {
      left -= 1;
      return left < 0 ? Promise.reject(new Error("stopped")) : call();
    };
    return {
      store: {
        get: (key) => step(() => store.get(key)),
        put: (...args) => step(() => store.put(...args)),
        list: (prefix) => step(() => store.list(prefix)),
        remove: (key) => step(() => store.remove(key)),
      },
      queue: {
        place: queue.place,
        exclusively: (work) =>
          queue.exclusively((open) =>
            work({
              list: () => step(() => open.list()),
              replace: (older, bodies) => step(() => open.replace(older, bodies)),
              take: (name, deal) => step(() => open.take(name, deal)),
            }),
          ),
      },
      stopped: () => left < 0,
    };
  }

  test("the newest generation is in the queue, once, and nothing older", async () => {
    let generation = 1;
    let steps = 0;
    for (let finished = false; !finished; steps += 1) {
      const halted = stopping(steps);
      await put(generation);
      await put(generation + 1);
      await deliverAll(halted.store, halted.queue, { now: NOW }).catch(() => undefined);
      finished = !halted.stopped();
      await put(generation + 2);
      await deliver();
      expect(await generations()).toEqual([generation + 2, generation + 2]);
      expect(await store.list("outgoing/")).toEqual([]);
      expect(await store.list("refused/")).toEqual([]);
      generation += 3;
    }
    expect(steps).toBeGreaterThan(15);
  });

  test("each of many messages of single jobs is in the queue, once", async () => {
    // More than are added together.
    const ids = Array.from({ length: 22 }, (_, index) => String(index));
    let kills = 0;
    for (let steps = 0, finished = false; !finished; steps += 4) {
      const folder = join(root, String(steps));
      [store, queue] = [new MemoryStore(), new DirqQueue(folder)];
      const halted = stopping(steps);
      await storeGeneration(store, unit, 1, [...generationMessages(unit, 1), ...ids.map((id) => jobMessage([id]))]);
      await deliverAll(halted.store, halted.queue, { now: NOW }).catch(() => undefined);
      finished = !halted.stopped();
      kills += finished ? 0 : 1;
      await deliver();
      const found = (await queuedJobs()).filter((each) => each !== "");
      expect(found.toSorted()).toEqual(ids.toSorted());
      expect(await generations()).toHaveLength(ids.length + 2);
      expect(await store.list("outgoing/")).toEqual([]);
      expect(await store.list("spooled/")).toHaveLength(ids.length + 2);
    }
    expect(kills).toBeGreaterThan(25);
  }, 60_000);

  test("a message that was delivered and not yet moved is not sent again as new", async () => {
    const keys = await put(1);
    await deliver();
    await put(2);
    await deliver();
    await store.put(keys[0]!, generationMessages(unit, 1)[0]!.body);
    expect((await deliver()).rows).toEqual([[1, "summary", "already_there"]]);
    expect(await generations()).toEqual([2, 2]);
    expect(await store.list("outgoing/")).toEqual([]);
  });
});
