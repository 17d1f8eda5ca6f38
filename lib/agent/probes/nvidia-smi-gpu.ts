import type { GpuDevice, GpuProcess } from "./common/gpu.ts";
import {
  type EccErrors,
  type Health,
  type Power,
  type ReasonSeconds,
  type Reasons,
  readEcc,
  readHealth,
  readPower,
  readReasonSeconds,
  readReasons,
} from "./nvidia-smi-health.ts";
import type { Reader } from "./nvidia-smi-log.ts";

/** A GPU that nvidia-smi's text calls lost. */
export type LostGpu = {
  /** as printed: 0000:CF:00.0, or the driver's own form with eight digits */
  readonly pciBusId: string;
  /** the line that names it */
  readonly line: string;
};

/** What `nvidia-smi -q -x` says. `gpus` are in its order, those that could not be read at all left out. */
export type NvidiaSmi = {
  /** "v12" of nvsmi_device_v12.dtd */
  readonly dtd: string | undefined;
  readonly driverVersion: string | undefined;
  /** as printed, also `Not Found` */
  readonly cudaVersion: string | undefined;
  /** the driver's number of GPUs; there may be fewer `<gpu>` elements */
  readonly attachedGpus: number | undefined;
  /** `<gpu>` elements, readable or not; undefined where no log was printed */
  readonly gpuElements: number | undefined;
  /** GPUs that are named as lost beside the log, or in its place */
  readonly lost: readonly LostGpu[];
  readonly gpus: readonly NvidiaGpu[];
};

/** One GPU as nvidia-smi saw it. Base units (bytes, watts, hertz, 0 to 1); undefined is "not read". */
export type NvidiaGpu = GpuDevice & {
  readonly name: string | undefined;
  readonly pciBusId: string | undefined;
  readonly memoryReservedBytes: number | undefined;
  /** share of time in which memory was read or written */
  readonly memoryUtilization: number | undefined;
  readonly engines: Values<Engine>;
  readonly temperature: number | undefined;
  readonly memoryTemperature: number | undefined;
  readonly fanSpeed: number | undefined;
  /** 0 for P0 */
  readonly performanceState: number | undefined;
  readonly power: Power;
  readonly reasons: Reasons | undefined;
  readonly reasonSeconds: readonly ReasonSeconds[];
  readonly clocks: Values<ClockDomain>;
  readonly maxClocks: Values<ClockDomain>;
  readonly pcie: Values<"generation" | "maxGeneration" | "width" | "maxWidth" | "transmit" | "receive" | "replays">;
  readonly eccVolatile: EccErrors | undefined;
  readonly eccAggregate: EccErrors | undefined;
  readonly health: Health;
  readonly mig: Mig | undefined;
};

type Values<K extends string> = Readonly<Record<K, number | undefined>>;

/** Reads one `<gpu>` element; `index` is its position in the log, which is nvidia-smi's index. */
export const readGpu = (gpu: Reader, index: number): NvidiaGpu => ({
  index,
  minorNumber: gpu.integer("minor_number"),
  uuid: gpu.name("uuid"),
  name: gpu.name("product_name"),
  pciBusId: gpu.name("@id") ?? gpu.name("pci", "pci_bus_id"),
  utilization: gpu.number("share", "utilization", "gpu_util"),
  memoryUtilization: gpu.number("share", "utilization", "memory_util"),
  engines: readEngines(gpu),
  memoryUsedBytes: gpu.number("bytes", "fb_memory_usage", "used"),
  memoryTotalBytes: gpu.number("bytes", "fb_memory_usage", "total"),
  memoryReservedBytes: gpu.number("bytes", "fb_memory_usage", "reserved"),
  temperature: gpu.number("celsius", "temperature", "gpu_temp"),
  memoryTemperature: gpu.number("celsius", "temperature", "memory_temp"),
  fanSpeed: gpu.number("percent", "fan_speed"),
  performanceState: gpu.choice(parseState, "performance_state"),
  power: readPower(gpu),
  reasons: readReasons(gpu),
  reasonSeconds: readReasonSeconds(gpu),
  clocks: readClocks(gpu, "clocks"),
  maxClocks: readClocks(gpu, "max_clocks"),
  pcie: readPcie(gpu),
  eccVolatile: readEcc(gpu, "volatile"),
  eccAggregate: readEcc(gpu, "aggregate"),
  health: readHealth(gpu),
  mig: readMig(gpu),
  processes: readProcesses(gpu),
});

