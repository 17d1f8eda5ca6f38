import type { Labels, Metric } from "../../shared/exposition.ts";
import { Slot } from "../command/slot.ts";
import type { Output, Parsed } from "../command/types.ts";
import { type CgroupOwner, OwnerReader } from "./common/cgroup.ts";
import {
  GPU_DEFAULTS,
  type GpuSampler,
  expectedMetrics,
  gpuLabels,
  gpuSampler,
  gpusUnavailable,
  infoLabels,
} from "./common/gpu.ts";
import { type GpuSample, gpuMetrics } from "./common/metric-families.ts";
import { ParseError, labelText } from "./common/parse.ts";
import { type Failure, type ProbeKind, type Reading, type Run, conduct, limitsOf } from "./common/probe.ts";
import { type ProbeDefaults, USUAL_INTERVAL } from "./common/settings.ts";
import {
  CLOCK_DOMAINS,
  ENGINES,
  type LostGpu,
  type Mig,
  type MigDevice,
  type NvidiaGpu,
  type NvidiaSmi,
  readGpu,
} from "./nvidia-smi-gpu.ts";
import { RECOVERY_ACTIONS, recoveryActionLabel } from "./nvidia-smi-health.ts";
import { Reader, type Tally, plainText, readDocument } from "./nvidia-smi-log.ts";
import { NO_LOG, OtherGpus, lostGpus, pciKey } from "./nvidia-smi-lost.ts";

export type NvidiaReadings = {
  /** `owners`: the control groups of the processes that hold GPUs */
  readonly nvidia: { readonly log: NvidiaSmi; readonly owners: ReadonlyMap<number, CgroupOwner> };
};

export const NVIDIA_SMI_DEFAULTS = {
  description: "use, memory, temperature, power, errors and processes of NVIDIA's GPUs",
  interval: USUAL_INTERVAL,
  /** 10 s are normal for eight GPUs (netdata#14522, #18690) */
  timeout: 20,
  command: ["nvidia-smi", "-q", "-x"],
  /** one GPU is 27 KB of XML on an H100 and 45 KB on a B200: room for 40, and little enough for the parser not to block the agent */
  maxBytes: 2 * 1024 * 1024,
  options: GPU_DEFAULTS,
} as const satisfies ProbeDefaults;

/** One of these must be there: the driver's control device, or that of WSL. */
const DEVICES: readonly string[] = ["/dev/nvidiactl", "/dev/dxg"];

export const nvidiaSmi: ProbeKind<NvidiaReadings> = {
  create: (settings) => {
    const { command = NVIDIA_SMI_DEFAULTS.command, proc = NVIDIA_SMI_DEFAULTS.options.proc } = settings;
    const limits = limitsOf("nvidia-smi", settings, NVIDIA_SMI_DEFAULTS);
    const reader = new OwnerReader(proc);
    const slot = new Slot();
    const others = new OtherGpus(command, limits.maxBytes, parseNvidiaSmi);
    return {
      name: "nvidia-smi",
      interval: limits.interval,
      timeout: limits.timeout,
      unavailable: () => gpusUnavailable(command[0], "NVIDIA driver", DEVICES, settings),
      stuck: () => slot.stuck + others.stuck,
      run: () =>
        conduct(limits.timeout, async (run) => {
          const start = (timeout: number) => slot.run({ argv: command, timeout, maxBytes: limits.maxBytes });
          const reading = await run.read("nvidia-smi", limits.timeout, start, parseNvidiaSmi);
          const found = reading.kind === "ok" ? await withOthers(run, reading, others) : reading;
          if (found.kind !== "ok") return found;
          const { value: log, ...rest } = found;
          const metrics = [...nvidiaSmiMetrics(log, others), ...expectedMetrics(settings)];
          return { ...rest, metrics, readings: await readingsOf(log, reader, run.left), ...warningOf(log) };
        }),
    };
  },
  parseSaved: (output, settings) => {
    const { value, rejected } = parseNvidiaSmi(output);
    return { metrics: [...nvidiaSmiMetrics(value), ...expectedMetrics(settings)], parsed: value, rejected };
  },
};

/** Adds the GPUs that work to a log that is missing, as one GPU fell off the bus. */
const withOthers = async (run: Run, reading: Read, others: OtherGpus): Promise<Read | Failure> => {
  const { value, exitCode } = reading;
  if (value.gpuElements !== undefined) {
    others.remember(value.gpus);
    return reading;
  }
  const { log, unread, rejected } = await others.read(run, value.lost);
  if (log.gpus.length > 0 || unread === 0) return { ...reading, value: log, rejected: reading.rejected + rejected };
  const named = value.lost.map(({ line }) => JSON.stringify(line)).join(", ");
  const detail = `nvidia-smi printed ${named} and no log, and none of the ${unread} other GPUs could be read by itself`;
  return { kind: "exit_nonzero", exitCode, detail };
};

