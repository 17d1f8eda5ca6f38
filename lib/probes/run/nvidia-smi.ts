import type { CgroupOwner } from "../cgroup.ts";
import type { NvidiaSmi } from "../nvidia-smi.ts";
import { USUAL_INTERVAL, commandDefaults, type ProbeDefaults } from "./settings.ts";
import { GPU_DEFAULTS } from "./gpus.ts";
import { NVIDIA_SMI_COMMAND } from "../nvidia-smi.ts";
import { NVIDIA_SMI_DEVICES, nvidiaSmiMetrics, parseNvidiaSmi } from "../nvidia-smi.ts";
import { expectedMetrics, gpusUnavailable } from "./gpus.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { OwnerReader } from "./owners.ts";
import { singleProbe } from "./single.ts";

export type NvidiaReadings = {
  /** `owners`: the control groups of the processes that hold GPUs */
  readonly nvidia: { readonly log: NvidiaSmi; readonly owners: ReadonlyMap<number, CgroupOwner> };
};

export const NVIDIA_SMI_DEFAULTS = {
  description: "use, memory, temperature, power, errors and processes of NVIDIA's GPUs",
  interval: USUAL_INTERVAL,
  timeout: NVIDIA_SMI_COMMAND.timeout,
  ...commandDefaults(NVIDIA_SMI_COMMAND),
  options: GPU_DEFAULTS,
} as const satisfies ProbeDefaults;

export const nvidiaSmi: ProbeKind<NvidiaReadings> = {
  create: (settings) => {
    const { command = NVIDIA_SMI_DEFAULTS.command, proc = NVIDIA_SMI_DEFAULTS.options.proc } = settings;
    const reader = new OwnerReader(proc);
    return singleProbe({
      name: "nvidia-smi",
      limits: limitsOf("nvidia-smi", settings, NVIDIA_SMI_DEFAULTS),
      label: "nvidia-smi",
      argv: () => Promise.resolve(command),
      parse: parseNvidiaSmi,
      metrics: (log) => [...nvidiaSmiMetrics(log), ...expectedMetrics(settings)],
      readings: async (log, secondsLeft): Promise<Partial<NvidiaReadings>> => {
        const pids = log.gpus.flatMap(({ processes }) => (processes ?? []).map(({ pid }) => pid));
        const owners = await reader.read(pids, secondsLeft).catch(() => undefined);
        return owners === undefined ? {} : { nvidia: { log, owners } };
      },
      unavailable: () => gpusUnavailable(command[0], "NVIDIA driver", NVIDIA_SMI_DEVICES, settings),
    });
  },
  parseSaved: (output, settings) => {
    const { value, rejected } = parseNvidiaSmi(output);
    return { metrics: [...nvidiaSmiMetrics(value), ...expectedMetrics(settings)], parsed: value, rejected };
  },
};
