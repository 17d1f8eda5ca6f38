// The rules of order and loss, judged by the one judge of all fault tests, of messages that go from a bucket to AMS.
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { messageKeys } from "../../../../lib/accounting/apel/replace-keys.ts";
import { deliveryOf, setDelivery } from "../../../../lib/accounting/delivery/ams-or-spool.ts";
import { deliverAll } from "../../../../lib/accounting/delivery/deliver.ts";
import { DirqQueue } from "../../../../lib/accounting/delivery/dirq.ts";
import { takeLease } from "../../../../lib/accounting/delivery/lease.ts";
import { sendOutgoing } from "../../../../lib/accounting/sending/bucket-sender.ts";
import { MemoryStore, type ObjectStore } from "../../../../lib/accounting/store/store.ts";
import { amsSender, startAmsSite } from "../../../support/ams-sender.ts";
import type { AmsFault, AmsRequest } from "../../../support/ams-server.ts";
import { logOf, spoolingViolations } from "../../../support/dirq-invariants.ts";
import { generationMessages, generationOf, storeGeneration, unit } from "../../../support/dirq-messages.ts";
import { verified } from "../../../support/smime.ts";

const site = await startAmsSite();
const { folder, authority, host, ams } = site;
afterAll(() => site.stop());
let store: MemoryStore;
let first: number;
beforeEach(async () => {
  ams.misbehave(() => undefined);
  store = new MemoryStore();
  await setDelivery(store, "ams");
  first = ams.published.length;
});

const other = { ...unit, month: "2024-12" };
const write = (generation: number, of = unit, vos?: readonly string[]) =>
  storeGeneration(store, of, generation, generationMessages(of, generation, vos));
const taken = () =>
  ams.published.slice(first).map(({ id, signed }) => ({ name: id, body: verified(signed, authority.caFile, "cms") }));
const generations = () => taken().map(({ body }) => generationOf(body));
const violations = async () => spoolingViolations(await logOf(store, taken()));

/** A lease of a program that is not seen to be gone: as of a function. */
const anywhere = { onHost: false };
async function send(of: ObjectStore = store, options: Partial<Parameters<typeof sendOutgoing>[2]> = {}) {
  const { sender, client } = amsSender(ams, authority, host);
  try {
    const report = await sendOutgoing(of, sender, { lease: anywhere, ...options });
    return { ...report, statuses: report.messages.map(({ status }) => status) };
  } finally {
    client.close();
  }
}
const publishing = (fault: (tries: number) => AmsFault | undefined) => {
  let tries = 0;
  ams.misbehave(({ what }: AmsRequest) => (what === "publish" ? fault((tries += 1)) : undefined));
};

test("what is outgoing is sent, newest generations only, and lies in sent/ with the id of AMS", async () => {
  await write(1);
  const second = await write(2);
  const keys = await write(7, other);
  const { statuses, errors, messages } = await send();
  expect([statuses.toSorted(), errors]).toEqual([["sent", "sent", "sent", "sent", "superseded", "superseded"], []]);
  expect(generations().toSorted((a, b) => a - b)).toEqual([2, 2, 7, 7]);
  expect(await store.list("outgoing/")).toEqual([]);
  for (const key of [...second, ...keys]) {
    const sent = key.replace("outgoing/", "sent/");
    expect(JSON.parse((await store.get(`${sent}.ams.json`))?.body ?? "")).toEqual({
      amsId: messages.find(({ message }) => message === key)?.amsId,
      at: "2025-02-03T00:00:00.000Z",
      host: "127.0.0.1",
      project: "accounting",
      topic: "gLite-APEL",
    });
    expect(taken().map(({ body }) => body)).toContain((await store.get(sent))?.body);
  }
  expect(await violations()).toEqual([]);
  expect(await send()).toMatchObject({ messages: [], errors: [] });
});

