import { describe, expect, it } from "vitest";
import type { CgroupOwner } from "../../../../lib/agent/probes/common/cgroup.ts";
import { parseDockerInspect } from "../../../../lib/agent/probes/docker-inspect.ts";
import { parseDockerStats } from "../../../../lib/agent/probes/docker-stats.ts";
import type { GpuDevice } from "../../../../lib/agent/probes/common/gpu.ts";
import { parseIftop } from "../../../../lib/agent/probes/iftop.ts";
import {
  joinJobs,
  joinNetwork,
  joinZombies,
  networkMetrics,
  zombieIds,
  zombieMetrics,
} from "../../../../lib/agent/probes/joins.ts";
import {
  assignedMetrics,
  gpuUseMetrics,
  joinAssignedGpus,
  joinGpuUse,
} from "../../../../lib/agent/probes/join-gpus.ts";
import { parseLsof } from "../../../../lib/agent/probes/lsof.ts";
import { sameLabelsThroughout, valuesBy } from "../../../support/metrics.ts";
import { fixture, printed } from "../../../support/probe-fixtures.ts";

const containers = parseDockerInspect(printed(fixture("docker-inspect.json"))).value;
const [running, exited] = containers as [(typeof containers)[0], (typeof containers)[0]];
const ID = running.id!;
const OTHER = exited.id!;
const within = (id: string): CgroupOwner => ({ kind: "container", ids: [id] });

const gpu = (index: number, more: Partial<GpuDevice> = {}): GpuDevice => ({
  index,
  minorNumber: index,
  uuid: `GPU-${String(index).repeat(8)}-2222-3333-4444-555555555555`,
  utilization: 0.5,
  memoryUsedBytes: 1,
  memoryTotalBytes: 2,
  processes: [],
  ...more,
});
const holder = (pid: number, usedBytes: number | null = 100) => ({
  pid,
  type: "C",
  usedBytes: usedBytes ?? undefined,
  gpuInstance: undefined,
  computeInstance: undefined,
});

describe("container to job", () => {
  const stats = parseDockerStats(printed(fixture("docker-stats.jsonl"))).value;

  it("joins a short id to a long one (openpai#2192), and leaves out what only one has seen", () => {
    expect(joinJobs(stats, containers)?.map(({ use, container }) => [use.name, container.job.job])).toEqual([
      ["trainer", "ann~mnist"],
    ]);
  });

  it("joins by name where podman prints no id", () => {
    const [podman] = parseDockerStats(printed('{"Name":"bob-train-container_e47_1","CPU":5}')).value;
    expect(joinJobs([podman!], containers)?.[0]?.container.job.job).toBe("bob~train");
  });

  it("gives nothing unless both are fresh", () => {
    expect(joinJobs(undefined, containers)).toBeUndefined();
    expect(joinJobs(stats, undefined)).toBeUndefined();
  });
});

describe("GPU to container by settings", () => {
  const given = (gpus: readonly GpuDevice[], assigned: object) =>
    joinAssignedGpus(gpus, "nvidia", [{ ...running, gpus: { ...running.gpus, ...assigned } }])?.map(
      (one) => one.gpu.index,
    );

  it("takes an index for a place in the order, and no minor number (openpai#3951)", () => {
    const swapped = [gpu(0, { minorNumber: 2 }), gpu(1, { minorNumber: 3 }), gpu(2, { minorNumber: 0 })];
    expect(given(swapped, { nvidia: [{ by: "index", value: 0 }] })).toEqual([0]);
    expect(given(swapped, { nvidia: [{ by: "minor", value: 0 }] })).toEqual([2]);
  });

  it("knows a GPU by its uuid, whole or its beginning, once", () => {
    const gpus = [gpu(0), gpu(1), gpu(2, { uuid: undefined })];
    expect(
      given(gpus, {
        nvidia: [
          { by: "uuid", value: "gpu-1111" },
          { by: "index", value: 1 },
        ],
      }),
    ).toEqual([1]);
    expect(given(gpus, { nvidia: "all" })).toEqual([0, 1, 2]);
    expect(given(gpus, { nvidia: undefined })).toEqual([]);
    expect(given(gpus, { nvidia: [{ by: "index", value: 9 }] })).toEqual([]);
  });

  it("looks at running containers only, and keeps makers apart", () => {
    // the one that has exited names minors 3 and 2
    const assigned = joinAssignedGpus([gpu(0), gpu(1), gpu(2), gpu(3)], "nvidia", containers)!;
    expect(assigned.map((one) => [one.container.id, one.gpu.index])).toEqual([[ID, 1]]);
    expect(joinAssignedGpus([gpu(0), gpu(1)], "amd", containers)).toEqual([]);
    const metrics = assignedMetrics(assigned);
    sameLabelsThroughout(metrics);
    expect(metrics[0]?.samples[0]?.labels).toMatchObject({
      container_id: ID.slice(0, 12),
      gpu: "1",
      pod: "job-worker-0",
    });
  });

  it("has a series a container where two share a GPU (openpai#1949)", () => {
    const other = { ...running, id: OTHER, name: "other" };
    const shared = joinAssignedGpus([gpu(0), gpu(1)], "nvidia", [running, other])!;
    sameLabelsThroughout(assignedMetrics(shared));
    expect(shared).toHaveLength(2);
  });

  it("gives nothing unless both are fresh", () => {
    expect(joinAssignedGpus(undefined, "nvidia", containers)).toBeUndefined();
    expect(joinAssignedGpus([gpu(0)], "nvidia", undefined)).toBeUndefined();
  });
});

