import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ContainerProcesses } from "../../../../lib/agent/probes/common/container-processes.ts";

const [A, B, INNER] = ["a", "b", "c"].map((digit) => digit.repeat(64)) as [string, string, string];

let proc: string;
beforeEach(() => {
  proc = mkdtempSync(join(tmpdir(), "gridmeter-proc-"));
});
afterEach(() => rmSync(proc, { recursive: true }));

const process = (pid: number, cgroup: string) => {
  mkdirSync(join(proc, String(pid)), { recursive: true });
  writeFileSync(join(proc, String(pid), "cgroup"), cgroup);
};
const end = (pid: number) => rmSync(join(proc, String(pid)), { recursive: true });
const v2 = (id: string) => `0::/system.slice/docker-${id}.scope\n`;
const second = (name: string) => {
  process(2, "0::/\n");
  writeFileSync(join(proc, "2", "comm"), `${name}\n`);
};
const host = () => second("kthreadd");
const look = async (of: ContainerProcesses, ...ids: readonly string[]) => {
  const found = await of.find(ids, 60);
  if (found.kind !== "ok") throw new Error(found.detail);
  return { byId: Object.fromEntries(found.byId), unseen: found.unseen };
};
const find = async (of: ContainerProcesses, ...ids: readonly string[]) => (await look(of, ...ids)).byId;

