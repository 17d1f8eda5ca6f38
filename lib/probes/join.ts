import { containerKey, type ContainerNames } from "./container.ts";
import type { DockerContainer } from "./docker-inspect.ts";
import type { DockerStatsRow } from "./docker-stats.ts";

export { assignedMetrics, gpuUseMetrics, joinAssignedGpus, joinGpuUse, processesOn } from "./join-gpus.ts";
export type { AssignedGpu, GpuMaker, GpuUse } from "./join-gpus.ts";
export { joinNetwork, networkMetrics, type ContainerTraffic } from "./join-network.ts";
export { joinZombies, zombieMetrics, type ZombieVerdict } from "./join-zombies.ts";

/** Finds a container of a list by another tool's names for it. */
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

/** What a container uses, and which job that is for. */
export type JobUse = { readonly use: DockerStatsRow; readonly container: DockerContainer };

/**
 * Joins docker stats to docker inspect, by id, or by name where podman prints no id. Undefined unless both are fresh, which
 * the caller says by giving undefined for what is not. A container that only one of the two has seen is left out.
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