describe("GPU to container by process", () => {
  const gpus = [
    gpu(0, { processes: [holder(1), holder(2), holder(2, 50), holder(3), holder(4), holder(5)] }),
    gpu(1, { processes: [holder(1), holder(2, 7), holder(2, null)] }),
    gpu(2, { processes: undefined }),
    gpu(3),
  ];
  const owners = new Map<number, CgroupOwner>([
    [1, within(ID)],
    // docker in docker: the inner one is nobody's that docker lists
    [2, { kind: "container", ids: [ID, "f".repeat(64)] }],
    [3, { kind: "host" }],
    [4, { kind: "unknown" }],
  ]);
  const use = joinGpuUse(gpus, owners, containers)!;

  it("tells containers, the host, and what nobody knows", () => {
    expect(
      use
        .filter((one) => one.gpu.index === 0)
        .map(({ process, owner }) => [process.pid, typeof owner === "object" ? owner.id : owner]),
    ).toEqual([
      [1, ID],
      [2, ID],
      [2, ID],
      [3, "external"],
      [4, "unknown"],
      [5, "unknown"],
    ]);
    expect(
      joinGpuUse([gpu(0, { processes: [holder(9)] })], new Map([[9, within("e".repeat(64))]]), containers),
    ).toMatchObject([{ owner: "unlisted" }]);
  });

  it("says nothing, rather than none, of strangers on a GPU where it is known of no process whose it is", () => {
    const few = [
      gpu(0, { processes: [holder(4), holder(5)] }),
      gpu(1, { processes: [holder(4), holder(9)] }),
      gpu(2, { processes: [holder(4), holder(3)] }),
      gpu(3),
    ];
    const known = new Map([...owners, [9, within("e".repeat(64))] as const]);
    const metrics = gpuUseMetrics(few, joinGpuUse(few, known, containers)!, new Set());
    expect(valuesBy(metrics, "gridmeter_gpu_external_processes", "gpu")).toEqual({ 1: 0, 2: 1, 3: 0 });
    expect(valuesBy(metrics, "gridmeter_gpu_zombie_container_processes", "gpu")).toEqual({ 1: 0, 2: 0, 3: 0 });
  });

  it("adds up a container's memory on a GPU where all of it is known, and counts a process once", () => {
    const metrics = gpuUseMetrics(gpus, use, new Set([ID.slice(0, 12)]));
    sameLabelsThroughout(metrics);
    expect(valuesBy(metrics, "gridmeter_container_gpu_processes", "gpu")).toEqual({ 0: 2, 1: 2 });
    expect(valuesBy(metrics, "gridmeter_container_gpu_memory_used_bytes", "gpu")).toEqual({ 0: 250 });
    expect(valuesBy(metrics, "gridmeter_gpu_external_processes", "gpu")).toEqual({ 0: 1, 1: 0, 3: 0 });
    expect(valuesBy(metrics, "gridmeter_gpu_zombie_container_processes", "gpu")).toEqual({ 0: 2, 1: 2, 3: 0 });
  });

  it("says nothing of zombies while nobody knows them", () => {
    const names = gpuUseMetrics(gpus, use, undefined).map(({ name }) => name);
    expect(names).not.toContain("gridmeter_gpu_zombie_container_processes");
  });

  it("gives nothing unless all inputs are fresh", () => {
    expect(joinGpuUse(undefined, owners, containers)).toBeUndefined();
    expect(joinGpuUse(gpus, undefined, containers)).toBeUndefined();
    expect(joinGpuUse(gpus, owners, undefined)).toBeUndefined();
  });
});

