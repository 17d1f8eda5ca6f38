import { GridmeterError } from "./errors.ts";
import type { ErrorCode } from "./errors.ts";

/** Something off about a setting. `text` follows the quoted value: what is wrong and what to write. */
export type Problem = {
  /** its name, e.g. `SITE_NAME` or `probes.nvidia-smi.timeout`, or the option or variable that was given in its place */
  readonly setting: string;
  readonly tenant?: string;
  /** the value as it may be shown: secrets are already masked */
  readonly quoted?: string;
  readonly text: string;
};

const LONGEST_QUOTE = 120;

/** A value as it may be in a message: as JSON and cut. */
export function quotedValue(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length <= LONGEST_QUOTE ? text : `${text.slice(0, LONGEST_QUOTE)}...`;
}

/** One line for a problem. @param whose whom it concerns, to follow the value */
export function problemLine({ setting, quoted, text }: Problem, whose = ""): string {
  const value = quoted === undefined ? "" : `=${quoted}`;
  return `${setting}${value}${whose}: ${text}${/[?.]$/.test(text) ? "" : "."}`;
}

/**
 * All problems as one error, a line each.
 * @param of whose settings they are, to follow the count; "" for the program's
 * @param done what was not done
 * @param docs the document that describes the settings
 */
export function settingsError(
  code: ErrorCode,
  lines: readonly string[],
  { of = "", done, docs }: { readonly of?: string; readonly done: string; readonly docs: string },
): GridmeterError {
  const count = lines.length === 1 ? `One setting${of} is` : `${lines.length} settings${of} are`;
  return new GridmeterError(code, `${count} wrong; ${done}.`, {
    lines: [...lines.map((line) => `  - ${line}`), `${docs} describes every setting.`],
  });
}
