import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { listGroups } from "../../lib/shared/pushgateway-groups.ts";
import { PROBE_NAMES } from "../../lib/agent/probes/common/settings.ts";
import { dataOf, standInProbes, startAgent, valueOf, writeConfig, type RunningAgent } from "../support/agent-run.ts";
import { ownSleep, processesWith, within } from "../support/process-watch.ts";
import { startPushgateway, type PushgatewayServer } from "../support/pushgateway-server.ts";
import { bundledCli, jsonOf, runCli, startCli, type CliRun } from "../support/run-cli.ts";
import { standIns, type StandIns } from "../support/stand-ins/stand-ins.ts";

let folder: string;
let program: readonly string[];
let gateway: PushgatewayServer;
let tools: StandIns;
let started: RunningAgent[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "gridmeter-agent-cli-"));
  program = bundledCli(folder);
  gateway = await startPushgateway();
});
afterAll(async () => {
  await gateway.stop();
  rmSync(folder, { recursive: true });
});
beforeEach(() => {
  tools = standIns({ containers: 2, gpus: 1 });
});
afterEach(async () => {
  for (const { child } of started) child.kill("SIGKILL");
  await Promise.all(started.map(({ ended }) => ended));
  started = [];
  tools.remove();
});

/** A configuration of the stand-ins' node; each test has an instance of its own on the gateway. */
const configured = (instance: string, more: object = {}, probes: Record<string, object> = {}): string =>
  writeConfig(folder, {
    listen: "127.0.0.1:0",
    instance,
    pushgateway: { url: gateway.url },
    probes: { ...standInProbes(tools, 5, 5), ...probes },
    ...more,
  });

const agent = async (args: readonly string[], before: readonly string[] = []): Promise<RunningAgent> => {
  const [node = "", ...rest] = program;
  const running = await startAgent({
    program: [node, ...before, ...rest],
    cwd: folder,
    args,
    env: { PATH: tools.path },
  });
  started.push(running);
  return running;
};
const run = (args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<CliRun> =>
  runCli(args, { cwd: folder, program, env: { PATH: tools.path, ...env } });

const groupsOf = async (instance: string): Promise<string[]> =>
  (await listGroups(gateway.url)).flatMap(({ grouping }) =>
    grouping["instance"] === instance ? [grouping["probe"] ?? ""] : [],
  );
const until = async (what: string, holds: () => Promise<boolean> | boolean): Promise<void> => {
  const end = Date.now() + 20_000;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`not within 20 s: ${what}`);
    await sleep(50);
  }
};
const messages = (of: RunningAgent): string[] => of.log.map(({ msg }) => msg);

