import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test } from "vitest";
import { killLeftovers, ownSleep, processesWith, within } from "../support/process-watch.ts";

const AGENT = fileURLToPath(new URL("../support/process-agent.ts", import.meta.url));

let own = ownSleep();
afterEach(() => {
  killLeftovers(own);
  own = ownSleep();
});

/** Lets an agent start these commands and end in the way that is named. */
function agent(how: string, ...texts: readonly string[]) {
  const commands = texts.map((text) => text.replaceAll("SLEEP", `sleep ${own}`));
  const started = performance.now();
  const { status, stdout } = spawnSync(process.execPath, [AGENT, how, ...commands], { encoding: "utf8" });
  return { status, stdout, milliseconds: performance.now() - started };
}

describe("when the agent ends", () => {
  test("killAll ends every command, those that ignore TERM and those that went elsewhere too", async () => {
    const run = agent(
      "kill-all",
      "SLEEP",
      'trap "" TERM; SLEEP; SLEEP',
      "setsid SLEEP & SLEEP",
      "(setsid SLEEP >/dev/null 2>&1 &)",
    );
    const killed = { kind: "killed", detail: "the test is over" };
    expect(JSON.parse(run.stdout)).toMatchObject([killed, killed, killed, { kind: "ok" }]);
    expect(run.milliseconds).toBeLessThan(5_000);
    expect(processesWith(own)).toStrictEqual([]);
  });

  test.each([
    ["exit", 0],
    ["throw", 1],
  ])("by %s, the groups of its commands are killed all the same", async (how, code) => {
    const run = agent(how, "SLEEP", 'trap "" TERM; SLEEP; SLEEP', "SLEEP & SLEEP");
    expect(run.status).toBe(code);
    expect(await within(500, () => processesWith(own).length === 0)).toBe(true);
  });

  test("of its own accord, it stays until what timed out has been killed", () => {
    const run = agent("of-its-own", 'trap "" TERM; SLEEP; SLEEP', "setsid SLEEP & SLEEP");
    expect(JSON.parse(run.stdout)).toMatchObject([{ kind: "timeout" }, { kind: "timeout" }]);
    expect(processesWith(own)).toStrictEqual([]);
  });
});
