import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { runCommand } from "../../lib/agent/command/run.ts";
import {
  killLeftovers,
  milliseconds,
  ownSleep,
  ownZombies,
  processesWith,
  script,
  within,
} from "../support/process-watch.ts";
import { rounds } from "../support/size.ts";

const IN_A_ROW = rounds(50);

const TIMEOUT = 0.5;
/** Two cores are shared with other tests: a figure that is missed counts only if it is missed again. */
const TIMED = { retry: 3 };

let own = ownSleep();
afterEach(() => {
  killLeftovers(own);
  own = ownSleep();
});

/** `SLEEP` stands for a sleep of a minute that only this test uses. */
const HANGING: Readonly<Record<string, string>> = {
  "just sleeps": "exec SLEEP",
  "ignores TERM": 'trap "" TERM; while :; do SLEEP; done',
  "waits for a grandchild": "SLEEP; true",
  "has a grandchild that holds stdout": "SLEEP & SLEEP",
  "has a grandchild that holds stdout and ignores TERM": '(trap "" TERM; SLEEP) & SLEEP',
  "has a grandchild in a new session": "setsid SLEEP & SLEEP",
  "has a grandchild in a new session that ignores TERM": '(trap "" TERM; exec setsid SLEEP) & SLEEP',
  "has a grandchild in a new session with an empty environment": "env -i setsid SLEEP & SLEEP",
  "has a family that ignores TERM in sessions of their own":
    'trap "" TERM; setsid sh -c "SLEEP & setsid SLEEP & wait; true" & SLEEP; SLEEP',
  "forked a daemon": "(setsid SLEEP </dev/null >/dev/null 2>&1 &); SLEEP",
  "closes stdout and stderr and sleeps": "exec >&- 2>&-; SLEEP; true",
  "is stopped": "kill -STOP $$; SLEEP",
  "starts a new grandchild whenever one is killed": 'trap "" TERM; while :; do sh -c "SLEEP; true"; done',
  "exits 0 on TERM": 'trap "exit 0" TERM; SLEEP & wait',
  "prints what was wanted, and does not end": "echo 1,2,3; exec SLEEP",
};

describe("a command that does not end", () => {
  test.each(Object.entries(HANGING))("%s: timeout at 500 ms, nothing left after 3 s", TIMED, async (_, text) => {
    const started = performance.now();
    const { settled, gone } = runCommand(script(text.replaceAll("SLEEP", `sleep ${own}`), { timeout: TIMEOUT }));
    const leaving = milliseconds(gone, started);
    const result = await settled;
    const settledAfter = performance.now() - started;
    expect(result).toStrictEqual({
      kind: "timeout",
      seconds: expect.closeTo(TIMEOUT, 1),
      detail: "it had not ended after 0.5 s",
    });
    expect(settledAfter).toBeGreaterThan(495);
    expect(settledAfter).toBeLessThan(600);
    expect(await within(3_000 - settledAfter, () => processesWith(own).length === 0)).toBe(true);
    expect(await leaving).toBeLessThan(3_200);
  });

  test("may clean up on TERM", async () => {
    const folder = mkdtempSync(join(tmpdir(), "gridmeter-runner-"));
    try {
      const text = `trap 'echo cleaning; sleep 0.2; echo clean > ${folder}/mark; exit' TERM; sleep ${own} & wait`;
      const { settled, gone } = runCommand(script(text, { timeout: TIMEOUT }));
      expect(await settled).toMatchObject({ kind: "timeout" });
      await gone;
      expect(readFileSync(join(folder, "mark"), "utf8")).toBe("clean\n");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test("is KILLed after the grace that was asked for", TIMED, async () => {
    const started = performance.now();
    const text = `trap "" TERM; sleep ${own}; sleep ${own}`;
    const { gone } = runCommand(script(text, { timeout: 0.2 }), { grace: 0.3 });
    const after = await milliseconds(gone, started);
    expect(after).toBeGreaterThan(490);
    expect(after).toBeLessThan(900);
  });

  test(`leaves nothing behind after ${IN_A_ROW} timeouts in a row: no orphan, no zombie, no open file`, async () => {
    const openFiles = () => readdirSync("/proc/self/fd").length;
    const before = openFiles();
    const text = `sleep ${own} & setsid sleep ${own} & (setsid sleep ${own} >/dev/null 2>&1 &); sleep ${own}`;
    for (let run = 0; run < IN_A_ROW; run++) {
      const { settled, gone } = runCommand(script(text, { timeout: 0.1 }));
      expect(await settled).toMatchObject({ kind: "timeout" });
      await gone;
    }
    expect(processesWith(own)).toStrictEqual([]);
    expect(ownZombies()).toBe(0);
    expect(openFiles()).toBeLessThanOrEqual(before + 2);
  });

  test("50 at a time leave nothing behind either", async () => {
    const text = `setsid sleep ${own} & sleep ${own}`;
    const runs = Array.from({ length: 50 }, () => runCommand(script(text, { timeout: TIMEOUT })));
    const kinds = await Promise.all(runs.map(({ settled }) => settled.then(({ kind }) => kind)));
    expect(new Set(kinds)).toStrictEqual(new Set(["timeout"]));
    await Promise.all(runs.map(({ gone }) => gone));
    expect(processesWith(own)).toStrictEqual([]);
    expect(ownZombies()).toBe(0);
  });
});

describe("a result that comes too late", () => {
  test("is a timeout though the command exits 0 a moment after the deadline", async () => {
    const { settled, gone } = runCommand(script("trap '' TERM; sleep 0.6; echo late; exit 0", { timeout: 0.4 }));
    expect(await settled).toMatchObject({ kind: "timeout" });
    await gone;
    expect(await settled).toMatchObject({ kind: "timeout" });
  });

  test("is a timeout though the agent itself was too busy to look", async () => {
    const { settled } = runCommand(script("sleep 0.1; echo in time", { timeout: 0.3 }));
    await within(50, () => false);
    for (const until = performance.now() + 500; performance.now() < until;);
    expect(await settled).toMatchObject({ kind: "timeout" });
  });
});

describe("a command that ends before the processes it started", () => {
  test("gives its output though a grandchild holds stdout, and that one is ended", TIMED, async () => {
    const started = performance.now();
    const { settled, gone } = runCommand(script(`echo done; sleep ${own} & exit 0`));
    expect(await settled).toMatchObject({ kind: "ok", output: { stdout: "done\n", stderr: "", exitCode: 0 } });
    expect(performance.now() - started).toBeLessThan(450);
    await gone;
    expect(processesWith(own)).toStrictEqual([]);
  });

  test("gives its exit code at once though it left a daemon, and that one is ended", TIMED, async () => {
    const started = performance.now();
    const text = `(setsid sleep ${own} </dev/null >/dev/null 2>&1 &); echo started; exit 3`;
    const { settled } = runCommand(script(text));
    expect(await settled).toMatchObject({ kind: "exit_nonzero", output: { stdout: "started\n", exitCode: 3 } });
    expect(performance.now() - started).toBeLessThan(300);
    expect(await within(3_000, () => processesWith(own).length === 0)).toBe(true);
  });

  test("is not over while one that ignores TERM lives in a new session and holds stdout", async () => {
    const text = `(trap "" TERM; exec setsid sleep ${own}) & exit 0`;
    const { settled, gone } = runCommand(script(text), { grace: 0.5 });
    expect(await settled).toMatchObject({ kind: "ok" });
    expect(processesWith(own)).toHaveLength(1);
    await gone;
    expect(processesWith(own)).toStrictEqual([]);
  });
});
