import type { DockerDaemon } from "../docker-daemon.ts";
import { USUAL_INTERVAL, commandDefaults, type ProbeDefaults } from "./settings.ts";
import { DOCKER_DAEMON_COMMAND } from "../docker-daemon.ts";
import { basename } from "node:path";
import { missingTool } from "../availability.ts";
import { dockerDaemonMetrics, parseDockerDaemon } from "../docker-daemon.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { singleProbe } from "./single.ts";

export type DaemonReadings = { readonly daemon: DockerDaemon };

export const DOCKER_DAEMON_DEFAULTS = {
  description: "whether the docker daemon answers; with `systemctl is-active docker` as the command, what systemd says",
  interval: USUAL_INTERVAL,
  timeout: DOCKER_DAEMON_COMMAND.timeout,
  ...commandDefaults(DOCKER_DAEMON_COMMAND),
  options: {},
} as const satisfies ProbeDefaults;

/** A daemon that says it does not run is a reading (0); one that does not answer is none. */
export const dockerDaemon: ProbeKind<DaemonReadings> = {
  create: (settings) => {
    const { command = DOCKER_DAEMON_DEFAULTS.command } = settings;
    return singleProbe({
      name: "docker-daemon",
      limits: limitsOf("docker-daemon", settings, DOCKER_DAEMON_DEFAULTS),
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
