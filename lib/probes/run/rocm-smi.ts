import type { RocmSmi } from "../rocm-smi.ts";
import type { CgroupOwner } from "../cgroup.ts";
import { USUAL_INTERVAL, commandDefaults, type ProbeDefaults } from "./settings.ts";
import { GPU_DEFAULTS } from "./gpus.ts";
import { ROCM_SMI_COMMAND } from "../rocm-smi.ts";
import { ROCM_SMI_DEVICES, parseRocmSmi, rocmSmiMetrics } from "../rocm-smi.ts";
import { expectedMetrics, gpusUnavailable } from "./gpus.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { OwnerReader } from "./owners.ts";
import { singleProbe } from "./single.ts";

export type AmdReadings = {
  /** `owners`: the control groups of the processes that hold GPUs */
  readonly amd: { readonly report: RocmSmi; readonly owners: ReadonlyMap<number, CgroupOwner> };
};

export const ROCM_SMI_DEFAULTS = {
  description: "use, memory, temperature, power and processes of AMD's GPUs",
  interval: USUAL_INTERVAL,
  timeout: ROCM_SMI_COMMAND.timeout,
  ...commandDefaults(ROCM_SMI_COMMAND),
  options: GPU_DEFAULTS,
} as const satisfies ProbeDefaults;

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
      unavailable: () => gpusUnavailable(command[0], "AMD compute driver", ROCM_SMI_DEVICES, settings),
    });
  },
  parseSaved: (output, settings) => {
    const { value, rejected } = parseRocmSmi(output);
    return { metrics: [...rocmSmiMetrics(value), ...expectedMetrics(settings)], parsed: value, rejected };
  },
};
