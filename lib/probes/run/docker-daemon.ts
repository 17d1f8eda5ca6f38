import { basename } from "node:path";
import { missingTool } from "../availability.ts";
import { dockerDaemonMetrics, parseDockerDaemon } from "../docker-daemon.ts";
import { PROBE_DEFAULTS } from "./defaults.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { singleProbe } from "./single.ts";

const DEFAULTS = PROBE_DEFAULTS["docker-daemon"];

/** A daemon that says it does not run is a reading (0); one that does not answer is none. */
export const dockerDaemon: ProbeKind = {
  create: (settings) => {
    const { command = DEFAULTS.command } = settings;
    return singleProbe({
      name: "docker-daemon",
      limits: limitsOf("docker-daemon", settings, DEFAULTS),
      label: basename(command[0]) === "systemctl" ? "systemctl" : "docker info",
      argv: () => Promise.resolve(command),
      parse: parseDockerDaemon,
      metrics: dockerDaemonMetrics,
      readings: (daemon) => Promise.resolve({ daemon }),
      unavailable: () => missingTool([command[0]]),
    });
  },
  parseSaved: (output) => {
    const { value, rejected } = parseDockerDaemon(output);
    return { metrics: dockerDaemonMetrics(value), parsed: value, rejected };
  },
};
