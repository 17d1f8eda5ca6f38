import { expect, test } from "vitest";
import { Slot, SlotPerKey } from "../../../lib/agent/command/slot.ts";
import { command, ownSleep, processesWith, script } from "../../support/process-watch.ts";

test("a slot is free as soon as the result of a command that ended by itself is known", async () => {
  const slot = new Slot();
  for (let run = 0; run < 20; run++) {
    expect(await slot.run(command(["true"]))).toMatchObject({ kind: "ok" });
    expect(slot.busy).toBe(false);
  }
  expect(await slot.run(command(["gridmeter-no-such-command"]))).toMatchObject({ kind: "not_found" });
  expect(await slot.run(command(["false"]))).toMatchObject({ kind: "exit_nonzero" });
});

test("a second start while the first is at work is skipped, and starts nothing", async () => {
  const slot = new Slot();
  const own = ownSleep();
  const first = slot.run(command(["sleep", own], { timeout: 0.3 }));
  const second = slot.run(command(["sleep", own], { timeout: 0.3 }));
  expect(await second).toStrictEqual({
    kind: "skipped_in_flight",
    seconds: 0,
    detail: "an earlier sleep has not gone yet",
  });
  expect(slot.overdue).toBe(false);
  expect(await first).toMatchObject({ kind: "timeout" });
  expect(processesWith(own).length).toBeLessThanOrEqual(1);
});

test("a child in its grace keeps the slot, but is not stuck", async () => {
  const slot = new Slot();
  const own = ownSleep();
  const deaf = script(`trap "" TERM; sleep ${own}; sleep ${own}`, { timeout: 0.2 });
  expect(await slot.run(deaf, { grace: 0.3 })).toMatchObject({ kind: "timeout" });
  expect([slot.busy, slot.overdue, slot.stuck]).toStrictEqual([true, true, 0]);
  expect(await slot.run(deaf)).toMatchObject({ kind: "skipped_in_flight" });
  await expect.poll(() => slot.busy, { timeout: 2_000 }).toBe(false);
  expect([slot.overdue, slot.stuck]).toStrictEqual([false, 0]);
  expect(processesWith(own)).toStrictEqual([]);
});

test("a command without limits leaves the slot free", async () => {
  const slot = new Slot();
  expect(() => slot.run(command(["true"], { timeout: 0 }))).toThrow("timeout of the command true is 0");
  expect(await slot.run(command(["true"]))).toMatchObject({ kind: "ok" });
});

test("keys have slots of their own, as long as not too many children are overdue", async () => {
  const slots = new SlotPerKey(2);
  const own = ownSleep();
  const deaf = script(`trap "" TERM; sleep ${own}; sleep ${own}`, { timeout: 0.2 });
  const options = { grace: 0.5 };
  const results = await Promise.all(["a", "b", "c"].map((key) => slots.run(key, deaf, options)));
  expect(results.map(({ kind }) => kind)).toStrictEqual(["timeout", "timeout", "timeout"]);
  expect(await slots.run("d", command(["true"]))).toStrictEqual({
    kind: "skipped_in_flight",
    seconds: 0,
    detail: "3 earlier true have not gone yet",
  });
  await expect.poll(() => processesWith(own).length, { timeout: 2_000 }).toBe(0);
  await expect.poll(() => slots.run("d", command(["true"])), { timeout: 2_000 }).toMatchObject({ kind: "ok" });
  expect(slots.stuck).toBe(0);
});
