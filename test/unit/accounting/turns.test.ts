import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { questionLimit } from "../../../lib/accounting/model/split.ts";
import { stubMonitoring } from "../../support/stub-monitoring.ts";
import { DAY } from "./world.ts";

/** How many of four questions are under way when each begins; an answer takes so many seconds of the clock. */
async function underWay(days: number, seconds: number, withClock = true): Promise<number[]> {
  let now = 0;
  let open = 0;
  const found: number[] = [];
  const turn = questionLimit({ from: 0, to: days * DAY }, stubMonitoring(withClock ? { clock: () => now } : {}));
  const ask = async (): Promise<void> => {
    found.push((open += 1));
    await sleep(1);
    now += seconds;
    open -= 1;
  };
  await Promise.all([turn(ask), turn(ask), turn(ask), turn(ask)]);
  return found;
}

describe("what a daily run asks for comes one after the other, so that the server's cores are left to others", () => {
  test("as long as answers come quickly", async () => {
    expect(await underWay(2, 0.1)).toEqual([1, 1, 1, 1]);
  });

  test("after a slow answer all that is left is asked side by side", async () => {
    expect(await underWay(2, 2)).toEqual([1, 1, 2, 3]);
  });

  test("long windows are asked for side by side at once, and so is all where there is no clock", async () => {
    expect(await underWay(30, 0.1)).toEqual([1, 2, 3, 4]);
    expect(await underWay(2, 0.1, false)).toEqual([1, 2, 3, 4]);
  });

  test("after a failure nothing more is asked", async () => {
    const turn = questionLimit({ from: 0, to: DAY }, stubMonitoring({ clock: () => 0 }));
    let asked = 0;
    const all = Promise.all([
      turn(() => Promise.reject(new Error("no"))),
      turn(() => Promise.resolve((asked += 1))),
      turn(() => Promise.resolve((asked += 1))),
    ]);
    await expect(all).rejects.toThrow("no");
    await sleep(5);
    expect(asked).toBe(0);
  });
});