test("an answer that was lost after the message was taken: a newer generation goes before nothing else, or it is sent again", async () => {
  await write(1);
  publishing((tries) => (tries <= 4 ? { kind: "lost" } : undefined));
  const lost = await send();
  expect([lost.statuses, lost.errors]).toEqual([
    ["waiting", "waiting"],
    [expect.objectContaining({ code: "ams_unreachable" })],
  ]);
  await write(2);
  publishing(() => undefined);
  expect((await send()).statuses).toEqual(["superseded", "superseded", "sent", "sent"]);
  expect(generations()).toEqual([1, 1, 1, 1, 2, 2]);
  expect(await violations()).toEqual([]);
});

test.each<[string, AmsFault, string]>([
  ["500", { kind: "status", status: 500 }, "ams_unavailable"],
  ["503", { kind: "lost-status", status: 503 }, "ams_unavailable"],
  ["408", { kind: "status", status: 408 }, "ams_unavailable"],
  ["403", { kind: "status", status: 403 }, "ams_auth"],
  ["404", { kind: "status", status: 404 }, "ams_refused"],
  ["401", { kind: "status", status: 401 }, "ams_auth"],
  ["a web page", { kind: "text", text: "<html>" }, "ams_bad_answer"],
])("%s of AMS: all waits, and is sent when AMS is well", async (_, fault, code) => {
  await write(1);
  await write(1, other);
  publishing(() => fault);
  const failed = await send();
  expect(failed.statuses).toEqual(["waiting", "waiting", "waiting", "waiting"]);
  expect(failed.errors).toMatchObject([{ code }]);
  publishing(() => undefined);
  ams.endTokens();
  expect((await send()).statuses).toEqual(["sent", "sent", "sent", "sent"]);
  expect(await violations()).toEqual([]);
});

test("413 sets that message aside with the reason, and the rest goes on", async () => {
  const [summary = ""] = await write(1);
  publishing((tries) => (tries === 1 ? { kind: "status", status: 413 } : undefined));
  const { statuses, errors } = await send();
  expect([statuses, errors]).toEqual([["refused", "sent"], [expect.objectContaining({ code: "message_invalid" })]]);
  const refused = summary.replace("outgoing/", "refused/");
  expect((await store.get(`${refused}.reason`))?.body).toMatch(/answered 413/);
  expect((await store.get(refused))?.body).toBe(generationMessages(unit, 1)[0]!.body);
});

test("a token that ends in the middle loses and doubles nothing", async () => {
  await write(1, unit);
  await write(1, other);
  let published = 0;
  ams.misbehave(({ what }) => {
    if (what === "publish" && (published += 1) === 3) ams.endTokens();
    return undefined;
  });
  expect((await send()).statuses).toEqual(["sent", "sent", "sent", "sent"]);
  expect(taken()).toHaveLength(4);
});

describe("generations are compared with what went either way", () => {
  test("what was spooled is not sent, and nothing older than it", async () => {
    await write(3);
    const queue = new DirqQueue(join(folder, "queue"));
    await deliverAll(store, queue, { now: 1_738_540_800 });
    await write(2);
    const { statuses, messages } = await send();
    expect(statuses).toEqual(["refused", "refused"]);
    expect(messages[0]?.reason).toMatch(/generation 2 came after generation 3 was delivered/);
    expect(taken()).toEqual([]);
  });

  test("what was sent is not spooled, and nothing older than it", async () => {
    await write(3);
    await send();
    await write(2);
    const queue = new DirqQueue(join(folder, "queue-2"));
    const [report] = await deliverAll(store, queue, { now: 1_738_540_800 });
    expect(report?.messages.map(({ status }) => status)).toEqual(["refused", "refused"]);
  });

  test("20 generations are kept, with the ids of AMS", async () => {
    for (let generation = 1; generation <= 22; generation += 1) {
      await write(generation);
      await send();
    }
    const kept = (await store.list("sent/")).filter((key) => key.endsWith(".ams.json"));
    expect([kept.length, (await store.list("sent/")).length]).toEqual([40, 80]);
  }, 60_000);
});

