// Probes that run a command once a container: what hangs or fails for one container costs that one.
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ProbeRun } from "../../lib/agent/probes/common/probe.ts";
import { shortId } from "../../lib/agent/probes/common/container.ts";
import { createProbe } from "../../lib/agent/probes/registry.ts";
import type { ProbeSettings } from "../../lib/agent/probes/common/settings.ts";
import { standIns, type StandInCommand, type StandIns } from "../support/stand-ins/stand-ins.ts";

let world: StandIns;
const path = process.env["PATH"];

beforeEach(() => {
  world = standIns({ containers: 4, gpus: 2 });
  process.env["PATH"] = world.path;
});

afterEach(() => {
  process.env["PATH"] = path;
  world.remove();
});

const probeOf = (name: string, more: ProbeSettings = {}) =>
  createProbe(name, { marker: "USER COMMAND END", proc: world.proc, timeout: 30, commandTimeout: 30, ...more });

/** The containers that a metric is about. */
const containersIn = (run: ProbeRun, metric: string) =>
  new Set(run.metrics.find(({ name }) => name === metric)?.samples.map(({ labels }) => labels["container_id"]));

const CASES = [
  { name: "docker-inspect", command: "docker-inspect", label: "docker inspect", metric: "gridmeter_container_info" },
  { name: "docker-logs", command: "docker-logs", label: "docker logs", metric: "gridmeter_container_finished_marker" },
  { name: "lsof", command: "lsof", label: "lsof", metric: "gridmeter_network_container_sockets" },
] as const satisfies readonly { name: string; command: StandInCommand; label: string; metric: string }[];

describe.each(CASES)("$name, whose $label is told", ({ name, command, label, metric }) => {
  const target = (container: { id: string; pid: number } | undefined) =>
    command === "lsof" ? container?.pid : container?.id;

  test("to hang for half of the containers, publishes the others", async () => {
    const [first, second, third, fourth] = world.containers;
    for (const one of [first, third]) world.tell(command, "hang", target(one));
    const run = await probeOf(name, { commandTimeout: 2 }).run();
    expect(run).toMatchObject({ kind: "ok", rejected: 2, exitCode: 0 });
    expect(run.detail).toContain(`2 of 4 containers could not be read; ${shortId(first!.id)}: `);
    expect(containersIn(run, metric)).toStrictEqual(new Set([shortId(second!.id), shortId(fourth!.id)]));
    const told = run.commands.filter((one) => one.command === label);
    expect(told.map(({ kind }) => kind).sort()).toStrictEqual(["ok", "ok", "timeout", "timeout"]);
  });

  test("to fail for three of four, publishes the one", async () => {
    const [first, ...others] = world.containers;
    for (const one of others) world.tell(command, "fail 9", target(one));
    const run = await probeOf(name).run();
    expect(run).toMatchObject({ kind: "ok", rejected: 3, exitCode: 0 });
    expect(containersIn(run, metric)).toStrictEqual(new Set([shortId(first!.id)]));
  });

  test("to fail for all but one, which has gone, has nothing to publish", async () => {
    const [first, ...others] = world.containers;
    for (const one of others) world.tell(command, "fail 9", target(one));
    world.tell("docker-inspect", "gone", first?.id);
    world.tell("docker-logs", "gone", first?.id);
    rmSync(join(world.proc, String(first?.pid)), { recursive: true });
    const run = await probeOf(name).run();
    expect(run).toMatchObject({ kind: "exit_nonzero", exitCode: 9, metrics: [], readings: {} });
    expect(run.detail).toContain("3 of 4 containers could not be read");
  });
});

