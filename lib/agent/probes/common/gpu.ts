import type { Labels, Metric } from "../../../shared/exposition.ts";
import { type GpuMetricName, type GpuSample, gpuMetrics } from "./metric-families.ts";
import { labelText } from "./parse.ts";
import { type ProbeSettings, missingFile, missingTool } from "./settings.ts";

/** What a join of GPUs and containers needs of a GPU, whichever tool has seen it. */
export type GpuDevice = {
  /** position in the tool's own order, which is what NVIDIA_VISIBLE_DEVICES and AMD's counterparts count by */
  readonly index: number;
  /** N of /dev/nvidiaN or /dev/dri/cardN; its order may differ from the index (openpai#3951) */
  readonly minorNumber: number | undefined;
  readonly uuid: string | undefined;
  /** 0 to 1 */
  readonly utilization: number | undefined;
  readonly memoryUsedBytes: number | undefined;
  readonly memoryTotalBytes: number | undefined;
  /** undefined where the list could not be read, which does not mean that no process uses the GPU */
  readonly processes: readonly GpuProcess[] | undefined;
};

/** A process that holds a GPU. It is joined to its container by `pid`, the host's process id. */
export type GpuProcess = {
  readonly pid: number;
  /** `C` compute, `G` graphics, `C+G` both, as printed */
  readonly type: string | undefined;
  readonly usedBytes: number | undefined;
  /** the MIG device that it runs in, if any */
  readonly gpuInstance: number | undefined;
  readonly computeInstance: number | undefined;
};

export const GPU_DEFAULTS = { requireDevice: true, expectedGpus: undefined, proc: "/proc" } as const;

/** Why a GPU's tool cannot be used: it is missing, or the device is, as a node without such GPUs may have the tool all the same. */
export const gpusUnavailable = async (
  tool: string,
  device: string,
  paths: readonly string[],
  { requireDevice = true }: ProbeSettings,
): Promise<string | undefined> =>
  (await missingTool([tool])) ?? (requireDevice ? await missingFile(device, paths) : undefined);

/**
 * The labels that every series of one GPU carries. The index alone does not identify it, as indexes shift when a GPU falls off the
 * bus; the uuid may be unreadable. A label that could not be read is empty and not left out, so that the label set of a metric stays
 * the same.
 */
export const gpuLabels = (gpu: Pick<GpuDevice, "index" | "minorNumber" | "uuid">): Labels => ({
  gpu: String(gpu.index),
  minor_number: gpu.minorNumber === undefined ? "" : String(gpu.minorNumber),
  uuid: labelText(gpu.uuid),
});

/** Makes a sample with the labels of one GPU, and those given. */
export type GpuSampler = (metric: GpuMetricName, value: number | boolean | undefined, labels?: Labels) => GpuSample;

/** @param own what `gpuLabels` gives */
export const gpuSampler =
  (own: Labels): GpuSampler =>
  (metric, value, labels = {}) => ({ metric, value, labels: { ...own, ...labels } });

/** The labels of `gridmeter_gpu_info` besides those of the GPU: what it and its driver are, as its tool printed them. */
export const infoLabels = (info: {
  readonly name: string | undefined;
  readonly pciBusId: string | undefined;
  readonly driverVersion: string | undefined;
  readonly cudaVersion?: string | undefined;
}): Labels => ({
  name: labelText(info.name),
  pci_bus_id: labelText(info.pciBusId),
  driver_version: labelText(info.driverVersion),
  cuda_version: labelText(info.cudaVersion),
});

/** How many GPUs the node should have; absent where that is not configured. */
export const expectedMetrics = ({ expectedGpus }: ProbeSettings): Metric[] =>
  gpuMetrics([{ metric: "gridmeter_gpu_expected", labels: {}, value: expectedGpus }]);
