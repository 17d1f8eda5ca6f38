import { spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
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
    expect(JSON.parse(run.stdout)).toMatchObject({ results: [killed, killed, killed, { kind: "ok" }] });
    expect(run.milliseconds).toBeLessThan(5_000);
    expect(processesWith(own)).toStrictEqual([]);
  });

  test("killAll looks for a daemon that a command left at once", { retry: 2 }, () => {
    const { stdout } = agent("kill-all", "(setsid SLEEP >/dev/null 2>&1 &)");
    expect(z.object({ took: z.number() }).parse(JSON.parse(stdout)).took).toBeLessThan(300);
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
    expect(JSON.parse(run.stdout)).toMatchObject({ results: [{ kind: "timeout" }, { kind: "timeout" }] });
    expect(processesWith(own)).toStrictEqual([]);
  });
});

test("a child that became another user and may not be killed is a timeout too, and nobody waits for it", (context) => {
  if (process.getuid?.() !== 0) return context.skip("only root can make a program that changes its user");
  const folder = mkdtempSync("/var/tmp/gridmeter-sudo-");
  try {
    chmodSync(folder, 0o755);
    const sudo = join(folder, "sudo");
    copyFileSync("/usr/bin/setpriv", sudo);
    chmodSync(sudo, 0o4755);
    const text = `exec ${sudo} --reuid=0 sleep ${own}`;
    const nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", process.execPath, AGENT];
    const started = performance.now();
    const { stdout, status } = spawnSync("setpriv", [...nobody, "of-its-own", text], { encoding: "utf8" });
    expect(JSON.parse(stdout)).toMatchObject({ results: [{ kind: "timeout" }] });
    expect(status).toBe(0);
    expect(performance.now() - started).toBeLessThan(6_000);
    expect(processesWith(own)).toHaveLength(1);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
