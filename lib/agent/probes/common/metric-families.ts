import type { Labels, Metric } from "../../../shared/exposition.ts";
import { withoutNoise } from "./parse.ts";

const GPU = ["gpu", "minor_number", "uuid"] as const;
const MIG = [...GPU, "mig_index", "gpu_instance", "compute_instance"] as const;

/** What is known of a metric before it has values. All catalogues (GPUs, node, agent, OpenPAI) are made of these. */
export type FamilyEntry<Type = "gauge" | "counter" | "histogram"> = {
  readonly type: Type;
  readonly help: string;
  /** without `probe`, which is on every series */
  readonly labels: readonly string[];
};

type Define<Type> = (help: string, labels?: readonly string[]) => FamilyEntry<Type>;
export const gauge: Define<"gauge"> = (help, labels = []) => ({ type: "gauge", help, labels });
export const counter: Define<"counter"> = (help, labels = []) => ({ type: "counter", help, labels });
export const histogram: Define<"histogram"> = (help, labels = []) => ({ type: "histogram", help, labels });

type Entry = FamilyEntry<"gauge" | "counter">;

/** Every metric about GPUs. The tools of all makers share the names: a name has one type and one help text everywhere. */
export const GPU_METRICS = {
  gridmeter_gpu_info: gauge("Always 1; what the GPU and its driver are.", [
    ...GPU,
    "name",
    "pci_bus_id",
    "driver_version",
    "cuda_version",
  ]),
  gridmeter_gpu_attached: gauge("GPUs that the driver says are attached to the node."),
  gridmeter_gpu_seen: gauge("GPUs that the tool reported on; fewer than attached when one is missing."),
  gridmeter_gpu_expected: gauge("GPUs that the node should have, as it was configured."),
  gridmeter_gpu_lost: gauge("1 if the driver says that this GPU is lost.", [...GPU, "pci_bus_id"]),
  gridmeter_gpu_utilization_ratio: gauge(
    "Share of time in which a kernel ran on the GPU, 0 to 1; absent under MIG.",
    GPU,
  ),
  gridmeter_gpu_memory_controller_utilization_ratio: gauge(
    "Share of time in which GPU memory was read or written.",
    GPU,
  ),
  gridmeter_gpu_engine_utilization_ratio: gauge("Use of the video and image engines, 0 to 1.", [...GPU, "engine"]),
  gridmeter_gpu_memory_used_bytes: gauge("GPU memory in use.", GPU),
  gridmeter_gpu_memory_total_bytes: gauge("GPU memory there is.", GPU),
  gridmeter_gpu_memory_reserved_bytes: gauge("GPU memory the driver keeps for itself.", GPU),
  gridmeter_gpu_temperature_celsius: gauge("Temperature by sensor.", [...GPU, "sensor"]),
  gridmeter_gpu_power_watts: gauge("Power the GPU draws.", GPU),
  gridmeter_gpu_power_limit_watts: gauge("Power the GPU may draw.", GPU),
  gridmeter_gpu_module_power_watts: gauge("Power of the whole module (CPU and GPU) that the GPU is part of.", GPU),
  gridmeter_gpu_fan_speed_ratio: gauge("Fan speed the GPU asks for; may be above 1.", GPU),
  gridmeter_gpu_performance_state: gauge("Performance state, 0 (fastest) to 15.", GPU),
  gridmeter_gpu_clocks_event_reason: gauge("1 while this reason holds the clocks down.", [...GPU, "reason"]),
  gridmeter_gpu_clocks_event_seconds_total: counter("Time for which this reason held the clocks down.", [
    ...GPU,
    "reason",
  ]),
  gridmeter_gpu_clock_hertz: gauge("Clock by domain.", [...GPU, "domain"]),
  gridmeter_gpu_clock_max_hertz: gauge("Highest clock by domain.", [...GPU, "domain"]),
  gridmeter_gpu_pcie_link_generation: gauge("PCIe generation in use.", GPU),
  gridmeter_gpu_pcie_link_generation_max: gauge("PCIe generation that the GPU and its slot can do.", GPU),
  gridmeter_gpu_pcie_link_width: gauge("PCIe lanes in use.", GPU),
  gridmeter_gpu_pcie_link_width_max: gauge("PCIe lanes that the GPU and its slot have.", GPU),
  gridmeter_gpu_pcie_throughput_bytes_per_second: gauge("PCIe throughput, seen from the GPU.", [...GPU, "direction"]),
  gridmeter_gpu_pcie_replays_total: counter("PCIe packets sent again.", GPU),
  gridmeter_gpu_ecc_enabled: gauge("1 if memory errors are detected (ECC).", GPU),
  gridmeter_gpu_ecc_errors_total: counter(
    "Memory errors: corrected or uncorrected; volatile since the driver was loaded, aggregate over the GPU's life.",
    [...GPU, "kind", "scope"],
  ),
  gridmeter_gpu_ecc_sram_threshold_exceeded: gauge("1 if SRAM had more uncorrected errors than it may.", GPU),
  gridmeter_gpu_repair_pending: gauge("1 if a repair waits for a reset of the GPU.", [...GPU, "part"]),
  gridmeter_gpu_retired_pages: gauge("Memory pages taken out of use, by cause.", [...GPU, "cause"]),
  gridmeter_gpu_retired_pages_pending: gauge("1 if pages are to be retired at the next reboot.", GPU),
  gridmeter_gpu_remapped_rows: gauge("Memory rows replaced by spare ones, by the kind of error.", [...GPU, "kind"]),
  gridmeter_gpu_remapped_rows_pending: gauge("1 if rows are to be remapped at the next reset.", GPU),
  gridmeter_gpu_remapped_rows_failed: gauge("1 if a row could not be remapped: the GPU is to be replaced.", GPU),
  gridmeter_gpu_recovery_action: gauge("1 for what the driver says is to be done to recover the GPU.", [
    ...GPU,
    "action",
  ]),
  gridmeter_gpu_reset_required: gauge("1 if the driver says that the GPU must be reset.", GPU),
  gridmeter_gpu_fabric_healthy: gauge("1 if the GPU's NVLink fabric is healthy, 0 if not.", GPU),
  gridmeter_gpu_processes: gauge("Processes that hold the GPU.", GPU),
  gridmeter_gpu_uninterruptible_processes: gauge(
    "Processes that hold the GPU and were uninterruptible (D) whenever looked at for a while, but for waits that users hold (vfork, a paused container).",
    GPU,
  ),
  gridmeter_gpu_mig_enabled: gauge("1 if the GPU is split into MIG devices.", GPU),
  gridmeter_gpu_mig_devices: gauge("MIG devices of the GPU.", GPU),
  gridmeter_gpu_mig_memory_used_bytes: gauge("Memory in use on a MIG device.", MIG),
  gridmeter_gpu_mig_memory_total_bytes: gauge("Memory of a MIG device.", MIG),
  gridmeter_gpu_mig_multiprocessors: gauge("Multiprocessors of a MIG device.", MIG),
  gridmeter_gpu_mig_ecc_errors_total: counter(
    "Uncorrected SRAM errors of a MIG device since the driver was loaded.",
    MIG,
  ),
} as const satisfies Record<`gridmeter_gpu_${string}`, Entry>;

