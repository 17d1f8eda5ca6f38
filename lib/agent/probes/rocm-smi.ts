import type { Metric } from "../../shared/exposition.ts";
import type { Output, Parsed } from "../command/types.ts";
import { type CgroupOwner, OwnerReader } from "./common/cgroup.ts";
import { GPU_DEFAULTS, expectedMetrics, gpuLabels, gpuSampler, gpusUnavailable, infoLabels } from "./common/gpu.ts";
import { type GpuSample, gpuMetrics } from "./common/metric-families.ts";
import { ParseError } from "./common/parse.ts";
import { type ProbeKind, limitsOf, singleProbe } from "./common/probe.ts";
import { type ProbeDefaults, USUAL_INTERVAL, missingTool } from "./common/settings.ts";
import {
  CardReader,
  ROCM_CLOCK_DOMAINS,
  type RocmCard,
  type RocmSmi,
  readCard,
  readRocmDocument,
  readRocmProcesses,
} from "./rocm-smi-json.ts";

export type AmdReadings = {
  /** `owners`: the control groups of the processes that hold GPUs */
  readonly amd: { readonly report: RocmSmi; readonly owners: ReadonlyMap<number, CgroupOwner> };
};

export const ROCM_SMI_DEFAULTS = {
  description: "use, memory, temperature, power and processes of AMD's GPUs",
  interval: USUAL_INTERVAL,
  timeout: 20,
  /** `-a` prints the whole card, but no memory in bytes; `--showmeminfo all` adds it */
  command: ["rocm-smi", "--showmeminfo", "all", "-a", "--json"],
  maxBytes: 2 * 1024 * 1024,
  options: GPU_DEFAULTS,
} as const satisfies ProbeDefaults;

/** AMD gives rocm-smi up for it (rocm-build#4374); ROCm 10 has no rocm-smi. */
const SUCCESSOR = "amd-smi";

/** The device of AMD's compute driver. */
const DEVICES: readonly string[] = ["/dev/kfd"];

export const rocmSmi: ProbeKind<AmdReadings> = {
  create: (settings) => {
    const { command = ROCM_SMI_DEFAULTS.command, proc = ROCM_SMI_DEFAULTS.options.proc } = settings;
    const reader = new OwnerReader(proc);
    return singleProbe({
      name: "rocm-smi",
      limits: limitsOf("rocm-smi", settings, ROCM_SMI_DEFAULTS),
      label: "rocm-smi",
      argv: () => Promise.resolve(command),
      parse: parseRocmSmi,
      metrics: (report) => [...rocmSmiMetrics(report), ...expectedMetrics(settings)],
      readings: async (report, secondsLeft): Promise<Partial<AmdReadings>> => {
        const pids = (report.processes ?? []).map(({ pid }) => pid);
        const owners = await reader.read(pids, secondsLeft).catch(() => undefined);
        return owners === undefined ? {} : { amd: { report, owners } };
      },
      unavailable: async () => {
        const replaced = settings.command === undefined && (await missingTool([SUCCESSOR])) === undefined;
        if (replaced)
          return `${SUCCESSOR} is there, which AMD keeps up in its place. Give this probe a command to run it all the same`;
        return await gpusUnavailable(command[0], "AMD compute driver", DEVICES, settings);
      },
    });
  },
  parseSaved: (output, settings) => {
    const { value, rejected } = parseRocmSmi(output);
    return { metrics: [...rocmSmiMetrics(value), ...expectedMetrics(settings)], parsed: value, rejected };
  },
};

/**
 * Reads the JSON of rocm-smi, of ROCm 3 to 6. `N/A` (also `N/A (Secondary die)`) is undefined; a broken value is undefined and
 * counted in `rejected`, as is a card that is no object.
 *
 * @throws {ParseError} when it failed, printed no JSON or no cards, or no card has a known key: the unknown output of a new version
 * must not pass for a card without values (telegraf#9851)
 */
export const parseRocmSmi = (output: Output): Parsed<RocmSmi> => {
  const document = readRocmDocument(output);
  const readers = document.cards.map(({ section }) => (section === undefined ? undefined : new CardReader(section)));
  const gpus = document.cards.flatMap(({ number }, index) => {
    const reader = readers[index];
    return reader === undefined ? [] : [readCard(reader, index, number)];
  });
  if (readers.every((reader) => reader === undefined || reader.known === 0)) {
    const keys = readers.flatMap((reader) => reader?.keys() ?? []);
    throw new ParseError(`no card of rocm-smi has a known key: ${JSON.stringify(keys.slice(0, 10)).slice(0, 300)}`);
  }
  const rejected = readers.reduce((sum, reader) => sum + (reader?.rejected ?? 1), 0);
  const { system } = document;
  const value = {
    gpus,
    cardCount: document.cards.length,
    driverVersion: system?.get("driver version")?.text,
    processes: system === undefined ? undefined : readRocmProcesses(system),
    system:
      system === undefined ? undefined : Object.fromEntries([...system.values()].map(({ key, text }) => [key, text])),
  };
  return { value, rejected };
};

/** The metrics of rocm-smi, under the same names as NVIDIA's. A value that was not read has no sample. */
export const rocmSmiMetrics = (report: RocmSmi): Metric[] =>
  gpuMetrics([
    { metric: "gridmeter_gpu_seen", labels: {}, value: report.cardCount },
    ...report.gpus.flatMap((card) => cardSamples(card, report.driverVersion)),
  ]);

const cardSamples = (card: RocmCard, driverVersion: string | undefined): GpuSample[] => {
  const sample = gpuSampler(gpuLabels(card));
  return [
    sample("gridmeter_gpu_info", 1, infoLabels({ name: card.series, pciBusId: card.pciBusId, driverVersion })),
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
