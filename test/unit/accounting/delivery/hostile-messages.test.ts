import { join } from "node:path";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openState } from "../../../../lib/accounting/publishing/publish.ts";
import { stateKey } from "../../../../lib/accounting/publishing/state.ts";
import type { Unit } from "../../../../lib/accounting/model/tenant.ts";
import { MemoryStore } from "../../../../lib/accounting/store/store.ts";
import { writeMessages } from "../../../../lib/accounting/apel/write.ts";
import { DirqQueue } from "../../../../lib/accounting/delivery/dirq.ts";
import {
  LAST_GENERATION,
  bodyHash,
  contentFault,
  parseOutgoingKey,
  unitPrefix,
} from "../../../../lib/accounting/delivery/outgoing.ts";
import { deliverAll } from "../../../../lib/accounting/delivery/deliver.ts";
import { at } from "../../../support/dirq-contract.ts";
import {
  NOW,
  generationMessages,
  generationOf,
  summary,
  summaryBody,
  sync,
  unit,
  storeGeneration,
} from "../../../support/dirq-messages.ts";
import { scratchDirectory } from "../../../support/store-script.ts";

let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let store: MemoryStore;
let queue: DirqQueue;
beforeEach(async () => {
  scratch = await scratchDirectory();
  store = new MemoryStore();
  queue = new DirqQueue(join(scratch.path, "queue"));
});
afterEach(() => scratch.remove());

const keyOf = (of: Unit, generation: number | string, kind: string, body: string) =>
  `${unitPrefix(of)}${String(generation).padStart(10, "0")}-${kind}-${bodyHash(body)}`;
async function forge(of: Unit, generation: number | string, kind: string, body: string): Promise<string> {
  const key = keyOf(of, generation, kind, body);
  await store.put(key, body);
  return key;
}
const deliver = async () => (await deliverAll(store, queue, { now: NOW })).flatMap(({ messages }) => messages);
const queued = () =>
  at(queue, async (open) => Promise.all((await open.list()).map(async ({ read }) => (await read())!)));
const generations = async () => (await queued()).map(generationOf);

const other: Unit = { ...unit, site: "S9", submitHost: "h9" };
const genuine = () => storeGeneration(store, unit, 7, generationMessages(unit, 7));

describe("the key must say what the records say", () => {
  test.each([
    ["another unit's rows", other, 8, "summary", summaryBody(unit, 8)],
    ["another site's", { ...unit, site: "S9" }, 8, "summary", summaryBody(unit, 8)],
    ["another submit host's", { ...unit, submitHost: "h9" }, 8, "summary", summaryBody(unit, 8)],
    ["another month's", { ...unit, month: "2024-12" }, 8, "summary", summaryBody(unit, 8)],
    ["a site in other letters", { ...unit, site: unit.site.toUpperCase() }, 8, "summary", summaryBody(unit, 8)],
    ["a summary as single jobs", unit, 3, "individual", summaryBody(unit, 3)],
    ["a summary as a sync record", unit, 8, "sync", summaryBody(unit, 8)],
    [
      "one foreign row among its own",
      unit,
      8,
      "summary",
      writeMessages([summary(unit, 8), summary({ ...unit, submitHost: "h9" }, 8)], "summary-0.2")[0]!.body,
    ],
  ])("%s: refused by name, and the genuine message stays in the queue", async (_name, of, generation, kind, body) => {
    await genuine();
    await deliver();
    const key = await forge(of, generation, kind, body);
    expect(await deliver()).toEqual([{ key, status: "refused", reason: expect.stringMatching(/as its key says$/) }]);
    expect(await generations()).toEqual([7, 7]);
    expect((await store.get(`${key.replace("outgoing/", "refused/")}.reason`))?.body).toMatch(/as its key says\n$/);
  });

  test.each(["9999999999", LAST_GENERATION + 1, "0"])("generation %s shuts out nothing", async (generation) => {
    const key = await forge(unit, generation, "summary", summaryBody(unit, 9));
    expect(await deliver()).toEqual([{ key, status: "refused", reason: "its key is none that gridmeter makes" }]);
    await genuine();
    expect(await deliver()).toMatchObject([{ status: "delivered" }, { status: "delivered" }]);
    expect((await openState({ store, outbox: store }, unit, NOW, () => undefined)).state.generation).toBe(7);
  });

  test.each(["2026-13", "2026-00", "2026-1", "26-01"])("month %s is none", async (month) => {
    const key = await forge({ ...unit, month }, 1, "summary", summaryBody(unit, 1));
    expect(await deliver()).toMatchObject([{ key, status: "refused" }]);
  });

  test("drawn: only where site, submit host, month and kind are all the key's", () => {
    const name = fc.constantFrom("S1", "S9", "none ", "h:1/x", "None");
    const units = fc.record({ site: name, submitHost: name, month: fc.constantFrom("2025-01", "2024-12", "2024-01") });
    const kind = fc.constantFrom("summary", "normalised", "individual", "sync");
    fc.assert(
      fc.property(units, units, kind, kind, (said, holds, saidKind, holdsKind) => {
        fc.pre(holds.site.trim() === holds.site && holds.submitHost.trim() === holds.submitHost);
        fc.pre(holds.site !== "None" && (holdsKind === "summary" || holdsKind === "sync"));
        const record = holdsKind === "sync" ? sync(holds, 1) : summary(holds, 1);
        const [message] = writeMessages([record], "summary-0.2");
        const fits = JSON.stringify([said, saidKind]) === JSON.stringify([holds, holdsKind]);
        expect(contentFault({ unit: said, kind: saidKind }, message!.body, NOW) === undefined).toBe(fits);
      }),
    );
  });

  test("keys: any generation up to the last, and no further", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 9_999_999_999 }), (generation) => {
        const parsed = parseOutgoingKey(keyOf(unit, generation, "summary", "x"));
        expect(parsed?.generation).toBe(generation >= 1 && generation <= LAST_GENERATION ? generation : undefined);
      }),
    );
  });

  test("nothing else is stored either: what would be refused is refused before", async () => {
    const messages = [{ kind: "summary", body: summaryBody(unit, 1) }];
    await expect(storeGeneration(store, other, 1, messages)).rejects.toMatchObject({
      code: "message_invalid",
      message: expect.stringMatching(/belongs to .* as its key says\. Nothing was published for it/),
    });
    expect(await store.list("")).toEqual([]);
  });

  test("a lost state is recovered from genuine messages only, and the others are named", async () => {
    await genuine();
    await forge(unit, 8, "summary", summaryBody({ ...unit, site: "S9" }, 8));
    await forge(unit, 9, "summary", "x\n".repeat(1000));
    await store.put(stateKey(unit), JSON.stringify({ unit, generation: 9_999_999_999, pins: [], known: [] }));
    const damaged: string[] = [];
    const { state } = await openState({ store, outbox: store }, unit, NOW, ({ what }) => void damaged.push(what));
    expect(state.known.map(({ site, numberOfJobs }) => [site, numberOfJobs])).toEqual([[unit.site, 7]]);
    expect(damaged).toEqual([
      expect.stringMatching(/9999999/),
      expect.stringMatching(/belongs to .*S9/),
      expect.stringMatching(/breaks APEL's rules/),
    ]);
  });
});

