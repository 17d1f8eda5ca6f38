import type { Labels, Metric } from "../agent/types.ts";
import { gpuLabels, labelText } from "./gpu.ts";
import { gpuMetrics, type GpuMetricName, type GpuSample } from "./gpu-metrics.ts";
import { CLOCK_DOMAINS, ENGINES, type NvidiaGpu, type NvidiaSmi } from "./nvidia-smi-gpu.ts";
import { RECOVERY_ACTIONS, recoveryActionLabel } from "./nvidia-smi-health.ts";
import { migSamples } from "./nvidia-smi-mig-metrics.ts";

type Sampler = (metric: GpuMetricName, value: number | boolean | undefined, labels?: Labels) => GpuSample;

const useSamples = (gpu: NvidiaGpu, sample: Sampler): GpuSample[] => [
  sample("gridmeter_gpu_utilization_ratio", gpu.utilization),
  sample("gridmeter_gpu_memory_controller_utilization_ratio", gpu.memoryUtilization),
  ...ENGINES.map((engine) => sample("gridmeter_gpu_engine_utilization_ratio", gpu.engines[engine], { engine })),
  sample("gridmeter_gpu_memory_used_bytes", gpu.memoryUsedBytes),
  sample("gridmeter_gpu_memory_total_bytes", gpu.memoryTotalBytes),
  sample("gridmeter_gpu_memory_reserved_bytes", gpu.memoryReservedBytes),
  sample("gridmeter_gpu_processes", gpu.processes?.length),
];

const hardwareSamples = (gpu: NvidiaGpu, sample: Sampler): GpuSample[] => [
  sample("gridmeter_gpu_temperature_celsius", gpu.temperature, { sensor: "gpu" }),
  sample("gridmeter_gpu_temperature_celsius", gpu.memoryTemperature, { sensor: "memory" }),
  sample("gridmeter_gpu_power_watts", gpu.power.draw),
  sample("gridmeter_gpu_power_limit_watts", gpu.power.limit),
  sample("gridmeter_gpu_module_power_watts", gpu.power.module),
  sample("gridmeter_gpu_fan_speed_ratio", gpu.fanSpeed),
  sample("gridmeter_gpu_performance_state", gpu.performanceState),
  ...(gpu.reasons?.states ?? []).map(({ reason, active }) =>
    sample("gridmeter_gpu_clocks_event_reason", active, { reason }),
  ),
  ...gpu.reasonSeconds.map(({ reason, seconds }) =>
    sample("gridmeter_gpu_clocks_event_seconds_total", seconds, { reason }),
  ),
  ...CLOCK_DOMAINS.map((domain) => sample("gridmeter_gpu_clock_hertz", gpu.clocks[domain], { domain })),
  ...CLOCK_DOMAINS.map((domain) => sample("gridmeter_gpu_clock_max_hertz", gpu.maxClocks[domain], { domain })),
  sample("gridmeter_gpu_pcie_link_generation", gpu.pcie.generation),
  sample("gridmeter_gpu_pcie_link_generation_max", gpu.pcie.maxGeneration),
  sample("gridmeter_gpu_pcie_link_width", gpu.pcie.width),
  sample("gridmeter_gpu_pcie_link_width_max", gpu.pcie.maxWidth),
  sample("gridmeter_gpu_pcie_throughput_bytes_per_second", gpu.pcie.transmit, { direction: "transmit" }),
  sample("gridmeter_gpu_pcie_throughput_bytes_per_second", gpu.pcie.receive, { direction: "receive" }),
  sample("gridmeter_gpu_pcie_replays_total", gpu.pcie.replays),
];

const eccSamples = (gpu: NvidiaGpu, sample: Sampler): GpuSample[] =>
  [["volatile", gpu.eccVolatile] as const, ["aggregate", gpu.eccAggregate] as const].flatMap(([scope, errors]) => [
    sample("gridmeter_gpu_ecc_errors_total", errors?.corrected, { kind: "corrected", scope }),
    sample("gridmeter_gpu_ecc_errors_total", errors?.uncorrected, { kind: "uncorrected", scope }),
  ]);

const recoverySamples = (gpu: NvidiaGpu, sample: Sampler): GpuSample[] => {
  const advised = recoveryActionLabel(gpu.health.recoveryAction);
  if (advised === undefined) return [];
  return RECOVERY_ACTIONS.map((action) => sample("gridmeter_gpu_recovery_action", action === advised, { action }));
};

const healthSamples = (gpu: NvidiaGpu, sample: Sampler): GpuSample[] => [
  sample("gridmeter_gpu_lost", gpu.health.lost),
  sample("gridmeter_gpu_ecc_enabled", gpu.health.eccEnabled),
  ...eccSamples(gpu, sample),
  sample("gridmeter_gpu_ecc_sram_threshold_exceeded", gpu.health.sramThresholdExceeded),
  sample("gridmeter_gpu_repair_pending", gpu.health.channelRepairPending, { part: "channel" }),
  sample("gridmeter_gpu_repair_pending", gpu.health.tpcRepairPending, { part: "tpc" }),
  sample("gridmeter_gpu_retired_pages", gpu.health.retiredSingleBit, { cause: "multiple_single_bit" }),
  sample("gridmeter_gpu_retired_pages", gpu.health.retiredDoubleBit, { cause: "double_bit" }),
  sample("gridmeter_gpu_retired_pages_pending", gpu.health.retirementPending),
  sample("gridmeter_gpu_remapped_rows", gpu.health.remappedCorrected, { kind: "corrected" }),
  sample("gridmeter_gpu_remapped_rows", gpu.health.remappedUncorrected, { kind: "uncorrected" }),
  sample("gridmeter_gpu_remapped_rows_pending", gpu.health.remapPending),
  sample("gridmeter_gpu_remapped_rows_failed", gpu.health.remapFailed),
  ...recoverySamples(gpu, sample),
  sample("gridmeter_gpu_reset_required", gpu.health.resetRequired),
  sample("gridmeter_gpu_fabric_healthy", gpu.health.fabricHealthy),
];

/** The metrics of one nvidia-smi log. A value that was not read has no sample. */
export const nvidiaSmiMetrics = (log: NvidiaSmi): Metric[] =>
  gpuMetrics([
    { metric: "gridmeter_gpu_attached", labels: {}, value: log.attachedGpus },
    { metric: "gridmeter_gpu_seen", labels: {}, value: log.gpuElements },
    ...log.gpus.flatMap((gpu) => {
      const own = gpuLabels(gpu);
      const sample: Sampler = (metric, value, labels = {}) => ({ metric, value, labels: { ...own, ...labels } });
      return [
        sample("gridmeter_gpu_info", 1, {
          name: labelText(gpu.name),
          pci_bus_id: labelText(gpu.pciBusId),
          driver_version: labelText(log.driverVersion),
          cuda_version: labelText(log.cudaVersion),
        }),
        ...useSamples(gpu, sample),
        ...hardwareSamples(gpu, sample),
        ...healthSamples(gpu, sample),
        ...migSamples(gpu.mig, own),
      ];
    }),
  ]);