describe("network to container", () => {
  const { flows } = parseIftop(printed(fixture("iftop.txt"))).value;
  const { value: rows } = parseLsof(printed(fixture("lsof.txt")));
  const sockets = new Map([[ID, rows]]);
  const cgroups = new Map<number, CgroupOwner>([4242, 4243].map((pid) => [pid, within(ID)]));
  const both = [running, { ...exited, status: "running" }];

  it("adds up flows, also those that iftop has the other way round; one cut short is nobody's", () => {
    const traffic = joinNetwork(flows, sockets, cgroups, both)!;
    expect(traffic.map(({ container, receive, transmit }) => [container.id, receive, transmit])).toEqual([
      [ID, 256 + 1.5 * 1024 * 1024 + 200, 1024 + 4096 + 100],
    ]);
    const metrics = networkMetrics(traffic);
    sameLabelsThroughout(metrics);
    expect(metrics.map(({ name }) => name)).toEqual([
      "gridmeter_network_container_receive_bytes_per_second",
      "gridmeter_network_container_transmit_bytes_per_second",
    ]);
  });

  it("does not give one container the connections of another that it sees, as on the host's network", () => {
    const all = new Map([
      [ID, rows],
      [OTHER, rows],
    ]);
    const split = new Map<number, CgroupOwner>([
      [4242, within(OTHER)],
      [4243, { kind: "host" }],
    ]);
    expect(joinNetwork(flows, all, split, both)?.map(({ container }) => container.id)).toEqual([OTHER]);
    expect(joinNetwork(flows, all, new Map([[4242, { kind: "host" }]]), both)).toEqual([]);
  });

  it("gives a connection that two containers share to neither", () => {
    const shared = new Map([
      [ID, rows.slice(1, 2)],
      [OTHER, rows.slice(2, 3)],
    ]);
    const split = new Map([
      [4242, within(ID)],
      [4243, within(OTHER)],
    ]);
    expect(joinNetwork(flows, shared, split, both)).toEqual([]);
  });

  it("leaves out a container without a flow: behind address translation nobody knows (defect 3)", () => {
    expect(joinNetwork([], sockets, cgroups, both)).toEqual([]);
  });

  it("gives nothing unless all inputs are fresh", () => {
    expect(joinNetwork(undefined, sockets, cgroups, both)).toBeUndefined();
    expect(joinNetwork(flows, undefined, cgroups, both)).toBeUndefined();
    expect(joinNetwork(flows, sockets, undefined, both)).toBeUndefined();
    expect(joinNetwork(flows, sockets, cgroups, undefined)).toBeUndefined();
  });
});

describe("zombie containers", () => {
  const other = { ...running, id: OTHER, name: "other" };
  const third = { ...running, id: "9".repeat(64), name: "third" };
  const logs = new Map([
    [ID.slice(0, 12), { finished: true }],
    [OTHER, { finished: false }],
  ]);

  it("are those that run although their log says that the job has finished", () => {
    const verdicts = joinZombies(logs, [running, other, third])!;
    const metrics = zombieMetrics(verdicts);
    sameLabelsThroughout(metrics);
    expect(valuesBy(metrics, "gridmeter_container_zombie", "container_id")).toEqual({
      [ID.slice(0, 12)]: 1,
      [OTHER.slice(0, 12)]: 0,
    });
    expect(zombieIds(verdicts)).toEqual(new Set([ID.slice(0, 12)]));
  });

  it("are not those that have ended", () => {
    expect(joinZombies(new Map([[OTHER, { finished: true }]]), [exited])).toEqual([]);
  });

  it("are not known unless both inputs are fresh", () => {
    expect(joinZombies(undefined, containers)).toBeUndefined();
    expect(joinZombies(logs, undefined)).toBeUndefined();
    expect(zombieIds(undefined)).toBeUndefined();
  });
});
