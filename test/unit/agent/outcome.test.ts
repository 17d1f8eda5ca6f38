import { expect, test } from "vitest";
import { Outcome } from "../../../lib/agent/command/run.ts";

const ok = { kind: "ok", output: { stdout: "", stderr: "", exitCode: 0 } } as const;

test("the first ending counts, with the time it took", async () => {
  const outcome = new Outcome(5);
  expect(outcome.isSettled).toBe(false);
  outcome.settle(ok);
  outcome.settle({ kind: "killed", detail: "too late" });
  expect(outcome.isSettled).toBe(true);
  expect(await outcome.settled).toStrictEqual({ ...ok, seconds: expect.closeTo(0, 1) });
});

test("a deadline that is missed is a timeout, and a later ending is ignored", async () => {
  // What is left of a run's time is no round number.
  const outcome = new Outcome(0.049_984_128_299_999_6);
  const result = await outcome.settled;
  outcome.settle(ok);
  expect(await outcome.settled).toBe(result);
  expect(result).toStrictEqual({
    kind: "timeout",
    seconds: expect.closeTo(0.05, 1),
    detail: "it had not ended after 0.05 s",
  });
});

test("an ending seen after the deadline is a timeout, even before the timer fires", async () => {
  const outcome = new Outcome(0.02);
  for (const until = performance.now() + 40; performance.now() < until;);
  expect(outcome.isSettled).toBe(false);
  outcome.settle(ok);
  expect(await outcome.settled).toMatchObject({ kind: "timeout" });
});

test("a run that has not ended has not gone", async () => {
  const outcome = new Outcome(0.02);
  const pending = Promise.resolve("pending");
  await outcome.settled;
  expect(await Promise.race([outcome.gone, pending])).toBe("pending");
  outcome.leave();
  expect(await outcome.gone).toBeUndefined();
});
