import type { Metric } from "../agent/types.ts";
import { containerLabels, shortId } from "./container.ts";
import type { DockerContainer } from "./docker-inspect.ts";
import type { DockerLogs } from "./docker-logs.ts";
import { nodeMetrics } from "./node-metrics.ts";

/** Whether a running container's job has finished. */
export type ZombieVerdict = { readonly container: DockerContainer; readonly zombie: boolean };

/**
 * Finds containers that run although their log says that the job has finished. Any container is one for a moment, when it is
 * about to end; an alert waits a while. Undefined unless both inputs are fresh; `logs` is by container id, and a container
 * whose log was not read has no verdict.
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
      const found = byId.get(shortId(container.id ?? ""));
      return found === undefined ? [] : [{ container, zombie: found.finished }];
    });
};

/** The metric of verdicts. */
export const zombieMetrics = (verdicts: readonly ZombieVerdict[]): Metric[] =>
  nodeMetrics(
    verdicts.map(({ container, zombie }) => ({
      metric: "gridmeter_container_zombie",
      labels: containerLabels(container),
      value: zombie,
    })),
  );

/** The short ids of zombie containers, for gpuUseMetrics. */
export const zombieIds = (verdicts: readonly ZombieVerdict[] | undefined): ReadonlySet<string> | undefined =>
  verdicts === undefined
    ? undefined
    : new Set(verdicts.flatMap(({ container, zombie }) => (zombie ? [shortId(container.id ?? "")] : [])));
