import type { z } from "zod";
import { GridmeterError } from "../errors.ts";
import { maskServer } from "./server.ts";
import { didYouMean } from "./suggest.ts";

/** Something off about the agent's configuration. `text` follows the value: what is wrong and what to write. */
export type AgentProblem = {
  /** `probes.nvidia-smi.timeout`, or the option or variable that was given in its place */
  readonly setting: string;
  /** the value as it may be shown */
  readonly quoted?: string;
  readonly text: string;
};

const LONGEST_QUOTE = 120;

/** Parameters of an issue that is about a key and not about what stands there. */
export const UNQUOTED = { unquoted: true };

/** What stands at a path of the configuration; undefined if nothing does. */
export function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return value;
  if (typeof value !== "object" || value === null) return undefined;
  const found = Object.entries(value).find(([name]) => name === String(key));
  return valueAt(found?.[1], rest);
}

/** The value as JSON and cut. Not shown: credentials in addresses, arguments of commands, and mappings, which hold anything. */
function quoted(path: string, value: unknown): string | undefined {
  if (value === undefined || (typeof value === "object" && !Array.isArray(value))) return undefined;
  if (path.toLowerCase().endsWith("command"))
    return typeof value === "string" ? `"${value.trim().split(/\s/, 1)[0]} ..."` : undefined;
  const text = JSON.stringify(path === "pushgateway.url" && typeof value === "string" ? maskServer(value) : value);
  return text.length > LONGEST_QUOTE ? `${text.slice(0, LONGEST_QUOTE)}...` : text;
}

/**
 * Zod's issues as problems. Unknown keys are named without their values, which may be a password that was put in the wrong place.
 * @param sources where a value did not come from the file: the option or variable, by path
 * @param keysOf the keys that a mapping may have, by its path
 */
export function problemsOf(
  error: z.ZodError,
  raw: unknown,
  sources: ReadonlyMap<string, string>,
  keysOf: (path: readonly PropertyKey[]) => readonly string[],
): AgentProblem[] {
  return error.issues.flatMap((issue): AgentProblem[] => {
    const path = issue.path.map(String).join(".");
    if (issue.code === "unrecognized_keys") {
      const where = path === "" ? "the agent" : path;
      const known = keysOf(issue.path);
      return issue.keys.map((key) => ({
        setting: path === "" ? shownKey(key) : `${path}.${shownKey(key)}`,
        text: `is no setting of ${where}${didYouMean(key, known) || `, which has ${known.join(", ")}`}`,
      }));
    }
    const isBare = issue.code === "custom" && issue.params?.["unquoted"] === true;
    const value = isBare ? undefined : quoted(path, valueAt(raw, issue.path));
    const text = issue.code === "custom" ? issue.message : "is no mapping of settings. Write its settings below it";
    const setting = sources.get(path) ?? (path === "" ? "the configuration" : path);
    return [value === undefined ? { setting, text } : { setting, quoted: value, text }];
  });
}

function shownKey(key: string): string {
  return /^[\w.-]{1,60}$/.test(key) ? key : JSON.stringify(key.slice(0, 60));
}

/** All problems as one error, a line each. */
export function agentConfigurationError(problems: readonly AgentProblem[], file: string | undefined): GridmeterError {
  const lines = problems.map(
    ({ setting, quoted, text }) =>
      `  - ${setting}${quoted === undefined ? "" : `=${quoted}`}: ${text}${/[?.]$/.test(text) ? "" : "."}`,
  );
  const count = problems.length === 1 ? "One setting" : `${problems.length} settings`;
  const whose = file === undefined ? "of the agent" : `of the agent (${JSON.stringify(file)})`;
  return new GridmeterError(
    "config_invalid",
    `${count} ${whose} ${problems.length === 1 ? "is" : "are"} wrong; nothing was started and nothing was published.`,
    { lines: [...new Set(lines), "docs/agent.md describes every setting."] },
  );
}
