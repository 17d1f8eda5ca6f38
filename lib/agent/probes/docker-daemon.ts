import { basename } from "node:path";
import * as z from "zod";
import type { Metric } from "../../shared/exposition.ts";
import type { Command, Output, Parsed } from "../command/types.ts";
import { dockerError, dockerFailure } from "./common/docker.ts";
import { labelText } from "./common/gpu.ts";
import { nodeMetrics } from "./common/metric-families.ts";
import { Count, ParseError, type ProbeKind, Text, limitsOf, parseJson, singleProbe } from "./common/probe.ts";
import { type ProbeDefaults, USUAL_INTERVAL, commandDefaults, missingTool } from "./common/settings.ts";

export type DaemonReadings = { readonly daemon: DockerDaemon };

/**
 * It takes 10 ms; a daemon that needs seconds is about to hang. All docker probes have something to do where this tool is on
 * PATH; whether the daemon's socket is there says nothing, as one that is gone is what an alert is for.
 */
const DOCKER_DAEMON_COMMAND: Command = {
  argv: ["docker", "info", "--format", "{{json .}}"],
  timeout: 5,
  maxBytes: 1024 * 1024,
};

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

/** What the daemon says about itself. A value it does not say is undefined. */
type DockerInfo = {
  readonly serverVersion: string;
  readonly storageDriver: string | undefined;
  readonly containers: number | undefined;
  readonly running: number | undefined;
  readonly paused: number | undefined;
  readonly stopped: number | undefined;
  readonly images: number | undefined;
};

type DockerDaemon = {
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

/** What `systemctl is-active` prints, of systemd.unit(5), each with whether the unit runs. */
const STATES = {
  active: true,
  reloading: true,
  refreshing: true,
  inactive: false,
  failed: false,
  activating: false,
  deactivating: false,
  maintenance: false,
} as const satisfies Record<string, boolean>;

type SystemctlState = keyof typeof STATES | "unknown";
const SYSTEMCTL_STATES: readonly SystemctlState[] = [
  "active",
  "reloading",
  "refreshing",
  "inactive",
  "failed",
  "activating",
  "deactivating",
  "maintenance",
  "unknown",
];

type Systemctl = {
  readonly state: SystemctlState;
  /** undefined where systemd does not say: there is no such unit, or no systemd */
  readonly active: boolean | undefined;
};

const isState = (text: string): text is keyof typeof STATES => Object.hasOwn(STATES, text);

const NO_SYSTEMD = ["not been booted with systemd", "failed to connect to bus", "failed to get d-bus connection"];

const saysNoSystemd = ({ stderr }: Output): boolean => {
  const complaint = stderr.slice(0, 4096).toLowerCase();
  return NO_SYSTEMD.some((words) => complaint.includes(words));
};

/** Whether an output is one of systemctl: a single word, or the complaint that there is no systemd. */
const isSystemctl = (output: Output): boolean => /^[a-z-]{1,32}$/.test(output.stdout.trim()) || saysNoSystemd(output);

/**
 * Reads the one word that `systemctl is-active UNIT` prints. The word decides and not the exit code, which is 0 for active
 * and reloading, 3 for the rest and 4 for an unknown unit; a code that says otherwise makes it unknown. Without systemd (in a
 * container) it is unknown, never inactive.
 *
 * @throws {ParseError} when it printed anything else
 */
export const parseSystemctl = (output: Output): Parsed<Systemctl> => {
  const word = output.stdout.trim();
  const unknown: Parsed<Systemctl> = { value: { state: "unknown", active: undefined }, rejected: 0 };
  if (isState(word)) {
    const active = STATES[word];
    // with several units or a pipe in between, the code is that of something else
    return active === (output.exitCode === 0) ? { value: { state: word, active }, rejected: 0 } : unknown;
  }
  if (word === "unknown") return unknown;
  if (word === "" && saysNoSystemd(output)) return unknown;
  const printed = JSON.stringify((word || output.stderr.trim()).slice(0, 200));
  throw new ParseError(`systemctl is-active exited with ${output.exitCode} and printed ${printed}`);
};
