// Commands whose agent was ended by KILL, and how the next agent deals with them.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { RUN_VARIABLE } from "../../lib/agent/command/start.ts";
import { parseStat } from "../../lib/shared/proc.ts";
import { startAgent, writeConfig, type RunningAgent } from "../support/agent-run.ts";
import { freezeFileSystem } from "../support/process-frozen.ts";
import { killLeftovers, ownSleep, processesWith, within } from "../support/process-watch.ts";
import { bundledCli } from "../support/run-cli.ts";
import { PROBE_NAMES } from "../../lib/agent/probes/common/settings.ts";

let folder: string;
let program: readonly string[];
let sleeps: string[] = [];
let started: RunningAgent[] = [];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "gridmeter-leftovers-"));
  program = bundledCli(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(async () => {
  for (const { child } of started) child.kill("SIGKILL");
  await Promise.all(started.map(({ ended }) => ended));
  for (const text of sleeps) killLeftovers(text);
  [sleeps, started] = [[], []];
});

const ownText = (): string => {
  const text = ownSleep();
  sleeps.push(text);
  return text;
};

/** An agent with one probe, whose command is a script. */
async function agentWith(script: string): Promise<RunningAgent> {
  const off = Object.fromEntries(PROBE_NAMES.map((name) => [name, { enabled: false }]));
  const own = { type: "custom", command: ["/bin/sh", "-c", script], interval: 60, timeout: 60 };
  const config = writeConfig(folder, { listen: "127.0.0.1:0", probes: { ...off, own } }, `${started.length}.json`);
  const agent = await startAgent({ program, cwd: folder, args: ["--config", config], env: { PATH: "/usr/bin:/bin" } });
  started.push(agent);
  return agent;
}

const hangs = (pid: number): boolean => readFileSync(`/proc/${pid}/stat`, "utf8").includes(") D ");

const kill = async ({ child, ended }: RunningAgent): Promise<void> => {
  child.kill("SIGKILL");
  await ended;
};
const logged = ({ log }: RunningAgent, text: string) => log.filter(({ msg }) => msg.includes(text));

test("what a dead agent left behind is ended by the next start, and that of a living one is not", async () => {
  const [dead, living] = [ownText(), ownText()];
  // one that ignores TERM, one in a session of its own, and one that has lost the mark but not its parent
  const script = `trap '' TERM; setsid sleep ${dead} & env -i sleep ${dead} & sleep ${dead}`;
  const first = await agentWith(script);
  await agentWith(`sleep ${living} & sleep ${living}`);
  expect(await within(10_000, () => processesWith(dead).length >= 4)).toBe(true);
  expect(await within(10_000, () => processesWith(living).length >= 2)).toBe(true);
  const kept = processesWith(living);
  await kill(first);
  expect(processesWith(dead).length).toBeGreaterThanOrEqual(3);

  const next = await agentWith("echo lab 1");
  // It runs only when they are gone.
  expect(processesWith(dead)).toEqual([]);
  expect(processesWith(living)).toEqual(kept);
  expect(logged(next, "a dead agent left behind")).toMatchObject([{ left: 0 }]);
});

test("nothing else is ended, whatever mark it has", async () => {
  const text = ownText();
  const space = readlinkSync("/proc/self/ns/pid");
  const own = parseStat(readFileSync("/proc/self/stat", "utf8"));
  const run = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
  const marks = [
    // an agent of another namespace, one that lives, a mark of an earlier version, and texts that are none
    `pid:[1]/4194304/1/${run}`,
    `${space}/${own?.pid}/${own?.start}/${run}`,
    run,
    `${space}/x/1/${run}`,
    "",
  ];
  const children = marks.map((mark) =>
    spawn("/bin/sleep", [text], { detached: true, stdio: "ignore", env: { [RUN_VARIABLE]: mark } }),
  );
  const pids = children.map(({ pid }) => pid);
  const agent = await agentWith("echo lab 1");
  expect(new Set(processesWith(text))).toEqual(new Set(pids));
  expect(logged(agent, "dead agent")).toEqual([]);

  // The same pid with another start is a dead agent.
  const left = spawn("/bin/sleep", [text], {
    detached: true,
    stdio: "ignore",
    env: { [RUN_VARIABLE]: `${space}/${own?.pid}/${(own?.start ?? 0) - 1}/${run}` },
  });
  const next = await agentWith("echo lab 1");
  expect(new Set(processesWith(text))).toEqual(new Set(pids));
  expect(left.signalCode ?? "SIGTERM").toBe("SIGTERM");
  expect(logged(next, "a dead agent left behind")).toMatchObject([{ processes: 1, left: 0 }]);
});

test("the last line of the log counts what is still there", async (context) => {
  const quiet = await agentWith("echo lab 1");
  quiet.child.kill("SIGTERM");
  await quiet.ended;
  expect(quiet.log.at(-1)).toMatchObject({ msg: "nothing runs any more", left: 0 });

  const frozen = freezeFileSystem();
  if (typeof frozen === "string") return context.skip(frozen);
  try {
    sleeps.push(frozen.path);
    const agent = await agentWith(`touch ${frozen.path}/file; true`);
    expect(await within(10_000, () => processesWith(frozen.path).some(hangs))).toBe(true);
    agent.child.kill("SIGTERM");
    await agent.ended;
    expect(agent.log.at(-1)).toMatchObject({ msg: expect.stringContaining("not even KILL"), left: 1 });
    // So does the next agent, which goes on to run.
    const next = await agentWith("echo lab 1");
    expect(logged(next, "not even KILL")).toMatchObject([{ left: 1 }]);
  } finally {
    frozen.remove();
  }
});
