import { expect, test } from "vitest";
import { messageKeys } from "../../../lib/apel/keys.ts";
import { spoolingViolations } from "../../support/dirq-invariants.ts";
import { generationOf, summaryBody, unit } from "../../support/dirq-messages.ts";

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
