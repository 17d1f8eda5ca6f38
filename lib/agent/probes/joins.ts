import type { Metric } from "../../shared/exposition.ts";
import { type CgroupOwner, containerOf } from "./common/cgroup.ts";
import { type ContainerNames, containerKey, containerLabels, shortId } from "./common/container.ts";
import { type GpuDevice, gpuLabels } from "./common/gpu.ts";
import { gpuMetrics, nodeMetrics } from "./common/metric-families.ts";
import type { DockerContainer } from "./docker-inspect.ts";
import type { DockerLogs } from "./docker-logs.ts";
import type { DockerStatsRow } from "./docker-stats.ts";
import type { Flow } from "./iftop.ts";
import { type GpuMaker, assignedMetrics, gpuUseMetrics, joinAssignedGpus, joinGpuUse } from "./join-gpus.ts";
import { type Endpoint, type Socket, endpointKey, parseEndpoint } from "./lsof.ts";
import type { JoinedMetrics, Readings } from "./registry.ts";

/**
 * The metrics that join the readings of several probes, by the probe that publishes them. `fresh` has only readings that are not too
 * old. Where one is missing, the metrics are missing too, and never 0.
 *
 * nvidia-smi, amd-smi and rocm-smi publish which GPUs containers were given and use, iftop their traffic, and docker-logs whether they outlived
 * their jobs.
 */
