import { NVIDIA_SMI_DEVICES, nvidiaSmiMetrics, parseNvidiaSmi } from "../nvidia-smi.ts";
import { PROBE_DEFAULTS } from "./defaults.ts";
import { expectedMetrics, gpusUnavailable } from "./gpus.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { OwnerReader } from "./owners.ts";
import { singleProbe } from "./single.ts";

const DEFAULTS = PROBE_DEFAULTS["nvidia-smi"];

export const nvidiaSmi: ProbeKind = {
  create: (settings) => {
    const { command = DEFAULTS.command, proc = DEFAULTS.options.proc } = settings;
    const reader = new OwnerReader(proc);
    return singleProbe({
      name: "nvidia-smi",
      limits: limitsOf("nvidia-smi", settings, DEFAULTS),
      label: "nvidia-smi",
      argv: () => Promise.resolve(command),
      parse: parseNvidiaSmi,
      metrics: (log) => [...nvidiaSmiMetrics(log), ...expectedMetrics(settings)],
      readings: async (log, secondsLeft) => {
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
