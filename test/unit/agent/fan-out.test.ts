import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { fanOut } from "../../../lib/agent/command/slot.ts";
import { runCommand } from "../../../lib/agent/command/run.ts";
import type { CommandResult } from "../../../lib/agent/command/types.ts";
import { command, ownSleep, processesWith, within } from "../../support/process-watch.ts";

const fine: CommandResult = { kind: "ok", seconds: 0, output: { stdout: "", stderr: "", exitCode: 0 } };
const numbers = (length: number) => Array.from({ length }, (_, index) => index);

test("gives one entry an item in their order, a few at a time", async () => {
  let atWork = 0;
  let most = 0;
  const work = async (item: number) => {
    most = Math.max(most, ++atWork);
    await sleep(10 - item);
    atWork--;
    return { ...fine, seconds: item };
  };
  const entries = await fanOut(numbers(10), work, { concurrency: 3, deadline: 10 });
  expect(entries).toStrictEqual(numbers(10).map((item) => ({ item, result: { ...fine, seconds: item } })));
  expect(most).toBe(3);
  expect(await fanOut([], work, { concurrency: 3, deadline: 10 })).toStrictEqual([]);
});

test("one container that hangs costs its own entry", async () => {
  const own = ownSleep();
  const work = (item: string) => runCommand(command(["sleep", item], { timeout: 0.3 })).settled;
  const entries = await fanOut(["0", own, "0.01", "0"], work, { concurrency: 2, deadline: 10 });
  expect(entries.map(({ result }) => result.kind)).toStrictEqual(["ok", "timeout", "ok", "ok"]);
  expect(await within(1_000, () => processesWith(own).length === 0)).toBe(true);
});

test("100 containers that hang take the one deadline, not a hundred timeouts; what was not started is a timeout", async () => {
  const own = ownSleep();
  let started = 0;
  const work = (_: number, left: number) => {
    started++;
    return runCommand(command(["sleep", own], { timeout: Math.min(0.2, left) })).settled;
  };
  const before = performance.now();
  const entries = await fanOut(numbers(100), work, { concurrency: 4, deadline: 0.5 });
  expect(performance.now() - before).toBeLessThan(800);
  expect(entries.map(({ item }) => item)).toStrictEqual(numbers(100));
  expect(new Set(entries.map(({ result }) => result.kind))).toStrictEqual(new Set(["timeout"]));
  expect(started).toBeGreaterThanOrEqual(8);
  expect(started).toBeLessThanOrEqual(12);
  expect(entries.at(-1)?.result).toStrictEqual({
    kind: "timeout",
    seconds: 0,
    detail: "it was not started within 0.5 s",
  });
  expect(await within(2_000, () => processesWith(own).length === 0)).toBe(true);
});

test("work that never ends is not awaited, and nothing is started after the deadline", async () => {
  let started = 0;
  const never = () => {
    started++;
    return new Promise<CommandResult>(() => undefined);
  };
  const entries = await fanOut(["a", "b", "c"], never, { concurrency: 2, deadline: 0.1 });
  await sleep(50);
  expect(started).toBe(2);
  expect(entries.map(({ result }) => result)).toMatchObject([
    { kind: "timeout", detail: "it had not ended when the 0.1 s for all were over" },
    { kind: "timeout" },
    { kind: "timeout", seconds: 0 },
  ]);
});

test.each([0, -1, Number.NaN, Infinity])("a deadline of %j is refused", async (deadline) => {
  await expect(fanOut([1], async () => fine, { concurrency: 1, deadline })).rejects.toMatchObject({
    code: "config_invalid",
    message: expect.stringContaining(`is ${deadline}. Nothing was started.`),
  });
});
