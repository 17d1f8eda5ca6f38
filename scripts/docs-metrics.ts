// The text of docs/metrics.md, out of the catalogues of metrics.
import { AGENT_METRICS, DURATION_BUCKETS, PROBE_METRICS, PUSH_RESULTS } from "../lib/agent/metrics/self.ts";
import { OPENPAI_METRICS, type OpenPaiEntry } from "../lib/agent/openpai/catalogue.ts";
import { RESULT_KINDS } from "../lib/agent/command/types.ts";
import {
  GPU_METRICS,
  type GpuMetricName,
  NODE_METRICS,
  type NodeMetricName,
} from "../lib/agent/probes/common/metric-families.ts";

type Table = (head: readonly string[], rows: readonly (readonly string[])[]) => string;
type Entry = { readonly type: string; readonly help: string; readonly labels: readonly string[] };

/** The probe in whose group a metric is, by what its name begins with; the longest beginning counts. */
const PROBES: Readonly<Record<string, readonly string[]>> = {
  gridmeter_docker_: ["docker-daemon"],
  gridmeter_process_: ["ps"],
  gridmeter_network_: ["iftop"],
  gridmeter_network_container_sockets: ["lsof"],
  gridmeter_gpu_: ["nvidia-smi"],
  gridmeter_container_gpu_: ["nvidia-smi"],
  gridmeter_container_: ["docker-stats"],
};

/** Where that is not so. */
const OTHERWISE: { readonly [Name in GpuMetricName | NodeMetricName]?: readonly string[] } = {
  gridmeter_container_gpu_assigned: ["nvidia-smi", "amd-smi", "rocm-smi"],
  gridmeter_container_info: ["docker-inspect"],
  gridmeter_container_running: ["docker-inspect"],
  gridmeter_container_start_time_seconds: ["docker-inspect"],
  gridmeter_container_restarts_total: ["docker-inspect"],
  gridmeter_container_oom_killed: ["docker-inspect"],
  gridmeter_container_healthy: ["docker-inspect"],
  gridmeter_container_finished_marker: ["docker-logs"],
  gridmeter_container_zombie: ["docker-logs"],
  gridmeter_container_cpu_usage_ratio: ["docker-stats", "crictl-stats"],
  gridmeter_container_cpu_seconds_total: ["crictl-stats"],
  gridmeter_container_memory_used_bytes: ["docker-stats", "crictl-stats"],
  gridmeter_container_memory_resident_bytes: ["crictl-stats"],
  gridmeter_container_writable_layer_used_bytes: ["crictl-stats"],
  ...Object.fromEntries(
    (
      [
        "gridmeter_gpu_info",
        "gridmeter_gpu_seen",
        "gridmeter_gpu_expected",
        "gridmeter_gpu_utilization_ratio",
        "gridmeter_gpu_memory_controller_utilization_ratio",
        "gridmeter_gpu_memory_used_bytes",
        "gridmeter_gpu_memory_total_bytes",
        "gridmeter_gpu_temperature_celsius",
        "gridmeter_gpu_power_watts",
        "gridmeter_gpu_power_limit_watts",
        "gridmeter_gpu_fan_speed_ratio",
        "gridmeter_gpu_clock_hertz",
        "gridmeter_gpu_pcie_link_generation",
        "gridmeter_gpu_pcie_link_width",
        "gridmeter_gpu_pcie_replays_total",
      ] satisfies GpuMetricName[]
    ).map((name) => [name, ["nvidia-smi", "amd-smi", "rocm-smi"]]),
  ),
  ...Object.fromEntries(
    (
      [
        "gridmeter_gpu_clock_max_hertz",
        "gridmeter_gpu_ecc_errors_total",
        "gridmeter_gpu_pcie_link_generation_max",
        "gridmeter_gpu_pcie_link_width_max",
      ] satisfies GpuMetricName[]
    ).map((name) => [name, ["nvidia-smi", "amd-smi"]]),
  ),
};

/** The probes that publish one of the metrics of GPU_METRICS or NODE_METRICS. */
export function probesOf(name: string): readonly string[] {
  const exact = Object.entries(OTHERWISE).find(([each]) => each === name)?.[1];
  const [longest] = Object.keys(PROBES)
    .filter((prefix) => name.startsWith(prefix))
    .sort((a, b) => b.length - a.length);
  return exact ?? PROBES[longest ?? ""] ?? [];
}

