import * as z from "zod";
import type { Metric } from "../../shared/exposition.ts";
import { parseJson } from "../../shared/text.ts";
import type { Command, Output, Parsed } from "../command/types.ts";
import { type ContainerNames, containerLabels, isContainerId, shortId } from "./common/container.ts";
import { type NodeMetricName, nodeMetrics } from "./common/metric-families.ts";
import { JsonObject, ParseError, Texts, exitError, quoted } from "./common/parse.ts";
import { type ProbeKind, limitsOf, singleProbe } from "./common/probe.ts";
import { type ProbeDefaults, type ProbeSettings, USUAL_INTERVAL, missingFile, missingTool } from "./common/settings.ts";

export type CriReadings = {
  /** what a container runtime without docker runs */
  readonly criContainers: readonly ContainerNames[];
};

export const CRICTL_STATS_DEFAULTS = {
  description: "CPU, memory and disk use of each container of containerd or CRI-O",
  interval: USUAL_INTERVAL,
  timeout: 20,
  command: ["crictl", "stats", "--output", "json"],
  maxBytes: 16 * 1024 * 1024,
  options: { requireDevice: true, endpoint: undefined },
} as const satisfies ProbeDefaults;

export const crictlStats: ProbeKind<CriReadings> = {
  create: (settings) => {
    const argv = commandOf(settings);
    const sockets = socketsOf(settings);
    return singleProbe({
      name: "crictl-stats",
      limits: limitsOf("crictl-stats", settings, CRICTL_STATS_DEFAULTS),
      label: "crictl stats",
      argv: () => Promise.resolve(argv),
      parse: parseCrictlStats,
      metrics: crictlStatsMetrics,
      readings: (rows) => Promise.resolve({ criContainers: rows }),
      unavailable: async () =>
        (await missingTool([argv[0]])) ??
        (sockets.length === 0 ? undefined : await missingFile("socket of a container runtime", sockets)),
    });
  },
  parseSaved: (output) => {
    const { value, rejected } = parseCrictlStats(output);
    return { metrics: crictlStatsMetrics(value), parsed: value, rejected };
  },
};

const commandOf = ({ command = CRICTL_STATS_DEFAULTS.command, endpoint }: ProbeSettings): Command["argv"] => {
  const [program, ...rest] = command;
  return endpoint === undefined ? command : [program, "--runtime-endpoint", endpoint, ...rest];
};

/** The sockets of containerd, CRI-O and cri-dockerd. */
const SOCKETS: readonly string[] = ["/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/cri-dockerd.sock"];

/** Where the runtime's socket may be: one of these files must be there. None for an endpoint that is no file. */
const socketsOf = ({ endpoint, requireDevice = true }: ProbeSettings): readonly string[] => {
  if (!requireDevice) return [];
  if (endpoint === undefined) return SOCKETS;
  const path = endpoint.replace(/^unix:\/\//, "");
  return path.startsWith("/") ? [path] : [];
};

/** One container in crictl stats. What the runtime does not know is undefined. */
type CrictlStats = ContainerNames & {
  readonly cpuSeconds: number | undefined;
  /** 1 is one core */
  readonly cpu: number | undefined;
  /** the working set, by which the kubelet evicts pods */
  readonly memoryUsedBytes: number | undefined;
  readonly residentBytes: number | undefined;
  readonly writableLayerBytes: number | undefined;
};

/**
 * Reads `crictl stats --output json`. What is no container, and the second one of an id, is left out and counted.
 *
 * @throws {ParseError} when crictl failed, or no container can be read at all
 */
export const parseCrictlStats = (output: Output): Parsed<readonly CrictlStats[]> => {
  const items = listOf(output);
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

/** @throws {ParseError} when crictl failed, or printed no JSON object with a list of stats */
const listOf = (output: Output): readonly unknown[] => {
  if (output.exitCode !== 0) throw exitError("crictl", output);
  const stats = JsonObject.safeParse(parseJson(output.stdout)).data?.["stats"];
  if (stats === null) return [];
  if (Array.isArray(stats)) return stats;
  throw new ParseError(`crictl printed no JSON with a list of stats: ${quoted(output)}`);
};

/** A 64-bit number, which protobuf's JSON prints as a text. */
const Uint64 = z
  .union([z.string().regex(/^\d{1,20}$/), z.number().nonnegative()])
  .transform(Number)
  .optional()
  .catch(undefined);

/** An object with one number, which is missing or null where the runtime does not know it. */
const Wrapped = z
  .object({ value: Uint64 })
  .transform(({ value }) => value)
  .optional()
  .catch(undefined);

const Metadata = z.object({ name: z.string().optional().catch(undefined) }).catch({ name: undefined });

const Attributes = z.object({ id: z.string().min(1), metadata: Metadata, labels: Texts });

const Stats = z.object({
  attributes: Attributes,
  cpu: z.object({ usageCoreNanoSeconds: Wrapped, usageNanoCores: Wrapped }).optional().catch(undefined),
  memory: z.object({ workingSetBytes: Wrapped, rssBytes: Wrapped }).optional().catch(undefined),
  writableLayer: z.object({ usedBytes: Wrapped }).optional().catch(undefined),
});

/** What a container is called: the kubelet's labels say which pod it belongs to. */
const namesOf = ({ id, metadata, labels }: z.infer<typeof Attributes>): ContainerNames => ({
  id,
  name: metadata.name ?? labels.get("io.kubernetes.container.name"),
  namespace: labels.get("io.kubernetes.pod.namespace"),
  pod: labels.get("io.kubernetes.pod.name"),
  container: labels.get("io.kubernetes.container.name"),
});

const divide = (value: number | undefined, divisor: number) => (value === undefined ? undefined : value / divisor);

/** The metrics of containers, under the same names as docker's. */
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
