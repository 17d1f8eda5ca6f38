import { missingTool } from "../availability.ts";
import { longStanding, parsePs, psMetrics, watchProcesses, type ProcessWatch } from "../ps.ts";
import { PROBE_DEFAULTS } from "./defaults.ts";
import { GenuineTools } from "./genuine-tools.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { singleProbe } from "./single.ts";

const DEFAULTS = PROBE_DEFAULTS.ps;

export const ps: ProbeKind = {
  create: (settings) => {
    const {
      command = DEFAULTS.command,
      longStanding: least = DEFAULTS.options.longStanding,
      largeResidentBytes = DEFAULTS.options.largeResidentBytes,
      proc = DEFAULTS.options.proc,
    } = settings;
    const tools = new GenuineTools(proc);
    let watch: ProcessWatch | undefined;
    return singleProbe({
      name: "ps",
      limits: limitsOf("ps", settings, DEFAULTS),
      label: "ps",
      argv: () => Promise.resolve(command),
      parse: (output) => {
        const { value: all, rejected } = parsePs(output);
        watch = watchProcesses(watch, all, performance.now() / 1000);
        return { value: { all, standing: longStanding(watch, least) }, rejected };
      },
      complete: async ({ all, standing }, secondsLeft) => ({
        all,
        standing: standing === undefined ? undefined : await tools.name(standing, secondsLeft),
      }),
      metrics: ({ all, standing }) => psMetrics(all, { longStanding: standing, largeResidentBytes }),
      readings: ({ all, standing }) =>
        Promise.resolve({ processes: { all, ...(standing === undefined ? {} : { longStanding: standing }) } }),
      unavailable: () => missingTool([command[0]]),
    });
  },
  parseSaved: (output, { largeResidentBytes = DEFAULTS.options.largeResidentBytes }) => {
    const { value, rejected } = parsePs(output);
    return { metrics: psMetrics(value, { longStanding: undefined, largeResidentBytes }), parsed: value, rejected };
  },
};
