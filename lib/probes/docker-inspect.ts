import type { Command, Metric, Output, Parsed } from "../agent/types.ts";
import { containerLabels, isContainerId, shortId } from "./container.ts";
import { dockerError, dockerFailure } from "./docker-daemon-failure.ts";
import { Inspected, readContainer, type DockerContainer } from "./docker-inspect-container.ts";
import { labelText } from "./gpu.ts";
import { parseJson } from "./json.ts";
import { nodeMetrics, type NodeMetricName } from "./node-metrics.ts";
import { ParseError } from "./parse-error.ts";

export { parseDockerList, parseDockerPs, type ListedContainer } from "./docker-inspect-list.ts";
export { amdGpus, nvidiaGpus, type AssignedGpus, type GpuReference } from "./docker-inspect-gpus.ts";
export type { DockerContainer } from "./docker-inspect-container.ts";
export type { ContainerJob } from "./docker-inspect-job.ts";

/** Lists the containers, so that a docker stats that hangs does not starve inspect and logs. */
export const DOCKER_PS_COMMAND: Command = {
  argv: ["docker", "ps", "--no-trunc", "--format", "{{.ID}} {{.Names}}"],
  timeout: 10,
  maxBytes: 1024 * 1024,
};

/** Inspects one container; it takes 50 ms. */
export const dockerInspectCommand = (id: string): Command => ({
  argv: ["docker", "inspect", "--type", "container", "--", id],
  timeout: 5,
  maxBytes: 4 * 1024 * 1024,
});

/** How docker, and podman, exit when there is no such container. */
const GONE_CODES: readonly number[] = [1, 125];

/** A container that went away between the list and now: an absence, and no failure. */
const isGone = (output: Output): boolean =>
  GONE_CODES.includes(output.exitCode) &&
  dockerFailure(output) === "other" &&
  /no such (?:object|container)/i.test(output.stderr.slice(0, 4096));

/**
 * Reads docker inspect: an array of containers, or one as the daemon's API gives it. A container that no longer exists is
 * left out; what is no container, and the second one of an id, is left out and counted.
 *
 * @throws {ParseError} when docker failed, or printed no JSON with containers
 */
export const parseDockerInspect = (output: Output): Parsed<readonly DockerContainer[]> => {
  const gone = isGone(output);
  if (output.exitCode !== 0 && !gone) throw dockerError("docker inspect", output);
  const json = parseJson(output.stdout);
  if (json === undefined && gone) return { value: [], rejected: 0 };
  const items: readonly unknown[] = Array.isArray(json) ? json : [json];
  const containers = new Map<string, DockerContainer>();
  let rejected = 0;
  for (const item of items) {
    const found = Inspected.safeParse(item);
    const key = shortId(found.data?.Id ?? "");
    if (found.success && !containers.has(key)) containers.set(key, readContainer(found.data));
    else rejected += 1;
  }
  if (rejected > 0 && containers.size === 0) {
    throw new ParseError(`docker inspect printed no container: ${JSON.stringify(output.stdout.slice(0, 200))}`);
  }
  return { value: [...containers.values()], rejected };
};

/** The metrics of containers. This probe owns gridmeter_container_info, which other series are joined to by container_id. */
export const dockerInspectMetrics = (containers: readonly DockerContainer[]): Metric[] =>
  nodeMetrics(
    containers
      .filter(({ id }) => id !== undefined && isContainerId(id))
      .flatMap((one) => {
        const labels = containerLabels(one);
        const sample = (metric: NodeMetricName, value: number | boolean | undefined) => ({ metric, labels, value });
        const info = {
          pod_uid: labelText(one.podUid),
          image: labelText(one.image),
          job: labelText(one.job.job),
          user: labelText(one.job.user),
          role: labelText(one.job.role),
          task_index: labelText(one.job.taskIndex),
          job_instance: labelText(one.job.instance),
          virtual_cluster: labelText(one.job.virtualCluster),
        };
        return [
          { metric: "gridmeter_container_info" as const, labels: { ...labels, ...info }, value: 1 },
          sample("gridmeter_container_running", one.status === undefined ? undefined : one.status === "running"),
          sample("gridmeter_container_start_time_seconds", one.startTime),
          sample("gridmeter_container_restarts_total", one.restartCount),
          sample("gridmeter_container_oom_killed", one.oomKilled),
          sample("gridmeter_container_healthy", one.healthy),
        ];
      }),
  );