describe("gridmeter agent", () => {
  it("ends also when its log cannot be written, on a disk that is full", async () => {
    const config = configured("full");
    const [node = "", ...rest] = program;
    const full = openSync("/dev/full", "w");
    const child = spawn(node, [...rest, "agent", "--config", config], {
      cwd: folder,
      env: { PATH: tools.path },
      stdio: ["ignore", "ignore", full],
    });
    closeSync(full);
    const ended = once(child, "exit");
    try {
      await until("it has pushed", async () => (await groupsOf("full")).length > 8);
      child.kill("SIGTERM");
      expect(await within(12_000, () => child.exitCode !== null)).toBe(true);
    } finally {
      child.kill("SIGKILL");
      await ended;
    }
    expect(child.exitCode).toBe(0);
    expect(await groupsOf("full")).toStrictEqual([]);
  });

  it("has more threads for files than a few that hang", async () => {
    const running = await agent(["--config", configured("threads")]);
    await until("it is ready", async () => (await fetch(`${running.url}/readyz`)).status === 200);
    const threads = readdirSync(`/proc/${running.child.pid}/task`).map((id) =>
      readFileSync(`/proc/${running.child.pid}/task/${id}/comm`, "utf8").trim(),
    );
    expect(threads.filter((name) => name === "libuv-worker").length).toBeGreaterThanOrEqual(16);
  });

  it("runs without any configuration: what is missing is off, and said once", async () => {
    tools.uninstall("crictl");
    const running = await agent(["--listen", "127.0.0.1:0"]);
    await until("it is ready", async () => (await fetch(`${running.url}/readyz`)).status === 200);
    const text = await (await fetch(`${running.url}/metrics`)).text();
    for (const [probe, enabled] of [
      ["docker-stats", 1],
      ["docker-logs", 0],
      ["nvidia-smi", 0],
      ["crictl-stats", 0],
      ["ps", 1],
    ] as const) {
      expect(valueOf(text, "gridmeter_probe_enabled", `probe="${probe}"`), probe).toBe(enabled);
      expect(dataOf(text, probe).length > 0, probe).toBe(enabled === 1);
    }
    const said = running.log.filter(({ probe }) => probe === "crictl-stats");
    expect(said).toHaveLength(1);
    expect(said[0]?.["why"]).toContain("crictl was not found");
    expect(running.log.find(({ msg }) => msg === "running")).toMatchObject({
      pushgateway: null,
      job: "gridmeter_agent",
    });
    // no group of its own is anywhere, and no metric about pushes is made up
    expect(text).not.toContain("gridmeter_push_total");
  });

  it("removes its groups and takes its commands along when it is told to end, whatever hangs", async () => {
    const config = configured("ends", {}, { "docker-stats": { timeout: "60s", interval: "1s" } });
    tools.tell("docker-stats", "ignore-term");
    const running = await agent(["--config", config]);
    await until("it has pushed", async () => (await groupsOf("ends")).length > 8);
    await until("docker stats hangs", () => tools.calls("docker-stats").length > 0);
    const [hanging] = tools.calls("docker-stats");
    expect(() => process.kill(hanging ?? 0, 0)).not.toThrow();

    running.child.kill("SIGTERM");
    const ended = await running.ended;
    expect(ended).toMatchObject({ code: 0, signal: null, stdout: "" });
    expect(await groupsOf("ends")).toEqual([]);
    expect(() => process.kill(hanging ?? 0, 0)).toThrow("ESRCH");
    expect(messages(running).slice(-2)).toEqual(["told to end", "nothing runs any more"]);
  });

  it("ends at once at the second signal, and kills what it had started", async () => {
    tools.tell("docker-stats", "ignore-term");
    const running = await agent(["--config", configured("twice", { pushgateway: { url: "http://127.0.0.1:1" } })]);
    await until("docker stats hangs", () => tools.calls("docker-stats").length > 0);
    const [hanging] = tools.calls("docker-stats");
    running.child.kill("SIGINT");
    await until("it has heard", () => messages(running).includes("told to end"));
    running.child.kill("SIGINT");
    expect((await running.ended).code).toBe(130);
    expect(await within(5_000, () => !processesWith("sleep 3600").includes(hanging ?? 0))).toBe(true);
  });

  it("tells of a failure once, and of the recovery", async () => {
    const quick = { interval: "500ms", timeout: "5s" };
    const running = await agent(["--config", configured("once", {}, { ps: quick })]);
    const about = () => running.log.filter(({ probe }) => probe === "ps");
    tools.tell("ps", "fail 3");
    await until("it failed twice", () => tools.calls("ps").length > 4);
    await until("it was told", () => about().length > 0);
    tools.tell("ps", "ok");
    await until("it works again", () => about().some(({ msg }) => msg === "the probe works again"));
    expect(about()).toHaveLength(2);
    expect(about()[0]).toMatchObject({ level: 40, result: "exit_nonzero", exitCode: 3 });
    expect(about()[0]?.["detail"]).toContain("ps: it failed");
  });

  it("says why, takes its commands along and ends with 1 after a fault of its own", async () => {
    const fault = join(folder, "fault.cjs");
    writeFileSync(fault, 'process.on("SIGUSR2", () => { throw new Error("on purpose"); });');
    tools.tell("docker-stats", "ignore-term");
    const running = await agent(["--config", configured("fault")], ["--require", fault]);
    await until("docker stats hangs", () => tools.calls("docker-stats").length > 0);
    await until("it has pushed", async () => (await groupsOf("fault")).length > 0);
    const [hanging] = tools.calls("docker-stats");
    running.child.kill("SIGUSR2");
    expect((await running.ended).code).toBe(1);
    expect(running.log.find(({ level }) => level === 60)).toMatchObject({ error: "on purpose" });
    expect(() => process.kill(hanging ?? 0, 0)).toThrow("ESRCH");
    expect(await groupsOf("fault")).toEqual([]);
  });

  it("publishes job-exporter's names beside its own, where they are asked for", async () => {
    tools.tell("docker-info", "hang");
    const slow = { "docker-daemon": { timeout: "1s" } };
    const running = await agent(["--config", configured("openpai", {}, slow), "--openpai-names"]);
    const text = async () => (await fetch(`${running.url}/metrics`)).text();
    await until("docker info has timed out", async () => /docker_daemon_count{.*error="timeout"} 1/.test(await text()));
    await until("jobs are known", async () => /task_gpu_percent{.*username="ann"/.test(await text()));
    const use = /task_cpu_percent{probe="docker-stats",.*role_name="worker"/;
    await until("docker stats has run", async () => use.test(await text()));
    await until("they are pushed", async () =>
      /nvidiasmi_temperature{.*instance="openpai"/.test(await gateway.metrics()),
    );
    expect(dataOf(await text(), "docker-daemon").some((line) => line.startsWith("gridmeter_docker_up"))).toBe(false);
  });

  it("does not start with a configuration that is wrong, or a port that is taken", async () => {
    const wrong = await run(["agent", "--config", writeConfig(folder, { probes: { ps: { timeout: 0 } } })]);
    expect(wrong).toMatchObject({ code: 2, stdout: "" });
    expect(wrong.stderr).toContain("probes.ps.timeout=0");
    const server = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = z.object({ port: z.number() }).parse(server.address());
    const taken = await run(["agent", "--listen", `127.0.0.1:${port}`]);
    server.close();
    expect(taken.code).toBe(2);
    expect(taken.stderr).toContain("EADDRINUSE");
    expect(tools.calls("ps")).toEqual([]);
    const half = await run(["agent", "--config", configured("half", {}, { lsof: { command: ["lsof"] } })]);
    expect([half.code, half.stderr]).toEqual([2, expect.stringContaining("{pid}")]);
  });
});

describe("gridmeter agent --once", () => {
  it("runs every probe once, pushes, and leaves the groups", async () => {
    const ended = await run(["agent", "--once", "--config", configured("node once")]);
    expect(ended, ended.stderr).toMatchObject({ code: 0, stdout: "" });
    expect((await groupsOf("node once")).toSorted()).toEqual(["agent", ...PROBE_NAMES].toSorted());
    for (const command of ["docker-info", "docker-stats", "nvidia-smi", "iftop", "ps"] as const) {
      expect(tools.calls(command), command).toHaveLength(1);
    }
    expect(dataOf(await gateway.metrics(), "nvidia-smi").some((line) => line.includes('instance="node once"'))).toBe(
      true,
    );
  });

  it("prints the metrics where there is no Pushgateway, and fails where the Pushgateway does", async () => {
    tools.tell("iftop", "fail 1");
    const printed = await run(["agent", "--once", "--config", configured("x", { pushgateway: undefined })]);
    expect(printed.code).toBe(0);
    expect(dataOf(printed.stdout, "docker-stats").length).toBeGreaterThan(0);
    expect(valueOf(printed.stdout, "gridmeter_probe_success", 'probe="iftop"')).toBe(0);
    const failed = await run(["agent", "--once", "--config", configured("x"), "--pushgateway", "http://127.0.0.1:1"]);
    expect(failed.code).toBe(4);
    expect(failed.stderr).toContain("ECONNREFUSED");
  });
});

describe("gridmeter probe", () => {
  const fixture = new URL("../fixtures/probes/nvidia-smi-v12-mig.xml", import.meta.url).pathname;

  it("runs one probe and prints what would be published, or what was read", async () => {
    const config = configured("probe");
    const text = await run(["probe", "docker-stats", "--config", config]);
    expect(text.code, text.stderr).toBe(0);
    expect(dataOf(text.stdout, "docker-stats").length).toBeGreaterThan(5);
    const json = await run(["probe", "docker-inspect", "--config", config, "--json"]);
    expect(jsonOf(json)).toMatchObject({
      probe: "docker-inspect",
      kind: "ok",
      parsed: { containers: tools.containers.map(({ id }) => ({ id })) },
    });
    expect(await groupsOf("probe")).toEqual([]);
  });

  it("parses a saved output instead, of a file or of stdin", async () => {
    const text = await run(["probe", "nvidia-smi", "--input", fixture]);
    expect(text.stdout).toContain("gridmeter_gpu_attached");
    expect(text.stderr).toContain("were broken and left out");
    expect(jsonOf(await run(["probe", "nvidia-smi", "--input", fixture, "--json"]))).toMatchObject({
      parsed: { driverVersion: "535.54.03" },
    });
    expect(tools.calls("nvidia-smi")).toEqual([]);
    const other = await run(["probe", "ps", "--input", fixture]);
    expect([other.code, other.stderr]).toEqual([4, expect.stringContaining("is no output of ps")]);
    expect((await run(["probe", "ps", "--input", join(folder, "none")])).code).toBe(2);
    const [node = "", ...rest] = program;
    const input = readFileSync(fixture);
    const piped = spawnSync(node, [...rest, "probe", "nvidia-smi", "--input", "-"], { input, encoding: "utf8" });
    expect(piped.stdout).toBe(text.stdout);
  });

  it("explains what failed, with the command", async () => {
    tools.tell("docker-stats", "hang");
    tools.tell("iftop", "fail 7");
    tools.uninstall("ps");
    const config = configured("fails", {}, { "docker-stats": { timeout: "300ms" } });
    const [hung, failed, missing, unknown, none] = await Promise.all(
      [["docker-stats"], ["iftop"], ["ps"], ["nvidia_smi"], []].map((name) =>
        run(["probe", ...name, "--config", config]),
      ),
    );
    expect([hung?.code, hung?.stderr]).toEqual([
      4,
      expect.stringMatching(/ended in timeout .*docker stats --no-stream/s),
    ]);
    expect([failed?.code, failed?.stderr]).toEqual([4, expect.stringMatching(/exit code 7.*iftop: it failed/s)]);
    expect([missing?.code, missing?.stderr]).toEqual([4, expect.stringContaining("ps was not found")]);
    expect([unknown?.code, unknown?.stderr]).toEqual([2, expect.stringContaining("did you mean nvidia-smi?")]);
    expect([none?.code, none?.stderr]).toEqual([2, expect.stringContaining("docker-daemon, docker-stats")]);
    for (const each of [hung, failed, missing, unknown, none]) expect(each?.stdout).toBe("");
  });

  it("takes its command along when it is interrupted", async () => {
    tools.tell("docker-stats", "ignore-term");
    const { child, ended } = startCli(["probe", "docker-stats"], { cwd: folder, program, env: { PATH: tools.path } });
    await until("docker stats hangs", () => tools.calls("docker-stats").length > 0);
    const [hanging] = tools.calls("docker-stats");
    child.kill("SIGINT");
    expect((await ended).code).toBe(130);
    expect(await within(5_000, () => !processesWith("sleep 3600").includes(hanging ?? 0))).toBe(true);
  });

  it.each([
    ["SIGINT", 130],
    ["SIGQUIT", 131],
  ] as const)("takes along what its command put into a session of its own, on %s", async (signal, code) => {
    const own = ownSleep();
    const command = ["/bin/sh", "-c", `setsid sleep ${own} & sleep ${own}`];
    const config = configured("session", {}, { mine: { type: "custom", command, timeout: "60s" } });
    const { child, ended } = startCli(["probe", "mine", "--config", config], { cwd: folder, program });
    await until("both sleep", () => processesWith(`sleep\0${own}`).length === 2);
    child.kill(signal);
    expect((await ended).code).toBe(code);
    expect(processesWith(own)).toStrictEqual([]);
  });

  it("lists all probes, and why one cannot run here", async () => {
    tools.uninstall("rocm-smi");
    const own = { fans: { type: "custom", command: ["fans"] } };
    const config = configured("list", {}, { ...own, "rocm-smi": {} });
    const table = await run(["probe", "--list", "--config", config]);
    for (const name of [...PROBE_NAMES, "fans"]) expect(table.stdout).toContain(name);
    expect(jsonOf(await run(["probe", "--list", "--json", "--config", config]))).toMatchObject({
      probes: expect.arrayContaining([
        expect.objectContaining({ name: "rocm-smi", why: "rocm-smi was not found in PATH" }),
        expect.objectContaining({ name: "docker-stats", interval: 5, timeout: 5 }),
        expect.objectContaining({ name: "fans", command: ["fans"] }),
      ]),
    });
  });
});
