import { expect, test } from "vitest";
import { listOutgoing, parseOutgoingKey, unitPrefix } from "../../../../lib/accounting/delivery/outgoing.ts";
import { MemoryStore } from "../../../../lib/accounting/store/store.ts";
import { generationMessages, unit, storeGeneration } from "../../../support/dirq-messages.ts";

test("keys tell unit, generation and kind, and sort by generation", async () => {
  const store = new MemoryStore();
  const keys = await storeGeneration(store, unit, 12, generationMessages(unit, 12));
  expect(keys).toEqual([
    expect.stringMatching(
      /^outgoing\/Some-Site\/k8s\.example\.org=3A6443=2Fgrid\/2025-01\/0000000012-summary-[0-9a-f]{32}$/,
    ),
    expect.stringMatching(/\/0000000012-sync-[0-9a-f]{32}$/),
  ]);
  expect(parseOutgoingKey(keys[0]!)).toEqual({
    key: keys[0],
    unit,
    generation: 12,
    kind: "summary",
    hash: keys[0]!.slice(-32),
  });
  expect(keys.every((key) => key.startsWith(unitPrefix(unit)))).toBe(true);
});

test("the same generation again is the same objects; a later one is another", async () => {
  const store = new MemoryStore();
  const first = await storeGeneration(store, unit, 2, generationMessages(unit, 2));
  expect(await storeGeneration(store, unit, 2, generationMessages(unit, 2))).toEqual(first);
  await storeGeneration(store, unit, 10, generationMessages(unit, 2));
  await store.put("outgoing/strange", "");
  const other = { ...unit, site: "Other" };
  await storeGeneration(store, other, 1, generationMessages(other, 1));
  const { units, strange } = await listOutgoing(store);
  expect(strange).toEqual(["outgoing/strange"]);
  expect(
    units.map((held) => [held.unit.site, held.generations.map(({ generation, keys }) => [generation, keys.length])]),
  ).toEqual([
    ["Other", [[1, 2]]],
    [
      "Some-Site",
      [
        [2, 2],
        [10, 2],
      ],
    ],
  ]);
});

test("one bad message, and none of the generation is stored", async () => {
  const store = new MemoryStore();
  const [good, sync] = generationMessages(unit, 1);
  const bad = { ...sync!, body: sync!.body.replace("Year: 2025", "Year: soon") };
  const attempt = storeGeneration(store, unit, 1, [good!, bad]);
  await expect(attempt).rejects.toMatchObject({ code: "message_invalid", exit: 2 });
  await expect(attempt).rejects.toThrow(/sync message for Some-Site.*"soon"/s);
  expect(await store.list("")).toEqual([]);
});

test("nothing is stored but what was checked, and all of it is or it throws", async () => {
  const store = new MemoryStore();
  const once = generationMessages(unit, 1)[Symbol.iterator]();
  await expect(storeGeneration(store, unit, 1, { [Symbol.iterator]: () => once })).rejects.toThrow("fewer messages");
  let generation = 1;
  const other = { [Symbol.iterator]: () => generationMessages(unit, generation++)[Symbol.iterator]() };
  await expect(storeGeneration(store, unit, 1, other)).rejects.toThrow("another one than was checked");
  expect(await store.list("")).toEqual([]);
});

test.each([
  "state/Some-Site/host/2025-01/0000000001-summary-00000000000000000000000000000000",
  "outgoing/Some-Site/host/2025-1/0000000001-summary-00000000000000000000000000000000",
  "outgoing/Some-Site/host/2025-01/1-summary-00000000000000000000000000000000",
  "outgoing/Some-Site/host/2025-01/0000000001-summary-short",
  "outgoing/Some=zz/host/2025-01/0000000001-summary-00000000000000000000000000000000",
  "outgoing/Some-Site/host/2025-01/0000000001-summary-00000000000000000000000000000000/more",
])("%s is no outgoing key", (key) => {
  expect(parseOutgoingKey(key)).toBeUndefined();
});
