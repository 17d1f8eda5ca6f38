import type { Labels, Metric } from "../../../shared/exposition.ts";
import { gpuMetrics } from "./metric-families.ts";
import { type ProbeSettings, missingFile, missingTool } from "./settings.ts";

/** A process that holds a GPU. The join to a container goes by `pid` (host process id). */
export type GpuProcess = {
  readonly pid: number;
  /** `C` compute, `G` graphics, `C+G` both, as printed */
  readonly type: string | undefined;
  readonly usedBytes: number | undefined;
  /** MIG only: which slice it runs in */
  readonly gpuInstance: number | undefined;
  readonly computeInstance: number | undefined;
};

/** What a join to containers needs to know about a GPU, whichever tool has seen it. */
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
  /** undefined where the list could not be read, which is not the same as nobody using the GPU */
  readonly processes: readonly GpuProcess[] | undefined;
};

/** Names and models come from devices and drivers: a label is kept short and free of control characters. */
export const labelText = (text: string | undefined): string =>
  (text ?? "").slice(0, 128).replaceAll(/\p{C}/gu, "\uFFFD");

/**
 * The labels that every series of one GPU carries. The index alone is not enough, as it moves up when a GPU falls off the
 * bus; the uuid alone neither, as it may be unreadable. A label that could not be read is empty, never left out, so that
 * the label set of a metric stays the same.
 */
export const gpuLabels = (gpu: Pick<GpuDevice, "index" | "minorNumber" | "uuid">): Labels => ({
  gpu: String(gpu.index),
  minor_number: gpu.minorNumber === undefined ? "" : String(gpu.minorNumber),
  uuid: labelText(gpu.uuid),
});

/** How many GPUs there should be, beside how many were seen; absent where nothing was said. */
export const expectedMetrics = ({ expectedGpus }: ProbeSettings): Metric[] =>
  gpuMetrics([{ metric: "gridmeter_gpu_expected", labels: {}, value: expectedGpus }]);

/** Why a GPU tool has nothing to do: a node without such GPUs often has the tool all the same. */
export const gpusUnavailable = async (
  tool: string,
  device: string,
  paths: readonly string[],
  { requireDevice = true }: ProbeSettings,
): Promise<string | undefined> =>
  (await missingTool([tool])) ?? (requireDevice ? await missingFile(device, paths) : undefined);

export const GPU_DEFAULTS = { requireDevice: true, expectedGpus: undefined, proc: "/proc" } as const;
