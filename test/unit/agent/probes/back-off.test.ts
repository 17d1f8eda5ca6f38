import { expect, test } from "vitest";
import { BackOff } from "../../../../lib/agent/probes/common/container-processes.ts";

/** The runs, of so many, in which each was searched for; `listed` are those missing in a run. */
const searches = (runs: number, listed: (run: number) => readonly string[]): Record<string, readonly number[]> => {
  const backOff = new BackOff();
  const sought: Record<string, number[]> = {};
  for (let run = 0; run < runs; run += 1) {
    const due = backOff.due(listed(run));
    for (const id of due) (sought[id] ??= []).push(run);
    backOff.missed(due);
  }
  return sought;
};

test("what is never found is searched for after 1, 2, 4, 8 and then each 10 runs", () => {
  expect(searches(50, () => ["a"])).toEqual({ a: [0, 1, 3, 7, 15, 25, 35, 45] });
});

test("each has its own intervals, which begin again once it was found or has gone", () => {
  const sought = searches(20, (run) => [...(run === 12 ? [] : ["a"]), ...(run < 5 ? [] : ["b"])]);
  expect(sought).toEqual({ a: [0, 1, 3, 7, 13, 14, 16], b: [5, 6, 8, 12] });
});

test("what was due but not searched for is due in the next run too", () => {
  const backOff = new BackOff();
  expect(backOff.due(["a"])).toEqual(["a"]);
  expect(backOff.due(["a"])).toEqual(["a"]);
  backOff.missed(["a"]);
  expect(backOff.due(["a"])).toEqual(["a"]);
});
