// The agent where its surroundings fail: no file descriptors, a wall clock that is set, no init above it.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { PROBE_NAMES } from "../../lib/agent/probes/common/settings.ts";
import { dataOf, standInProbes, startAgent, valueOf, writeConfig, type RunningAgent } from "../support/agent-run.ts";
import { allProcesses, killLeftovers, ownSleep, processesWith } from "../support/process-watch.ts";
import { startPushgateway, type PushgatewayServer } from "../support/pushgateway-server.ts";
import { bundledCli } from "../support/run-cli.ts";
import { standIns, type StandIns } from "../support/stand-ins/stand-ins.ts";

const PROBES = ["docker-daemon", "docker-stats", "docker-inspect", "docker-logs", "nvidia-smi", "iftop", "lsof", "ps"];

let folder: string;
let program: readonly string[];
let tools: StandIns;
let gateway: PushgatewayServer;
let agent: RunningAgent | undefined;
const own = ownSleep();

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "gridmeter-adversity-"));
  program = bundledCli(folder);
  gateway = await startPushgateway();
});
beforeEach(() => {
  tools = standIns({ containers: 4, gpus: 2 });
});
afterEach(async () => {
  agent?.child.kill("SIGKILL");
  await agent?.ended;
  agent = undefined;
  tools.remove();
  killLeftovers(own);
});
afterAll(async () => {
  await gateway?.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function start(node: readonly string[], more: object = {}, env = {}): Promise<RunningAgent & { pid: number }> {
  const [node0 = "", ...script] = program;
  const config = writeConfig(folder, {
    listen: "127.0.0.1:0",
    instance: "node-1",
    pushgateway: { url: gateway.url, interval: 1 },
    probes: { ...standInProbes(tools, 3, 1), ...more },
  });
  agent = await startAgent({
    program: [node0, ...node, ...script],
    cwd: folder,
    args: ["--config", config],
    env: { PATH: tools.path, ...env },
  });
  return { ...agent, pid: agent.child.pid ?? 0 };
}

const port = async (): Promise<string> => (await fetch(`${agent?.url}/metrics`)).text();
const both = () => Promise.all([port(), gateway.metrics()]);
const eventually = (holds: () => Promise<unknown>, timeout = 20_000) => expect.poll(holds, { timeout, interval: 100 });
/** Probes that have data on the port and on the gateway. */
const withData = async (): Promise<string[]> => {
  const texts = await both();
  return PROBES.filter((probe) => texts.every((text) => dataOf(text, probe).length > 0));
};
const lines = (text: string, pattern: RegExp): string[] =>
  text
    .split("\n")
    .filter((line) => pattern.test(line))
    .sort();

test("file descriptors run out: commands are not executable and their data go; then all comes back, and nothing is left", async () => {
  const command = ["/bin/sh", "-c", `/usr/bin/setsid /bin/sleep ${own} & exec /bin/sleep ${own}`];
  const { pid } = await start([], { hangs: { type: "custom", command, interval: 1, timeout: 1 } });
  await eventually(withData).toEqual(PROBES);
  const descriptors = () => readdirSync(`/proc/${pid}/fd`).length;
  const allow = (number: number) => execFileSync("prlimit", [`--nofile=${number}:4096`, "--pid", String(pid)]);
  // between commands
  const counts = await Promise.all(Array.from({ length: 50 }, (_, turn) => sleep(turn * 20).then(descriptors)));
  const least = Math.min(...counts);

  for (const more of [2, 7, 12]) {
    allow(least + more);
    await sleep(1_200);
    // what can still be read is right
    const shown = lines(await port(), /^gridmeter_network_container_sockets/).map((line) => line.split(" ").at(-1));
    expect(new Set([...shown, "1"])).toEqual(new Set(["1"]));
  }
  // not a single file can be opened
  allow(least - 3);
  const resultOf = (text: string, probe: string) => {
    const results = lines(text, /^gridmeter_probe_result\{/).filter((line) => line.includes(`probe="${probe}"`));
    return results.map((line) => /result="(\w+)"/.exec(line)?.[1]).join();
  };
  await eventually(async () => {
    const texts = await both();
    const wrong = (text: string, probe: string) =>
      dataOf(text, probe).length === 0 && resultOf(text, probe) === "not_executable" ? [] : [resultOf(text, probe)];
    return PROBES.flatMap((probe) => texts.flatMap((text) => wrong(text, probe).map((result) => [probe, result])));
  }).toEqual([]);
  expect((await fetch(`${agent?.url}/healthz`)).status).toBe(200);

  allow(4096);
  await eventually(withData).toEqual(PROBES);
  const after = await port();
  expect(valueOf(after, "gridmeter_probe_runs_total", 'probe="ps"', 'result="not_executable"')).toBeGreaterThan(0);
  expect(valueOf(after, "gridmeter_probe_runs_total", 'probe="ps"', 'result="disabled"')).toBe(0);
  // A few connections to the gateway may be open now that were not before.
  await eventually(async () => Promise.resolve(descriptors())).toBeLessThanOrEqual(least + 4);
  agent?.child.kill("SIGTERM");
  expect((await agent?.ended)?.code).toBe(0);
  expect(processesWith(own)).toEqual([]);
}, 90_000);

test("the wall clock is set by hours, forwards and back: data stay, times are right, pushes go on", async () => {
  const clock = join(folder, "clock");
  const set = (hours: number) => {
    writeFileSync(`${clock}~`, String(hours * 3600));
    renameSync(`${clock}~`, clock);
  };
  set(0);
  const shift = fileURLToPath(new URL("../support/shifted-clock.ts", import.meta.url));
  await start(["--import", shift], {}, { SHIFTED_CLOCK: clock });
  await eventually(withData).toEqual(PROBES);
  const times = /^gridmeter_(?:probe_last_(?:run|success)|probe_agent_heartbeat|push_last_success)_timestamp_seconds\{/;
  const near = (hours: number) => (line: string) =>
    Math.abs(Number(line.split(" ").at(-1)) - hours * 3600 - Date.now() / 1000) < 8;
  let pushed = 0;
  for (const hours of [5, -7]) {
    set(hours);
    let all = false;
    for (let turn = 0; turn < 40 && !all; turn += 1) {
      await sleep(200);
      // never without data, not even for a moment
      expect(await withData()).toEqual(PROBES);
      all = (await both()).every((text) => lines(text, times).every(near(hours)));
    }
    expect(lines((await both()).join("\n"), times).filter((line) => !near(hours)(line))).toEqual([]);
    const text = await port();
    const before = pushed;
    pushed = valueOf(text, "gridmeter_push_total", 'result="ok"') ?? 0;
    expect(pushed).toBeGreaterThan(before + 5);
    expect(lines(text, /^gridmeter_push_groups_pending/)).toHaveLength(1);
    expect(
      lines(text, /^gridmeter_(?:probe_last|push_last|command)_duration_seconds(?:_sum)?\{.* (?:-|\d{3})/),
    ).toEqual([]);
    for (const path of ["healthz", "readyz"]) expect((await fetch(`${agent?.url}/${path}`)).status, path).toBe(200);
  }
  // A command that hangs is ended in its time although the clock was set meanwhile.
  tools.tell("ps", "hang");
  await sleep(1_200);
  set(-9);
  await eventually(async () => (await both()).map((text) => dataOf(text, "ps").length), 6_000).toEqual([0, 0]);
  tools.tell("ps", "ok");
  set(3);
  await eventually(withData).toEqual(PROBES);
}, 90_000);

/** With which a process becomes the first of its own: root may, and others where the kernel lets them. */
const OWN_PIDS = [
  ["--pid", "--fork", "--mount-proc", "--kill-child"],
  ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"],
].find((options) => spawnSync("unshare", [...options, "true"]).status === 0);

test.runIf(OWN_PIDS !== undefined)(
  "as process 1 it says that zombies will stay; below an init there are none, and it says nothing",
  async () => {
    // Both of its children lose their parent and end.
    const command = [
      "/bin/sh",
      "-c",
      "(/bin/sleep 0.1 >/dev/null 2>&1 &); (/usr/bin/setsid /bin/sleep 0.2 >/dev/null 2>&1 &); echo own 1",
    ];
    const run = async (init: readonly string[]) => {
      const listen = await freePort();
      const none = Object.fromEntries(PROBE_NAMES.map((name) => [name, { enabled: false }]));
      const orphans = { type: "custom", command, interval: 0.5, timeout: 5 };
      const config = writeConfig(folder, { listen, probes: { ...none, orphans } }, "first.json");
      const args = [...(OWN_PIDS ?? []), ...init, ...program, "agent", "--config", config];
      const child = spawn("unshare", args, { stdio: ["ignore", "ignore", "pipe"] });
      let log = "";
      child.stderr.setEncoding("utf8").on("data", (text: string) => (log += text));
      const metrics = () =>
        fetch(`http://${listen}/metrics`).then(
          (reply) => reply.text(),
          () => "",
        );
      const runs = async () => valueOf(await metrics(), "gridmeter_probe_runs_total", 'probe="orphans"', 'result="ok"');
      try {
        await eventually(runs).toBeGreaterThan(2);
        await sleep(700);
        const all = allProcesses();
        const mine = new Set([child.pid]);
        // Again and again, since a child's number is below its parent's once the numbers begin again.
        for (let before = 0; before < mine.size;) {
          before = mine.size;
          for (const { pid, parent } of all) if (mine.has(parent)) mine.add(pid);
        }
        const zombies = all.filter(({ pid, alive }) => !alive && mine.has(pid)).length;
        return { zombies, said: log.includes("the agent is process 1") };
      } finally {
        child.kill("SIGKILL");
        await new Promise((resolve) => child.once("close", resolve));
      }
    };
    const first = await run([]);
    expect(first.said).toBe(true);
    expect(first.zombies).toBeGreaterThan(2);
    // What tini does, and the shell too.
    expect(await run(["/bin/sh", "-c", '"$@" & wait', "sh"])).toEqual({ zombies: 0, said: false });
  },
  60_000,
);

async function freePort(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return `127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
}
