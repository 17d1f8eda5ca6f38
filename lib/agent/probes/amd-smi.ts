import { readdir } from "node:fs/promises";
import type { Metric } from "../../shared/exposition.ts";
import { within } from "../../shared/time-limit.ts";
import { Slot } from "../command/slot.ts";
import type { Output, Parsed } from "../command/types.ts";
import { AmdValues, findAmdDocument } from "./amd-smi-json.ts";
import {
  GPU_DEFAULTS,
  type GpuDevice,
  expectedMetrics,
  gpuLabels,
  gpuSampler,
  gpusUnavailable,
  infoLabels,
} from "./common/gpu.ts";
import { type GpuSample, gpuMetrics } from "./common/metric-families.ts";
import { type JsonObject, ParseError } from "./common/parse.ts";
import { type ProbeKind, type Run, conduct, limitsOf } from "./common/probe.ts";
import { type ProbeDefaults, type ProbeSettings, USUAL_INTERVAL } from "./common/settings.ts";

export type AmdSmiReadings = { readonly amdSmi: readonly AmdGpu[] };

export const AMD_SMI_DEFAULTS = {
  description: "use, memory, temperature, power and errors of AMD's GPUs, by ROCm 6 and later",
  interval: USUAL_INTERVAL,
  timeout: 20,
  command: ["amd-smi", "metric", "--json"],
  /** one GPU is 15 KB on an MI300X */
  maxBytes: 2 * 1024 * 1024,
  options: { requireDevice: GPU_DEFAULTS.requireDevice, expectedGpus: GPU_DEFAULTS.expectedGpus },
} as const satisfies ProbeDefaults;

/** The device of AMD's compute driver. */
const DEVICES: readonly string[] = ["/dev/kfd"];

/** Names and limits are read in so much of a run's time at most, seconds: the values are wanted first. */
const LONGEST_STATIC = 5;

export const amdSmi: ProbeKind<AmdSmiReadings> = {
  create: (settings) => {
    const { command = AMD_SMI_DEFAULTS.command } = settings;
    const limits = limitsOf("amd-smi", settings, AMD_SMI_DEFAULTS);
    const slot = new Slot();
    const names = new StaticData(command, limits.maxBytes);
    return {
      name: "amd-smi",
      interval: limits.interval,
      timeout: limits.timeout,
      unavailable: () => gpusUnavailable(command[0], "AMD compute driver", DEVICES, settings),
      stuck: () => slot.stuck + names.stuck,
      run: () =>
        conduct(limits.timeout, async (run) => {
          const start = (timeout: number) => slot.run({ argv: command, timeout, maxBytes: limits.maxBytes });
          const reading = await run.read("amd-smi", limits.timeout, start, readDocument);
          if (reading.kind !== "ok") return reading;
          const { gpus: read, rejected } = gpusOf(reading.value, await names.of([...reading.value.keys()], run));
          const gpus = await within(run.left, Promise.all(read.map((gpu) => withCard(gpu))), read);
          const { exitCode } = reading;
          return { kind: "ok", metrics: metricsOf(gpus, settings), readings: { amdSmi: gpus }, rejected, exitCode };
        }),
    };
  },
  parseSaved: (output, settings) => {
    const { value, rejected } = parseAmdSmi(output);
    return { metrics: metricsOf(value, settings), parsed: value, rejected };
  },
};

const PCI_ADDRESS = /^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$/;

/**
 * Adds the N of the GPU's /dev/dri/cardN, by which containers are given GPUs: amd-smi does not print it, and the kernel has it by the
 * address on the bus.
 */
export const withCard = async (gpu: AmdGpu, devices = "/sys/bus/pci/devices"): Promise<AmdGpu> => {
  const address = gpu.pciBusId?.toLowerCase() ?? "";
  if (!PCI_ADDRESS.test(address)) return gpu;
  const files = await readdir(`${devices}/${address}/drm`).catch((): string[] => []);
  const card = files.map((file) => /^card(\d{1,4})$/.exec(file)?.[1]).find((digits) => digits !== undefined);
  return card === undefined ? gpu : { ...gpu, minorNumber: Number(card) };
};

/** What of a GPU stays the same, `amd-smi static --json`: read when the GPUs are others than before. */
class StaticData {
  readonly #argv: readonly [string, ...string[]];
  readonly #maxBytes: number;
  readonly #slot = new Slot();
  #known: Document = new Map();

