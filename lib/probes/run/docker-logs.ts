import type { Probe } from "../../agent/probe.ts";
import { GridmeterError } from "../../errors.ts";
import { dockerLogsMetrics, parseDockerLogs, type DockerLogs } from "../docker-logs.ts";
import { namesById } from "./container-names.ts";
import { perContainer } from "./containers.ts";
import { PROBE_DEFAULTS } from "./defaults.ts";
import { saysGone } from "./docker.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { perContainerProbe } from "./per-container.ts";
import { fillIn } from "./placeholders.ts";
import { conduct } from "./run.ts";
import type { ProbeSettings } from "./settings.ts";

const DEFAULTS = PROBE_DEFAULTS["docker-logs"];
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

export const dockerLogs: ProbeKind = {
  create: (settings) => {
    const marker = markerOf(settings);
    const { command = DEFAULTS.command, lines = DEFAULTS.options.lines } = settings;
    const probe = perContainerProbe({
      name: "docker-logs",
      limits: limitsOf("docker-logs", settings, DEFAULTS),
      perContainer: perContainer("docker-logs", settings, DEFAULTS.options),
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

const off = (probe: Probe): Probe => ({
  ...probe,
  unavailable: () => Promise.resolve(NO_MARKER),
  run: () => conduct(probe.timeout, () => Promise.resolve({ kind: "disabled", detail: NO_MARKER })),
});