describe("the list of containers", () => {
  test.each(["docker-inspect", "docker-logs", "lsof"])(
    "of %s is its own: when that hangs, so does the probe",
    async (name) => {
      world.tell("docker-ps", "hang");
      const run = await probeOf(name, { timeout: 0.5 }).run();
      expect(run).toMatchObject({ kind: "timeout", metrics: [], readings: {} });
      expect(run.commands).toMatchObject([{ command: "docker ps", kind: "timeout" }]);
      expect(world.calls("docker-ps")).toHaveLength(1);
      expect(world.calls("docker-inspect")).toHaveLength(0);
    },
  );

  test("whose containers have all gone meanwhile is a reading too", async () => {
    world.tell("docker-inspect", "gone");
    const run = await probeOf("docker-inspect").run();
    expect(run).toMatchObject({ kind: "ok", metrics: [], readings: { containers: [] }, rejected: 0 });
  });

  test("that is empty is a reading", async () => {
    world.print("docker-ps", "");
    const run = await probeOf("docker-inspect").run();
    expect(run).toMatchObject({ kind: "ok", metrics: [], readings: { containers: [] }, rejected: 0 });
  });

  test("when docker is down, the probe has failed as the list has", async () => {
    world.tell("docker-ps", "down");
    const run = await probeOf("docker-inspect").run();
    expect(run).toMatchObject({ kind: "exit_nonzero", exitCode: 1, metrics: [], readings: {} });
    expect(run.detail).toContain("daemon_down");
  });

  test("may be another tool's", async () => {
    const run = await probeOf("docker-inspect", { listCommand: ["/bin/echo", world.containers[1]!.id] }).run();
    expect(containersIn(run, "gridmeter_container_info")).toStrictEqual(new Set([shortId(world.containers[1]!.id)]));
    expect(world.calls("docker-ps")).toHaveLength(0);
  });
});

test("the time of the run ends the commands of all containers, begun or not", async () => {
  world.tell("docker-inspect", "hang");
  const run = await probeOf("docker-inspect", { timeout: 2, concurrency: 2 }).run();
  expect(run).toMatchObject({ kind: "timeout", metrics: [], readings: {} });
  expect(run.detail).toContain("4 of 4 containers could not be read");
  const inspects = run.commands.filter(({ command }) => command === "docker inspect");
  expect(inspects).toMatchObject([{ kind: "timeout" }, { kind: "timeout" }]);
  expect(world.calls("docker-inspect")).toHaveLength(2);
  expect(run.seconds).toBeGreaterThanOrEqual(1.9);
});

test("after containers that hung, the others come first", async () => {
  const probe = probeOf("docker-inspect", { concurrency: 1, commandTimeout: 2 });
  world.tell("docker-inspect", "hang", world.containers[0]!.id);
  await probe.run();
  // until the one that hung has gone, no other is started
  await sleep(500);
  const before = world.calls("docker-inspect").length;
  world.tell("docker-inspect", "ok", world.containers[0]!.id);
  await probe.run();
  const last = world.calls("docker-inspect", world.containers[0]!.id).at(-1);
  expect(world.calls("docker-inspect").slice(before)).toHaveLength(4);
  expect(world.calls("docker-inspect").at(-1)).toBe(last);
});

describe("docker-logs", () => {
  test("is off without a marker", async () => {
    const probe = probeOf("docker-logs", { marker: undefined });
    expect(await probe.unavailable()).toBe("no marker is configured");
    expect(await probe.run()).toMatchObject({ kind: "disabled", detail: "no marker is configured", commands: [] });
    expect(world.calls("docker-ps")).toHaveLength(0);
  });

  test("finds the marker in the log of the container that has it, whatever else is in it", async () => {
    world.tell("docker-logs", "garbage", world.containers[1]!.id);
    const { metrics } = await probeOf("docker-logs").run();
    expect(metrics[0]?.samples.map(({ value }) => value)).toStrictEqual([1, 0, 0, 0]);
  });

  test("a command of one's own is told the container and how many lines", async () => {
    const { metrics } = await probeOf("docker-logs", {
      command: ["/bin/echo", "{lines} lines of {id}"],
      marker: `7 lines of ${world.containers[2]!.id}`,
      lines: 7,
    }).run();
    expect(metrics[0]?.samples.map(({ value }) => value)).toStrictEqual([0, 0, 1, 0]);
  });
});

