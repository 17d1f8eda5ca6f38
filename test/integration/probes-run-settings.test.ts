// What single probes make of their settings and of the node that they run on, with real child processes.
import { spawnSync } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { configuredProbe } from "../../lib/agent/agent.ts";
import { joinedMetrics } from "../../lib/agent/probes/joins.ts";
import { type Readings, createProbe } from "../../lib/agent/probes/registry.ts";
import type { ProbeSettings } from "../../lib/agent/probes/common/settings.ts";
import { standIns, type StandIns } from "../support/stand-ins/stand-ins.ts";

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
  createProbe(name, { requireDevice: false, proc: world.proc, timeout: 30, commandTimeout: 30, ...more });

const valuesOf = (
  metrics: readonly { name: string; samples: readonly { labels: object; value: number }[] }[],
  name: string,
) => metrics.find((one) => one.name === name)?.samples.map(({ value }) => value);

describe("docker-daemon", () => {
  test("a daemon that does not run is a reading", async () => {
    world.tell("docker-info", "down");
    const run = await probeOf("docker-daemon").run();
    expect(run).toMatchObject({ kind: "ok", exitCode: 1, readings: { daemon: { up: false } } });
    expect(valuesOf(run.metrics, "gridmeter_docker_up")).toStrictEqual([0]);
  });

  test("systemd can be asked instead, and its commands have their own name", async () => {
    const probe = probeOf("docker-daemon", { command: ["systemctl", "is-active", "docker"] });
    const up = await probe.run();
    expect(valuesOf(up.metrics, "gridmeter_docker_up")).toStrictEqual([1]);
    expect(up.commands).toMatchObject([{ command: "systemctl", kind: "ok" }]);
    world.tell("systemctl", "fail 3");
    expect(valuesOf((await probe.run()).metrics, "gridmeter_docker_up")).toStrictEqual([0]);
    world.uninstall("docker");
    expect(await probe.unavailable()).toBeUndefined();
  });
});

describe("AMD's two tools", () => {
  const off = (config: Parameters<typeof configuredProbe>[1]["probes"]) =>
    configuredProbe("rocm-smi", {
      probes: { ...config, "rocm-smi": { requireDevice: false, ...config["rocm-smi"] } },
    }).unavailable();

  test("rocm-smi is off where amd-smi is found, unless that is disabled, or it has a command of its own", async () => {
    expect(await off({})).toBeUndefined();
    world.install("amd-smi");
    expect(await off({})).toContain("amd-smi is there");
    expect(await off({ "amd-smi": { enabled: false } })).toBeUndefined();
    expect(await off({ "rocm-smi": { command: ["rocm-smi", "--json"] } })).toBeUndefined();
  });

  test("names and limits are asked for once, and again when the GPUs are others", async () => {
    world.install("amd-smi");
    const amd = probeOf("amd-smi");
    for (const commands of [2, 1]) expect((await amd.run()).commands).toHaveLength(commands);
    world.print("amd-smi", JSON.stringify([{ gpu: 1, asic: { market_name: "MI325X" }, usage: { gfx_activity: 5 } }]));
    const run = await amd.run();
    expect(run.commands).toHaveLength(2);
    expect(run.metrics.find(({ name }) => name === "gridmeter_gpu_info")?.samples).toMatchObject([
      { labels: { gpu: "1", name: "MI325X" } },
    ]);
  });

  test("without names the values stay", async () => {
    const slow = [
      "/bin/sh",
      "-c",
      `[ "$1" = metric ] || exec /bin/sleep 60; echo '[{"gpu":0,"usage":{"gfx_activity":7}}]'`,
    ] as const;
    const run = await probeOf("amd-smi", { command: [...slow, "amd-smi", "metric"], timeout: 2 }).run();
    expect(run).toMatchObject({ kind: "ok", commands: [{ kind: "ok" }, { kind: "timeout" }] });
    expect(valuesOf(run.metrics, "gridmeter_gpu_utilization_ratio")).toEqual([0.07]);
  });
});

describe("nvidia-smi", () => {
  test("an exit code beside a complete log costs nothing, and expected GPUs are told beside those seen", async () => {
    world.tell("nvidia-smi", "warn 14");
    const run = await probeOf("nvidia-smi", { expectedGpus: 8 }).run();
    expect(run).toMatchObject({ kind: "ok", exitCode: 14, commands: [{ command: "nvidia-smi", kind: "ok" }] });
    expect(valuesOf(run.metrics, "gridmeter_gpu_expected")).toStrictEqual([8]);
    expect(valuesOf(run.metrics, "gridmeter_gpu_seen")).toStrictEqual([2]);
    world.tell("nvidia-smi", "warn 15");
    const lost = await probeOf("nvidia-smi", { expectedGpus: 8 }).run();
    expect(lost).toMatchObject({ kind: "ok", exitCode: 15 });
    expect(valuesOf(lost.metrics, "gridmeter_gpu_seen")).toStrictEqual([2]);
  });

  test.runIf(!existsSync("/dev/nvidiactl") && !existsSync("/dev/dxg"))(
    "a node without the device has no use for the tool, also where a command is configured",
    async () => {
      for (const command of [undefined, ["nvidia-smi", "-q", "-x"] as const]) {
        const probe = probeOf("nvidia-smi", { requireDevice: undefined, command });
        expect(await probe.unavailable()).toBe("there is no NVIDIA driver (/dev/nvidiactl, /dev/dxg)");
      }
    },
  );

  test("whose processes use a GPU is left out when the kernel does not tell, and nothing else", async () => {
    const [container] = world.containers;
    const cgroup = join(world.proc, String(container?.pid), "cgroup");
    rmSync(cgroup);
    spawnSync("/usr/bin/mkfifo", [cgroup]);
    const probe = probeOf("nvidia-smi");
    const first = await probe.run();
    const second = await probe.run();
    for (const run of [first, second]) {
      expect(run).toMatchObject({ kind: "ok", readings: {} });
      expect(valuesOf(run.metrics, "gridmeter_gpu_utilization_ratio")).toHaveLength(2);
      expect(run.readings).toStrictEqual({});
    }
    // the one reader that waits gets what it waits for, and further runs read again
    writeFileSync(cgroup, "0::/user.slice\n");
    await expect
      .poll(async () => (rmSync(cgroup, { force: true }), Object.keys((await probe.run()).readings)))
      .toStrictEqual(["nvidia"]);
  });
});

