import type { Labels, Metric } from "../agent/types.ts";
import { gpuLabels, labelText } from "./gpu.ts";
import { gpuMetrics, type GpuMetricName, type GpuSample } from "./gpu-metrics.ts";
import { ROCM_CLOCK_DOMAINS, type RocmCard } from "./rocm-smi-card.ts";
import type { RocmSmi } from "./rocm-smi-system.ts";

const cardSamples = (card: RocmCard, driverVersion: string | undefined): GpuSample[] => {
  const own = gpuLabels(card);
  const sample = (metric: GpuMetricName, value: number | undefined, labels: Labels = {}): GpuSample => ({
    metric,
    value,
    labels: { ...own, ...labels },
  });
  return [
    sample("gridmeter_gpu_info", 1, {
      name: labelText(card.series),
      pci_bus_id: labelText(card.pciBusId),
      driver_version: labelText(driverVersion),
      cuda_version: "",
    }),
    sample("gridmeter_gpu_utilization_ratio", card.utilization),
    sample("gridmeter_gpu_memory_controller_utilization_ratio", card.memoryUtilization),
    sample("gridmeter_gpu_memory_used_bytes", card.memoryUsedBytes),
    sample("gridmeter_gpu_memory_total_bytes", card.memoryTotalBytes),
    ...card.temperatures.map(({ sensor, celsius }) => sample("gridmeter_gpu_temperature_celsius", celsius, { sensor })),
    sample("gridmeter_gpu_power_watts", card.power?.watts),
    sample("gridmeter_gpu_power_limit_watts", card.powerLimit),
    sample("gridmeter_gpu_fan_speed_ratio", card.fanSpeed),
    ...ROCM_CLOCK_DOMAINS.map((domain) => sample("gridmeter_gpu_clock_hertz", card.clocks[domain], { domain })),
    sample("gridmeter_gpu_pcie_link_generation", card.pcie.generation),
    sample("gridmeter_gpu_pcie_link_width", card.pcie.width),
    sample("gridmeter_gpu_pcie_replays_total", card.pcie.replays),
  ];
};

/** The metrics of one rocm-smi output, under the same names as NVIDIA's. A value that was not read has no sample. */
export const rocmSmiMetrics = (report: RocmSmi): Metric[] =>
  gpuMetrics([
    { metric: "gridmeter_gpu_seen", labels: {}, value: report.cardCount },
    ...report.gpus.flatMap((card) => cardSamples(card, report.driverVersion)),
  ]);
