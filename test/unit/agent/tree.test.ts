import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";
import { Tree, findOrphans, isAlive, processesSince } from "../../../lib/agent/command/tree.ts";
import { readProcess } from "../../../lib/shared/proc.ts";
import { ownSleep, within } from "../../support/process-watch.ts";

/**
 * A process that has an empty environment until `goOn`, and the mark of the run a moment later. So has each process in the
 * middle of an exec, for an instant that no test can hit.
 */
async function orphanWithoutEnvironment(mark: string) {
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
  // Several attempts, since on a busy machine a moment may be long.
  for (let attempts = 0; ; attempts++) {
    const orphan = await orphanWithoutEnvironment(mark);
    const found = findOrphans(tree);
    orphan.goOn();
    const pids = (await found).map(({ pid }) => pid);
    await orphan.end();
    if (pids.includes(orphan.pid)) break;
    expect(attempts, "searches that did not find it").toBeLessThan(5);
  }
});

test("the living processes of the machine are found by when they started", async () => {
  const child = spawn("sleep", ["60"]);
  const entry = readProcess(child.pid ?? 0);
  if (entry === undefined) throw new Error("the child is not in /proc");
  expect(await processesSince(entry.start)).toContainEqual(entry);
  expect(await processesSince(entry.start + 1)).not.toContainEqual(entry);
  expect(isAlive(entry)).toBe(true);
  expect(isAlive({ ...entry, start: entry.start - 1 })).toBe(false);
  child.kill("SIGKILL");
  await new Promise((resolve) => child.once("exit", resolve));
  expect(isAlive(entry)).toBe(false);
});
