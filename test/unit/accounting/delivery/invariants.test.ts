import { expect, test } from "vitest";
import { messageKeys } from "../../../../lib/accounting/apel/replace-keys.ts";
import { writeState } from "../../../../lib/accounting/publishing/state.ts";
import { MemoryStore } from "../../../../lib/accounting/store/store.ts";
import { logOf, queueViolations, spoolingViolations } from "../../../support/dirq-invariants.ts";
import {
  generationMessages,
  generationOf,
  summary,
  summaryBody,
  unit,
  storeGeneration,
} from "../../../support/dirq-messages.ts";

// The judge of the kill tests is itself judged: it must see each fault.
const sent = (...generations: number[]) => generations.map((n) => ({ name: `n${n}`, body: summaryBody(unit, n) }));
const written = (generation: number) => [{ keys: messageKeys(summaryBody(unit, 1)), generation }];
const judge = (log: Partial<Parameters<typeof spoolingViolations>[0]>) =>
  spoolingViolations({ sent: [], written: [], generationOf, ...log });

test("ascending and repeated generations are fine", () => {
  expect(judge({ sent: sent(1, 2, 2, 5), written: written(4) })).toEqual([]);
});

test("an older one after a newer one is seen", () => {
  expect(judge({ sent: sent(1, 3, 2) })).toEqual([expect.stringContaining("generation 2 after 3")]);
});

test("a lost one is seen", () => {
  expect(judge({ sent: sent(1, 2), written: written(3) })).toEqual([expect.stringContaining("was written and lost")]);
  expect(judge({ written: written(1) })).toHaveLength(1);
});

test("a torn one is seen", () => {
  const body = summaryBody(unit, 1).slice(0, 120);
  expect(judge({ sent: [{ name: "n", body }] })).toEqual([expect.stringContaining("torn")]);
  expect(judge({ sent: [{ name: "n", body: "" }] })).toHaveLength(1);
});

test("two generations in the queue at once are seen", () => {
  const other = { ...unit, month: "2024-12" };
  expect(queueViolations([summaryBody(unit, 1), summaryBody(unit, 1), summaryBody(other, 2)], generationOf)).toEqual(
    [],
  );
  expect(queueViolations([summaryBody(unit, 1), summaryBody(unit, 2)], generationOf)).toHaveLength(1);
});

test("one that nobody published is seen", () => {
  expect(judge({ sent: sent(1), generationOf: () => [] })).toEqual([expect.stringContaining("never published")]);
});

test("of generations with one text it is the one that fits", () => {
  const texts = (body: string) => (generationOf(body) === 1 ? [1, 3] : generationOf(body));
  expect(judge({ sent: sent(1, 2, 1), written: written(3), generationOf: texts })).toEqual([]);
  expect(judge({ sent: sent(1), written: written(3), generationOf: texts })).toEqual([]);
  expect(judge({ sent: sent(1, 2), written: written(3), generationOf: texts })).toHaveLength(1);
  expect(judge({ sent: sent(1, 4, 1), generationOf: texts })).toEqual([
    expect.stringContaining("generation 3 after 4"),
  ]);
});

test("what was written is what the store's objects say, wherever they are, and what its states say", async () => {
  const store = new MemoryStore();
  const judged = async (...generations: number[]) => {
    const texts = generations.flatMap((n) => generationMessages(unit, n).map(({ body }) => ({ name: `n${n}`, body })));
    return spoolingViolations(await logOf(store, texts, [unit.month]));
  };
  for (const generation of [1, 2]) await storeGeneration(store, unit, generation, generationMessages(unit, generation));
  expect(await judged(1, 2)).toEqual([]);
  expect(await judged(2)).toEqual([]);
  expect(await judged(1)).toHaveLength(2);
  for (const key of await store.list("outgoing/")) {
    await store.put(key.replace("outgoing/", "refused/"), (await store.get(key))!.body);
    await store.remove(key);
  }
  expect(await judged(1)).toHaveLength(2);
  expect(await judged(2)).toEqual([]);
  const publication = { generation: 3, at: 1, hash: "", figures: [], individual: {} };
  const published = { ...publication, records: [summary(unit, 3)], sync: 3 };
  await writeState(store, { unit, generation: 3, pins: [], known: [], published }, undefined);
  expect(await judged(2)).toEqual([
    expect.stringMatching(/generation 3 of summary.* written and lost/),
    expect.stringMatching(/generation 3 of sync.* written and lost/),
  ]);
});
