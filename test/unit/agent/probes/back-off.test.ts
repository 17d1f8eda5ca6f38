import { expect, test } from "vitest";
import { BackOff } from "../../../../lib/agent/probes/common/container-processes.ts";

/** The runs, of so many, in which each was sought; `listed` are those missing in a run. */
const turns = (runs: number, listed: (run: number) => readonly string[]): Record<string, readonly number[]> => {
  const backOff = new BackOff();
  const sought: Record<string, number[]> = {};
  for (let run = 0; run < runs; run += 1) {
    const due = backOff.due(listed(run));
    for (const id of due) (sought[id] ??= []).push(run);
    backOff.missed(due);
  }
  return sought;
};

test("what is never found is sought after 1, 2, 4, 8 and then each 10 runs", () => {
  expect(turns(50, () => ["a"])).toEqual({ a: [0, 1, 3, 7, 15, 25, 35, 45] });
});

test("each waits by itself, and starts anew once it was found or has gone", () => {
  const sought = turns(20, (run) => [...(run === 12 ? [] : ["a"]), ...(run < 5 ? [] : ["b"])]);
  expect(sought).toEqual({ a: [0, 1, 3, 7, 13, 14, 16], b: [5, 6, 8, 12] });
});

test("what was not sought although it was its turn has it in the next run too", () => {
  const backOff = new BackOff();
  expect(backOff.due(["a"])).toEqual(["a"]);
  expect(backOff.due(["a"])).toEqual(["a"]);
  backOff.missed(["a"]);
  expect(backOff.due(["a"])).toEqual(["a"]);
});
