import type { Output } from "../agent/types.ts";
import { ParseError } from "./parse-error.ts";

/** Why docker gave nothing: a closed set, so that it can be a label. */
export const DOCKER_FAILURES = ["daemon_down", "permission_denied", "other"] as const;
export type DockerFailure = (typeof DOCKER_FAILURES)[number];

/**
 * Why a docker command failed, by what it printed on stderr. Permission comes first, as its message speaks of connecting too.
 * Only docker's first words count: a container's own name may say anything.
 */
export const dockerFailure = ({ stderr }: Pick<Output, "stderr">): DockerFailure => {
  const text = stderr.slice(0, 4096).toLowerCase();
  if (text.includes("permission denied")) return "permission_denied";
  const down = [
    "cannot connect to the docker daemon",
    "is the docker daemon running",
    "failed to connect to the docker",
  ];
  return down.some((words) => text.includes(words)) ? "daemon_down" : "other";
};

/** Says in one line why a docker command gave no data. */
export const dockerError = (command: string, output: Output): ParseError => {
  const printed = JSON.stringify((output.stderr.trim() || output.stdout.trim()).slice(0, 200));
  return new ParseError(`${command} exited with ${output.exitCode} (${dockerFailure(output)}) and printed ${printed}`);
};
