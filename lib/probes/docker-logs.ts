import type { Command, Metric, Output, Parsed } from "../agent/types.ts";
import { GridmeterError } from "../errors.ts";
import { containerLabels, type ContainerNames } from "./container.ts";
import { dockerError } from "./docker-daemon-failure.ts";
import { nodeMetrics } from "./node-metrics.ts";
import { ParseError } from "./parse-error.ts";

/** What OpenPAI's runtime writes when the user's command has ended. The probe is off until a marker is configured. */
export const OPENPAI_MARKER = "USER COMMAND END";

/** `--tail` bounds lines and not bytes (moby#45740: a corrupt log of 2 GB), so that the bytes have a bound of their own. */
export const dockerLogsCommand = (id: string, lines = 50): Command => ({
  argv: ["docker", "logs", "--tail", String(lines), "--", id],
  timeout: 5,
  maxBytes: 1024 * 1024,
});

/** Characters at the end of each stream in which the marker is looked for. */
export const MARKER_WINDOW = 256 * 1024;

export type DockerLogs = {
  /** whether the log says that the job has finished */
  readonly finished: boolean;
};

/**
 * Looks for the marker in the end of a container's log. The container's own standard error comes on stderr, and its bytes are
 * anything. A log that docker could not read gives no verdict.
 *
 * @throws {ParseError} when docker failed, or says that it could not read the log
 * @throws {GridmeterError} config_invalid for an empty marker, which every log has
 */
export const parseDockerLogs = (output: Output, marker: string): Parsed<DockerLogs> => {
  if (marker === "") {
    throw new GridmeterError("config_invalid", 'the marker of docker-logs is "", which is in every log: set its text');
  }
  if (output.exitCode !== 0) throw dockerError("docker logs", output);
  const finished = [output.stdout, output.stderr].some((text) => text.slice(-MARKER_WINDOW).includes(marker));
  // docker may stop in the middle and exit with 0: what follows has not been seen
  if (!finished && /(?:^|\n)[^\n]{0,64}error grabbing logs:/i.test(output.stderr.slice(-4096))) {
    throw new ParseError(`docker logs could not read on: ${JSON.stringify(output.stderr.slice(-200))}`);
  }
  return { value: { finished }, rejected: 0 };
};

/** The metric of logs: one value a container whose log was read. */
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
