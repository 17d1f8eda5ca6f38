import { expect, test } from "vitest";
import { sleep, within } from "../../../lib/shared/time-limit.ts";

const never = new Promise<string>(() => undefined);

test("work that ends in time gives what it comes to, a failure too", async () => {
  expect(await within(5, Promise.resolve("done"), "late")).toBe("done");
  await expect(within(5, Promise.reject(new Error("broken")), "late")).rejects.toThrow("broken");
});

test("work that does not end in time gives the other value, at the limit", async () => {
  const started = performance.now();
  expect(await within(0.05, never, "late")).toBe("late");
  expect(performance.now() - started).toBeGreaterThanOrEqual(48);
});

test("a failure after the limit is ignored", async () => {
  const failing = sleep(0.02, new AbortController().signal).then(() => {
    throw new Error("too late");
  });
  expect(await within(0.001, failing, "late")).toBe("late");
  await sleep(0.04, new AbortController().signal);
});

test("the wait ends early when it is stopped", async () => {
  const stop = new AbortController();
  const result = within(1e9, never, "late", { stop: stop.signal });
  stop.abort();
  expect(await result).toBe("late");
});
