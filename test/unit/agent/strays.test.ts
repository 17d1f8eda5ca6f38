import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";
import { findOrphans } from "../../../lib/agent/command/orphans.ts";
import { Tree } from "../../../lib/agent/command/processes.ts";
import { ownSleep, within } from "../../support/process-watch.ts";

/**
 * A process that has an empty environment until it is told, and the mark of the run a moment later. So is each process in the
 * middle of an exec, for an instant that no test can hit.
 */
async function strayWithoutEnvironment(mark: string) {
  const text = `read line; /bin/sleep 0.05; exec /usr/bin/env GRIDMETER_RUN=${mark} /bin/sleep ${ownSleep()}`;
  const child = spawn("/usr/bin/env", ["-i", "/bin/sh", "-c", text], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  const { pid } = child;
  if (pid === undefined) throw new Error("the process did not start");
  expect(await within(10_000, () => readFileSync(`/proc/${pid}/environ`, "utf8") === "")).toBe(true);
  return {
    pid,
    goOn: () => child.stdin.write("\n"),
    end: async () => {
      child.kill("SIGKILL");
      await new Promise((resolve) => child.once("exit", resolve));
    },
  };
}

test("a process that is in the middle of an exec when it is looked for is found all the same", async () => {
  const leader = spawn("/bin/sleep", [ownSleep()], { detached: true });
  onTestFinished(() => void leader.kill("SIGKILL"));
  const mark = randomUUID();
  const tree = new Tree(mark, leader.pid ?? 0);
  // Several tries, since on a busy machine a moment may be long.
  for (let tries = 0; ; tries++) {
    const stray = await strayWithoutEnvironment(mark);
    const found = findOrphans(tree);
    stray.goOn();
    const pids = (await found).map(({ pid }) => pid);
    await stray.end();
    if (pids.includes(stray.pid)) break;
    expect(tries, "looks that did not find it").toBeLessThan(5);
  }
});
