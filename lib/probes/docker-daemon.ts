import * as z from "zod";
import type { Command, Metric, Output, Parsed } from "../agent/types.ts";
import { dockerError, dockerFailure } from "./docker-daemon-failure.ts";
import { labelText } from "./gpu.ts";
import { Count, Text, parseJson } from "./json.ts";
import { nodeMetrics } from "./node-metrics.ts";
import { ParseError } from "./parse-error.ts";
import { SYSTEMCTL_STATES, isSystemctl, parseSystemctl, type SystemctlState } from "./systemctl.ts";

/**
 * It takes 10 ms; a daemon that needs seconds is about to hang. All docker probes have something to do where this tool is on
 * PATH; whether the daemon's socket is there says nothing, as one that is gone is what an alert is for.
 */
export const DOCKER_DAEMON_COMMAND: Command = {
  argv: ["docker", "info", "--format", "{{json .}}"],
  timeout: 5,
  maxBytes: 1024 * 1024,
};

/** What the daemon says about itself. A value it does not say is undefined. */
export type DockerInfo = {
  readonly serverVersion: string;
  readonly storageDriver: string | undefined;
  readonly containers: number | undefined;
  readonly running: number | undefined;
  readonly paused: number | undefined;
  readonly stopped: number | undefined;
  readonly images: number | undefined;
};

export type DockerDaemon = {
  /** undefined where nobody knows: systemd is not there, or has no such unit */
  readonly up: boolean | undefined;
  readonly info: DockerInfo | undefined;
  /** only from `systemctl is-active` */
  readonly unit: SystemctlState | undefined;
};

const Info = z.object({
  ServerVersion: z.string().min(1),
  Driver: Text,
  Containers: Count,
  ContainersRunning: Count,
  ContainersPaused: Count,
  ContainersStopped: Count,
  Images: Count,
});

const ServerErrors = z.object({ ServerErrors: z.array(z.string()) });

const asInfo = (json: unknown): DockerInfo | undefined => {
  const found = Info.safeParse(json);
  if (!found.success) return undefined;
  const { data } = found;
  return {
    serverVersion: data.ServerVersion,
    storageDriver: data.Driver,
    containers: data.Containers,
    running: data.ContainersRunning,
    paused: data.ContainersPaused,
    stopped: data.ContainersStopped,
    images: data.Images,
  };
};

/**
 * Reads `docker info --format '{{json .}}'`, or what `systemctl is-active docker` prints if that is the command. A docker that
 * cannot reach its daemon exits with 1 and prints a JSON of zeros: that is a daemon which is down, and no information.
 *
 * @throws {ParseError} when docker failed otherwise (a permission is missing), or printed something else
 */
export const parseDockerDaemon = (output: Output): Parsed<DockerDaemon> => {
  if (isSystemctl(output)) {
    const { value, rejected } = parseSystemctl(output);
    return { value: { up: value.active, info: undefined, unit: value.state }, rejected };
  }
  const json = parseJson(output.stdout);
  const info = asInfo(json);
  if (output.exitCode === 0 && info !== undefined) return { value: { up: true, info, unit: undefined }, rejected: 0 };
  // the error is on stderr or in the JSON, depending on docker's version
  const errors = ServerErrors.safeParse(json).data?.ServerErrors ?? [];
  if (dockerFailure({ stderr: [output.stderr, ...errors].join("\n") }) === "daemon_down") {
    return { value: { up: false, info: undefined, unit: undefined }, rejected: 0 };
  }
  if (output.exitCode !== 0) throw dockerError("docker info", output);
  const printed = JSON.stringify(output.stdout.slice(0, 200));
  throw new ParseError(`docker info printed no JSON that has a ServerVersion: ${printed}`);
};

/** The metrics of the docker daemon. */
export const dockerDaemonMetrics = ({ up, info, unit }: DockerDaemon): Metric[] =>
  nodeMetrics([
    { metric: "gridmeter_docker_up", labels: {}, value: up },
    ...(info === undefined
      ? []
      : [
          {
            metric: "gridmeter_docker_info" as const,
            labels: { version: labelText(info.serverVersion), storage_driver: labelText(info.storageDriver) },
            value: 1,
          },
          { metric: "gridmeter_docker_containers" as const, labels: { state: "running" }, value: info.running },
          { metric: "gridmeter_docker_containers" as const, labels: { state: "paused" }, value: info.paused },
          { metric: "gridmeter_docker_containers" as const, labels: { state: "stopped" }, value: info.stopped },
          { metric: "gridmeter_docker_images" as const, labels: {}, value: info.images },
        ]),
    ...(unit === undefined
      ? []
      : SYSTEMCTL_STATES.map((state) => ({
          metric: "gridmeter_docker_unit_state" as const,
          labels: { state },
          value: state === unit,
        }))),
  ]);