  constructor([program, ...rest]: readonly [string, ...string[]], maxBytes: number) {
    this.#argv = [program, ...rest.map((argument) => (argument === "metric" ? "static" : argument))];
    this.#maxBytes = maxBytes;
  }

  get stuck(): number {
    return this.#slot.stuck;
  }

  async of(gpus: readonly number[], run: Run): Promise<Document> {
    const isKnown = gpus.length === this.#known.size && gpus.every((gpu) => this.#known.has(gpu));
    if (isKnown || !this.#argv.includes("static")) return this.#known;
    const start = (timeout: number) => this.#slot.run({ argv: this.#argv, timeout, maxBytes: this.#maxBytes });
    const reading = await run.read("amd-smi", Math.min(LONGEST_STATIC, run.left / 2), start, readDocument);
    this.#known = reading.kind === "ok" ? reading.value : new Map();
    return this.#known;
  }
}

/** What amd-smi prints of each GPU, by its number. */
type Document = ReadonlyMap<number, JsonObject>;

/**
 * Finds the GPUs in the JSON of amd-smi, whatever its exit code. @throws {ParseError} when there is no JSON with GPUs
 */
const readDocument = (output: Output): Parsed<Document> => {
  const gpus = findAmdDocument(output.stdout);
  if (gpus !== undefined && gpus.size > 0) return { value: gpus, rejected: 0 };
  const printed = JSON.stringify((output.stdout.trim() || output.stderr.trim()).slice(0, 200));
  const failed = output.exitCode === 0 ? "" : ` and exited with ${output.exitCode}`;
  throw new ParseError(`amd-smi printed no JSON with GPUs${failed}: ${printed}`);
};

/**
 * Reads a saved output of `amd-smi metric --json` or `amd-smi static --json`, of ROCm 6 or 7. `N/A` is undefined; a broken value is
 * undefined and counted in `rejected`.
 *
 * @throws {ParseError} when there is no JSON with GPUs, or no GPU has a known value: the unknown output of a new version must not pass
 * for a GPU without values
 */
export const parseAmdSmi = (output: Output): Parsed<readonly AmdGpu[]> => {
  const { gpus, rejected } = gpusOf(readDocument(output).value, new Map());
  return { value: gpus, rejected };
};

const gpusOf = (metric: Document, names: Document): { readonly gpus: readonly AmdGpu[]; readonly rejected: number } => {
  const values = [...metric].map(([gpu, sections]) => ({ gpu, of: new AmdValues({ ...names.get(gpu), ...sections }) }));
  const gpus = values.map(({ gpu, of }) => readGpu(gpu, of));
  if (values.every(({ of }) => of.known === 0)) {
    const sections = [...new Set([...metric.values()].flatMap((one) => Object.keys(one)))].slice(0, 10);
    throw new ParseError(`no GPU of amd-smi has a known value: ${JSON.stringify(sections).slice(0, 300)}`);
  }
  return { gpus, rejected: values.reduce((sum, { of }) => sum + of.rejected, 0) };
};

type Clock = { readonly domain: string; readonly hertz: number | undefined; readonly maxHertz: number | undefined };

/** One GPU as amd-smi saw it. Base units (bytes, watts, hertz, 0 to 1); undefined is "not read". */
export type AmdGpu = GpuDevice & {
  readonly name: string | undefined;
  readonly pciBusId: string | undefined;
  readonly driverVersion: string | undefined;
  readonly memoryUtilization: number | undefined;
  readonly temperatures: readonly { readonly sensor: string; readonly celsius: number | undefined }[];
  readonly watts: number | undefined;
  readonly wattsLimit: number | undefined;
  readonly fanSpeed: number | undefined;
  readonly clocks: readonly Clock[];
  readonly pcie: Readonly<
    Record<"generation" | "maxGeneration" | "width" | "maxWidth" | "replays", number | undefined>
  >;
  readonly corrected: number | undefined;
  readonly uncorrected: number | undefined;
};

/** amd-smi's clocks by the names of NVIDIA's that mean the same. */
const CLOCKS = { graphics: "gfx", memory: "mem", soc: "socclk", fabric: "fclk", video: "vclk" } as const;

const readGpu = (index: number, values: AmdValues): AmdGpu => ({
  index,
  // amd-smi prints neither the card's number (see withCard) nor, beside the values, the processes.
  minorNumber: undefined,
  processes: undefined,
  uuid: values.text("asic.asic_serial"),
  name: values.text("asic.market_name", "board.product_name"),
  pciBusId: values.text("bus.bdf", "pcie.bdf"),
  driverVersion: values.text("driver.version", "driver.driver_version"),
  utilization: values.share("usage.gfx_activity", "usage.gfx_usage"),
  memoryUtilization: values.share("usage.umc_activity", "usage.mem_activity"),
  memoryUsedBytes: values.number("bytes", "mem_usage.used_vram"),
  memoryTotalBytes: values.number("bytes", "mem_usage.total_vram", "vram.size"),
  temperatures: [
    { sensor: "edge", celsius: values.number("celsius", "temperature.edge") },
    { sensor: "junction", celsius: values.number("celsius", "temperature.hotspot", "temperature.junction") },
    { sensor: "memory", celsius: values.number("celsius", "temperature.mem", "temperature.vram") },
  ],
  watts: values.number("watts", "power.socket_power", "power.current_socket_power", "power.average_socket_power"),
  wattsLimit: values.number("watts", "limit.socket_power", "limit.ppt0.socket_power_limit", "limit.max_power"),
  fanSpeed: values.ratio("fan.usage"),
  clocks: Object.entries(CLOCKS).map(([domain, name]) => ({
    domain,
    // MI300X has one of each for each of its chips.
    hertz: values.number("hertz", `clock.${name}_0.clk`, `clock.${name}.clk`, `clock.${name}.cur_clk`),
    maxHertz: values.number("hertz", `clock.${name}_0.max_clk`, `clock.${name}.max_clk`),
  })),
  pcie: {
    generation: values.pcieGeneration("pcie.speed", "pcie.current_speed"),
    maxGeneration: values.pcieGeneration("bus.max_pcie_speed"),
    width: values.number("count", "pcie.width", "pcie.current_lanes"),
    maxWidth: values.number("count", "bus.max_pcie_width", "bus.max_pcie_lanes"),
    replays: values.number("count", "pcie.replay_count"),
  },
  corrected: values.number("count", "ecc.total_correctable_count", "ecc.total_correctable"),
  uncorrected: values.number("count", "ecc.total_uncorrectable_count", "ecc.total_uncorrectable"),
});

/** The metrics of amd-smi, under the same names as those of the other makers' tools. A value that was not read has no sample. */
const metricsOf = (gpus: readonly AmdGpu[], settings: ProbeSettings): Metric[] => [
  ...gpuMetrics([
    { metric: "gridmeter_gpu_seen", labels: {}, value: gpus.length },
    ...gpus.flatMap((gpu) => samplesOf(gpu)),
  ]),
  ...expectedMetrics(settings),
];

const samplesOf = (gpu: AmdGpu): GpuSample[] => {
  const sample = gpuSampler(gpuLabels(gpu));
  return [
    sample("gridmeter_gpu_info", 1, infoLabels(gpu)),
    sample("gridmeter_gpu_utilization_ratio", gpu.utilization),
    sample("gridmeter_gpu_memory_controller_utilization_ratio", gpu.memoryUtilization),
    sample("gridmeter_gpu_memory_used_bytes", gpu.memoryUsedBytes),
    sample("gridmeter_gpu_memory_total_bytes", gpu.memoryTotalBytes),
    ...gpu.temperatures.map(({ sensor, celsius }) => sample("gridmeter_gpu_temperature_celsius", celsius, { sensor })),
    sample("gridmeter_gpu_power_watts", gpu.watts),
    sample("gridmeter_gpu_power_limit_watts", gpu.wattsLimit),
    sample("gridmeter_gpu_fan_speed_ratio", gpu.fanSpeed),
    ...gpu.clocks.map(({ domain, hertz }) => sample("gridmeter_gpu_clock_hertz", hertz, { domain })),
    ...gpu.clocks.map(({ domain, maxHertz }) => sample("gridmeter_gpu_clock_max_hertz", maxHertz, { domain })),
    sample("gridmeter_gpu_pcie_link_generation", gpu.pcie.generation),
    sample("gridmeter_gpu_pcie_link_generation_max", gpu.pcie.maxGeneration),
    sample("gridmeter_gpu_pcie_link_width", gpu.pcie.width),
    sample("gridmeter_gpu_pcie_link_width_max", gpu.pcie.maxWidth),
    sample("gridmeter_gpu_pcie_replays_total", gpu.pcie.replays),
    sample("gridmeter_gpu_ecc_errors_total", gpu.corrected, { kind: "corrected", scope: "volatile" }),
    sample("gridmeter_gpu_ecc_errors_total", gpu.uncorrected, { kind: "uncorrected", scope: "volatile" }),
  ];
};
