import { mkdtemp, mkdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseCgroup, readCgroup, readCgroups, rootlessUser } from "../../../../lib/agent/probes/common/cgroup.ts";

const ID = "0a1b2c3d".repeat(8);
const OTHER = "ffeeddcc".repeat(8);
const POD = "pod6f9619ff-8b86-d011-b42d-00cf4fc964ff";

describe("the container of a process", () => {
  it.each([
    ["docker, v1", `12:pids:/docker/${ID}\n11:cpu,cpuacct:/docker/${ID}\n0::/system.slice/containerd.service\n`],
    ["docker, v2 with systemd", `0::/system.slice/docker-${ID}.scope\n`],
    ["docker, v2 with cgroupfs", `0::/docker/${ID}\n`],
    ["kubelet and docker, v1", `4:memory:/kubepods/burstable/${POD}/${ID}\n`],
    [
      "kubelet and docker, systemd slices",
      `0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-${POD}.slice/docker-${ID}.scope\n`,
    ],
    ["containerd, v2", `0::/kubepods.slice/kubepods-${POD}.slice/cri-containerd-${ID}.scope\n`],
    [
      "containerd, v1 with systemd",
      `10:cpuset:/system.slice/containerd.service/kubepods-besteffort-${POD}.slice:cri-containerd:${ID}\n`,
    ],
    ["containerd, without slices", `0::/k8s.io/${ID}\n`],
    ["CRI-O", `0::/kubepods.slice/kubepods-${POD}.slice/crio-${ID}.scope/container\n`],
    ["podman", `0::/machine.slice/libpod-${ID}.scope/container\n`],
    ["podman in a service's group", `0::/system.slice/web.service/libpod-payload-${ID}\n`],
    ["podman with cgroupfs", `4:memory:/libpod_parent/libpod-${ID}\n`],
    ["docker with a systemd within", `0::/system.slice/docker-${ID}.scope/init.scope\n`],
    ["a build within a container", `0::/docker/${ID}/buildkit/x2q0rm9v1c8dlz4k7h5n3w6yb\n`],
    ["conmon of a podman within a container", `0::/docker/${ID}/machine.slice/libpod-conmon-${OTHER}.scope\n`],
    ["Kata within a container", `0::/docker/${ID}/kata_overhead/${OTHER}\n`],
    ["seen from the agent's own group", `0::/../../kubepods-${POD}.slice/cri-containerd-${ID}.scope\n`],
    ["a unit within a container", `0::/docker/${ID}/system.slice/sshd.service\n`],
    ["one hierarchy of many", `3:cpu:/\n2:memory:/docker/${ID}\n1:name=systemd:/user.slice\n`],
  ])("%s", (_, text) => {
    expect(parseCgroup(text)).toEqual({ kind: "container", ids: [ID] });
  });

  it.each([
    `0::/user.slice/user-7.slice/user@7.service/user.slice/libpod-${ID}.scope\n`,
    `0::/user.slice/user-7.slice/user@7.service/app.slice/docker-${ID}.scope\n`,
    `0::/../../user-7.slice/user@7.service/user.slice/docker-${ID}.scope/init\n`,
    `1:name=systemd:/user.slice/user-7.slice/session-3.scope/docker/${ID}\n`,
  ])("%j is one of user 7's own docker, and for any other docker a group that user 7 has called so", (text) => {
    expect(parseCgroup(text, 7)).toEqual({ kind: "container", ids: [ID] });
    expect(parseCgroup(text)).toEqual({ kind: "host" });
    expect(parseCgroup(text, 8)).toEqual({ kind: "host" });
  });

  it("takes no group below the logins of a container for a container", () => {
    const text = `0::/docker/${OTHER}/user.slice/user-7.slice/user@7.service/docker-${ID}.scope\n`;
    expect(parseCgroup(text)).toEqual({ kind: "container", ids: [OTHER] });
  });

  it.each([
    [{}, 0, undefined],
    [{}, 1000, 1000],
    [{ DOCKER_HOST: "unix:///run/user/1000/docker.sock" }, 0, 1000],
    [{ DOCKER_HOST: "unix:///run/user/1000/podman/podman.sock" }, 0, 1000],
    [{ DOCKER_HOST: "unix:///var/run/docker.sock" }, 0, undefined],
    [{ DOCKER_HOST: "tcp://10.0.0.1:2376" }, 0, undefined],
    [{ DOCKER_HOST: "unix:///run/user/x/docker.sock" }, 0, undefined],
  ])("with %j and run by user %i, docker is that of %j", (environment, self, user) => {
    expect(rootlessUser(environment, self)).toBe(user);
  });

  it("gives docker in docker the outermost first", () => {
    expect(parseCgroup(`0::/docker/${OTHER}/docker/${ID}\n`)).toEqual({ kind: "container", ids: [OTHER, ID] });
  });

  it.each([
    "0::/user.slice/user-1000.slice/session-3.scope\n",
    "0::/system.slice/sshd.service\n",
    "0::/../../init.scope\n",
    `0::/system.slice/run-${ID.slice(0, 32)}.scope\n`,
    // podman looks after a container's health with a unit that is called like the container
    `0::/system.slice/${ID}.service\n`,
    "0::/system.slice/cri-docker.service\n",
    "0::/system.slice/docker.service/buildkit/x2q0rm9v1c8dlz4k7h5n3w6yb\n",
    "0::/machine.slice/systemd-nspawn@lab.service/payload\n",
  ])("%j is the host's", (text) => {
    expect(parseCgroup(text)).toEqual({ kind: "host" });
  });

  it.each([
    ["podman's conmon", `0::/machine.slice/libpod-conmon-${ID}.scope\n`],
    ["podman's conmon, v1", `1:name=systemd:/machine.slice/libpod-conmon-${ID}.scope\n2:memory:/\n`],
    [
      "podman's conmon without root",
      `0::/user.slice/user-7.slice/user@7.service/user.slice/libpod-conmon-${ID}.scope\n`,
    ],
    ["podman's conmon in a service's group", "0::/system.slice/web.service/runtime\n"],
    ["old podman's conmon", `4:memory:/libpod_parent/libpod-${ID}/conmon\n`],
    ["the conmon of a podman pod", `4:memory:/libpod_parent/${ID}/conmon\n`],
    ["CRI-O's conmon", `0::/system.slice/crio-conmon-${ID}.scope\n`],
    ["CRI-O's conmon with the pod", `0::/kubepods.slice/kubepods-${POD}.slice/crio-conmon-${ID}.scope\n`],
    ["CRI-O's conmon, seen from the agent's own group", `0::/../kubepods-${POD}.slice/crio-conmon-${ID}.scope\n`],
    ["CRI-O's conmon with cgroupfs", `3:cpu:/kubepods/burstable/${POD}/crio-conmon-${ID}\n`],
    ["CRI-O's conmon with systemd's names and cgroupfs", `3:cpu:/system.slice:crio-conmon:${ID}\n`],
    ["conmon-rs", `0::/system.slice/crio-conmonrs-${ID}.scope\n`],
    ["containerd's shim", `0::/system.slice/containerd-shim-${ID}.scope\n`],
    ["Kata's machine, v1", `7:memory:/kata_overhead/${ID}\n`],
    ["Kata's machine, systemd", `0::/kata-overhead.slice/runtime-rs-${ID}.scope\n`],
  ])("%s watches a container, and is the host's", (_, text) => {
    expect(parseCgroup(text)).toEqual({ kind: "host" });
  });

  it.each(["0::/\n", "12:pids:/\n0::/\n", "0::/../..\n", "", "garbage"])("of %j, nobody knows", (text) => {
    expect(parseCgroup(text)).toEqual({ kind: "unknown" });
  });

  it("reads them of processes, and knows nothing of one that is gone", async () => {
    const proc = await mkdtemp(join(tmpdir(), "gridmeter-proc-"));
    try {
      await mkdir(join(proc, "7"));
      await writeFile(join(proc, "7", "cgroup"), `0::/docker/${ID}\n`);
      expect(await readCgroup(8, proc)).toEqual({ kind: "unknown" });
      expect([...(await readCgroups([7, 8, 7], proc))]).toEqual([
        [7, { kind: "container", ids: [ID] }],
        [8, { kind: "unknown" }],
      ]);
    } finally {
      await rm(proc, { recursive: true });
    }
  });

  it("reads one of a real process", async () => {
    expect(["container", "host", "unknown"]).toContain((await readCgroup(process.pid)).kind);
  });
});
