import * as z from "zod";
import { parseJson } from "../../../shared/text.ts";
import type { Output } from "../../command/types.ts";

/** The output of a command is not what it should be, and the probe publishes nothing. The message quotes the output. */
export class ParseError extends Error {
  override readonly name = "ParseError";
}

/** The tool says that it can never do this on the node: the probe is off, as where its tool is missing, and no alert fires for ever. */
export class UnsupportedError extends ParseError {}

/**
 * What tools print that can never do what they were asked: rootless podman without cgroup v2; a container runtime that does not serve
 * the kubelet's interface (docker's own containerd); a version of the tool, or another program of its name, without the option.
 */
const NEVER: readonly RegExp[] = [
  /not supported in rootless mode/i,
  /code = Unimplemented/i,
  /\b(?:unknown (?:shorthand )?flag|unknown command|unrecognized (?:option|command|arguments)|invalid option|illegal option)\b/i,
  /flag provided but not defined|is not a docker command|bad -o argument/i,
];

/** The error of a command that failed, by what it printed. Not for one that prints what users write on stderr. */
export const failureOf = (message: string, { stderr }: Pick<Output, "stderr">): ParseError => {
  const text = stderr.slice(0, 4096);
  return NEVER.some((pattern) => pattern.test(text)) ? new UnsupportedError(message) : new ParseError(message);
};

/** The beginning of what a command printed, on stderr if anything, as a quoted text for a message. */
export const quoted = ({ stderr, stdout }: Output): string =>
  JSON.stringify((stderr.trim() || stdout.trim()).slice(0, 200));

/** The error of a command whose exit code says that it failed. */
export const exitError = (command: string, output: Output): ParseError =>
  failureOf(`${command} exited with ${output.exitCode} and printed ${quoted(output)}`, output);

/** The last line of a text, where a program says why it fails. What comes before may be other programs', or users' words. */
export const lastLine = (text: string): string => text.slice(-4096).trimEnd().split("\n").at(-1) ?? "";

/** A text from a device, driver or container as the value of a label: short, and without control characters. */
export const labelText = (text: string | undefined): string =>
  (text ?? "").slice(0, 128).replaceAll(/\p{C}/gu, "\uFFFD");

/**
 * A number without the noise of arithmetic on doubles: 1.1 % is 0.011, and 1.1 / 100 is 0.011000000000000001. Of the 15 digits that every
 * double has, none is lost.
 */
export const withoutNoise = (value: number): number =>
  Number.isInteger(value) ? value : Number(value.toPrecision(15));

/** The JSON at the end of what a command printed: warnings may come before it, where stderr was saved too. Undefined where there is none. */
export const jsonAtEnd = (text: string): unknown => {
  const whole = parseJson(text);
  if (whole !== undefined) return whole;
  const start = text.search(/^[[{]/m);
  return start <= 0 ? undefined : parseJson(text.slice(start));
};

export const JsonObject = z.record(z.string(), z.unknown());
export type JsonObject = z.infer<typeof JsonObject>;

/*
 * Fields of an object that a tool printed. A field that is missing, or of another type, is undefined: one bad value must not cost
 * the whole object.
 */

/** A text that is not empty. */
export const Text = z.string().min(1).optional().catch(undefined);

/** A whole number of 0 or more. */
export const Count = z.int().nonnegative().optional().catch(undefined);

export const Flag = z.boolean().optional().catch(undefined);

/** An object of texts by name, without the values that are no texts. */
export const Texts = JsonObject.catch({}).transform(
  (found) =>
    new Map(Object.entries(found).flatMap(([key, value]) => (typeof value === "string" ? [[key, value]] : []))),
);
