import { USUAL_INTERVAL, type ProbeDefaults } from "./settings.ts";
import { PER_CONTAINER_DEFAULTS } from "./containers.ts";
import { template } from "./placeholders.ts";
import { dockerLogsCommand } from "../docker-logs.ts";
import type { Probe } from "../../agent/probe.ts";
import { GridmeterError } from "../../errors.ts";
import { dockerLogsMetrics, parseDockerLogs, type DockerLogs } from "../docker-logs.ts";
import { namesById } from "./container-names.ts";
import { perContainer } from "./containers.ts";
import { saysGone } from "./docker.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { perContainerProbe } from "./per-container.ts";
import { fillIn } from "./placeholders.ts";
import { conduct } from "./run.ts";
import type { ProbeSettings } from "./settings.ts";

export type LogReadings = {
  /** by container id; containers whose log could not be read are missing */
  readonly logs: ReadonlyMap<string, DockerLogs>;
};

export const DOCKER_LOGS_DEFAULTS = {
  description: "whether a container's log says that its job has finished; off until a marker is configured",
  interval: USUAL_INTERVAL,
  timeout: 20,
  command: template(dockerLogsCommand("{id}", 0).argv, "0", "{lines}"),
  maxBytes: dockerLogsCommand("{id}").maxBytes,
  options: { ...PER_CONTAINER_DEFAULTS, marker: undefined, lines: 50 },
} as const satisfies ProbeDefaults;
const NO_MARKER = "no marker is configured";

const metricsOf = (logs: ReadonlyMap<string, DockerLogs>) =>
  dockerLogsMetrics([...logs].map(([id, one]) => ({ container: namesById(id), logs: one })));

/** @throws GridmeterError config_invalid for an empty marker, which every log has */
const markerOf = ({ marker }: ProbeSettings): string | undefined => {
  if (marker !== "") return marker;
  throw new GridmeterError(
    "config_invalid",
    'The marker of the probe docker-logs is "", which is in every log. The probe was not started. ' +
      "Set the text that a job's log has when the job has finished, or no marker at all.",
  );
};

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
        saysGone(output) ? { value: undefined, rejected: 0 } : parseDockerLogs(output, marker ?? NO_MARKER),
      publish: (logs) => ({ metrics: metricsOf(logs), readings: { logs } }),
    });
    return marker === undefined ? off(probe) : probe;
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

const off = (probe: Probe<LogReadings>): Probe<LogReadings> => ({
  ...probe,
  unavailable: () => Promise.resolve(NO_MARKER),
  run: () => conduct(probe.timeout, () => Promise.resolve({ kind: "disabled", detail: NO_MARKER })),
});
