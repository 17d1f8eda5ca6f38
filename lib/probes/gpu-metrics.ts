import type { Labels, Metric } from "../agent/types.ts";

const GPU = ["gpu", "minor_number", "uuid"] as const;
const MIG = [...GPU, "mig_index", "gpu_instance", "compute_instance"] as const;

type Entry = { readonly type: "gauge" | "counter"; readonly help: string; readonly labels: readonly string[] };

const gauge = (help: string, labels: readonly string[] = GPU): Entry => ({ type: "gauge", help, labels });
const counter = (help: string, labels: readonly string[] = GPU): Entry => ({ type: "counter", help, labels });

/** Every metric about GPUs. nvidia-smi and rocm-smi share the names: a name has one type and one help text everywhere. */
export const GPU_METRICS = {
  gridmeter_gpu_info: gauge("Always 1; what the GPU and its driver are.", [
    ...GPU,
    "name",
    "pci_bus_id",
    "driver_version",
    "cuda_version",
  ]),
  gridmeter_gpu_attached: gauge("GPUs that the driver says are attached to the node.", []),
  gridmeter_gpu_seen: gauge("GPUs that the tool reported on; fewer than attached when one is missing.", []),
  gridmeter_gpu_expected: gauge("GPUs that the node should have, as it was configured.", []),
  gridmeter_gpu_lost: gauge("1 if the driver says that this GPU is lost."),
  gridmeter_gpu_utilization_ratio: gauge("Share of time in which a kernel ran on the GPU, 0 to 1; absent under MIG."),
  gridmeter_gpu_memory_controller_utilization_ratio: gauge("Share of time in which GPU memory was read or written."),
  gridmeter_gpu_engine_utilization_ratio: gauge("Use of the video and image engines, 0 to 1.", [...GPU, "engine"]),
  gridmeter_gpu_memory_used_bytes: gauge("GPU memory in use."),
  gridmeter_gpu_memory_total_bytes: gauge("GPU memory there is."),
  gridmeter_gpu_memory_reserved_bytes: gauge("GPU memory the driver keeps for itself."),
  gridmeter_gpu_temperature_celsius: gauge("Temperature by sensor.", [...GPU, "sensor"]),
  gridmeter_gpu_power_watts: gauge("Power the GPU draws."),
  gridmeter_gpu_power_limit_watts: gauge("Power the GPU may draw."),
  gridmeter_gpu_module_power_watts: gauge("Power of the whole module (CPU and GPU) that the GPU is part of."),
  gridmeter_gpu_fan_speed_ratio: gauge("Fan speed the GPU asks for; may be above 1."),
  gridmeter_gpu_performance_state: gauge("Performance state, 0 (fastest) to 15."),
  gridmeter_gpu_clocks_event_reason: gauge("1 while this reason holds the clocks down.", [...GPU, "reason"]),
  gridmeter_gpu_clocks_event_seconds_total: counter("Time for which this reason held the clocks down.", [
    ...GPU,
    "reason",
  ]),
  gridmeter_gpu_clock_hertz: gauge("Clock by domain.", [...GPU, "domain"]),
  gridmeter_gpu_clock_max_hertz: gauge("Highest clock by domain.", [...GPU, "domain"]),
  gridmeter_gpu_pcie_link_generation: gauge("PCIe generation in use."),
  gridmeter_gpu_pcie_link_generation_max: gauge("PCIe generation that the GPU and its slot can do."),
  gridmeter_gpu_pcie_link_width: gauge("PCIe lanes in use."),
  gridmeter_gpu_pcie_link_width_max: gauge("PCIe lanes that the GPU and its slot have."),
  gridmeter_gpu_pcie_throughput_bytes_per_second: gauge("PCIe throughput, seen from the GPU.", [...GPU, "direction"]),
  gridmeter_gpu_pcie_replays_total: counter("PCIe packets sent again."),
  gridmeter_gpu_ecc_enabled: gauge("1 if memory errors are detected (ECC)."),
  gridmeter_gpu_ecc_errors_total: counter(
    "Memory errors: corrected or uncorrected; volatile since the driver was loaded, aggregate over the GPU's life.",
    [...GPU, "kind", "scope"],
  ),
  gridmeter_gpu_ecc_sram_threshold_exceeded: gauge("1 if SRAM had more uncorrected errors than it may."),
  gridmeter_gpu_repair_pending: gauge("1 if a repair waits for a reset of the GPU.", [...GPU, "part"]),
  gridmeter_gpu_retired_pages: gauge("Memory pages taken out of use, by cause.", [...GPU, "cause"]),
  gridmeter_gpu_retired_pages_pending: gauge("1 if pages are to be retired at the next reboot."),
  gridmeter_gpu_remapped_rows: gauge("Memory rows replaced by spare ones, by the kind of error.", [...GPU, "kind"]),
  gridmeter_gpu_remapped_rows_pending: gauge("1 if rows are to be remapped at the next reset."),
  gridmeter_gpu_remapped_rows_failed: gauge("1 if a row could not be remapped: the GPU is to be replaced."),
  gridmeter_gpu_recovery_action: gauge("1 for what the driver says is to be done to recover the GPU.", [
    ...GPU,
    "action",
  ]),
  gridmeter_gpu_reset_required: gauge("1 if the driver says that the GPU must be reset."),
  gridmeter_gpu_fabric_healthy: gauge("1 if the GPU's NVLink fabric is healthy, 0 if not."),
  gridmeter_gpu_processes: gauge("Processes that hold the GPU."),
  gridmeter_gpu_uninterruptible_processes: gauge(
    "Processes that hold the GPU and were uninterruptible (D) whenever looked at for a while, but for waits that users hold (vfork, a paused container).",
  ),
  gridmeter_gpu_mig_enabled: gauge("1 if the GPU is split into MIG devices."),
  gridmeter_gpu_mig_devices: gauge("MIG devices of the GPU."),
  gridmeter_gpu_mig_memory_used_bytes: gauge("Memory in use on a MIG device.", MIG),
  gridmeter_gpu_mig_memory_total_bytes: gauge("Memory of a MIG device.", MIG),
  gridmeter_gpu_mig_multiprocessors: gauge("Multiprocessors of a MIG device.", MIG),
  gridmeter_gpu_mig_ecc_errors_total: counter(
    "Uncorrected SRAM errors of a MIG device since the driver was loaded.",
    MIG,
  ),
} as const satisfies Record<`gridmeter_gpu_${string}`, Entry>;

export type GpuMetricName = keyof typeof GPU_METRICS;

/** A value that may not have been read. Booleans are published as 0 and 1. */
export type GpuSample = {
  readonly metric: GpuMetricName;
  readonly labels: Labels;
  readonly value: number | boolean | undefined;
};

/** Gathers samples by metric, in the order in which metrics come. What was not read is left out, and so are empty metrics. */
export const gpuMetrics = (samples: readonly GpuSample[]): Metric[] => {
  const byName = new Map<GpuMetricName, { labels: Labels; value: number }[]>();
  for (const { metric, labels, value } of samples) {
    if (value === undefined || !Number.isFinite(Number(value))) continue;
    const rows = byName.get(metric) ?? [];
    rows.push({ labels, value: Number(value) });
    byName.set(metric, rows);
  }
  return [...byName].map(([name, rows]) => ({
    name,
    help: GPU_METRICS[name].help,
    type: GPU_METRICS[name].type,
    samples: rows,
  }));
};
