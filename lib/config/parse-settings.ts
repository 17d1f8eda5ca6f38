import type { Tenant } from "../accounting/tenant.ts";
import type { Connection } from "../prometheus/connection.ts";
import { withInherited } from "./inherited.ts";
import { NO_NAMES, type Names } from "./names.ts";
import { configurationError, problemLines, quoted, type Problem } from "./problems.ts";
import { hint, readSettings, type Raw } from "./read.ts";
import { runSettings } from "./settings.ts";
import { draftTenant } from "./tenant-draft.ts";
import { type ListedTenant, parseTenantsFile, type TenantsFile } from "./tenants-file.ts";
import { checkTogether } from "./whole.ts";

export type Settings = {
  readonly tenants: readonly { readonly tenant: Tenant; readonly connection: Connection }[];
  readonly mode: "auto" | "gap";
  /** epoch seconds; both are there in gap mode, and only then */
  readonly queryStart?: number;
  readonly queryEnd?: number;
  /** as written; `parseDestination` reads it and finds nothing wrong with it */
  readonly output: string;
  /** as written; `parseLedgerPlace` reads it and finds nothing wrong with it */
  readonly ledger: string;
  /** allowed, but seldom meant; one line each */
  readonly warnings: readonly string[];
};

const partialRun = runSettings.partial();

/**
 * Reads all settings from environment variables and the text of the tenants file (of TENANTS_FILE; without it there is one
 * tenant). Unknown variables are ignored, unknown keys of the file are not. Whether files exist is not looked at.
 * @param names what is to be said about the names of the variables, with everything else
 * @throws GridmeterError `config_invalid` (`period_invalid` if only the period is off) that lists all problems, secrets masked
 */
export function parseSettings(env: Raw, tenantsFileText?: string, names: Names = NO_NAMES): Settings {
  const isGap = env["PUBLISHING_MODE"]?.trim() === "gap";
  // As KAPEL: a period that is left over in the environment means nothing in auto mode.
  const runRaw = isGap ? env : { ...env, QUERY_START: undefined, QUERY_END: undefined };
  const run = readSettings(runSettings, partialRun, runRaw);
  const file = tenantsFile(run.part.TENANTS_FILE, tenantsFileText);
  const drafts =
    file === undefined ? [draftTenant(undefined, env)] : file.tenants.map((listed) => draftListed(listed, env));
  const problems = [
    ...names.problems,
    ...run.problems,
    ...periodProblems(run.part, isGap, new Set(run.problems.map(({ setting }) => setting)), runRaw),
    ...(file?.problems ?? []),
    ...drafts.flatMap((draft) => draft.problems),
    ...checkTogether(drafts),
  ];
  const tenantNames = drafts.map(({ name }) => name);
  if (run.full === undefined || problems.length > 0)
    throw configurationError([...problems, ...names.unset], tenantNames);
  const { PUBLISHING_MODE: mode, OUTPUT_PATH: output, LEDGER_PATH: ledger } = run.full;
  const { QUERY_START: queryStart, QUERY_END: queryEnd } = run.full;
  return {
    tenants: drafts.flatMap(({ made }) => (made === undefined ? [] : [made])),
    mode,
    ...(queryStart === undefined ? {} : { queryStart }),
    ...(queryEnd === undefined ? {} : { queryEnd }),
    output,
    ledger,
    warnings: problemLines(
      [...names.unset, ...names.warnings, ...drafts.flatMap((draft) => draft.warnings)],
      tenantNames,
    ),
  };
}

function tenantsFile(path: string | undefined, text: string | undefined): TenantsFile | undefined {
  if (text !== undefined) return parseTenantsFile(text);
  if (path === undefined) return undefined;
  const problem = { setting: "TENANTS_FILE", quoted: quoted("TENANTS_FILE", path), text: "was not read" };
  return { tenants: [], problems: [problem] };
}

function draftListed({ name, raw }: ListedTenant, env: Raw): ReturnType<typeof draftTenant> {
  const whole = withInherited(name, raw, env);
  const draft = draftTenant(name, whole.raw);
  return { ...draft, warnings: [...whole.warnings, ...draft.warnings] };
}

function periodProblems(
  {
    QUERY_START: start,
    QUERY_END: end,
  }: { readonly QUERY_START?: number | undefined; readonly QUERY_END?: number | undefined },
  isGap: boolean,
  failed: ReadonlySet<string>,
  raw: Raw,
): Problem[] {
  if (!isGap) return [];
  const missing = ["QUERY_START", "QUERY_END"]
    .filter((setting) => (raw[setting]?.trim() ?? "") === "" && !failed.has(setting))
    .map((setting) => ({ setting, text: `is not set, but gap mode needs it. ${hint(setting)}` }));
  if (start === undefined || end === undefined || end > start) return missing;
  const shown = quoted("QUERY_START", raw["QUERY_START"] ?? "");
  const text = `is not after QUERY_START=${shown}. Write a later end`;
  return [{ setting: "QUERY_END", quoted: quoted("QUERY_END", raw["QUERY_END"] ?? ""), text }];
}
