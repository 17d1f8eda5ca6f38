import type { DockerStatsRow } from "../docker-stats.ts";
import { USUAL_INTERVAL, commandDefaults, type ProbeDefaults } from "./settings.ts";
import { DOCKER_STATS_COMMAND } from "../docker-stats.ts";
import { missingTool } from "../availability.ts";
import { dockerStatsMetrics, parseDockerStats } from "../docker-stats.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { singleProbe } from "./single.ts";

export type StatsReadings = { readonly stats: readonly DockerStatsRow[] };

export const DOCKER_STATS_DEFAULTS = {
  description: "CPU, memory, network and disk use of each container",
  interval: USUAL_INTERVAL,
  timeout: DOCKER_STATS_COMMAND.timeout,
  ...commandDefaults(DOCKER_STATS_COMMAND),
  options: {},
} as const satisfies ProbeDefaults;

export const dockerStats: ProbeKind<StatsReadings> = {
  create: (settings) => {
    const { command = DOCKER_STATS_DEFAULTS.command } = settings;
    return singleProbe({
      name: "docker-stats",
      limits: limitsOf("docker-stats", settings, DOCKER_STATS_DEFAULTS),
      label: "docker stats",
      argv: () => Promise.resolve(command),
      parse: parseDockerStats,
      metrics: dockerStatsMetrics,
      readings: (stats) => Promise.resolve({ stats }),
      unavailable: () => missingTool([command[0]]),
    });
  },
  parseSaved: (output) => {
    const { value, rejected } = parseDockerStats(output);
    return { metrics: dockerStatsMetrics(value), parsed: value, rejected };
  },
};
