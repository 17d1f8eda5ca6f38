import type { Metric } from "../../agent/types.ts";
import { gpuMetrics } from "../gpu-metrics.ts";
import { missingFile, missingTool } from "../availability.ts";
import type { ProbeSettings } from "./settings.ts";

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
