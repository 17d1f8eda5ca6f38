import type { Metric } from "../agent/types.ts";
import { gpuLabels, type GpuDevice } from "./gpu.ts";
import { gpuMetrics } from "./gpu-metrics.ts";
import {
  assignedMetrics,
  gpuUseMetrics,
  joinAssignedGpus,
  joinGpuUse,
  joinNetwork,
  joinZombies,
  networkMetrics,
  zombieMetrics,
  type GpuMaker,
} from "./join.ts";
import { zombieIds } from "./join-zombies.ts";
import type { JoinedMetrics, Readings } from "./readings.ts";

/**
 * The metrics that come of what several probes have read, by the probe that publishes them. `fresh` has only what is not too
 * old: where an input is missing, so are the metrics, and never 0.
 *
 * Which GPUs containers were given and use belongs to nvidia-smi and rocm-smi, their traffic to iftop, and whether they outlived
 * their jobs to docker-logs.
 */
export const joinedMetrics = (fresh: Readings): JoinedMetrics => {
  const { containers, logs, nvidia, amd, traffic, sockets } = fresh;
  const verdicts = joinZombies(logs, containers);
  const zombies = zombieIds(verdicts);
  const flows = joinNetwork(traffic?.flows, sockets?.byContainer, sockets?.owners, containers);
  const metrics: readonly (readonly [string, readonly Metric[]])[] = [
    ["nvidia-smi", gpusOf(fresh, "nvidia", nvidia?.log.gpus, nvidia?.owners, zombies)],
    ["rocm-smi", gpusOf(fresh, "amd", amd?.report.gpus, amd?.owners, zombies)],
    ["iftop", networkMetrics(flows ?? [])],
    ["docker-logs", zombieMetrics(verdicts ?? [])],
  ];
  return new Map(metrics.filter(([, some]) => some.length > 0));
};

type Owners = NonNullable<Readings["nvidia"]>["owners"];

const gpusOf = (
  { containers, criContainers, processes }: Readings,
  maker: GpuMaker,
  gpus: readonly GpuDevice[] | undefined,
  owners: Owners | undefined,
  zombies: ReadonlySet<string> | undefined,
): readonly Metric[] => {
  if (gpus === undefined) return [];
  // A node may run docker beside the kubelet's containerd. A process of a container that neither list has is of nobody known.
  const known = containers === undefined ? criContainers : [...(criContainers ?? []), ...containers];
  const use = joinGpuUse(gpus, owners, known);
  return [
    ...assignedMetrics(joinAssignedGpus(gpus, maker, containers) ?? []),
    ...(use === undefined ? [] : gpuUseMetrics(gpus, use, zombies)),
    ...hanging(gpus, processes?.longStanding?.uninterruptible),
  ];
};

/** A process that hangs in the kernel keeps its GPU until the node is restarted. */
const hanging = (
  gpus: readonly GpuDevice[],
  uninterruptible: readonly { readonly pid: number }[] | undefined,
): readonly Metric[] => {
  if (uninterruptible === undefined) return [];
  const pids = new Set(uninterruptible.map(({ pid }) => pid));
  return gpuMetrics(
    gpus.map((gpu) => ({
      metric: "gridmeter_gpu_uninterruptible_processes",
      labels: gpuLabels(gpu),
      value: gpu.processes === undefined ? undefined : countIn(pids, gpu.processes),
    })),
  );
};

/** The driver lists a process once a type and MIG device. */
const countIn = (pids: ReadonlySet<number>, processes: readonly { readonly pid: number }[]): number =>
  new Set(processes.filter(({ pid }) => pids.has(pid)).map(({ pid }) => pid)).size;
