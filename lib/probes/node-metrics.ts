import type { Labels, Metric } from "../agent/types.ts";

const CONTAINER = ["container_id", "name", "namespace", "pod", "container"] as const;
const CONTAINER_GPU = [...CONTAINER, "gpu", "minor_number", "uuid"] as const;
const GPU = ["gpu", "minor_number", "uuid"] as const;

type Entry = { readonly type: "gauge" | "counter"; readonly help: string; readonly labels: readonly string[] };

const gauge = (help: string, labels: readonly string[] = CONTAINER): Entry => ({ type: "gauge", help, labels });
const counter = (help: string, labels: readonly string[] = CONTAINER): Entry => ({ type: "counter", help, labels });

/** Every metric about containers, docker, processes and the network. A name has one type and one help text everywhere. */
export const NODE_METRICS = {
  gridmeter_docker_up: gauge("1 if the docker daemon answers, 0 if it says that it does not run.", []),
  gridmeter_docker_info: gauge("Always 1; what the docker daemon is.", ["version", "storage_driver"]),
  gridmeter_docker_containers: gauge("Containers that docker knows, by state.", ["state"]),
  gridmeter_docker_images: gauge("Images that docker holds.", []),
  gridmeter_docker_unit_state: gauge("1 for the state in which systemd says that the docker unit is.", ["state"]),

  gridmeter_container_cpu_usage_ratio: gauge("CPU in use; 1 is one core."),
  gridmeter_container_cpu_seconds_total: counter("CPU time used since the container started."),
  gridmeter_container_memory_used_bytes: gauge("Memory in use."),
  gridmeter_container_memory_resident_bytes: gauge("Anonymous memory in RAM."),
  gridmeter_container_memory_limit_bytes: gauge("Memory the container may use; the node's where it has no limit."),
  gridmeter_container_memory_usage_ratio: gauge("Memory in use as a share of the limit, 0 to 1."),
  gridmeter_container_network_receive_bytes_total: counter(
    "Bytes received since the container started, rounded to three digits as docker prints them.",
  ),
  gridmeter_container_network_transmit_bytes_total: counter(
    "Bytes sent since the container started, rounded to three digits as docker prints them.",
  ),
  gridmeter_container_block_read_bytes_total: counter(
    "Bytes read from disks since the container started, rounded to three digits as docker prints them.",
  ),
  gridmeter_container_block_write_bytes_total: counter(
    "Bytes written to disks since the container started, rounded to three digits as docker prints them.",
  ),
  gridmeter_container_processes: gauge("Processes and threads in the container."),
  gridmeter_container_writable_layer_used_bytes: gauge("Disk used by what the container wrote into its own layer."),

  gridmeter_container_info: gauge("Always 1; what the container is and which job it belongs to.", [
    ...CONTAINER,
    "pod_uid",
    "image",
    "job",
    "user",
    "role",
    "task_index",
    "job_instance",
    "virtual_cluster",
  ]),
  gridmeter_container_running: gauge("1 if the container runs, 0 if not."),
  gridmeter_container_start_time_seconds: gauge("When the container started, in seconds since 1970."),
  gridmeter_container_restarts_total: counter("How often docker restarted the container."),
  gridmeter_container_oom_killed: gauge("1 if the kernel killed the container for its memory."),
  gridmeter_container_healthy: gauge("1 if the container's own health check passes, 0 if it fails."),
  gridmeter_container_finished_marker: gauge("1 if the container's log says that its job has finished."),
  gridmeter_container_zombie: gauge("1 if the job has finished, by the container's log, and the container still runs."),
  gridmeter_container_gpu_assigned: gauge("1 for each GPU that was given to the container.", CONTAINER_GPU),
  gridmeter_container_gpu_processes: gauge("Processes of the container that hold the GPU.", CONTAINER_GPU),
  gridmeter_container_gpu_memory_used_bytes: gauge("GPU memory that the container's processes use.", CONTAINER_GPU),
  gridmeter_gpu_external_processes: gauge("Processes outside any container that hold the GPU.", GPU),
  gridmeter_gpu_zombie_container_processes: gauge("Processes of zombie containers that hold the GPU.", GPU),

  gridmeter_process_states: gauge("Processes by state, as ps names them (D uninterruptible, Z zombie).", ["state"]),
  gridmeter_process_uninterruptible: gauge(
    "Processes that were uninterruptible (D) whenever looked at for a while, but for waits that users hold (vfork, a paused container); `command` is the kernel's name, and that of a tool of the node only where root runs the tool itself, else `other`.",
    ["command"],
  ),
  gridmeter_process_zombies: gauge("Processes that were zombies (Z) whenever looked at for a while.", ["command"]),
  gridmeter_process_largest_resident_bytes: gauge("Resident memory of a command's largest process, if it is large.", [
    "command",
  ]),

  gridmeter_network_receive_bytes_per_second: gauge("Bytes received on the interface a second.", ["interface"]),
  gridmeter_network_transmit_bytes_per_second: gauge("Bytes sent on the interface a second.", ["interface"]),
  gridmeter_network_flows: gauge("Pairs of addresses and ports that exchanged packets.", ["interface"]),
  gridmeter_network_container_sockets: gauge("Established connections of the container's processes."),
  gridmeter_network_container_receive_bytes_per_second: gauge("Bytes that the container received a second."),
  gridmeter_network_container_transmit_bytes_per_second: gauge("Bytes that the container sent a second."),
} as const satisfies Record<string, Entry>;

export type NodeMetricName = keyof typeof NODE_METRICS;

/** A value that may not have been read. Booleans are published as 0 and 1. */
export type NodeSample = {
  readonly metric: NodeMetricName;
  readonly labels: Labels;
  readonly value: number | boolean | undefined;
};

/** Gathers samples by metric, in the order in which metrics come. What was not read is left out, and so are empty metrics. */
export const nodeMetrics = (samples: readonly NodeSample[]): Metric[] => {
  const byName = new Map<NodeMetricName, { labels: Labels; value: number }[]>();
  for (const { metric, labels, value } of samples) {
    if (value === undefined || !Number.isFinite(Number(value))) continue;
    const rows = byName.get(metric) ?? [];
    rows.push({ labels, value: Number(value) });
    byName.set(metric, rows);
  }
  return [...byName].map(([name, rows]) => ({
    name,
    help: NODE_METRICS[name].help,
    type: NODE_METRICS[name].type,
    samples: rows,
  }));
};
