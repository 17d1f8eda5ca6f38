import { missingTool } from "../availability.ts";
import { dockerStatsMetrics, parseDockerStats } from "../docker-stats.ts";
import { PROBE_DEFAULTS } from "./defaults.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { singleProbe } from "./single.ts";

const DEFAULTS = PROBE_DEFAULTS["docker-stats"];

export const dockerStats: ProbeKind = {
  create: (settings) => {
    const { command = DEFAULTS.command } = settings;
    return singleProbe({
      name: "docker-stats",
      limits: limitsOf("docker-stats", settings, DEFAULTS),
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
