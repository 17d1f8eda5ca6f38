import type { Metric } from "../../shared/exposition.ts";
import type { CgroupOwner } from "./common/cgroup.ts";
import { type ContainerNames, containerLabels, shortId } from "./common/container.ts";
import { type GpuDevice, type GpuProcess, gpuLabels } from "./common/gpu.ts";
import { type NodeSample, nodeMetrics } from "./common/metric-families.ts";
import type { AssignedGpus, GpuReference } from "./common/assigned-gpus.ts";
import type { DockerContainer } from "./docker-inspect.ts";

export type GpuMaker = "nvidia" | "amd";

/** A GPU that a container was given, whether it uses it or not. */
type AssignedGpu = { readonly container: DockerContainer; readonly gpu: GpuDevice };

/**
 * Which GPUs the running containers were given by their settings. An index in NVIDIA_VISIBLE_DEVICES is a position in nvidia-smi's
 * order and no minor number (openpai#3951). Undefined unless both inputs are fresh. Two containers may have the same GPU, so that the
 * values of a GPU must not be added up over containers (openpai#1949).
 */
export const joinAssignedGpus = (
  gpus: readonly GpuDevice[] | undefined,
  maker: GpuMaker,
  containers: readonly DockerContainer[] | undefined,
): readonly AssignedGpu[] | undefined => {
  if (gpus === undefined || containers === undefined) return undefined;
  return containers
    .filter(({ id, status }) => id !== undefined && status === "running")
    .flatMap((container) => pick(gpus, container.gpus[maker]).map((gpu) => ({ container, gpu })));
};

const pick = (gpus: readonly GpuDevice[], assigned: AssignedGpus): readonly GpuDevice[] => {
  if (assigned === undefined) return [];
  if (assigned === "all") return gpus;
  return gpus.filter((gpu) => assigned.some((reference) => isMeant(gpu, reference)));
};

const isMeant = (gpu: GpuDevice, reference: GpuReference): boolean => {
  switch (reference.by) {
    case "index":
      return gpu.index === reference.value;
    case "minor":
      return gpu.minorNumber === reference.value;
    case "uuid":
      // NVIDIA's runtime accepts the beginning of a uuid too
      return gpu.uuid?.toLowerCase().startsWith(reference.value.toLowerCase()) === true;
  }
};

/** The metric of GPUs that were given to containers. */
export const assignedMetrics = (assigned: readonly AssignedGpu[]): Metric[] =>
  nodeMetrics(
    assigned.map(({ container, gpu }) => ({
      metric: "gridmeter_container_gpu_assigned",
      labels: { ...containerLabels(container), ...gpuLabels(gpu) },
      value: 1,
    })),
  );

export type GpuUse = readonly GpuUser[];

type GpuUser = {
  readonly gpu: GpuDevice;
  readonly process: GpuProcess;
  /**
   * `external`: a process of the host; `unlisted`: one of a container that is in no list; `unknown`: one that cannot be assigned, as
   * it has just ended, or because the agent does not see the host's processes
   */
  readonly owner: ContainerNames | "external" | "unlisted" | "unknown";
};

/**
 * Which containers' processes hold which GPU, by the process ids in the driver's list and the control group of each process. Of the
 * containers around a process, the outermost that is listed counts. Undefined unless all inputs are fresh. GPUs whose process list
 * could not be read are left out.
 */
export const joinGpuUse = (
  gpus: readonly GpuDevice[] | undefined,
  owners: ReadonlyMap<number, CgroupOwner> | undefined,
  containers: readonly ContainerNames[] | undefined,
): GpuUse | undefined => {
  if (gpus === undefined || owners === undefined || containers === undefined) return undefined;
  const known = new Map(containers.flatMap((one) => (one.id === undefined ? [] : [[shortId(one.id), one] as const])));
  const ownerOf = ({ pid }: GpuProcess): GpuUser["owner"] => {
    const owner = owners.get(pid) ?? { kind: "unknown" };
    switch (owner.kind) {
      case "container":
        return owner.ids.map((id) => known.get(shortId(id))).find((one) => one !== undefined) ?? "unlisted";
      case "host":
        return "external";
      case "unknown":
        return "unknown";
    }
  };
  return gpus.flatMap((gpu) => (gpu.processes ?? []).map((process) => ({ gpu, process, owner: ownerOf(process) })));
};

/**
 * The metrics of the processes on GPUs. `zombies` are the short ids of zombie containers; undefined, and nothing is published about
 * them, where they are not known. A GPU whose process list was read may have 0 external processes, unless the owner of none of its
 * processes is known.
 */
export const gpuUseMetrics = (
  gpus: readonly GpuDevice[],
  use: GpuUse,
  zombies: ReadonlySet<string> | undefined,
): Metric[] => {
  const read = gpus.filter(({ processes }) => processes !== undefined);
  const isZombie = (owner: GpuUser["owner"]): boolean =>
    typeof owner === "object" && owner.id !== undefined && zombies?.has(shortId(owner.id)) === true;
  return nodeMetrics([
    ...byContainer(use),
    ...read.map((gpu) => ({
      metric: "gridmeter_gpu_external_processes" as const,
      labels: gpuLabels(gpu),
      value: processesOn(gpu, use, (owner) => owner === "external"),
    })),
    ...read.map((gpu) => ({
      metric: "gridmeter_gpu_zombie_container_processes" as const,
      labels: gpuLabels(gpu),
      value: zombies === undefined ? undefined : processesOn(gpu, use, isZombie),
    })),
  ]);
};

/** The processes of each container on each GPU. The driver lists a process once for each type and MIG device. */
const byContainer = (use: GpuUse): NodeSample[] => {
  const groups = new Map<string, { first: ContainerNames; users: GpuUser[] }>();
  for (const user of use) {
    const { owner } = user;
    if (typeof owner !== "object") continue;
    const key = `${user.gpu.index} ${shortId(owner.id ?? "")}`;
    const group = groups.get(key) ?? { first: owner, users: [] };
    group.users.push(user);
    groups.set(key, group);
  }
  return [...groups.values()].flatMap(({ first, users }) => {
    const [user] = users;
    if (user === undefined) return [];
    const labels = { ...containerLabels(first), ...gpuLabels(user.gpu) };
    const used = users.map(({ process }) => process.usedBytes).filter((bytes) => bytes !== undefined);
    return [
      { metric: "gridmeter_container_gpu_processes", labels, value: new Set(users.map((one) => one.process.pid)).size },
      {
        metric: "gridmeter_container_gpu_memory_used_bytes",
        labels,
        // a sum without one of its parts would be wrong
        value: used.length < users.length ? undefined : used.reduce((sum, bytes) => sum + bytes, 0),
      },
    ] satisfies NodeSample[];
  });
};

/** How many processes on a GPU have such an owner; undefined if the owner of none of its processes is known. */
export const processesOn = (
  gpu: GpuDevice,
  use: GpuUse,
  counts: (owner: GpuUser["owner"]) => boolean,
): number | undefined => {
  const users = use.filter((one) => one.gpu === gpu);
  if (users.length > 0 && users.every(({ owner }) => owner === "unknown")) return undefined;
  return new Set(users.filter(({ owner }) => counts(owner)).map(({ process }) => process.pid)).size;
};