/** Metrics that need what other probes read, with these. */
const JOINS: { readonly [Name in GpuMetricName | NodeMetricName]?: string } = {
  gridmeter_container_gpu_assigned: "docker-inspect",
  gridmeter_container_gpu_processes: "docker-inspect or crictl-stats",
  gridmeter_container_gpu_memory_used_bytes: "docker-inspect or crictl-stats",
  gridmeter_gpu_external_processes: "docker-inspect or crictl-stats",
  gridmeter_gpu_zombie_container_processes: "docker-inspect, docker-logs",
  gridmeter_gpu_uninterruptible_processes: "ps",
  gridmeter_container_zombie: "docker-inspect",
  gridmeter_network_container_receive_bytes_per_second: "lsof, docker-inspect",
  gridmeter_network_container_transmit_bytes_per_second: "lsof, docker-inspect",
};

const code = (text: string): string => `\`${text}\``;
const list = (names: readonly string[]): string => names.map(code).join(", ");

const dataRow = ([name, { type, help, labels }]: readonly [string, Entry]): readonly string[] => {
  const needs = Object.entries(JOINS).find(([each]) => each === name)?.[1];
  const probes = probesOf(name).join(", ");
  return [code(name), type, list(labels), needs === undefined ? probes : `${probes}, with ${needs}`, help];
};

const openPaiRow = ([name, entry]: readonly [string, OpenPaiEntry]): readonly string[] => [
  code(name),
  entry.type,
  list(entry.labels),
  entry.probes.join(", "),
  list(entry.ours),
  entry.difference ?? "",
];

const DATA_HEAD = ["Metric", "Type", "Labels", "Probe", "Meaning"] as const;

/** The file, with the note at its head and the project's way of writing tables. */
export function metricsDoc(note: string, table: Table): string {
  const rows = (entries: Readonly<Record<string, Entry>>) =>
    Object.entries(entries).map(([name, { type, labels, help }]) => [code(name), type, list(labels), help]);
  return `${note}

# Metrics of the node agent

On the Pushgateway a group is \`job\`, \`instance\` and \`probe\`; on the port there is \`probe\`, and Prometheus adds the rest.
The label \`probe\` is on every series and not repeated below. Units are Prometheus's base units. A value that was not read is
absent, never 0: when a command hangs, what it feeds vanishes from the port and the gateway in the same cycle. deploy/prometheus
has alert rules on these names.

## Probes and commands

In every probe's group. They stay when data vanish, so that an alert can say what hangs.

${table(["Metric", "Type", "Labels", "Meaning"], rows(PROBE_METRICS))}

\`result\` is one of ${list(RESULT_KINDS)}. The buckets of the histogram are ${DURATION_BUCKETS.join(", ")} s, and twice the
last one and so on up to one beyond the longest timeout of the configuration.

## The agent itself

In the group of \`probe="agent"\`.

${table(["Metric", "Type", "Labels", "Meaning"], rows(AGENT_METRICS))}

\`result\` of pushes is one of ${list(PUSH_RESULTS)}.

## GPUs

nvidia-smi, amd-smi and rocm-smi share the names. \`gpu\` is the position in the tool's order, \`minor_number\` the N of the device's file, and
either may move when a GPU falls off the bus; \`uuid\` stays. A label that could not be read is empty. "With" names the probes whose
values a metric needs as well: it is absent unless all are fresh.

${table(DATA_HEAD, Object.entries(GPU_METRICS).map(dataRow))}

## Containers, docker, processes, network

\`container_id\` has 12 digits, and series of one container are joined by it. \`gridmeter_container_info\` says which job it belongs to.

${table(DATA_HEAD, Object.entries(NODE_METRICS).map(dataRow))}

Custom probes publish what their commands print, with \`probe\` added; names that begin with \`gridmeter_\`, \`go_\`, \`process_\`,
\`pushgateway_\`, \`promhttp_\` or \`scrape_\` are left out.

## Names of OpenPAI's job-exporter

With \`--openpai-names\` (\`openpaiNames: true\`) these are published beside our own, so that its dashboards and alert rules keep
working. Percents are 0 to 100, as there. A histogram comes as its three parts, \`_bucket\`, \`_sum\` and \`_count\`. A service is a
container of the namespaces default and kube-system that belongs to no job, under its own name; of containers with equal labels
the first counts.

${table(["Metric", "Type", "Labels", "Probe", "Ours", "Difference"], Object.entries(OPENPAI_METRICS).map(openPaiRow))}

Not published: \`configured_gpu_count\` (ours is \`gridmeter_gpu_expected\`, out of the agent's own configuration), and
\`collector_*_iteration_latency_seconds\` (ours is \`gridmeter_probe_last_duration_seconds\`, by probe).
`;
}