describe("one bad message holds up nothing", () => {
  test("234,000 bad lines are refused, and the rest of the unit goes", async () => {
    const key = await forge(unit, 6, "summary", `APEL-summary-job-message: v0.2\n${"x\n".repeat(234_000)}%%\n`);
    await genuine();
    const [refused, ...others] = (await deliver()).toSorted((a, b) => (a.status < b.status ? 1 : -1));
    expect(refused).toMatchObject({ key, status: "refused", reason: expect.stringMatching(/and \d{6} more$/) });
    expect(others.map(({ status }) => status)).toEqual(["delivered", "delivered"]);
  });

  test("an object of 20 MB is not read: it is named and left as it is, wherever it lies", async () => {
    const large = "x".repeat(20_000_000);
    const keys = [await forge(unit, 8, "summary", large), "outgoing/stray"];
    await store.put("outgoing/stray", large);
    await genuine();
    const messages = await deliver();
    const refused = messages.filter(({ status }) => status === "refused");
    expect(refused.map(({ key }) => key)).toEqual(keys);
    for (const { reason } of refused) expect(reason).toMatch(/has 20000000 bytes or more.*left as it is/);
    expect(messages.filter(({ status }) => status === "delivered")).toHaveLength(2);
    expect(await store.list("outgoing/")).toEqual(keys);
  });

  test("a stray key as long as can be is set aside under a name that fits", async () => {
    const key = `outgoing/${"a/".repeat(500)}a`;
    await store.put(key, "x");
    expect(await deliver()).toMatchObject([{ key, status: "refused" }]);
    const [kept, reason] = await store.list("refused/");
    expect(kept).toMatch(/^refused\/long\/[0-9a-f]{64}$/);
    expect((await store.get(reason!))?.body).toContain(key);
  });

  test("a stray object that cannot be read is named, and the units go", async () => {
    class Archived extends MemoryStore {
      override async get(key: string, most?: number) {
        if (key === "outgoing/archived") throw new Error("InvalidObjectState");
        return super.get(key, most);
      }
    }
    store = new Archived();
    await store.put("outgoing/archived", "x");
    await genuine();
    expect(await deliver()).toMatchObject([
      { status: "delivered" },
      { status: "delivered" },
      { key: "outgoing/archived", status: "waiting", reason: expect.stringMatching(/InvalidObjectState/) },
    ]);
  });
});
