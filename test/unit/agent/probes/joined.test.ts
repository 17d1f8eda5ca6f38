import { describe, expect, test } from "vitest";
import type { Metric } from "../../../../lib/shared/exposition.ts";
import type { CgroupOwner } from "../../../../lib/agent/probes/common/cgroup.ts";
import { parseDockerInspect } from "../../../../lib/agent/probes/docker-inspect.ts";
import { parseIftop } from "../../../../lib/agent/probes/iftop.ts";
import { joinedMetrics } from "../../../../lib/agent/probes/joins.ts";
import { parseLsof } from "../../../../lib/agent/probes/lsof.ts";
import { parseNvidiaSmi } from "../../../../lib/agent/probes/nvidia-smi.ts";
import type { Readings } from "../../../../lib/agent/probes/registry.ts";
import { parseRocmSmi } from "../../../../lib/agent/probes/rocm-smi.ts";
import { printed } from "../../../support/probe-fixtures.ts";
import * as node from "../../../support/stand-ins/node.ts";

const containers = node.containersOf(2, 2);
const owners = new Map(containers.map(({ id, pid }): [number, CgroupOwner] => [pid, { kind: "container", ids: [id] }]));
const [first, second] = containers;

/** What all probes have read on a node where all is well. */
const FRESH: Required<Pick<Readings, "containers" | "logs" | "nvidia" | "amd" | "traffic" | "sockets" | "processes">> =
  {
    containers: containers.flatMap((one) => parseDockerInspect(printed(node.dockerInspect(one))).value),
    logs: new Map([
      [first!.id, { finished: true }],
      [second!.id, { finished: false }],
    ]),
    nvidia: { log: parseNvidiaSmi(printed(node.nvidiaSmi(2, containers))).value, owners },
    amd: { report: parseRocmSmi(printed(node.rocmSmi(1))).value, owners: new Map() },
    traffic: parseIftop(printed(node.iftop(containers))).value,
    sockets: {
      byContainer: new Map(containers.map((one) => [one.id, parseLsof(printed(node.lsof(one))).value])),
      owners,
    },
    processes: {
      all: [],
      longStanding: {
        uninterruptible: [
          { state: "D", residentBytes: 1, pid: first!.pid, commandLine: "python3 train.py", name: "python3" },
        ],
        zombies: [],
      },
    },
  };

const names = (metrics: readonly Metric[] | undefined) => metrics?.map(({ name }) => name);
const values = (fresh: Readings, probe: string, name: string) =>
  joinedMetrics(fresh)
    .get(probe)
    ?.find((one) => one.name === name)
    ?.samples.map(({ value }) => value);

const without = (...keys: readonly (keyof Readings)[]): Readings =>
  Object.fromEntries(Object.entries(FRESH).filter(([key]) => !keys.some((one) => one === key)));

const GPUS = [
  "gridmeter_container_gpu_assigned",
  "gridmeter_container_gpu_processes",
  "gridmeter_container_gpu_memory_used_bytes",
  "gridmeter_gpu_external_processes",
  "gridmeter_gpu_zombie_container_processes",
  "gridmeter_gpu_uninterruptible_processes",
];
const TRAFFIC = [
  "gridmeter_network_container_receive_bytes_per_second",
  "gridmeter_network_container_transmit_bytes_per_second",
];

describe("joined metrics", () => {
  test("belong to the probe that saw what they measure", () => {
    const joined = joinedMetrics(FRESH);
    expect([...joined.keys()]).toStrictEqual(["nvidia-smi", "iftop", "docker-logs"]);
    expect(names(joined.get("nvidia-smi"))).toStrictEqual(GPUS);
    expect(names(joined.get("iftop"))).toStrictEqual(TRAFFIC);
    expect(names(joined.get("docker-logs"))).toStrictEqual(["gridmeter_container_zombie"]);
  });

  test("say who uses a GPU, what for, and whether it hangs", () => {
    const of = (name: string) => values(FRESH, "nvidia-smi", name);
    expect(of("gridmeter_container_gpu_assigned")).toStrictEqual([1, 1]);
    expect(of("gridmeter_container_gpu_processes")).toStrictEqual([1, 1]);
    expect(of("gridmeter_container_gpu_memory_used_bytes")).toStrictEqual([1024 ** 3, 1024 ** 3]);
    expect(of("gridmeter_gpu_external_processes")).toStrictEqual([0, 0]);
    expect(of("gridmeter_gpu_zombie_container_processes")).toStrictEqual([1, 0]);
    expect(of("gridmeter_gpu_uninterruptible_processes")).toStrictEqual([1, 0]);
    expect(values(FRESH, "iftop", TRAFFIC[1]!)).toStrictEqual([2048, 2048]);
    expect(values(FRESH, "docker-logs", "gridmeter_container_zombie")).toStrictEqual([1, 0]);
  });

  test("know the containers of a node without docker by crictl", () => {
    const criContainers = FRESH.containers.map(({ id }) => ({
      id,
      name: undefined,
      namespace: "batch",
      pod: "train-0",
      container: "main",
    }));
    const joined = joinedMetrics({ ...without("containers", "logs"), criContainers }).get("nvidia-smi");
    const processes = joined?.find(({ name }) => name === "gridmeter_container_gpu_processes")?.samples;
    expect(processes?.map(({ value }) => value)).toStrictEqual([1, 1]);
    expect(processes?.[0]?.labels).toMatchObject({ namespace: "batch", pod: "train-0", container: "main", gpu: "0" });
  });

  const lost: readonly (readonly [missing: (keyof Readings)[], left: Record<string, readonly string[]>])[] = [
    [["containers"], { "nvidia-smi": ["gridmeter_gpu_uninterruptible_processes"] }],
    [
      ["logs"],
      { "nvidia-smi": GPUS.filter((name) => name !== "gridmeter_gpu_zombie_container_processes"), iftop: TRAFFIC },
    ],
    [["nvidia"], { iftop: TRAFFIC, "docker-logs": ["gridmeter_container_zombie"] }],
    [["traffic"], { "nvidia-smi": GPUS, "docker-logs": ["gridmeter_container_zombie"] }],
    [["sockets"], { "nvidia-smi": GPUS, "docker-logs": ["gridmeter_container_zombie"] }],
    [
      ["processes"],
      {
        "nvidia-smi": GPUS.filter((name) => name !== "gridmeter_gpu_uninterruptible_processes"),
        iftop: TRAFFIC,
        "docker-logs": ["gridmeter_container_zombie"],
      },
    ],
    [["containers", "processes"], {}],
    [["nvidia", "traffic", "logs"], {}],
  ];
  test.each(lost)("without %j, what needs them is absent and never 0", (missing, left) => {
    const joined = joinedMetrics(without(...missing));
    expect(Object.fromEntries([...joined].map(([probe, metrics]) => [probe, names(metrics)]))).toStrictEqual(left);
  });

  test("of nothing are none", () => {
    expect(joinedMetrics({})).toStrictEqual(new Map());
  });

  test("of AMD's GPUs are rocm-smi's, as far as it tells: it does not say which process holds which", () => {
    const [container] = FRESH.containers;
    const gpus = { ...container!.gpus, amd: [{ by: "index", value: 0 }] as const };
    const fresh: Readings = { amd: FRESH.amd, processes: FRESH.processes, containers: [{ ...container!, gpus }] };
    expect([...joinedMetrics(fresh)].map(([probe, metrics]) => [probe, names(metrics)])).toStrictEqual([
      ["rocm-smi", ["gridmeter_container_gpu_assigned"]],
    ]);
  });
});
