import { GridmeterError } from "../errors.ts";
import { ABOUT } from "./settings.ts";

/** Something off about a setting. `text` follows the quoted value: what is wrong and what to write. */
export type Problem = {
  readonly setting: string;
  readonly tenant?: string;
  /** the value as it may be shown: secrets are already masked */
  readonly quoted?: string;
  readonly text: string;
};

const LONGEST_QUOTE = 120;

/** The value of a setting as it may stand in a message: quoted, cut, and without what is secret. */
export function quoted(setting: string, value: string): string {
  const about = ABOUT.get(setting);
  if (about?.secret === true) return "***";
  const shown = about?.quote === undefined ? value : about.quote(value);
  return JSON.stringify(shown.length > LONGEST_QUOTE ? `${shown.slice(0, LONGEST_QUOTE)}...` : shown);
}

/** One line per problem; what several tenants share is said once, with their names, or without if all share it. */
export function problemLines(problems: readonly Problem[], tenantNames: readonly string[]): string[] {
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
    const option = ABOUT.get(problem.setting)?.option;
    const setting = problem.setting + (option === undefined ? "" : ` (${option})`);
    const end = problem.text.endsWith("?") ? "" : ".";
    return `${setting}${problem.quoted === undefined ? "" : `=${problem.quoted}`}${whose}: ${problem.text}${end}`;
  });
}

/**
 * All problems as one error. Its code is `config_invalid`, or `period_invalid` if nothing but the period is off.
 */
export function configurationError(problems: readonly Problem[], tenantNames: readonly string[] = []): GridmeterError {
  const lines = problemLines(problems, tenantNames);
  const onlyPeriod = problems.every(({ setting }) => setting === "QUERY_START" || setting === "QUERY_END");
  const count = lines.length === 1 ? "One setting is" : `${lines.length} settings are`;
  return new GridmeterError(
    onlyPeriod ? "period_invalid" : "config_invalid",
    `${count} wrong; Prometheus was not asked and nothing was published.`,
    { lines: [...lines.map((line) => `  - ${line}`), "docs/configuration.md describes every setting."] },
  );
}
