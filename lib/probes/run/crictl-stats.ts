import type { ContainerNames } from "../container.ts";
import { USUAL_INTERVAL, commandDefaults, type ProbeDefaults } from "./settings.ts";
import { CRICTL_STATS_COMMAND } from "../crictl-stats.ts";
import type { Command } from "../../agent/types.ts";
import { missingFile, missingTool } from "../availability.ts";
import { CRICTL_SOCKETS, crictlStatsMetrics, parseCrictlStats } from "../crictl-stats.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { singleProbe } from "./single.ts";
import type { ProbeSettings } from "./settings.ts";

export type CriReadings = {
  /** what a container runtime without docker runs */
  readonly criContainers: readonly ContainerNames[];
};

export const CRICTL_STATS_DEFAULTS = {
  description: "CPU, memory and disk use of each container of containerd or CRI-O",
  interval: USUAL_INTERVAL,
  timeout: CRICTL_STATS_COMMAND.timeout,
  ...commandDefaults(CRICTL_STATS_COMMAND),
  options: { requireDevice: true, endpoint: undefined },
} as const satisfies ProbeDefaults;

const commandOf = ({ command = CRICTL_STATS_DEFAULTS.command, endpoint }: ProbeSettings): Command["argv"] => {
  const [program, ...rest] = command;
  return endpoint === undefined ? command : [program, "--runtime-endpoint", endpoint, ...rest];
};

/** Files of which one must be there; none for an endpoint that is no file. */
const socketsOf = ({ endpoint, requireDevice = true }: ProbeSettings): readonly string[] => {
  if (!requireDevice) return [];
  if (endpoint === undefined) return CRICTL_SOCKETS;
  const path = endpoint.replace(/^unix:\/\//, "");
  return path.startsWith("/") ? [path] : [];
};

export const crictlStats: ProbeKind<CriReadings> = {
  create: (settings) => {
    const argv = commandOf(settings);
    const sockets = socketsOf(settings);
    return singleProbe({
      name: "crictl-stats",
      limits: limitsOf("crictl-stats", settings, CRICTL_STATS_DEFAULTS),
      label: "crictl stats",
      argv: () => Promise.resolve(argv),
      parse: parseCrictlStats,
      metrics: crictlStatsMetrics,
      readings: (rows) => Promise.resolve({ criContainers: rows }),
      unavailable: async () =>
        (await missingTool([argv[0]])) ??
        (sockets.length === 0 ? undefined : await missingFile("socket of a container runtime", sockets)),
    });
  },
  parseSaved: (output) => {
    const { value, rejected } = parseCrictlStats(output);
    return { metrics: crictlStatsMetrics(value), parsed: value, rejected };
  },
};
