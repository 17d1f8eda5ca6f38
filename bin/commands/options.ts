import { InvalidArgumentError } from "@commander-js/extra-typings";
import { GridmeterError, errorSummary, errorText, pageOfError } from "../../lib/shared/errors.ts";
import { plainLines } from "../../lib/shared/text.ts";
import { jsonLine } from "../show/json.ts";
import { VERSION } from "../version.ts";

/**
 * Progress and warnings: always on stderr, so that stdout is the result alone. One line, whatever the text quotes; `more` are
 * lines of our own below it.
 */
export function say(text: string, ...more: readonly string[]): void {
  process.stderr.write(plainLines([`gridmeter: ${text}`, ...more]));
}

/** A warning on stderr. */
export const warn = (text: string): void => say(`warning: ${text}`);

/** Collects an option that may be given several times. */
export function several(value: string, held: readonly string[] | undefined): readonly string[] {
  if (value === "") throw new InvalidArgumentError("it is empty");
  return [...(held ?? []), value];
}

export const nowInSeconds = (): number => Math.floor(Date.now() / 1000);

/** An error as text: its code, what it says, and the page about it. Its line breaks are its own: what it quotes has none. */
export function linesOfError(error: unknown): readonly [text: string, ...more: string[]] {
  const [text = "", ...more] = errorText(error).split("\n");
  const first = `${errorSummary(error).code}: ${text}`;
  const page = `See ${pageOfError(error)}`;
  return more.length === 0 ? [`${first} ${page}`] : [first, ...more, page];
}

/** Prints an error, as JSON too where asked for, and gives the exit code: 1 for anything that is not ours. */
export function report(error: unknown, json: boolean): number {
  const known = error instanceof GridmeterError;
  if (known) say(...linesOfError(error));
  else {
    const stack = error instanceof Error ? (error.stack ?? "") : "";
    say(
      `unexpected: ${errorText(error)}`,
      ...stack.split("\n").filter((line) => /^\s{1,8}at /.test(line)),
      `This is a fault of gridmeter (version ${VERSION}). Please report it: ${pageOfError(error)}`,
    );
  }
  const exitCode = known ? error.exit : 1;
  if (json) process.stdout.write(jsonLine({ error: errorSummary(error), exitCode }));
  return exitCode;
}
