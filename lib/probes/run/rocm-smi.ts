import { ROCM_SMI_DEVICES, parseRocmSmi, rocmSmiMetrics } from "../rocm-smi.ts";
import { PROBE_DEFAULTS } from "./defaults.ts";
import { expectedMetrics, gpusUnavailable } from "./gpus.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { OwnerReader } from "./owners.ts";
import { singleProbe } from "./single.ts";

const DEFAULTS = PROBE_DEFAULTS["rocm-smi"];

export const rocmSmi: ProbeKind = {
  create: (settings) => {
    const { command = DEFAULTS.command, proc = DEFAULTS.options.proc } = settings;
    const reader = new OwnerReader(proc);
    return singleProbe({
      name: "rocm-smi",
      limits: limitsOf("rocm-smi", settings, DEFAULTS),
      label: "rocm-smi",
      argv: () => Promise.resolve(command),
      parse: parseRocmSmi,
      metrics: (report) => [...rocmSmiMetrics(report), ...expectedMetrics(settings)],
      readings: async (report, secondsLeft) => {
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
