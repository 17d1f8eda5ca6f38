import type { Command, Output, Parsed } from "../../command/types.ts";
import { type ContainerNames, kubernetesNames } from "./container.ts";
import { ParseError, failureOf, quoted, withoutNoise } from "./parse.ts";

/** Lists the containers. Its own command, so that inspect and logs do without a docker stats that hangs. */
export const DOCKER_PS_COMMAND: Command = {
  argv: ["docker", "ps", "--no-trunc", "--format", "{{.ID}} {{.Names}}"],
  timeout: 10,
  maxBytes: 1024 * 1024,
};

/** A container in the output of docker ps. */
export type ListedContainer = ContainerNames & { readonly id: string };

/** An id and perhaps names: a container that others link to has several; those with a slash are the links. */
const LINE = /^([0-9a-f]{12,64})(?:\s{1,64}([A-Za-z0-9_.,/-]{1,1000}))?$/;

/** A line is cut here. */
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

/**
 * Why a docker command failed, by what it printed on stderr. Permission comes first, as its message is about connecting too. Only
 * the beginning counts: further on, the name of a container may be any text.
 */
export const dockerFailure = ({ stderr }: Pick<Output, "stderr">): "daemon_down" | "permission_denied" | "other" => {
  const text = stderr.slice(0, 4096).toLowerCase();
  if (text.includes("permission denied")) return "permission_denied";
  const down = [
    "cannot connect to the docker daemon",
    "is the docker daemon running",
    "failed to connect to the docker",
    // podman that works through its service
    "cannot connect to podman",
    "unable to connect to podman",
  ];
  return down.some((words) => text.includes(words)) ? "daemon_down" : "other";
};

/** Why a docker command gave no data. */
export const dockerError = (command: string, output: Output): ParseError => {
  const reason = dockerFailure(output);
  return failureOf(`${command} exited with ${output.exitCode} (${reason}) and printed ${quoted(output)}`, output);
};

/** Whether docker says that the container does not exist any more: an absence, and no failure. */
export const saysGone = (output: Output): boolean =>
  output.exitCode !== 0 &&
  dockerFailure(output) === "other" &&
  /no such (?:container|object)|dead or marked for removal/i.test(output.stderr.slice(0, 4096));

const FACTORS: Readonly<Record<string, number>> = {
  B: 1,
  kB: 1e3,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  PB: 1e15,
  EB: 1e18,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
  PiB: 2 ** 50,
  EiB: 2 ** 60,
};

/** A longer text is no number. */
const LONGEST_NUMBER = 128;

const short = (text: string): string => (text.length > LONGEST_NUMBER ? "" : text.trim());

const NUMBER = String.raw`\d{1,20}(?:\.\d{1,100})?(?:e[+-]?\d{1,3})?`;

const SIZE = new RegExp(`^(${NUMBER}) ?([A-Za-z]{1,3})$`);

const PERCENT = new RegExp(`^(${NUMBER}) ?%$`);

const finite = (value: number): number | undefined => (Number.isFinite(value) ? withoutNoise(value) : undefined);

const NO_VALUE: ReadonlySet<string> = new Set(["", "--", "-", "n/a", "nan%", "<no value>"]);

/** Whether docker or podman says that there is no value: `--` for a container that went away, `N/A`, a share of nothing, or nothing. */
export const hasNoValue = (text: string): boolean => NO_VALUE.has(text.trim().toLowerCase());

/**
 * Reads a size as docker prints it, in bytes: SI units for traffic (`1.77MB` is 1,770,000), binary ones for memory (`1.5GiB`).
 * docker prints 999,999 B as `1e+03kB`, which is 1,000,000 (docker/go-units#44). Undefined for anything else.
 */
export const parseSize = (text: string): number | undefined => {
  const [, digits, unit] = SIZE.exec(short(text)) ?? [];
  const factor = unit !== undefined && Object.hasOwn(FACTORS, unit) ? FACTORS[unit] : undefined;
  return digits === undefined || factor === undefined ? undefined : finite(Number(digits) * factor);
};

/** Reads `204.20%` as the ratio 2.042; undefined for anything else. */
export const parsePercent = (text: string): number | undefined => {
  const [, digits] = PERCENT.exec(short(text)) ?? [];
  return digits === undefined ? undefined : finite(Number(digits) / 100);
};