describe("two senders", () => {
  test("at once: each unit is sent by one, once", async () => {
    await write(1);
    await write(1, other);
    const reports = await Promise.all([send(), send(), send()]);
    const statuses = reports.flatMap(({ statuses: each }) => each);
    expect(statuses.filter((status) => status === "sent")).toHaveLength(4);
    expect(taken()).toHaveLength(4);
    expect(await violations()).toEqual([]);
  });

  test("a unit that another one has waits, with its holder's name", async () => {
    await write(1);
    const taking = await takeLease(store, unit, anywhere);
    const { messages, errors } = await send();
    expect(errors).toEqual([]);
    expect(messages.map(({ status }) => status)).toEqual(["waiting", "waiting"]);
    expect(messages[0]?.reason).toMatch(
      /\(process \d+, .*delivers it, or was ended at it; free in 3\d\d s at the latest/,
    );
    if ("lease" in taking) await taking.lease.release();
    expect((await send()).statuses).toEqual(["sent", "sent"]);
  });

  test("one whose lease ran out meanwhile sends nothing more", async () => {
    await write(1);
    let steady = 0;
    const clocks = { wall: () => steady, steady: () => steady };
    ams.misbehave(async ({ what }) => {
      if (what !== "publish" || steady > 0) return undefined;
      // It hangs here longer than its lease; another one sends a newer generation.
      steady = 1000;
      await write(2);
      expect((await send(store, { lease: { onHost: false, clocks } })).statuses).toEqual([
        "superseded",
        "superseded",
        "sent",
        "sent",
      ]);
      return { kind: "status", status: 500 };
    });
    const { statuses, errors } = await send(store, { lease: { onHost: false, clocks } });
    expect(errors[0]).toMatchObject({ code: "lease_lost" });
    expect(statuses).toEqual(["waiting", "waiting"]);
    expect(generations()).toEqual([2, 2]);
    expect(await violations()).toEqual([]);
  });
});

test("a bucket whose messages are spooled is left alone", async () => {
  await write(1);
  await setDelivery(store, "spool");
  const { messages, errors } = await send();
  expect([messages, errors]).toEqual([[], [expect.objectContaining({ code: "delivery_elsewhere" })]]);
  expect([taken(), await deliveryOf(store)]).toEqual([[], "spool"]);
  expect(await store.list("outgoing/")).toHaveLength(2);
});

/** A store that dies at its n-th call: before it is carried out, or after, when the answer is lost. */
function dying(steps: number, after: boolean): { readonly store: ObjectStore; readonly died: () => boolean } {
  let left = steps;
  const step = async <T>(call: () => Promise<T>): Promise<T> => {
    left -= 1;
    if (left < 0 || (left === 0 && !after)) throw new Error("killed");
    const result = await call();
    if (left === 0) throw new Error("killed");
    return result;
  };
  return {
    store: {
      get: (key, most) => step(() => store.get(key, most)),
      put: (...args) => step(() => store.put(...args)),
      list: (prefix) => step(() => store.list(prefix)),
      remove: (key) => step(() => store.remove(key)),
    },
    died: () => left <= 0,
  };
}

test("killed at every step, before and after it: nothing is lost, and nothing older comes after newer", async () => {
  let generation = 0;
  let steps = 0;
  let wall = 1000;
  const lease = () => ({ onHost: false, clocks: { wall: () => wall, steady: () => wall } });
  for (const after of [false, true]) {
    for (steps = 1; ; steps += 1) {
      await write((generation += 1));
      if (steps % 3 === 0) await write((generation += 1));
      const { store: mortal, died } = dying(steps, after);
      const report = await send(mortal, { lease: lease() }).catch((error: unknown) => error);
      if (!died()) {
        expect(report).toMatchObject({ errors: [] });
        break;
      }
      expect(steps).toBeLessThan(100);
      // Only what runs out by itself lets the next one in.
      wall += 361;
      if (steps % 2 === 0) expect((await send(store, { lease: lease() })).errors).toEqual([]);
      wall += 361;
    }
    expect(steps).toBeGreaterThan(15);
  }
  await send(store, { lease: lease() });
  expect(await store.list("outgoing/")).toEqual([]);
  const keys = generationMessages(unit, 1).flatMap(({ body }) => messageKeys(body));
  const written = Array.from({ length: generation }, (_, index) => ({ keys, generation: index + 1 }));
  expect(spoolingViolations({ sent: taken(), written, generationOf })).toEqual([]);
}, 120_000);
