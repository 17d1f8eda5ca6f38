import type { z } from "zod";
import { type Raw, filled } from "../../shared/config-values.ts";
import { type Problem, problemLine, quotedValue, settingsError } from "../../shared/config-problems.ts";
import type { GridmeterError } from "../../shared/errors.ts";
import { ABOUT } from "./table.ts";

/** The value of a setting as it may be in a message: quoted, cut, and without what is secret. */
export function quoted(setting: string, value: string): string {
  const about = ABOUT.get(setting);
  if (about?.secret === true) return "***";
  const shown = about?.quote === undefined ? value : about.quote(value);
  return quotedValue(shown);
}

/**
 * One line per problem; what several tenants share is said once, with their names, or without if all share it.
 * @param hasOptions whether the user has the command line's options, which are named beside the settings then
 */
export function problemLines(
  problems: readonly Problem[],
  tenantNames: readonly string[],
  hasOptions = true,
): string[] {
  const byLine = new Map<string, { readonly problem: Problem; readonly tenants: Set<string> }>();
  for (const problem of problems) {
    const key = JSON.stringify([problem.setting, problem.quoted, problem.text]);
    const entry = byLine.get(key) ?? { problem, tenants: new Set<string>() };
    if (problem.tenant !== undefined) entry.tenants.add(problem.tenant);
    byLine.set(key, entry);
  }
  return [...byLine.values()].map(({ problem, tenants }) => {
    const names = [...tenants].map((name) => JSON.stringify(name)).join(", ");
    const isCommon = tenants.size === 0 || tenantNames.every((name) => tenants.has(name));
    const whose = isCommon ? "" : ` (tenant${tenants.size > 1 ? "s" : ""} ${names})`;
    const option = hasOptions ? ABOUT.get(problem.setting)?.option : undefined;
    const setting = problem.setting + (option === undefined ? "" : ` (${option})`);
    return problemLine({ ...problem, setting }, whose);
  });
}

/**
 * All problems as one error, which says what was (not) `done`. Its code is `config_invalid`, or `period_invalid` if nothing but the period is off.
 */
export function configurationError(
  problems: readonly Problem[],
  tenantNames: readonly string[] = [],
  done = "Prometheus was not asked and nothing was published",
): GridmeterError {
  const lines = problemLines(problems, tenantNames);
  const onlyPeriod = problems.every(({ setting }) => setting === "QUERY_START" || setting === "QUERY_END");
  return settingsError(onlyPeriod ? "period_invalid" : "config_invalid", lines, {
    done,
    docs: "docs/configuration.md",
  });
}

/** What was read: everything, if nothing was wrong; and in any case the values of those settings that were right. */
type Read<Full, Part> = { readonly full?: Full; readonly part: Part; readonly problems: readonly Problem[] };

/** The text of a setting, or its default. */
function textOf(raw: Raw, name: string): string | undefined {
  return filled(raw[name]) ?? ABOUT.get(name)?.default;
}

/** No value is longer, characters; a longer one is refused before any pattern is tried on it. */
export const LONGEST_VALUE = 16_384;

/** Reads all settings of a schema; one that is wrong does not keep the others from being read. */
export function readSettings<Full, Part>(
  schema: z.ZodType<Full> & { readonly shape: object },
  partial: z.ZodType<Part>,
  raw: Raw,
): Read<Full, Part> {
  const names = Object.keys(schema.shape);
  const texts = new Map(names.flatMap((name) => pair(name, textOf(raw, name))));
  const tooLong = [...texts].filter(([, text]) => text.length > LONGEST_VALUE).map(([name]) => name);
  for (const name of tooLong) texts.delete(name);
  const full = schema.safeParse(Object.fromEntries(texts));
  if (full.success && tooLong.length === 0)
    return { full: full.data, part: partial.parse(Object.fromEntries(texts)), problems: [] };
  const longProblems = tooLong.map((setting): Problem => {
    const text = raw[setting] ?? "";
    return {
      setting,
      quoted: quoted(setting, text),
      text: withHint(`has ${text.length} characters, more than ${LONGEST_VALUE}`, setting),
    };
  });
  const issues = full.error?.issues.filter(({ path: [name] }) => !tooLong.includes(String(name))) ?? [];
  const problems = issues.map((issue): Problem => {
    const setting = String(issue.path[0]);
    const text = texts.get(setting);
    texts.delete(setting);
    return text === undefined
      ? { setting, text: `is not set. ${hint(setting)}` }
      : { setting, quoted: quoted(setting, text), text: withHint(issue.message, setting) };
  });
  return { part: partial.parse(Object.fromEntries(texts)), problems: [...longProblems, ...problems] };
}

function pair(name: string, text: string | undefined): [string, string][] {
  return text === undefined ? [] : [[name, text]];
}

/** The problem, and what to write if it does not say so itself. */
function withHint(problem: string, setting: string): string {
  return problem.includes("Write ") ? problem : `${problem}${problem.endsWith("?") ? "" : "."} ${hint(setting)}`;
}

/** What to write, from the table of settings. */
export function hint(setting: string): string {
  const about = ABOUT.get(setting);
  return about === undefined ? "" : `Write for example ${setting}=${about.example}`;
}
