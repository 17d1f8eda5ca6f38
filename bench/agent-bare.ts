import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { costOf } from "./agent-process.ts";

/**
 * The least that any Node program spends on starting so many commands every two seconds and reading what they print. As a
 * program of its own: `node agent-bare.cjs COMMANDS INTERVAL`.
 */
const PROGRAM = `
const { spawn } = require("node:child_process");
const [count, interval] = process.argv.slice(1).map(Number);
setInterval(() => {
  for (let index = 0; index < count; index++) {
    const child = spawn("/bin/cat", ["/proc/self/stat"], { stdio: ["ignore", "pipe", "pipe"], detached: true, env: {} });
    child.stdout.on("data", () => undefined);
    child.stderr.on("data", () => undefined);
  }
}, interval * 1000);
`;

/** CPU seconds a minute of that program, its children apart. */
export async function bareMinute(commands: number, interval: number, seconds: number): Promise<number> {
  const child = spawn(process.execPath, ["-e", PROGRAM, String(commands), String(interval)], { stdio: "ignore" });
  try {
    if (child.pid === undefined) throw new Error("the bare program did not start");
    await sleep(4 * interval * 1000);
    const [before, started] = [costOf(child.pid).cpuSeconds, performance.now()];
    await sleep(seconds * 1000);
    const minutes = (performance.now() - started) / 60_000;
    return (costOf(child.pid).cpuSeconds - before) / minutes;
  } finally {
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }
}