export type GpuMetricName = keyof typeof GPU_METRICS;

const CONTAINER = ["container_id", "name", "namespace", "pod", "container"] as const;
const CONTAINER_GPU = [...CONTAINER, "gpu", "minor_number", "uuid"] as const;
/** Every metric about containers, docker, processes and the network. A name has one type and one help text everywhere. */
export const NODE_METRICS = {
  gridmeter_docker_up: gauge("1 if the docker daemon answers, 0 if it says that it does not run."),
  gridmeter_docker_info: gauge("Always 1; what the docker daemon is.", ["version", "storage_driver"]),
  gridmeter_docker_containers: gauge("Containers that docker knows, by state.", ["state"]),
  gridmeter_docker_images: gauge("Images that docker holds."),
  gridmeter_docker_unit_state: gauge("1 for the state in which systemd says that the docker unit is.", ["state"]),

  gridmeter_container_cpu_usage_ratio: gauge("CPU in use; 1 is one core.", CONTAINER),
  gridmeter_container_cpu_seconds_total: counter("CPU time used since the container started.", CONTAINER),
  gridmeter_container_memory_used_bytes: gauge("Memory in use.", CONTAINER),
  gridmeter_container_memory_resident_bytes: gauge("Anonymous memory in RAM.", CONTAINER),
  gridmeter_container_memory_limit_bytes: gauge(
    "Memory the container may use; the node's where it has no limit.",
    CONTAINER,
  ),
  gridmeter_container_memory_usage_ratio: gauge("Memory in use as a share of the limit, 0 to 1.", CONTAINER),
  gridmeter_container_network_receive_bytes_total: counter(
    "Bytes received since the container started, rounded to three digits as docker prints them.",
    CONTAINER,
  ),
  gridmeter_container_network_transmit_bytes_total: counter(
    "Bytes sent since the container started, rounded to three digits as docker prints them.",
    CONTAINER,
  ),
  gridmeter_container_block_read_bytes_total: counter(
    "Bytes read from disks since the container started, rounded to three digits as docker prints them.",
    CONTAINER,
  ),
  gridmeter_container_block_write_bytes_total: counter(
    "Bytes written to disks since the container started, rounded to three digits as docker prints them.",
    CONTAINER,
  ),
  gridmeter_container_processes: gauge("Processes and threads in the container.", CONTAINER),
  gridmeter_container_writable_layer_used_bytes: gauge(
    "Disk used by what the container wrote into its own layer.",
    CONTAINER,
  ),

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
  gridmeter_container_running: gauge("1 if the container runs, 0 if not.", CONTAINER),
  gridmeter_container_start_time_seconds: gauge("When the container started, in seconds since 1970.", CONTAINER),
  gridmeter_container_restarts_total: counter("How often docker restarted the container.", CONTAINER),
  gridmeter_container_oom_killed: gauge("1 if the kernel killed the container for its memory.", CONTAINER),
  gridmeter_container_healthy: gauge("1 if the container's own health check passes, 0 if it fails.", CONTAINER),
  gridmeter_container_finished_marker: gauge("1 if the container's log says that its job has finished.", CONTAINER),
  gridmeter_container_zombie: gauge(
    "1 if the job has finished, by the container's log, and the container still runs.",
    CONTAINER,
  ),
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
  gridmeter_network_container_sockets: gauge("Established connections of the container's processes.", CONTAINER),
  gridmeter_network_container_receive_bytes_per_second: gauge("Bytes that the container received a second.", CONTAINER),
  gridmeter_network_container_transmit_bytes_per_second: gauge("Bytes that the container sent a second.", CONTAINER),
} as const satisfies Record<string, Entry>;

