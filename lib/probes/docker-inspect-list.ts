import type { Output, Parsed } from "../agent/types.ts";
import { dockerError } from "./docker-daemon-failure.ts";
import { ParseError } from "./parse-error.ts";

const ID = /^[0-9a-f]{12,64}$/;

/**
 * Reads the ids that `docker ps --quiet` prints, one a line, each once. They become arguments of further commands, so that
 * only real ids are taken; other lines are left out and counted.
 *
 * @throws {ParseError} when docker failed, or no line is an id
 */
export const parseDockerPs = (output: Output): Parsed<readonly string[]> => {
  if (output.exitCode !== 0) throw dockerError("docker ps", output);
  const lines = output.stdout
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const ids = new Set(lines.filter((line) => ID.test(line)));
  if (lines.length > 0 && ids.size === 0) {
    throw new ParseError(`docker ps --quiet printed no id: ${JSON.stringify(output.stdout.slice(0, 200))}`);
  }
  return { value: [...ids], rejected: lines.length - ids.size };
};
