import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { ProbeRun } from "../../../../lib/agent/probes/common/probe.ts";
import { shortId } from "../../../../lib/agent/probes/common/container.ts";
import { createProbe } from "../../../../lib/agent/probes/registry.ts";
import { standIns, type StandIns } from "../../../support/stand-ins/stand-ins.ts";

let world: StandIns;
const path = process.env["PATH"];

beforeEach(() => {
  world = standIns({ containers: 3, gpus: 0 });
  process.env["PATH"] = world.path;
});
afterEach(() => {
  process.env["PATH"] = path;
  world.remove();
});

const run = () => createProbe("lsof", { proc: world.proc, timeout: 30, commandTimeout: 30 }).run();
const socketsOf = ({ metrics }: ProbeRun) =>
  metrics[0]?.samples.map(({ labels, value }) => [labels["container_id"], value]);
const setCgroup = (pid: number, text: string) => writeFileSync(join(world.proc, String(pid), "cgroup"), text);

test.each([
  ["podman", "0::/machine.slice/libpod-conmon-ID.scope\n", "0::/machine.slice/libpod-ID.scope/container\n"],
  ["CRI-O", "0::/kubepods.slice/crio-conmon-ID.scope\n", "0::/kubepods.slice/crio-ID.scope\n"],
])("a container of %s has its own connections, not those of conmon's network", async (_, conmon, own) => {
  const [container, ...others] = world.containers;
  const { id, pid } = container!;
  mkdirSync(join(world.proc, "900", "ns"), { recursive: true });
  symlinkSync("net:[900]", join(world.proc, "900", "ns", "net"));
  setCgroup(900, conmon.replace("ID", id));
  setCgroup(pid, own.replace("ID", id));
  const row = (of: number, port: number) =>
    `job ${of} 1000 3u IPv4 46048 0t0 TCP 10.9.0.1:${port}->10.9.0.2:80 (ESTABLISHED)\n`;
  const header = "COMMAND PID USER FD TYPE DEVICE SIZE/OFF NODE NAME\n";
  world.print("lsof", header + row(2, 1) + row(2, 2) + row(2, 3), 900);
  world.print("lsof", header + row(pid, 1) + row(pid, 2), pid);
  const result = await run();
  expect(result).toMatchObject({ kind: "ok", rejected: 0 });
  expect(socketsOf(result)).toStrictEqual([[shortId(id), 2], ...others.map((one) => [shortId(one.id), 1])]);
});

test("an agent that sees its own container only says that it misses the others, and what to do", async () => {
  const [own, second, third] = world.containers;
  rmSync(join(world.proc, "2"), { recursive: true });
  for (const { pid } of [second!, third!]) rmSync(join(world.proc, String(pid)), { recursive: true });
  const result = await run();
  expect(result).toMatchObject({ kind: "ok", rejected: 2 });
  expect(socketsOf(result)).toStrictEqual([[shortId(own!.id), 1]]);
  expect(result.detail).toContain(`2 of 3 containers could not be read; ${shortId(second!.id)}: `);
  expect(result.detail).toContain("hostPID: true");
});

test("on the host, a container without a process is between two starts, and nothing is wrong", async () => {
  const [, second] = world.containers;
  rmSync(join(world.proc, String(second!.pid)), { recursive: true });
  const result = await run();
  expect(result).toMatchObject({ kind: "ok", rejected: 0 });
  expect(result).not.toHaveProperty("detail");
  expect(socketsOf(result)).toHaveLength(2);
});
