import { GridmeterError } from "../errors.ts";
import type { Command } from "./types.ts";

/** Timers of Node count milliseconds in 32 bits, and fire at once beyond. Seconds. */
export const LONGEST_TIMEOUT = 2_147_483;
/** The longest text that V8 holds is 512 MiB. Bytes. */
export const LARGEST_OUTPUT = 500_000_000;

/**
 * A command without a finite timeout or byte cap is never started.
 *
 * @throws GridmeterError config_invalid
 */
export function checkCommand(command: Command, grace: number): void {
  const [name] = command.argv;
  checkLimit(`the command ${name}`, "timeout", command.timeout, LONGEST_TIMEOUT, "seconds");
  checkLimit(`the command ${name}`, "byte cap", command.maxBytes, LARGEST_OUTPUT, "bytes");
  if (grace !== 0) checkLimit(`the command ${name}`, "grace", grace, LONGEST_TIMEOUT, "seconds");
}

/**
 * A limit that is no number, not finite or not above 0 limits nothing.
 *
 * @throws GridmeterError config_invalid
 */
export function checkLimit(whose: string, what: string, value: number, most: number, unit: string): void {
  if (value > 0 && value <= most) return;
  throw new GridmeterError(
    "config_invalid",
    `The ${what} of ${whose} is ${value}. Nothing was started. ` +
      `Give it a number of ${unit} above 0 and at most ${most}.`,
  );
}