type Read = Extract<Reading<NvidiaSmi>, { kind: "ok" }>;

const readingsOf = async (
  log: NvidiaSmi,
  reader: OwnerReader,
  secondsLeft: number,
): Promise<Partial<NvidiaReadings>> => {
  const pids = log.gpus.flatMap(({ processes }) => (processes ?? []).map(({ pid }) => pid));
  const owners = await reader.read(pids, secondsLeft).catch(() => undefined);
  return owners === undefined ? {} : { nvidia: { log, owners } };
};

const warningOf = ({ lost }: NvidiaSmi): { readonly warning?: string } =>
  lost.length === 0 ? {} : { warning: `nvidia-smi printed ${lost.map(({ line }) => JSON.stringify(line)).join(", ")}` };

/**
 * Reads the output of `nvidia-smi -q -x`, of any driver from 352 to 595, whatever the exit code: where a GPU is lost, some versions
 * print a complete log and exit with 15 or 255. Without a log, a text that names a lost GPU is read for that alone. A value that is `N/A`, lost, or not permitted is
 * undefined; a broken one is undefined and counted in `rejected`; the other values and GPUs stay.
 *
 * @throws {ParseError} when it names no lost GPU, and is no XML, broken XML, or XML about something else
 */
export const parseNvidiaSmi = (output: Output): Parsed<NvidiaSmi> => {
  const lost = lostGpus(output);
  try {
    return readLog(output.stdout, lost);
  } catch (thrown) {
    if (!(thrown instanceof ParseError)) throw thrown;
    if (lost.length > 0) return { value: { ...NO_LOG, lost }, rejected: 0 };
    throw output.exitCode === 0 ? thrown : new ParseError(nvidiaSmiFailure(output), { cause: thrown });
  }
};

const readLog = (stdout: string, lost: readonly LostGpu[]): Parsed<NvidiaSmi> => {
  const document = readDocument(stdout);
  const tally: Tally = { rejected: document.lostLists };
  const log = new Reader(document.root, tally);
  const elements = log.all("gpu");
  const attachedGpus = log.integer("attached_gpus");
  if (elements.length === 0 && attachedGpus === undefined) {
    const text = JSON.stringify(log.text("error_string") ?? log.ownText().slice(0, 200));
    throw new ParseError(`the log of nvidia-smi has neither <gpu> nor <attached_gpus>: ${text}`);
  }
  checkCount(elements, attachedGpus);
  const gpus = elements.flatMap((element, index) => {
    if (element.isNested()) return [readGpu(element, index)];
    element.reject();
    return [];
  });
  const value = {
    dtd: document.dtd,
    driverVersion: versionOf(log.text("driver_version")),
    cudaVersion: versionOf(log.text("cuda_version")),
    attachedGpus,
    gpuElements: elements.length,
    gpus,
    lost,
  };
  return { value, rejected: tally.rejected };
};

/** Driver 610 prints `610.62 [Deprecated; ...]`. */
const versionOf = (text: string | undefined): string | undefined => (text === undefined ? undefined : plainText(text));

/** Refuses a log that lists more GPUs than there are, or one twice: some of them may be the name of a process. */
const checkCount = (elements: readonly Reader[], attached: number | undefined): void => {
  const ids = elements.flatMap((element) => element.name("@id") ?? []);
  const isTwice = new Set(ids).size < ids.length;
  if (!isTwice && (attached === undefined || elements.length <= attached)) return;
  const wrong = isTwice ? "one of them twice" : "more than there are";
  throw new ParseError(
    `the log of nvidia-smi lists ${elements.length} GPUs, ${wrong} (attached_gpus ${attached ?? "is not there"}): a process may have ` +
      `a name that looks like a GPU. No GPU was read. Look for it with nvidia-smi, and end it`,
  );
};

/** The meaning of the exit code, and the first line that was printed. */
const nvidiaSmiFailure = (output: Output): string => {
  const printed = output.stdout.trim() || output.stderr.trim();
  const meaning = EXIT_CODES[output.exitCode] ?? "the exit code is not documented";
  const line = JSON.stringify(printed.slice(0, 200).split("\n")[0] ?? "");
  return `nvidia-smi exited with ${output.exitCode} (${meaning}) and printed ${line}`;
};

