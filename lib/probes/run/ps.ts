import type { LongStanding } from "../ps.ts";
import type { Process } from "../ps.ts";
import { USUAL_INTERVAL, commandDefaults, type ProbeDefaults } from "./settings.ts";
import { PS_COMMAND } from "../ps.ts";
import { missingTool } from "../availability.ts";
import { longStanding, parsePs, psMetrics, watchProcesses, type ProcessWatch } from "../ps.ts";
import { GenuineTools } from "./genuine-tools.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { singleProbe } from "./single.ts";

export type ProcessReadings = {
  /** `longStanding` is there once processes were seen twice */
  readonly processes: { readonly all: readonly Process[]; readonly longStanding?: LongStanding };
};

export const PS_DEFAULTS = {
  description: "processes by state, those that hang (D) or were not reaped (Z), and the largest",
  interval: USUAL_INTERVAL,
  timeout: PS_COMMAND.timeout,
  ...commandDefaults(PS_COMMAND),
  options: { longStanding: 20, largeResidentBytes: 500 * 1024 * 1024, proc: "/proc" },
} as const satisfies ProbeDefaults;

export const ps: ProbeKind<ProcessReadings> = {
  create: (settings) => {
    const {
      command = PS_DEFAULTS.command,
      longStanding: least = PS_DEFAULTS.options.longStanding,
      largeResidentBytes = PS_DEFAULTS.options.largeResidentBytes,
      proc = PS_DEFAULTS.options.proc,
    } = settings;
    const tools = new GenuineTools(proc);
    let watch: ProcessWatch | undefined;
    return singleProbe({
      name: "ps",
      limits: limitsOf("ps", settings, PS_DEFAULTS),
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
  parseSaved: (output, { largeResidentBytes = PS_DEFAULTS.options.largeResidentBytes }) => {
    const { value, rejected } = parsePs(output);
    return { metrics: psMetrics(value, { longStanding: undefined, largeResidentBytes }), parsed: value, rejected };
  },
};
