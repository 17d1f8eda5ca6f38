import * as z from "zod";
import type { Output } from "../../command/types.ts";

/** The output of a command is not what it should be, and the probe publishes nothing. The message quotes the output. */
export class ParseError extends Error {
  override readonly name = "ParseError";
}

/** The beginning of what a command printed, on stderr if anything, as a quoted text for a message. */
export const quoted = ({ stderr, stdout }: Output): string =>
  JSON.stringify((stderr.trim() || stdout.trim()).slice(0, 200));

/** The error of a command whose exit code says that it failed. */
export const exitError = (command: string, output: Output): ParseError =>
  new ParseError(`${command} exited with ${output.exitCode} and printed ${quoted(output)}`);

/** A text from a device, driver or container as the value of a label: short, and without control characters. */
export const labelText = (text: string | undefined): string =>
  (text ?? "").slice(0, 128).replaceAll(/\p{C}/gu, "\uFFFD");

/** The parsed text; undefined where it is no JSON. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
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