/** The exit codes of `man nvidia-smi`, and 18, which is NVML's error for a library of another version. */
const EXIT_CODES: Readonly<Record<number, string>> = {
  2: "an argument is invalid",
  3: "the device does not support the operation",
  4: "the user has no permission",
  6: "no GPU was found",
  8: "a GPU's external power cables are not attached",
  9: "the NVIDIA driver is not loaded",
  10: "the kernel detected an interrupt problem with a GPU",
  12: "the NVML library was not found",
  13: "the NVML library is too old for this function",
  14: "a GPU's infoROM is corrupted",
  15: "a GPU has fallen off the bus or is otherwise inaccessible",
  18: "the NVML library and the driver are of different versions",
  255: "an internal driver error occurred",
};

/**
 * The metrics of one log of nvidia-smi. A value that was not read has no sample.
 * @param before gives a GPU that is lost as it was before
 */
export const nvidiaSmiMetrics = (log: NvidiaSmi, before?: Pick<OtherGpus, "knownBy">): Metric[] =>
  gpuMetrics([
    { metric: "gridmeter_gpu_attached", labels: {}, value: log.attachedGpus },
    { metric: "gridmeter_gpu_seen", labels: {}, value: log.gpuElements },
    ...lostSamples(log, before),
    ...log.gpus.flatMap((gpu) => {
      const own = gpuLabels(gpu);
      const sample = gpuSampler(own);
      return [
        sample(
          "gridmeter_gpu_info",
          1,
          infoLabels({ ...gpu, driverVersion: log.driverVersion, cudaVersion: log.cudaVersion }),
        ),
        ...useSamples(gpu, sample),
        ...hardwareSamples(gpu, sample),
        ...healthSamples(gpu, sample),
        ...migSamples(gpu.mig, own),
      ];
    }),
  ]);

/** Of GPUs that the text names as lost, and that are not in the log. */
const lostSamples = ({ lost, gpus }: NvidiaSmi, before: Pick<OtherGpus, "knownBy"> | undefined): GpuSample[] => {
  const inLog = new Set(gpus.flatMap(({ pciBusId }) => (pciBusId === undefined ? [] : [pciKey(pciBusId)])));
  return lost
    .filter(({ pciBusId }) => !inLog.has(pciKey(pciBusId)))
    .map(({ pciBusId }) => {
      const known = before?.knownBy(pciBusId);
      const own = known === undefined ? { gpu: "", minor_number: "", uuid: "" } : gpuLabels(known);
      return { metric: "gridmeter_gpu_lost", labels: { ...own, pci_bus_id: known?.pciBusId ?? pciBusId }, value: true };
    });
};

const useSamples = (gpu: NvidiaGpu, sample: GpuSampler): GpuSample[] => [
  sample("gridmeter_gpu_utilization_ratio", gpu.utilization),
  sample("gridmeter_gpu_memory_controller_utilization_ratio", gpu.memoryUtilization),
  ...ENGINES.map((engine) => sample("gridmeter_gpu_engine_utilization_ratio", gpu.engines[engine], { engine })),
  sample("gridmeter_gpu_memory_used_bytes", gpu.memoryUsedBytes),
  sample("gridmeter_gpu_memory_total_bytes", gpu.memoryTotalBytes),
  sample("gridmeter_gpu_memory_reserved_bytes", gpu.memoryReservedBytes),
  sample("gridmeter_gpu_processes", gpu.processes?.length),
];

const hardwareSamples = (gpu: NvidiaGpu, sample: GpuSampler): GpuSample[] => [
  sample("gridmeter_gpu_temperature_celsius", gpu.temperature, { sensor: "gpu" }),
  sample("gridmeter_gpu_temperature_celsius", gpu.memoryTemperature, { sensor: "memory" }),
  sample("gridmeter_gpu_power_watts", gpu.power.draw),
  sample("gridmeter_gpu_power_limit_watts", gpu.power.limit),
  sample("gridmeter_gpu_module_power_watts", gpu.power.module),
  sample("gridmeter_gpu_fan_speed_ratio", gpu.fanSpeed),
  sample("gridmeter_gpu_performance_state", gpu.performanceState),
  ...(gpu.reasons?.states ?? []).map(({ reason, active }) =>
    sample("gridmeter_gpu_clocks_event_reason", active, { reason }),
  ),
  ...gpu.reasonSeconds.map(({ reason, seconds }) =>
    sample("gridmeter_gpu_clocks_event_seconds_total", seconds, { reason }),
  ),
  ...CLOCK_DOMAINS.map((domain) => sample("gridmeter_gpu_clock_hertz", gpu.clocks[domain], { domain })),
  ...CLOCK_DOMAINS.map((domain) => sample("gridmeter_gpu_clock_max_hertz", gpu.maxClocks[domain], { domain })),
  sample("gridmeter_gpu_pcie_link_generation", gpu.pcie.generation),
  sample("gridmeter_gpu_pcie_link_generation_max", gpu.pcie.maxGeneration),
  sample("gridmeter_gpu_pcie_link_width", gpu.pcie.width),
  sample("gridmeter_gpu_pcie_link_width_max", gpu.pcie.maxWidth),
  sample("gridmeter_gpu_pcie_throughput_bytes_per_second", gpu.pcie.transmit, { direction: "transmit" }),
  sample("gridmeter_gpu_pcie_throughput_bytes_per_second", gpu.pcie.receive, { direction: "receive" }),
  sample("gridmeter_gpu_pcie_replays_total", gpu.pcie.replays),
];