describe("lsof", () => {
  const socketsOf = (run: ProbeRun) =>
    run.metrics[0]?.samples.map(({ labels, value }) => [labels["container_id"], value]);

  test("runs once in a network namespace, and gives each container its own connections", async () => {
    const [first, second, third, fourth] = world.containers;
    // the first three are one pod
    for (const one of [second, third]) {
      rmSync(join(world.proc, String(one!.pid), "ns", "net"));
      symlinkSync(`net:[${first!.pid}]`, join(world.proc, String(one!.pid), "ns", "net"));
    }
    const row = (pid: number, port: number) =>
      `python3 ${pid} 1000 3u IPv4 46048 0t0 TCP 10.9.0.1:${port}->10.9.0.2:80 (ESTABLISHED)\n`;
    const rows = [row(first!.pid, 1), row(first!.pid, 2), row(second!.pid, 3), "x TCP 10.9.0.1:4-> (ESTABLISHED)\n"];
    for (const one of [first, second, third]) {
      world.print("lsof", ["COMMAND PID USER FD TYPE DEVICE SIZE/OFF NODE NAME\n", ...rows].join(""), one!.pid);
    }
    const run = await probeOf("lsof").run();
    expect(world.calls("lsof")).toHaveLength(2);
    expect(run).toMatchObject({ kind: "ok", rejected: 1 });
    expect(socketsOf(run)).toStrictEqual([
      [shortId(first!.id), 2],
      [shortId(second!.id), 1],
      [shortId(third!.id), 0],
      [shortId(fourth!.id), 1],
    ]);
  });

  test("says nothing of a container of whose processes nothing is known", async () => {
    const [first] = world.containers;
    rmSync(join(world.proc, String(first!.pid), "cgroup"));
    const run = await probeOf("lsof").run();
    expect(run).toMatchObject({ kind: "ok", rejected: 0 });
    expect(socketsOf(run)).toHaveLength(3);
  });

  test("a container without any connection has 0 of them", async () => {
    world.print("lsof", "", world.containers[0]!.pid);
    world.tell("lsof", "warn 1", world.containers[0]!.pid);
    expect(socketsOf(await probeOf("lsof").run())?.[0]).toStrictEqual([shortId(world.containers[0]!.id), 0]);
  });

  test("a container whose process has ended meanwhile is no failure", async () => {
    mkdirSync(join(world.home, "own"));
    const nsenter = join(world.home, "own", "nsenter");
    const text = "nsenter: cannot open /proc/100000/ns/net: No such file or directory";
    writeFileSync(nsenter, `#!/bin/sh\necho '${text}' >&2\nexit 1\n`, { mode: 0o755 });
    const run = await probeOf("lsof", { command: [nsenter, "--target", "{pid}", "--net", "--", "lsof", "-i"] }).run();
    expect(run).toMatchObject({ kind: "ok", rejected: 0, metrics: [] });
  });

  test("needs no docker inspect: with one that hangs, it has all its data and their names", async () => {
    const before = await probeOf("lsof").run();
    world.tell("docker-inspect", "hang");
    const run = await probeOf("lsof").run();
    expect(run).toMatchObject({ kind: "ok", rejected: 0 });
    expect(run.metrics).toStrictEqual(before.metrics);
    expect(run.metrics[0]?.samples[1]?.labels).toMatchObject({ namespace: "lab", pod: "job-1", container: "app" });
    expect(run.metrics[0]?.samples).toHaveLength(4);
    expect(world.calls("docker-inspect")).toHaveLength(0);
  });

  test("takes a list of ids alone", async () => {
    world.print("docker-ps", world.containers.map(({ id }) => `${id}\n`).join(""));
    const run = await probeOf("lsof").run();
    expect(run.metrics[0]?.samples).toHaveLength(4);
    expect(run.metrics[0]?.samples[0]?.labels).toMatchObject({ name: "", pod: "" });
  });

  test("fails, rather than see no connections, where the host's processes are not seen", async () => {
    rmSync(join(world.proc, "2"), { recursive: true });
    for (const { pid } of world.containers) writeFileSync(join(world.proc, String(pid), "cgroup"), "0::/\n");
    const run = await probeOf("lsof").run();
    expect(run).toMatchObject({ kind: "parse_error", metrics: [], readings: {} });
    expect(run.detail).toContain("hostPID");
  });

  test("needs both programs of its command, and docker", async () => {
    world.uninstall("lsof");
    expect(await probeOf("lsof").unavailable()).toBe(`lsof was not found in ${world.path}`);
    expect(await probeOf("lsof").run()).toMatchObject({ kind: "not_found", metrics: [] });
    world.install("lsof");
    world.uninstall("docker");
    expect(await probeOf("lsof").unavailable()).toBe(`docker was not found in ${world.path}`);
  });
});