describe("iftop", () => {
  test("watches the interface of the default route, or the one that is configured", async () => {
    const command = ["/bin/echo", "on {interface}."] as const;
    expect((await probeOf("iftop", { command }).run()).detail).toContain("on eth0.");
    expect((await probeOf("iftop", { command, interface: "ib7" }).run()).detail).toContain("on ib7.");
  });

  test("is off where no interface is known", async () => {
    rmSync(join(world.proc, "net", "route"));
    const probe = probeOf("iftop");
    const reason = "no network interface is configured, and none has the default route";
    expect(await probe.unavailable()).toBe(reason);
    expect(await probe.run()).toMatchObject({ kind: "disabled", detail: reason, commands: [] });
    expect(world.calls("iftop")).toStrictEqual([]);
    expect(await probeOf("iftop", { interface: "eth1" }).unavailable()).toBeUndefined();
  });

  test("needs no docker", async () => {
    world.uninstall("docker");
    const probe = probeOf("iftop");
    expect(await probe.unavailable()).toBeUndefined();
    expect(await probe.run()).toMatchObject({ kind: "ok" });
  });
});

describe("ps", () => {
  test("a process is said to hang once it was seen twice, and on which GPU", async () => {
    const [container] = world.containers;
    world.print("ps", `D 100 ${container?.pid} python3 train.py\nR 100 7 python3\n`);
    const probe = probeOf("ps", { longStanding: 0.05, largeResidentBytes: 1 });
    const first = await probe.run();
    expect(valuesOf(first.metrics, "gridmeter_process_uninterruptible")).toBeUndefined();
    expect(valuesOf(first.metrics, "gridmeter_process_largest_resident_bytes")).toStrictEqual([102_400]);
    await sleep(60);
    const second = await probe.run();
    expect(valuesOf(second.metrics, "gridmeter_process_uninterruptible")).toStrictEqual([1]);
    const gpus = await probeOf("nvidia-smi").run();
    const hanging = (fresh: Readings) =>
      valuesOf(joinedMetrics(fresh).get("nvidia-smi") ?? [], "gridmeter_gpu_uninterruptible_processes");
    expect(hanging({ ...gpus.readings, ...first.readings })).toBeUndefined();
    expect(hanging({ ...gpus.readings, ...second.readings })).toStrictEqual([1, 0]);
  });
});

describe("crictl-stats", () => {
  test("asks the endpoint that is configured, and is off where its socket is not there", async () => {
    const endpoint = `unix://${world.home}/runtime.sock`;
    const probe = probeOf("crictl-stats", { endpoint, requireDevice: true });
    expect(await probe.unavailable()).toBe(`there is no socket of a container runtime (${world.home}/runtime.sock)`);
    writeFileSync(join(world.home, "runtime.sock"), "");
    expect(await probe.unavailable()).toBeUndefined();
    expect(await probe.run()).toMatchObject({ kind: "ok" });
    const echo = await probeOf("crictl-stats", { command: ["/bin/echo", "stats"], endpoint }).run();
    expect(echo.detail).toContain(`--runtime-endpoint ${endpoint} stats`);
  });
});

describe("custom", () => {
  test("publishes what its command prints, under the probe's name", async () => {
    const probe = probeOf("rooms", { command: ["/bin/echo", 'lab_rooms{floor="1"} 3'] });
    expect([probe.name, probe.interval, probe.timeout]).toStrictEqual(["rooms", 30, 30]);
    expect(await probe.unavailable()).toBeUndefined();
    const run = await probe.run();
    expect(run).toMatchObject({ kind: "ok", commands: [{ command: "rooms", kind: "ok" }], readings: {} });
    expect(valuesOf(run.metrics, "lab_rooms")).toStrictEqual([3]);
    expect(await probeOf("rooms", { command: ["/bin/echo", "three"] }).run()).toMatchObject({ kind: "parse_error" });
    expect(await probeOf("rooms", { command: ["lab-rooms"] }).unavailable()).toContain("lab-rooms was not found in");
    expect(await probeOf("rooms", { command: ["/etc/passwd"] }).unavailable()).toContain("may not be executed");
  });
});
