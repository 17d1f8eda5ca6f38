import type { Labels, Metric } from "../../shared/exposition.ts";
import { shortId } from "../probes/common/container.ts";
import type { GpuDevice } from "../probes/common/gpu.ts";
import { type GpuUse, joinGpuUse, processesOn } from "../probes/join-gpus.ts";
import { joinZombies } from "../probes/joins.ts";
import type { NvidiaGpu } from "../probes/nvidia-smi-gpu.ts";
import type { Readings } from "../probes/registry.ts";
import { type OpenPaiSample, openPaiMetric, percent } from "./catalogue.ts";

/** job-exporter knows a GPU by its minor number alone; one without has no series. */
const perGpu = <Gpu extends GpuDevice>(
  gpus: readonly Gpu[],
  sample: (gpu: Gpu, labels: Labels) => readonly OpenPaiSample[],
): readonly OpenPaiSample[] =>
  gpus.flatMap((gpu) => (gpu.minorNumber === undefined ? [] : sample(gpu, { minor_number: String(gpu.minorNumber) })));

/** GPU memory in use, in percent of all. */
export const memoryPercent = ({ memoryUsedBytes: used, memoryTotalBytes: total }: GpuDevice): number | undefined =>
  used === undefined || total === undefined || total <= 0 ? undefined : (used / total) * 100;

const useOf = (gpus: readonly GpuDevice[], vender: string): readonly Metric[] => [
  openPaiMetric(
    "gpu_utilization",
    perGpu(gpus, (gpu, labels) => [{ labels: { ...labels, vender }, value: percent(gpu.utilization) }]),
  ),
  openPaiMetric(
    "gpu_mem_utilization",
    perGpu(gpus, (gpu, labels) => [{ labels: { ...labels, vender }, value: memoryPercent(gpu) }]),
  ),
];

/** What is held by nobody up to this is given back by itself. */
const LEAK_BYTES = 20 * 1024 * 1024;

/** Under MIG the driver lists no processes for the GPU as a whole, so that none means nothing. */
const leaks = (gpu: NvidiaGpu): boolean =>
  gpu.processes?.length === 0 && gpu.mig?.mode !== "Enabled" && (gpu.memoryUsedBytes ?? 0) > LEAK_BYTES;

/** The reasons in effect as one label; undefined where the driver gives none, since empty means that there is none. */
const reasonsOf = ({ reasons }: NvidiaGpu): string | undefined =>
  reasons?.states.flatMap(({ reason, active }) => (active ? [reason] : [])).join(",");

/** The metrics of NVIDIA's GPUs by themselves. */
export const nvidiaMetrics = (gpus: readonly NvidiaGpu[], node: string): readonly Metric[] => [
  ...useOf(gpus, "nvidia"),
  openPaiMetric(
    "nvidiasmi_utilization_gpu",
    perGpu(gpus, (gpu, labels) => [{ labels, value: percent(gpu.utilization) }]),
  ),
  openPaiMetric(
    "nvidiasmi_utilization_memory",
    perGpu(gpus, (gpu, labels) => [{ labels, value: memoryPercent(gpu) }]),
  ),
  openPaiMetric(
    "nvidiasmi_temperature",
    perGpu(gpus, (gpu, labels) => [{ labels, value: gpu.temperature }]),
  ),
  openPaiMetric(
    "nvidiasmi_ecc_error_count",
    perGpu(gpus, ({ eccVolatile }, labels) => [
      { labels: { node_name: node, ...labels, type: "single" }, value: eccVolatile?.corrected },
      { labels: { node_name: node, ...labels, type: "double" }, value: eccVolatile?.uncorrected },
    ]),
  ),
  openPaiMetric(
    "nvidiasmi_memory_leak_count",
    perGpu(gpus, (gpu, labels) => (leaks(gpu) ? [{ labels, value: 1 }] : [])),
  ),
  openPaiMetric(
    "nvidiasmi_performance_state",
    perGpu(gpus, (gpu, labels) => {
      const reasons = reasonsOf(gpu);
      return reasons === undefined
        ? []
        : [{ labels: { node_name: node, ...labels, clocks_throttle_reasons: reasons }, value: gpu.performanceState }];
    }),
  ),
];

/** A GPU of AMD's, whichever tool has seen it. */
export type AmdDevice = GpuDevice & {
  readonly temperatures: readonly { readonly sensor: string; readonly celsius: number | undefined }[];
};

/** Accelerators without a sensor at the edge (MI300X) have one at the junction. */
const temperatureOf = ({ temperatures }: AmdDevice): number | undefined =>
  temperatures.find(({ sensor }) => sensor === "edge")?.celsius ??
  temperatures.find(({ sensor }) => sensor === "junction")?.celsius;

/** The metrics of AMD's GPUs by themselves. */
export const amdMetrics = (gpus: readonly AmdDevice[]): readonly Metric[] => [
  ...useOf(gpus, "amd"),
  openPaiMetric(
    "rocmsmi_utilization_gpu",
    perGpu(gpus, (gpu, labels) => [{ labels, value: percent(gpu.utilization) }]),
  ),
  openPaiMetric(
    "rocmsmi_utilization_memory",
    perGpu(gpus, (gpu, labels) => [{ labels, value: memoryPercent(gpu) }]),
  ),
  openPaiMetric(
    "rocmsmi_temperature",
    perGpu(gpus, (gpu, labels) => [{ labels, value: temperatureOf(gpu) }]),
  ),
];

const zombieSamples = (use: GpuUse, zombies: ReadonlySet<string>): readonly OpenPaiSample[] => {
  const held = new Map<string, OpenPaiSample>();
  for (const { gpu, owner } of use) {
    const id = typeof owner === "object" && owner.id !== undefined ? shortId(owner.id) : undefined;
    if (id === undefined || gpu.minorNumber === undefined || !zombies.has(id)) continue;
    const labels = { minor_number: String(gpu.minorNumber), container_id: id };
    held.set(`${gpu.minorNumber} ${id}`, { labels, value: 1 });
  }
  return [...held.values()];
};

/** Who uses NVIDIA's GPUs that should not. Absent unless all inputs are fresh. */
export const strangersOnGpus = ({ nvidia, containers, criContainers, logs }: Readings): readonly Metric[] => {
  const known = containers === undefined ? criContainers : [...(criContainers ?? []), ...containers];
  const use = joinGpuUse(nvidia?.log.gpus, nvidia?.owners, known);
  if (nvidia === undefined || use === undefined) return [];
  const external = (gpu: GpuDevice): number | undefined => processesOn(gpu, use, (owner) => owner === "external");
  const verdicts = joinZombies(logs, containers);
  const zombies = new Set(verdicts?.flatMap(({ container, zombie }) => (zombie ? [shortId(container.id ?? "")] : [])));
  return [
    openPaiMetric(
      "gpu_used_by_external_process_count",
      perGpu(nvidia.log.gpus, (gpu, labels) => [
        { labels, value: gpu.processes === undefined ? undefined : external(gpu) },
      ]),
    ),
    openPaiMetric("gpu_used_by_zombie_container_count", zombieSamples(use, zombies)),
  ];
};
