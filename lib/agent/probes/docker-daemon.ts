import { basename } from "node:path";
import * as z from "zod";
import type { Metric } from "../../shared/exposition.ts";
import type { Output, Parsed } from "../command/types.ts";
import { dockerError, dockerFailure } from "./common/docker.ts";
import { nodeMetrics } from "./common/metric-families.ts";
import { Count, ParseError, Text, jsonAtEnd, labelText } from "./common/parse.ts";
import { type ProbeKind, limitsOf, singleProbe } from "./common/probe.ts";
import { type ProbeDefaults, USUAL_INTERVAL, missingTool } from "./common/settings.ts";

export type DaemonReadings = { readonly daemon: DockerDaemon };

export const DOCKER_DAEMON_DEFAULTS = {
  description: "whether the docker daemon answers; with `systemctl is-active docker` as the command, what systemd says",
  interval: USUAL_INTERVAL,
  /** it takes 10 ms; a daemon that needs seconds is about to hang */
  timeout: 5,
  command: ["docker", "info", "--format", "{{json .}}"],
  maxBytes: 1024 * 1024,
  options: {},
} as const satisfies ProbeDefaults;

/**
 * A daemon that is down is published as 0; one that does not answer is not published. All docker probes run where the tool is on
 * PATH, whether or not the daemon's socket is there: an alert should fire when it is gone.
 */
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

type DockerDaemon = {
  /** undefined where that is not known: systemd is not there, or has no such unit */
  readonly up: boolean | undefined;
  readonly info: DockerInfo | undefined;
  /** only from `systemctl is-active` */
  readonly unit: SystemctlState | undefined;
};

/** The output of docker info, also where docker is podman. A value that is missing is undefined. */
type DockerInfo = {
  readonly serverVersion: string | undefined;
  readonly storageDriver: string | undefined;
  readonly containers: number | undefined;
  readonly running: number | undefined;
  readonly paused: number | undefined;
  readonly stopped: number | undefined;
  readonly images: number | undefined;
};

/**
 * Reads `docker info --format '{{json .}}'`, of docker or of podman under its name, or what `systemctl is-active docker` prints if that is the command. A docker that
 * cannot reach its daemon exits with 1 and prints a JSON of zeros: that is a daemon which is down, and no information.
 *
 * @throws {ParseError} when docker failed otherwise (a permission is missing), or printed something else
 */
export const parseDockerDaemon = (output: Output): Parsed<DockerDaemon> => {
  if (isSystemctl(output)) {
    const { value, rejected } = parseSystemctl(output);
    return { value: { up: value.active, info: undefined, unit: value.state }, rejected };
  }
  const json = jsonAtEnd(output.stdout);
  const info = asInfo(json) ?? asPodmanInfo(json);
  if (output.exitCode === 0 && info !== undefined) return { value: { up: true, info, unit: undefined }, rejected: 0 };
  // The error is on stderr or in the JSON, depending on docker's version
  const errors = ServerErrors.safeParse(json).data?.ServerErrors ?? [];
  if (dockerFailure({ stderr: [output.stderr, ...errors].join("\n") }) === "daemon_down") {
    return { value: { up: false, info: undefined, unit: undefined }, rejected: 0 };
  }
  if (output.exitCode !== 0) throw dockerError("docker info", output);
  const printed = JSON.stringify(output.stdout.slice(0, 200));
  throw new ParseError(`docker info printed no JSON that has docker's ServerVersion or podman's store: ${printed}`);
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

const Counted = z.object({ number: Count, running: Count, paused: Count, stopped: Count }).optional().catch(undefined);

/** The keys begin with a capital in podman 1, which puts its version into `debug`, if anywhere. */
const PodmanInfo = z.object({
  store: z
    .object({
      graphDriverName: Text,
      GraphDriverName: Text,
      containerStore: Counted,
      ContainerStore: Counted,
      imageStore: Counted,
      ImageStore: Counted,
    })
    .refine((store) => (store.containerStore ?? store.ContainerStore) !== undefined),
  version: z.object({ Version: Text }).optional().catch(undefined),
  debug: z.object({ "podman version": Text }).optional().catch(undefined),
});

const asPodmanInfo = (json: unknown): DockerInfo | undefined => {
  const found = PodmanInfo.safeParse(json);
  if (!found.success) return undefined;
  const { store, version, debug } = found.data;
  const containers = store.containerStore ?? store.ContainerStore;
  return {
    serverVersion: version?.Version ?? debug?.["podman version"],
    storageDriver: store.graphDriverName ?? store.GraphDriverName,
    containers: containers?.number,
    running: containers?.running,
    paused: containers?.paused,
    stopped: containers?.stopped,
    images: (store.imageStore ?? store.ImageStore)?.number,
  };
};

/** The states that `systemctl is-active` prints (systemd.unit(5)), and whether the unit runs in each. */
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
  /** undefined where there is no such unit, or no systemd */
  readonly active: boolean | undefined;
};

/** Whether an output is one of systemctl: a single word, or the message that there is no systemd. */
const isSystemctl = (output: Output): boolean => /^[a-z-]{1,32}$/.test(output.stdout.trim()) || saysNoSystemd(output);

const NO_SYSTEMD = ["not been booted with systemd", "failed to connect to bus", "failed to get d-bus connection"];

const saysNoSystemd = ({ stderr }: Output): boolean => {
  const message = stderr.slice(0, 4096).toLowerCase();
  return NO_SYSTEMD.some((words) => message.includes(words));
};

/**
 * Reads the one word that `systemctl is-active UNIT` prints. The word decides. The exit code is 0 for active and reloading, 3 for
 * the others and 4 for an unknown unit; if it contradicts the word, the state is unknown. Without systemd (in a container) it is
 * unknown, never inactive.
 *
 * @throws {ParseError} when it printed anything else
 */
export const parseSystemctl = (output: Output): Parsed<Systemctl> => {
  const word = output.stdout.trim();
  const unknown: Parsed<Systemctl> = { value: { state: "unknown", active: undefined }, rejected: 0 };
  if (isState(word)) {
    const active = STATES[word];
    // with several units, or through a pipe, the exit code is another one's
    return active === (output.exitCode === 0) ? { value: { state: word, active }, rejected: 0 } : unknown;
  }
  if (word === "unknown") return unknown;
  if (word === "" && saysNoSystemd(output)) return unknown;
  const printed = JSON.stringify((word || output.stderr.trim()).slice(0, 200));
  throw new ParseError(`systemctl is-active exited with ${output.exitCode} and printed ${printed}`);
};

const isState = (text: string): text is keyof typeof STATES => Object.hasOwn(STATES, text);

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
