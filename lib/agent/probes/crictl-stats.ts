import * as z from "zod";
import type { Metric } from "../../shared/exposition.ts";
import type { Command, Output, Parsed } from "../command/types.ts";
import { type ContainerNames, containerLabels, isContainerId, shortId } from "./common/container.ts";
import { type NodeMetricName, nodeMetrics } from "./common/metric-families.ts";
import { ParseError, type ProbeKind, Texts, limitsOf, parseJson, singleProbe } from "./common/probe.ts";
import {
  type ProbeDefaults,
  type ProbeSettings,
  USUAL_INTERVAL,
  commandDefaults,
  missingFile,
  missingTool,
} from "./common/settings.ts";

export type CriReadings = {
  /** what a container runtime without docker runs */
  readonly criContainers: readonly ContainerNames[];
};

/** containerd's and CRI-O's counterpart of docker stats. */
const CRICTL_STATS_COMMAND: Command = {
  argv: ["crictl", "stats", "--output", "json"],
  timeout: 20,
  maxBytes: 16 * 1024 * 1024,
};

export const CRICTL_STATS_DEFAULTS = {
  description: "CPU, memory and disk use of each container of containerd or CRI-O",
  interval: USUAL_INTERVAL,
  timeout: CRICTL_STATS_COMMAND.timeout,
  ...commandDefaults(CRICTL_STATS_COMMAND),
  options: { requireDevice: true, endpoint: undefined },
} as const satisfies ProbeDefaults;

const commandOf = ({ command = CRICTL_STATS_DEFAULTS.command, endpoint }: ProbeSettings): Command["argv"] => {
  const [program, ...rest] = command;
  return endpoint === undefined ? command : [program, "--runtime-endpoint", endpoint, ...rest];
};

/** Files of which one must be there; none for an endpoint that is no file. */
const socketsOf = ({ endpoint, requireDevice = true }: ProbeSettings): readonly string[] => {
  if (!requireDevice) return [];
  if (endpoint === undefined) return CRICTL_SOCKETS;
  const path = endpoint.replace(/^unix:\/\//, "");
  return path.startsWith("/") ? [path] : [];
};

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

/** The probe has something to do where one of these exists and crictl is on PATH. */
const CRICTL_SOCKETS: readonly string[] = [
  "/run/containerd/containerd.sock",
  "/run/crio/crio.sock",
  "/run/cri-dockerd.sock",
];

/** One container in crictl stats. What the runtime does not know is undefined. */
type CrictlStats = ContainerNames & {
  readonly cpuSeconds: number | undefined;
  /** 1 is one core */
  readonly cpu: number | undefined;
  /** the working set, which is what the kubelet evicts by */
  readonly memoryUsedBytes: number | undefined;
  readonly residentBytes: number | undefined;
  readonly writableLayerBytes: number | undefined;
};

const Metadata = z
  .object({ name: z.string().optional().catch(undefined), attempt: z.int().nonnegative().optional().catch(undefined) })
  .catch({ name: undefined, attempt: undefined });

const Attributes = z.object({ id: z.string().min(1), metadata: Metadata, labels: Texts });
/** A 64-bit number, which protobuf's JSON prints as a text. Undefined, as for null, where there is none. */
const Uint64 = z
  .union([z.string().regex(/^\d{1,20}$/), z.number().nonnegative()])
  .transform(Number)
  .optional()
  .catch(undefined);

/** The wrapper of a number that may not be known. */
const Wrapped = z
  .object({ value: Uint64 })
  .transform(({ value }) => value)
  .optional()
  .catch(undefined);

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

/** What a container is called: the kubelet's labels say which pod it belongs to. */
const namesOf = ({ id, metadata, labels }: z.infer<typeof Attributes>): ContainerNames => ({
  id,
  name: metadata.name ?? labels.get("io.kubernetes.container.name"),
  namespace: labels.get("io.kubernetes.pod.namespace"),
  pod: labels.get("io.kubernetes.pod.name"),
  container: labels.get("io.kubernetes.container.name"),
});

/**
 * The list under a key of the JSON object that crictl printed.
 *
 * @throws {ParseError} when crictl failed, or printed no JSON object with that list
 */
const crictlList = (output: Output, key: "stats" | "containers"): readonly unknown[] => {
  const printed = JSON.stringify((output.stderr.trim() || output.stdout.trim()).slice(0, 200));
  if (output.exitCode !== 0) throw new ParseError(`crictl exited with ${output.exitCode} and printed ${printed}`);
  const json = z.record(z.string(), z.unknown()).safeParse(parseJson(output.stdout));
  const list = json.success ? json.data[key] : undefined;
  if (list === null) return [];
  if (Array.isArray(list)) return list;
  throw new ParseError(`crictl printed no JSON with a list of ${key}: ${printed}`);
};
