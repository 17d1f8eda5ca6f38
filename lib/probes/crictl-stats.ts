import * as z from "zod";
import type { Command, Metric, Output, Parsed } from "../agent/types.ts";
import { containerLabels, isContainerId, shortId, type ContainerNames } from "./container.ts";
import { Attributes, Wrapped, crictlList, namesOf } from "./crictl-stats-json.ts";
import { nodeMetrics, type NodeMetricName } from "./node-metrics.ts";
import { ParseError } from "./parse-error.ts";

export { CRICTL_PS_COMMAND, parseCrictlPs, type CrictlContainer } from "./crictl-stats-list.ts";

/** containerd's and CRI-O's counterpart of docker stats. */
export const CRICTL_STATS_COMMAND: Command = {
  argv: ["crictl", "stats", "--output", "json"],
  timeout: 20,
  maxBytes: 16 * 1024 * 1024,
};

/** The probe has something to do where one of these exists and crictl is on PATH. */
export const CRICTL_SOCKETS: readonly string[] = [
  "/run/containerd/containerd.sock",
  "/run/crio/crio.sock",
  "/run/cri-dockerd.sock",
];

/** One container in crictl stats. What the runtime does not know is undefined. */
export type CrictlStats = ContainerNames & {
  readonly cpuSeconds: number | undefined;
  /** 1 is one core */
  readonly cpu: number | undefined;
  /** the working set, which is what the kubelet evicts by */
  readonly memoryUsedBytes: number | undefined;
  readonly residentBytes: number | undefined;
  readonly writableLayerBytes: number | undefined;
};

const Stats = z.object({
  attributes: Attributes,
  cpu: z.object({ usageCoreNanoSeconds: Wrapped, usageNanoCores: Wrapped }).optional().catch(undefined),
  memory: z.object({ workingSetBytes: Wrapped, rssBytes: Wrapped }).optional().catch(undefined),
  writableLayer: z.object({ usedBytes: Wrapped }).optional().catch(undefined),
});

const divide = (value: number | undefined, divisor: number) => (value === undefined ? undefined : value / divisor);

/**
 * Reads `crictl stats --output json`. What is no container, and the second one of an id, is left out and counted.
 *
 * @throws {ParseError} when crictl failed, or no container can be read at all
 */
export const parseCrictlStats = (output: Output): Parsed<readonly CrictlStats[]> => {
  const items = crictlList(output, "stats");
  const rows = new Map<string, CrictlStats>();
  for (const item of items) {
    const found = Stats.safeParse(item);
    if (!found.success || !isContainerId(found.data.attributes.id)) continue;
    const { attributes, cpu, memory, writableLayer } = found.data;
    const key = shortId(attributes.id);
    if (rows.has(key)) continue;
    rows.set(key, {
      ...namesOf(attributes),
      cpuSeconds: divide(cpu?.usageCoreNanoSeconds, 1e9),
      cpu: divide(cpu?.usageNanoCores, 1e9),
      memoryUsedBytes: memory?.workingSetBytes,
      residentBytes: memory?.rssBytes,
      writableLayerBytes: writableLayer?.usedBytes,
    });
  }
  if (items.length > 0 && rows.size === 0) {
    throw new ParseError(`crictl stats printed no container: ${JSON.stringify(output.stdout.slice(0, 200))}`);
  }
  return { value: [...rows.values()], rejected: items.length - rows.size };
};

/** The metrics of containers; the names are those of docker's. */
export const crictlStatsMetrics = (rows: readonly CrictlStats[]): Metric[] =>
  nodeMetrics(
    rows.flatMap((row) => {
      const labels = containerLabels(row);
      const sample = (metric: NodeMetricName, value: number | undefined) => ({ metric, labels, value });
      return [
        sample("gridmeter_container_cpu_usage_ratio", row.cpu),
        sample("gridmeter_container_cpu_seconds_total", row.cpuSeconds),
        sample("gridmeter_container_memory_used_bytes", row.memoryUsedBytes),
        sample("gridmeter_container_memory_resident_bytes", row.residentBytes),
        sample("gridmeter_container_writable_layer_used_bytes", row.writableLayerBytes),
      ];
    }),
  );