export const joinedMetrics = (fresh: Readings): JoinedMetrics => {
  const { containers, logs, nvidia, amdSmi, amd, traffic, sockets } = fresh;
  const verdicts = joinZombies(logs, containers);
  const zombies = zombieIds(verdicts);
  const flows = joinNetwork(traffic?.flows, sockets?.byContainer, sockets?.owners, containers);
  const metrics: readonly (readonly [string, readonly Metric[]])[] = [
    ["nvidia-smi", gpusOf(fresh, "nvidia", nvidia?.log.gpus, nvidia?.owners, zombies)],
    ["amd-smi", gpusOf(fresh, "amd", amdSmi, undefined, zombies)],
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
  // A node may run docker beside the kubelet's containerd.
  const known = containers === undefined ? criContainers : [...(criContainers ?? []), ...containers];
  const use = joinGpuUse(gpus, owners, known);
  return [
    ...assignedMetrics(joinAssignedGpus(gpus, maker, containers) ?? []),
    ...(use === undefined ? [] : gpuUseMetrics(gpus, use, zombies)),
    ...uninterruptibleMetrics(gpus, processes?.longStanding?.uninterruptible),
  ];
};

/** A process that hangs in the kernel holds its GPU until the node is restarted. */
const uninterruptibleMetrics = (
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

/** The driver lists a process once for each type and MIG device, but it counts once. */
const countIn = (pids: ReadonlySet<number>, processes: readonly { readonly pid: number }[]): number =>
  new Set(processes.filter(({ pid }) => pids.has(pid)).map(({ pid }) => pid)).size;

/** What a container uses, and the container with its job. */
type JobUse = { readonly use: DockerStatsRow; readonly container: DockerContainer };

/**
 * Joins docker stats to docker inspect, by id, or by name where podman prints no id. Undefined unless both are fresh: the caller
 * gives undefined for one that is not. A container that is in only one of the two is left out.
 */
export const joinJobs = (
  stats: readonly DockerStatsRow[] | undefined,
  containers: readonly DockerContainer[] | undefined,
): readonly JobUse[] | undefined => {
  if (stats === undefined || containers === undefined) return undefined;
  const find = findByNames(containers);
  return stats
    .filter(({ measured }) => measured)
    .flatMap((use) => {
      const container = find(use);
      return container === undefined ? [] : [{ use, container }];
    });
};

/** Finds a container in a list by the names that another tool prints: its id, or its name where there is no id. */
export const findByNames = <T extends ContainerNames>(
  all: readonly T[],
): ((names: ContainerNames) => T | undefined) => {
  const byKey = new Map<string, T>();
  for (const one of all) {
    for (const names of [one, { id: undefined, name: one.name }]) {
      const key = containerKey(names);
      if (key !== undefined && !byKey.has(key)) byKey.set(key, one);
    }
  }
  return (names) => {
    const key = containerKey(names);
    return key === undefined ? undefined : byKey.get(key);
  };
};

/** The traffic of one container, in bytes a second. */
type ContainerTraffic = {
  readonly container: ContainerNames;
  readonly receive: number;
  readonly transmit: number;
};

/**
 * What each container sent and received, by iftop's flows and lsof's connections: a flow is a container's if one of its processes, by
 * its control group, has the connection with these two ends. Undefined unless all inputs are fresh: iftop's flows, lsof's rows of
 * each container (by id), the control groups of their processes, and the list of containers. A container without a flow is left out
 * and not 0: with address translation, its connections have other ends on the interface.
 */
export const joinNetwork = (
  flows: readonly Flow[] | undefined,
  sockets: ReadonlyMap<string, readonly Socket[]> | undefined,
  cgroups: ReadonlyMap<number, CgroupOwner> | undefined,
  containers: readonly ContainerNames[] | undefined,
): readonly ContainerTraffic[] | undefined => {
  if (flows === undefined || sockets === undefined || cgroups === undefined || containers === undefined)
    return undefined;
  const owners = ownersOf(sockets, cgroups);
  const traffic = new Map<string, { receive: number; transmit: number }>();
  const add = (id: string | undefined, receive: number, transmit: number): void => {
    if (id === undefined) return;
    const sum = traffic.get(shortId(id)) ?? { receive: 0, transmit: 0 };
    traffic.set(shortId(id), { receive: sum.receive + receive, transmit: sum.transmit + transmit });
  };
  for (const flow of flows) {
    const source = parseEndpoint(flow.source);
    const destination = parseEndpoint(flow.destination);
    if (source === undefined || destination === undefined) continue;
    add(owners.get(flowKey(source, destination)), flow.in[2], flow.out[2]);
    // iftop may print the two ends in the other order, and both may be on this node
    add(owners.get(flowKey(destination, source)), flow.out[2], flow.in[2]);
  }
  return containers.flatMap((container) => {
    const sum = container.id === undefined ? undefined : traffic.get(shortId(container.id));
    return sum === undefined ? [] : [{ container, ...sum }];
  });
};

/** The container that has a connection, by the connection's two ends. */
const ownersOf = (
  sockets: ReadonlyMap<string, readonly Socket[]>,
  cgroups: ReadonlyMap<number, CgroupOwner>,
): ReadonlyMap<string, string | undefined> => {
  const owners = new Map<string, string | undefined>();
  const listed = new Set([...sockets.keys()].map(shortId));
  for (const [id, rows] of sockets) {
    for (const { pid, local, remote } of rows) {
      const owner = cgroups.get(pid);
      // containers of a pod, or on the host's network, list each other's connections
      if (owner === undefined || containerOf(owner, listed) !== shortId(id)) continue;
      const key = flowKey(local, remote);
      // a connection that two containers share is counted for neither
      owners.set(key, owners.has(key) && owners.get(key) !== id ? undefined : id);
    }
  }
  return owners;
};

const flowKey = (from: Endpoint, to: Endpoint): string => `${endpointKey(from)} ${endpointKey(to)}`;

/** The metrics of containers' traffic. */
export const networkMetrics = (traffic: readonly ContainerTraffic[]): Metric[] =>
  nodeMetrics(
    traffic.flatMap(({ container, receive, transmit }) => [
      {
        metric: "gridmeter_network_container_receive_bytes_per_second" as const,
        labels: containerLabels(container),
        value: receive,
      },
      {
        metric: "gridmeter_network_container_transmit_bytes_per_second" as const,
        labels: containerLabels(container),
        value: transmit,
      },
    ]),
  );

/** Whether a running container's job has finished. */
type ZombieVerdict = { readonly container: DockerContainer; readonly zombie: boolean };

/**
 * Finds zombie containers, which run although their log says that the job has finished. Any container is one for a moment before it
 * ends; the alert waits an hour. Undefined unless both inputs are fresh. `logs` is by container id; a container whose log was not read
 * has no verdict.
 */
export const joinZombies = (
  logs: ReadonlyMap<string, DockerLogs> | undefined,
  containers: readonly DockerContainer[] | undefined,
): readonly ZombieVerdict[] | undefined => {
  if (logs === undefined || containers === undefined) return undefined;
  const byId = new Map([...logs].map(([id, one]) => [shortId(id), one]));
  return containers
    .filter(({ id, status }) => id !== undefined && status === "running")
    .flatMap((container) => {
      const finished = byId.get(shortId(container.id ?? ""))?.finished;
      return finished === undefined ? [] : [{ container, zombie: finished }];
    });
};

/** The short ids of zombie containers, for gpuUseMetrics. */
export const zombieIds = (verdicts: readonly ZombieVerdict[] | undefined): ReadonlySet<string> | undefined =>
  verdicts === undefined
    ? undefined
    : new Set(verdicts.flatMap(({ container, zombie }) => (zombie ? [shortId(container.id ?? "")] : [])));

/** Whether each container is a zombie, as a metric. */
export const zombieMetrics = (verdicts: readonly ZombieVerdict[]): Metric[] =>
  nodeMetrics(
    verdicts.map(({ container, zombie }) => ({
      metric: "gridmeter_container_zombie",
      labels: containerLabels(container),
      value: zombie,
    })),
  );
