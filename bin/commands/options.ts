import { InvalidArgumentError } from "@commander-js/extra-typings";
import { GridmeterError, errorSummary, errorText } from "../../lib/errors.ts";

/** Progress and logs: always on stderr, so that stdout is the result alone. */
export function say(text: string): void {
  process.stderr.write(`gridmeter: ${text}\n`);
}

/** A warning on stderr. */
export const warn = (text: string): void => say(`warning: ${text}`);

/** Collects an option that may be given several times. */
export function several(value: string, held: readonly string[] | undefined): readonly string[] {
  if (value === "") throw new InvalidArgumentError("it is empty");
  return [...(held ?? []), value];
}

export const nowInSeconds = (): number => Math.floor(Date.now() / 1000);

/** Prints an error, as JSON too where asked for, and gives the exit code: 1 for anything that is not ours. */
export function report(error: unknown, json: boolean): number {
  const { code } = errorSummary(error);
  say(`${code}: ${errorText(error)}`);
  const known = error instanceof GridmeterError;
  if (!known && error instanceof Error && error.stack !== undefined) say(error.stack);
  const exitCode = known ? error.exit : 1;
  if (json) process.stdout.write(`${JSON.stringify({ error: errorSummary(error), exitCode })}\n`);
  return exitCode;
}