describe("a process of each container", () => {
  test.each([
    ["cgroup v2, systemd", v2(A)],
    ["cgroup v2, seen from a container", `0::/../docker-${A}.scope\n`],
    ["cgroup v1", `12:pids:/docker/${A}\n11:memory:/docker/${A}\n1:name=systemd:/docker/${A}\n`],
    ["cgroup v1, of the kubelet", `3:cpu,cpuacct:/kubepods/burstable/pod7/${A}\n0::/system.slice/docker.service\n`],
  ])("is found by %s, and by an id of 12 digits too", async (_, text) => {
    process(1, "0::/init.scope\n");
    process(500, text);
    expect(await find(new ContainerProcesses(proc), A, B)).toEqual({ [A]: 500 });
    expect(await find(new ContainerProcesses(proc), A.slice(0, 12))).toEqual({ [A.slice(0, 12)]: 500 });
  });

  test("is its first one, and its own rather than that of a container within it", async () => {
    process(90, `1:cpu:/docker/${A}/docker/${INNER}\n`);
    process(200, `1:cpu:/docker/${A}\n`);
    process(1000, `1:cpu:/docker/${A}\n`);
    expect(await find(new ContainerProcesses(proc), A)).toEqual({ [A]: 200 });
    expect(await find(new ContainerProcesses(proc), A, INNER)).toEqual({ [A]: 200, [INNER]: 90 });
  });

  test("is another one once that has ended, and never one that belongs to another container by now", async () => {
    const processes = new ContainerProcesses(proc);
    process(100, v2(A));
    process(300, v2(A));
    process(200, v2(B));
    expect(await find(processes, A, B)).toEqual({ [A]: 100, [B]: 200 });
    end(100);
    expect(await find(processes, A, B)).toEqual({ [A]: 300, [B]: 200 });
    process(300, v2(B));
    expect(await find(processes, A, B)).toEqual({ [B]: 200 });
    end(200);
    end(300);
    process(201, v2(A));
    expect(await find(processes, A, B)).toEqual({ [A]: 201 });
  });

  test.each([
    ["podman", "0::/machine.slice/libpod-conmon-ID.scope\n", "0::/machine.slice/libpod-ID.scope/container\n"],
    ["CRI-O", "0::/kubepods.slice/crio-conmon-ID.scope\n", "0::/kubepods.slice/crio-ID.scope\n"],
    ["CRI-O with cgroupfs", "3:cpu:/kubepods/crio-conmon-ID\n", "3:cpu:/kubepods/crio-ID\n"],
    ["Kata beside a container", "7:pids:/kata_overhead/ID\n", "7:pids:/kubepods/pod7/ID\n"],
  ])("is not the one that watches it from the host's network, by %s", async (_, watcher, own) => {
    const processes = new ContainerProcesses(proc);
    process(700, watcher.replace("ID", A));
    process(710, own.replace("ID", A));
    process(800, watcher.replace("ID", B));
    expect(await find(processes, A, B)).toEqual({ [A]: 710 });
    end(710);
    expect(await find(processes, A, B)).toEqual({});
  });

  test("is found in the run after it had none, as between two starts, and others at once", async () => {
    const processes = new ContainerProcesses(proc);
    process(100, v2(A));
    expect(await find(processes, A, INNER)).toEqual({ [A]: 100 });
    process(50, v2(INNER));
    expect(await find(processes, A, INNER)).toEqual({ [A]: 100, [INNER]: 50 });
    end(50);
    expect(await find(processes, A, INNER)).toEqual({ [A]: 100 });
    process(51, v2(INNER));
    process(200, v2(B));
    expect(await find(processes, A, INNER, B)).toEqual({ [A]: 100, [INNER]: 51, [B]: 200 });
  });

  test.each([
    [1, 1],
    [2, 3],
    [4, 7],
    [8, 15],
    [16, 25],
    [26, 35],
  ])("that has one only before run %i is found in run %i", async (from, at) => {
    const processes = new ContainerProcesses(proc);
    let run = 0;
    for (; run < from; run += 1) expect(await find(processes, A)).toEqual({});
    process(100, v2(A));
    for (; run < at; run += 1) expect(await find(processes, A)).toEqual({});
    expect(await find(processes, A)).toEqual({ [A]: 100 });
  });

  test("that is nowhere does not keep one that ends from being found in the run after", async () => {
    const processes = new ContainerProcesses(proc);
    process(100, v2(A));
    for (let run = 0; run < 17; run += 1) expect(await find(processes, A, B)).toEqual({ [A]: 100 });
    end(100);
    expect(await find(processes, A, B)).toEqual({});
    process(101, v2(A));
    expect(await find(processes, A, B)).toEqual({ [A]: 101 });
  });

  test("may be none on the host, but elsewhere nothing is known of those that are not found", async () => {
    process(1, "0::/\n");
    const unseen = { kind: "parse_error", detail: expect.stringContaining("hostPID: true") };
    expect(await look(new ContainerProcesses(proc), A)).toEqual({ byId: {}, unseen });
    expect(await look(new ContainerProcesses(join(proc, "nothing")), A)).toEqual({ byId: {}, unseen });
    expect(await look(new ContainerProcesses(proc))).toEqual({ byId: {}, unseen: undefined });
    // with cgroup v1, the agent finds its own container
    process(7, `12:pids:/docker/${A}\n`);
    second("node");
    const processes = new ContainerProcesses(proc);
    for (let run = 0; run < 3; run += 1) {
      expect(await look(processes, A, B)).toEqual({ byId: { [A]: 7 }, unseen });
    }
    expect(await look(processes, A)).toEqual({ byId: { [A]: 7 }, unseen: undefined });
    host();
    expect(await look(processes, A, B)).toEqual({ byId: { [A]: 7 }, unseen: undefined });
  });

  test("thousands of processes are looked at with few files open", async () => {
    for (let pid = 1; pid <= 3000; pid += 1) process(pid, pid === 2999 ? v2(A) : "0::/user.slice\n");
    expect(await find(new ContainerProcesses(proc), A)).toEqual({ [A]: 2999 });
  });

  test("is not waited for longer than there is time", async () => {
    const processes = new ContainerProcesses(proc);
    process(100, v2(A));
    expect(await processes.find([A], 0)).toMatchObject({ kind: "timeout" });
    await expect.poll(() => find(processes, A)).toEqual({ [A]: 100 });
  });
});
