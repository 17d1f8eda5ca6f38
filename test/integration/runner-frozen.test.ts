import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { killAll } from "../../lib/agent/command/run.ts";
import { Slot, SlotPerKey } from "../../lib/agent/command/slot.ts";
import { freezeFileSystem } from "../support/process-frozen.ts";
import { allProcesses, command, processesWith, script, within } from "../support/process-watch.ts";

/** All of it in one test: a frozen file system stops every sync() of the machine, so it is not kept frozen for long. */
test("a child in uninterruptible sleep is not awaited, not doubled, counted, and its slot is free after the thaw", async (context) => {
  const frozen = freezeFileSystem();
  if (typeof frozen === "string") return context.skip(frozen);
  try {
    const touch = command(["touch", `${frozen.path}/file`], { timeout: 0.5 });
    // A wrapper that dies of TERM leaves the one that hangs: nothing may be started in its place either.
    const wrapped = script(`touch ${frozen.path}/wrapped; true`, { timeout: 0.5 });
    const slot = new Slot();
    const keyed = new SlotPerKey(1);

    const started = performance.now();
    const results = await Promise.all([slot.run(touch), keyed.run("a", wrapped)]);
    expect(performance.now() - started).toBeLessThan(700);
    expect(results).toMatchObject([{ kind: "timeout" }, { kind: "timeout" }]);
    expect([slot.stuck, keyed.stuck]).toStrictEqual([0, 0]); // TERM and KILL are still to come

    expect(await slot.run(touch)).toStrictEqual({
      kind: "skipped_in_flight",
      seconds: 0,
      detail: "an earlier touch has not gone yet",
    });
    await sleep(3_200);
    expect([slot.stuck, keyed.stuck]).toStrictEqual([1, 1]);
    const hanging = processesWith(frozen.path);
    expect(hanging).toHaveLength(2);
    expect(await slot.run(touch)).toMatchObject({ kind: "skipped_in_flight" });
    expect(await keyed.run("a", wrapped)).toMatchObject({ kind: "skipped_in_flight" });
    expect(await keyed.run("b", wrapped)).toStrictEqual({
      kind: "skipped_in_flight",
      seconds: 0,
      detail: "1 earlier /bin/sh have not gone yet",
    });
    expect(new Set(processesWith(frozen.path))).toStrictEqual(new Set(hanging));

    const ending = performance.now();
    await killAll("the test ends", 0.5);
    expect(performance.now() - ending).toBeLessThan(1_000);

    frozen.thaw();
    expect(await within(2_500, () => !slot.busy && keyed.stuck === 0)).toBe(true);
    expect(slot.stuck).toBe(0);
    expect(allProcesses().filter(({ pid, alive }) => alive && hanging.includes(pid))).toStrictEqual([]);
    expect(await slot.run(touch)).toMatchObject({ kind: "ok" });
    expect(await keyed.run("a", wrapped)).toMatchObject({ kind: "ok" });
  } finally {
    frozen.remove();
  }
});
