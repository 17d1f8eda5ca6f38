import type { Labels, Metric } from "../../shared/exposition.ts";
import type { ContainerNames } from "../probes/common/container.ts";
import type { GpuDevice } from "../probes/common/gpu.ts";
import { labelText } from "../probes/common/parse.ts";
import type { DockerContainer } from "../probes/docker-inspect.ts";
import type { DockerStatsRow } from "../probes/docker-stats.ts";
import { type GpuMaker, joinAssignedGpus } from "../probes/join-gpus.ts";
import { findByNames, joinJobs, joinNetwork } from "../probes/joins.ts";
import type { Readings } from "../probes/registry.ts";
import { type OpenPaiSample, openPaiMetric, percent } from "./catalogue.ts";
import { memoryPercent } from "./gpus.ts";

/** A job's container; undefined for one that belongs to no job. */
const taskLabels = ({ job }: DockerContainer): Labels | undefined =>
  job.job === undefined
    ? undefined
    : {
        username: labelText(job.user),
        job_name: labelText(job.job),
        role_name: labelText(job.role),
        task_index: labelText(job.taskIndex),
        job_instance_id: labelText(job.instance),
        virtual_cluster: labelText(job.virtualCluster),
      };

/** OpenPAI's own services run in these namespaces; any other container is somebody's and no service of the cluster. */
const SERVICE_NAMESPACES = new Set(["default", "kube-system"]);

/**
 * A service is called as its container in Kubernetes. job-exporter looks for the beginnings of known names, and takes weave-npc
 * for weave. `POD` is the container that only holds a pod's network.
 */
const serviceLabels = ({ namespace, container }: ContainerNames): Labels | undefined =>
  namespace === undefined || !SERVICE_NAMESPACES.has(namespace) || container === undefined || container === "POD"
    ? undefined
    : { name: labelText(container) };

type Kind = "task" | "service";

/** What a container is to OpenPAI: a task wins. Without docker inspect nobody knows which containers are tasks. */
const labelsOf = (container: DockerContainer): readonly [Kind, Labels] | undefined => {
  const task = taskLabels(container);
  if (task !== undefined) return ["task", task];
  const service = serviceLabels(container);
  return service === undefined ? undefined : ["service", service];
};

/** Samples of one kind. Containers with equal labels (a sidecar) would be one series twice: the first one counts. */
const samplesOf = <T extends { readonly container: DockerContainer }>(
  all: readonly T[],
  wanted: Kind,
  value: (one: T) => number | undefined,
): readonly OpenPaiSample[] => {
  const samples = new Map<string, OpenPaiSample>();
  for (const one of all) {
    const [kind, labels] = labelsOf(one.container) ?? [];
    if (kind !== wanted || labels === undefined) continue;
    const key = JSON.stringify(labels);
    if (!samples.has(key)) samples.set(key, { labels, value: value(one) });
  }
  return [...samples.values()];
};

const STATS = [
  ["cpu_percent", ({ cpu }: DockerStatsRow) => percent(cpu)],
  ["mem_usage_byte", ({ memoryUsedBytes }: DockerStatsRow) => memoryUsedBytes],
  ["mem_usage_percent", ({ memoryUsage }: DockerStatsRow) => percent(memoryUsage)],
  ["mem_limit_byte", ({ memoryLimitBytes }: DockerStatsRow) => memoryLimitBytes],
  ["block_in_byte", ({ readBytes }: DockerStatsRow) => readBytes],
  ["block_out_byte", ({ writtenBytes }: DockerStatsRow) => writtenBytes],
] as const;

/** What tasks and services use, by docker stats. Absent unless docker inspect is fresh too. */
export const statsMetrics = ({ stats, containers }: Readings): readonly Metric[] => {
  const uses = joinJobs(stats, containers) ?? [];
  return STATS.flatMap(([name, value]) => [
    openPaiMetric(
      `task_${name}`,
      samplesOf(uses, "task", ({ use }) => value(use)),
    ),
    openPaiMetric(
      `service_${name}`,
      samplesOf(uses, "service", ({ use }) => value(use)),
    ),
  ]);
};

/** What tasks and services received and sent, bytes a second. Absent unless iftop, lsof and docker inspect are fresh. */
export const trafficMetrics = ({ traffic, sockets, containers }: Readings): readonly Metric[] => {
  const find = findByNames(containers ?? []);
  const all = (joinNetwork(traffic?.flows, sockets?.byContainer, sockets?.owners, containers) ?? []).flatMap((one) => {
    const container = find(one.container);
    return container === undefined ? [] : [{ ...one, container }];
  });
  return [
    openPaiMetric(
      "task_net_in_byte",
      samplesOf(all, "task", ({ receive }) => receive),
    ),
    openPaiMetric(
      "task_net_out_byte",
      samplesOf(all, "task", ({ transmit }) => transmit),
    ),
    openPaiMetric(
      "service_net_in_byte",
      samplesOf(all, "service", ({ receive }) => receive),
    ),
    openPaiMetric(
      "service_net_out_byte",
      samplesOf(all, "service", ({ transmit }) => transmit),
    ),
  ];
};

/** The use of GPUs that tasks were given, whether a task uses it or not. Absent unless docker inspect is fresh. */
export const taskGpuMetrics = (
  gpus: readonly GpuDevice[],
  maker: GpuMaker,
  { containers }: Readings,
): readonly Metric[] => {
  const assigned = (joinAssignedGpus(gpus, maker, containers) ?? []).flatMap(({ container, gpu }) => {
    const task = taskLabels(container);
    return task === undefined || gpu.minorNumber === undefined
      ? []
      : [{ gpu, labels: { ...task, minor_number: String(gpu.minorNumber) } }];
  });
  return [
    openPaiMetric(
      "task_gpu_percent",
      assigned.map(({ gpu, labels }) => ({ labels, value: percent(gpu.utilization) })),
    ),
    openPaiMetric(
      "task_gpu_mem_percent",
      assigned.map(({ gpu, labels }) => ({ labels, value: memoryPercent(gpu) })),
    ),
  ];
};
