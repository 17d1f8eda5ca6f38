import { GridmeterError } from "../../shared/errors.ts";
import type { Metric } from "../../shared/exposition.ts";
import type { Output, Parsed } from "../command/types.ts";
import { type ContainerNames, containerLabels, namesById } from "./common/container.ts";
import { dockerError, saysGone } from "./common/docker.ts";
import { nodeMetrics } from "./common/metric-families.ts";
import { ParseError, lastLine } from "./common/parse.ts";
import { PER_CONTAINER_DEFAULTS, perContainer, perContainerProbe } from "./common/per-container.ts";
import { type Probe, type ProbeKind, conduct, fillIn, limitsOf } from "./common/probe.ts";
import { type ProbeDefaults, type ProbeSettings, USUAL_INTERVAL } from "./common/settings.ts";

export type LogReadings = {
  /** by container id; containers whose log could not be read are missing */
  readonly logs: ReadonlyMap<string, DockerLogs>;
};

export const DOCKER_LOGS_DEFAULTS = {
  description: "whether a container's log says that its job has finished; off until a marker is configured",
  interval: USUAL_INTERVAL,
  timeout: 20,
  command: ["docker", "logs", "--tail", "{lines}", "--", "{id}"],
  /** `--tail` limits lines and not bytes (moby#45740: a corrupt log of 2 GB) */
  maxBytes: 1024 * 1024,
  options: { ...PER_CONTAINER_DEFAULTS, marker: undefined, lines: 50 },
} as const satisfies ProbeDefaults;

const NO_MARKER = "no marker is configured";

export const dockerLogs: ProbeKind<LogReadings> = {
  create: (settings) => {
    const marker = markerOf(settings);
    const { command = DOCKER_LOGS_DEFAULTS.command, lines = DOCKER_LOGS_DEFAULTS.options.lines } = settings;
    const probe = perContainerProbe({
      name: "docker-logs",
      limits: limitsOf("docker-logs", settings, DOCKER_LOGS_DEFAULTS),
      perContainer: perContainer("docker-logs", settings, DOCKER_LOGS_DEFAULTS.options),
      label: "docker logs",
      command: fillIn(command, { lines: String(lines) }),
      parse: (output) =>
        saysGone(withOwnWords(output))
          ? { value: undefined, rejected: 0 }
          : parseDockerLogs(output, marker ?? NO_MARKER),
      publish: (logs, listed) => {
        const rows = [...logs].map(([id, one]) => ({ container: listed(id) ?? namesById(id), logs: one }));
        return { metrics: dockerLogsMetrics(rows), readings: { logs }, ...warningOf(logs) };
      },
    });
    return marker === undefined ? disabled(probe) : probe;
  },
  parseSaved: (output, settings) => {
    const marker = markerOf(settings);
    if (marker === undefined) {
      throw new GridmeterError(
        "config_invalid",
        "The probe docker-logs has no marker. The log was not read. Set the text that a job's log has when it has finished.",
      );
    }
    const { value, rejected } = parseDockerLogs(output, marker);
    return { metrics: dockerLogsMetrics([{ container: namesById(undefined), logs: value }]), parsed: value, rejected };
  },
};

/** @throws GridmeterError config_invalid for an empty marker, which every log has */
const markerOf = ({ marker }: ProbeSettings): string | undefined => {
  if (marker !== "") return marker;
  throw new GridmeterError(
    "config_invalid",
    'The marker of the probe docker-logs is "", which is in every log. The probe was not started. ' +
      "Set the text that a job's log has when the job has finished, or no marker at all.",
  );
};

const disabled = (probe: Probe<LogReadings>): Probe<LogReadings> => ({
  ...probe,
  unavailable: () => Promise.resolve(NO_MARKER),
  run: () => conduct(probe.timeout, () => Promise.resolve({ kind: "disabled", detail: NO_MARKER })),
});

export type DockerLogs = {
  /** whether the marker is in the log: the job has finished; undefined where the container's logging driver keeps nothing to read */
  readonly finished: boolean | undefined;
};

/** What docker, podman and nerdctl say of a container whose log goes elsewhere (syslog, gelf, none): no failure, and for good. */
const KEPT_ELSEWHERE =
  /logging driver does not support reading|container is not logging output|no log viewer type registered/i;

/** docker's own error comes last on stderr; what comes before is the container's. */
const withOwnWords = (output: Output): Output => ({ ...output, stderr: lastLine(output.stderr) });

/** Said once, and not at each container: which they are changes all the time. */
const warningOf = (logs: ReadonlyMap<string, DockerLogs>): { readonly warning?: string } =>
  [...logs.values()].every(({ finished }) => finished !== undefined)
    ? {}
    : { warning: "of some containers no log can be read, as their logging driver keeps none" };

/** Characters at the end of each stream that are searched for the marker. */
export const MARKER_WINDOW = 256 * 1024;

/**
 * Searches the end of a container's log for the marker. The container's own stderr comes on stderr. A log that docker could not read
 * says nothing about the job.
 *
 * @throws {ParseError} when docker failed, or says that it could not read the log
 */
export const parseDockerLogs = (output: Output, marker: string): Parsed<DockerLogs> => {
  if (output.exitCode !== 0) {
    const own = withOwnWords(output);
    if (KEPT_ELSEWHERE.test(own.stderr)) return { value: { finished: undefined }, rejected: 0 };
    throw dockerError("docker logs", own);
  }
  const finished = [output.stdout, output.stderr].some((text) => text.slice(-MARKER_WINDOW).includes(marker));
  // docker may stop in the middle and exit with 0: the marker may be in what it did not read
  if (!finished && /(?:^|\n)[^\n]{0,64}error grabbing logs:/i.test(output.stderr.slice(-4096))) {
    throw new ParseError(`docker logs could not read on: ${JSON.stringify(output.stderr.slice(-200))}`);
  }
  return { value: { finished }, rejected: 0 };
};

/** The metric of logs: one value for each container whose log was read. */
export const dockerLogsMetrics = (
  logs: readonly { readonly container: ContainerNames; readonly logs: DockerLogs }[],
): Metric[] =>
  nodeMetrics(
    logs.map(({ container, logs }) => ({
      metric: "gridmeter_container_finished_marker",
      labels: containerLabels(container),
      value: logs.finished,
    })),
  );