const healthSamples = (gpu: NvidiaGpu, sample: GpuSampler): GpuSample[] => [
  sample("gridmeter_gpu_lost", gpu.health.lost, { pci_bus_id: labelText(gpu.pciBusId) }),
  sample("gridmeter_gpu_ecc_enabled", gpu.health.eccEnabled),
  ...eccSamples(gpu, sample),
  sample("gridmeter_gpu_ecc_sram_threshold_exceeded", gpu.health.sramThresholdExceeded),
  sample("gridmeter_gpu_repair_pending", gpu.health.channelRepairPending, { part: "channel" }),
  sample("gridmeter_gpu_repair_pending", gpu.health.tpcRepairPending, { part: "tpc" }),
  sample("gridmeter_gpu_retired_pages", gpu.health.retiredSingleBit, { cause: "multiple_single_bit" }),
  sample("gridmeter_gpu_retired_pages", gpu.health.retiredDoubleBit, { cause: "double_bit" }),
  sample("gridmeter_gpu_retired_pages_pending", gpu.health.retirementPending),
  sample("gridmeter_gpu_remapped_rows", gpu.health.remappedCorrected, { kind: "corrected" }),
  sample("gridmeter_gpu_remapped_rows", gpu.health.remappedUncorrected, { kind: "uncorrected" }),
  sample("gridmeter_gpu_remapped_rows_pending", gpu.health.remapPending),
  sample("gridmeter_gpu_remapped_rows_failed", gpu.health.remapFailed),
  ...recoverySamples(gpu, sample),
  sample("gridmeter_gpu_reset_required", gpu.health.resetRequired),
  sample("gridmeter_gpu_fabric_healthy", gpu.health.fabricHealthy),
];

const eccSamples = (gpu: NvidiaGpu, sample: GpuSampler): GpuSample[] =>
  [["volatile", gpu.eccVolatile] as const, ["aggregate", gpu.eccAggregate] as const].flatMap(([scope, errors]) => [
    sample("gridmeter_gpu_ecc_errors_total", errors?.corrected, { kind: "corrected", scope }),
    sample("gridmeter_gpu_ecc_errors_total", errors?.uncorrected, { kind: "uncorrected", scope }),
  ]);

const recoverySamples = (gpu: NvidiaGpu, sample: GpuSampler): GpuSample[] => {
  const advised = recoveryActionLabel(gpu.health.recoveryAction);
  if (advised === undefined) return [];
  return RECOVERY_ACTIONS.map((action) => sample("gridmeter_gpu_recovery_action", action === advised, { action }));
};

/** The metrics of a GPU's MIG devices; none where the GPU cannot be split (`N/A`). */
const migSamples = (mig: Mig | undefined, gpu: Labels): GpuSample[] => {
  if (mig === undefined || (mig.mode !== "Enabled" && mig.mode !== "Disabled")) return [];
  return [
    { metric: "gridmeter_gpu_mig_enabled", labels: gpu, value: mig.mode === "Enabled" },
    { metric: "gridmeter_gpu_mig_devices", labels: gpu, value: mig.devices.length },
    ...mig.devices.flatMap((device) => deviceSamples(device, gpu)),
  ];
};

const deviceSamples = (device: MigDevice, gpu: Labels): GpuSample[] => {
  const labels = {
    ...gpu,
    mig_index: numberLabel(device.index),
    gpu_instance: numberLabel(device.gpuInstance),
    compute_instance: numberLabel(device.computeInstance),
  };
  return [
    { metric: "gridmeter_gpu_mig_memory_used_bytes", labels, value: device.memoryUsedBytes },
    { metric: "gridmeter_gpu_mig_memory_total_bytes", labels, value: device.memoryTotalBytes },
    { metric: "gridmeter_gpu_mig_multiprocessors", labels, value: device.multiprocessors },
    { metric: "gridmeter_gpu_mig_ecc_errors_total", labels, value: device.eccUncorrected },
  ];
};

const numberLabel = (value: number | undefined): string => (value === undefined ? "" : String(value));
