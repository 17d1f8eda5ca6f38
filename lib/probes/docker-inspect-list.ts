import type { Output, Parsed } from "../agent/types.ts";
import { kubernetesNames, type ContainerNames } from "./container.ts";
import { dockerError } from "./docker-daemon-failure.ts";
import { ParseError } from "./parse-error.ts";

/** A container as the list has it. */
export type ListedContainer = ContainerNames & { readonly id: string };

/** An id and perhaps names: a container that others link to has several, of which those with a slash are the links. */
const LINE = /^([0-9a-f]{12,64})(?:\s{1,64}([A-Za-z0-9_.,/-]{1,1000}))?$/;

/** More of a line is not looked at. */
const LONGEST_LINE = 2048;

const listed = (line: string): ListedContainer | undefined => {
  const [, id, names = ""] = LINE.exec(line) ?? [];
  if (id === undefined) return undefined;
  const name = names.split(",").find((one) => one !== "" && !one.includes("/"));
  return { id, name, ...kubernetesNames(name ?? "") };
};

/**
 * Reads the containers that `docker ps` lists as `ID NAME` or `ID` alone, one a line, each once. The ids become arguments of
 * further commands, so that only real ids are taken; other lines are left out and counted.
 *
 * @throws {ParseError} when docker failed, or no line is an id
 */
export const parseDockerList = (output: Output): Parsed<readonly ListedContainer[]> => {
  if (output.exitCode !== 0) throw dockerError("docker ps", output);
  const lines = output.stdout
    .split("\n")
    .map((line) => line.slice(0, LONGEST_LINE).trim())
    .filter((line) => line !== "");
  const found = new Map<string, ListedContainer>();
  for (const line of lines) {
    const one = listed(line);
    if (one !== undefined && !found.has(one.id)) found.set(one.id, one);
  }
  if (lines.length > 0 && found.size === 0) {
    throw new ParseError(`docker ps printed no id: ${JSON.stringify(output.stdout.slice(0, 200))}`);
  }
  return { value: [...found.values()], rejected: lines.length - found.size };
};

/** As `parseDockerList`, the ids alone. */
export const parseDockerPs = (output: Output): Parsed<readonly string[]> => {
  const { value, rejected } = parseDockerList(output);
  return { value: value.map(({ id }) => id), rejected };
};