export const CLOCK_DOMAINS = ["graphics", "sm", "memory", "video"] as const;

type ClockDomain = (typeof CLOCK_DOMAINS)[number];

const CLOCK_TAGS: Readonly<Record<ClockDomain, string>> = {
  graphics: "graphics_clock",
  sm: "sm_clock",
  memory: "mem_clock",
  video: "video_clock",
};

const readClocks = (gpu: Reader, parent: "clocks" | "max_clocks"): Values<ClockDomain> => {
  const clock = (domain: ClockDomain) => gpu.number("hertz", parent, CLOCK_TAGS[domain]);
  return { graphics: clock("graphics"), sm: clock("sm"), memory: clock("memory"), video: clock("video") };
};

export const ENGINES = ["encoder", "decoder", "jpeg", "ofa"] as const;

type Engine = (typeof ENGINES)[number];

const readEngines = (gpu: Reader): Values<Engine> => {
  const engine = (name: Engine) => gpu.number("share", "utilization", `${name}_util`);
  return { encoder: engine("encoder"), decoder: engine("decoder"), jpeg: engine("jpeg"), ofa: engine("ofa") };
};

const readPcie = (gpu: Reader): NvidiaGpu["pcie"] => {
  const link = ["pci", "pci_gpu_link_info"] as const;
  return {
    generation: gpu.integer(...link, "pcie_gen", "current_link_gen"),
    maxGeneration: gpu.integer(...link, "pcie_gen", "max_link_gen"),
    width: gpu.number("lanes", ...link, "link_widths", "current_link_width"),
    maxWidth: gpu.number("lanes", ...link, "link_widths", "max_link_width"),
    transmit: gpu.number("bytesPerSecond", "pci", "tx_util"),
    receive: gpu.number("bytesPerSecond", "pci", "rx_util"),
    replays: gpu.integer("pci", "replay_counter"),
  };
};

const parseState = (text: string): number | undefined => {
  const digits = /^P(\d{1,2})$/.exec(text)?.[1];
  return digits === undefined ? undefined : Number(digits);
};

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

/** The MIG devices of a GPU; undefined where the driver prints no MIG mode. Devices with the same numbers count as one. */
const readMig = (gpu: Reader): Mig | undefined => {
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

const readDevice = (device: Reader): MigDevice => ({
  index: device.integer("index"),
  gpuInstance: device.integer("gpu_instance_id"),
  computeInstance: device.integer("compute_instance_id"),
  multiprocessors: device.integer("device_attributes", "shared", "multiprocessor_count"),
  memoryUsedBytes: device.number("bytes", "fb_memory_usage", "used"),
  memoryTotalBytes: device.number("bytes", "fb_memory_usage", "total"),
  eccUncorrected: device.integer("ecc_error_count", "volatile_count", "sram_uncorrectable"),
});

/**
 * The processes on a GPU; undefined where the list is missing or is another text (`N/A`, permissions), since the GPU may have
 * processes then. A process without a readable id is left out and counted.
 */
const readProcesses = (gpu: Reader): readonly GpuProcess[] | undefined => {
  const list = gpu.at("processes");
  if (list === undefined || (!list.isNested() && list.ownText() !== "" && list.ownText() !== "None")) return undefined;
  return list.all("process_info").flatMap((row) => {
    const pid = row.integer("pid");
    if (pid === undefined) {
      row.reject();
      return [];
    }
    return [
      {
        pid,
        type: row.name("type"),
        usedBytes: row.number("bytes", "used_memory"),
        gpuInstance: row.integer("gpu_instance_id"),
        computeInstance: row.integer("compute_instance_id"),
      },
    ];
  });
};