export type NodeMetricName = keyof typeof NODE_METRICS;

/** A value that may not have been read. Booleans are published as 0 and 1. */
type SampleOf<Name> = {
  readonly metric: Name;
  readonly labels: Labels;
  readonly value: number | boolean | undefined;
};
export type GpuSample = SampleOf<GpuMetricName>;
export type NodeSample = SampleOf<NodeMetricName>;

export const gpuMetrics = (samples: readonly GpuSample[]): Metric[] => metricsOf(GPU_METRICS, samples);
export const nodeMetrics = (samples: readonly NodeSample[]): Metric[] => metricsOf(NODE_METRICS, samples);

/** Gathers samples by metric, in the order in which metrics come. What was not read is left out, and so are empty metrics. */
function metricsOf<Name extends string>(
  catalogue: Readonly<Record<Name, Entry>>,
  samples: readonly SampleOf<Name>[],
): Metric[] {
  const byName = new Map<Name, { labels: Labels; value: number }[]>();
  for (const { metric, labels, value } of samples) {
    if (value === undefined || !Number.isFinite(Number(value))) continue;
    const rows = byName.get(metric) ?? [];
    rows.push({ labels, value: withoutNoise(Number(value)) });
    byName.set(metric, rows);
  }
  return [...byName].map(([name, rows]) => {
    const { help, type } = catalogue[name];
    return { name, help, type, samples: rows };
  });
}
