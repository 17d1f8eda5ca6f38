import type { Reader } from "./nvidia-smi-reader.ts";

export type MigDevice = {
  readonly index: number | undefined;
  readonly gpuInstance: number | undefined;
  readonly computeInstance: number | undefined;
  readonly multiprocessors: number | undefined;
  readonly memoryUsedBytes: number | undefined;
  readonly memoryTotalBytes: number | undefined;
  /** uncorrected SRAM errors since the driver was loaded */
  readonly eccUncorrected: number | undefined;
};

export type Mig = {
  /** as printed: `Enabled`, `Disabled`, `N/A` */
  readonly mode: string;
  readonly devices: readonly MigDevice[];
};

const readDevice = (device: Reader): MigDevice => ({
  index: device.integer("index"),
  gpuInstance: device.integer("gpu_instance_id"),
  computeInstance: device.integer("compute_instance_id"),
  multiprocessors: device.integer("device_attributes", "shared", "multiprocessor_count"),
  memoryUsedBytes: device.number("bytes", "fb_memory_usage", "used"),
  memoryTotalBytes: device.number("bytes", "fb_memory_usage", "total"),
  eccUncorrected: device.integer("ecc_error_count", "volatile_count", "sram_uncorrectable"),
});

/** How a GPU is split; undefined where the driver knows no MIG. Two devices that cannot be told apart count as one. */
export const readMig = (gpu: Reader): Mig | undefined => {
  const mode = gpu.text("mig_mode", "current_mig");
  if (mode === undefined) return undefined;
  const devices = new Map<string, MigDevice>();
  for (const row of gpu.at("mig_devices")?.all("mig_device") ?? []) {
    const device = readDevice(row);
    const key = `${device.index}/${device.gpuInstance}/${device.computeInstance}`;
    if (devices.has(key) || key === "undefined/undefined/undefined") row.reject();
    else devices.set(key, device);
  }
  return { mode, devices: [...devices.values()] };
};
