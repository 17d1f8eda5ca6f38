import type { Labels } from "../agent/types.ts";
import type { GpuSample } from "./gpu-metrics.ts";
import type { Mig, MigDevice } from "./nvidia-smi-mig.ts";

const number = (value: number | undefined): string => (value === undefined ? "" : String(value));

const deviceSamples = (device: MigDevice, gpu: Labels): GpuSample[] => {
  const labels = {
    ...gpu,
    mig_index: number(device.index),
    gpu_instance: number(device.gpuInstance),
    compute_instance: number(device.computeInstance),
  };
  return [
    { metric: "gridmeter_gpu_mig_memory_used_bytes", labels, value: device.memoryUsedBytes },
    { metric: "gridmeter_gpu_mig_memory_total_bytes", labels, value: device.memoryTotalBytes },
    { metric: "gridmeter_gpu_mig_multiprocessors", labels, value: device.multiprocessors },
    { metric: "gridmeter_gpu_mig_ecc_errors_total", labels, value: device.eccUncorrected },
  ];
};

/** MIG's metrics of one GPU: none where the GPU cannot be split (`N/A`). */
export const migSamples = (mig: Mig | undefined, gpu: Labels): GpuSample[] => {
  if (mig === undefined || (mig.mode !== "Enabled" && mig.mode !== "Disabled")) return [];
  return [
    { metric: "gridmeter_gpu_mig_enabled", labels: gpu, value: mig.mode === "Enabled" },
    { metric: "gridmeter_gpu_mig_devices", labels: gpu, value: mig.devices.length },
    ...mig.devices.flatMap((device) => deviceSamples(device, gpu)),
  ];
};
