import { accessSync, constants, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { z } from "zod";
import { type Raw, filled } from "../../shared/config-values.ts";
import { GridmeterError, errorText } from "../../shared/errors.ts";
import { readTextFile } from "../../shared/fs.ts";
import type { Tenant } from "../model/tenant.ts";
import { certificateProblems } from "../prometheus/certificates.ts";
import type { Connection } from "../prometheus/client.ts";
import { readEnvFile } from "./env-file.ts";
import { NO_NAMES, type Names, judgeNames, withInherited } from "./names.ts";
import type { Problem } from "../../shared/config-problems.ts";
import { configurationError, hint, problemLines, quoted, readSettings } from "./problems.ts";
import { runSettings } from "./table.ts";
import { checkTogether, parseTenant } from "./tenant.ts";
import { type ListedTenant, type TenantsFile, parseTenantsFile } from "./tenants-file.ts";

/** What the command line says; each wins over environment and env file. */
type Overrides = {
  readonly mode?: string | undefined;
  readonly start?: string | undefined;
  readonly end?: string | undefined;
  readonly output?: string | undefined;
  readonly ledger?: string | undefined;
  readonly pushgateway?: string | undefined;
  readonly metricsFile?: string | undefined;
};

export type LoadRequest = {
  readonly env: Raw;
  readonly envFile?: string | undefined;
  readonly overrides?: Overrides | undefined;
  /** where relative paths start; default: the working directory */
  readonly directory?: string | undefined;
};

export type LoadedSettings = Settings;

/** Where messages and the ledger are, as written; undefined where nothing names the place. */
export type LoadedStores = {
  readonly output: string | undefined;
  readonly ledger: string | undefined;
  readonly warnings: readonly string[];
};

const placeSettings = runSettings.pick({ OUTPUT_PATH: true, LEDGER_PATH: true });

/** No env file or tenants file that people write is larger, bytes. */
export const LARGEST_TEXT = 1_000_000;

const FILES = [
  "TENANTS_FILE",
  "PROMETHEUS_TOKEN_FILE",
  "PROMETHEUS_CA_FILE",
  "PROMETHEUS_CLIENT_CERT_FILE",
  "PROMETHEUS_CLIENT_KEY_FILE",
  "PUSHGATEWAY_CA_FILE",
  "AMS_CERTIFICATE",
  "AMS_KEY",
  "AMS_TOKEN_FILE",
  "AMS_CA_FILE",
];

/**
 * Reads env file (`${NAME}` in it is expanded, see `readEnvFile`), environment and tenants file. A variable of the environment
 * wins over the env file, as in KAPEL; the command line wins over both. Relative paths of files to read start where they are
 * written: beside the env file or the tenants file, or, from the environment, in `directory`. The paths in the result are
 * absolute; `output` and `ledger` are as written.
 * @throws GridmeterError `config_invalid` (or `period_invalid`), also for files that cannot be read and certificates that are no good; `usage` for --start or --end
 * outside gap mode
 */
export function loadSettings(request: LoadRequest): LoadedSettings {
  const { overrides = {}, directory = process.cwd() } = request;
  const { merged, names } = gathered(request);
  checkOptions(overrides, merged["PUBLISHING_MODE"]);
  const tenantsPath = filled(merged["TENANTS_FILE"]);
  const text = tenantsPath === undefined ? undefined : contents(tenantsPath, "TENANTS_FILE");
  const settings = parseSettings(merged, text, names);
  const base = tenantsPath === undefined ? directory : dirname(tenantsPath);
  const tenants = settings.tenants.map(({ tenant, connection }) => ({ tenant, connection: rooted(connection, base) }));
  const problems = tenants.flatMap(({ tenant, connection }) => unreadable(tenant.name, connection));
  if (problems.length > 0)
    throw configurationError(
      problems,
      tenants.map(({ tenant }) => tenant.name),
    );
  return { ...settings, tenants };
}

/**
 * Reads only OUTPUT_PATH and LEDGER_PATH, from options, environment and env file, for a command that needs no other setting.
 * Defaults are left to the command.
 * @throws GridmeterError `config_invalid`
 */
export function loadStores(request: LoadRequest): LoadedStores {
  const { merged, names } = gathered(request);
  const { problems: wrong } = readSettings(placeSettings, placeSettings.partial(), merged);
  const problems = [...names.problems, ...wrong];
  if (problems.length > 0) throw configurationError([...problems, ...names.unset]);
  return {
    output: filled(merged["OUTPUT_PATH"]),
    ledger: filled(merged["LEDGER_PATH"]),
    warnings: problemLines([...names.unset, ...names.warnings], []),
  };
}

/** All variables as texts, and what is to be said about their names. @throws GridmeterError `config_invalid`, `usage` */
export function gathered({ env, envFile, overrides = {}, directory = process.cwd() }: LoadRequest): {
  readonly merged: Raw;
  readonly names: Names;
} {
  const envPath = envFile === undefined ? undefined : resolve(directory, envFile);
  const file = readEnvFile(envPath === undefined ? "" : contents(envPath, "env file"), env);
  const options = {
    PUBLISHING_MODE: overrides.mode,
    QUERY_START: overrides.start,
    QUERY_END: overrides.end,
    OUTPUT_PATH: overrides.output,
    LEDGER_PATH: overrides.ledger,
    PUSHGATEWAY_URL: overrides.pushgateway,
    METRICS_FILE: overrides.metricsFile,
  };
  const merged = {
    ...absolute(Object.fromEntries(file.values), envPath === undefined ? directory : dirname(envPath)),
    ...absolute(definedOnly(env), directory),
    ...definedOnly(options),
  };
  checkFilled({
    "--output": overrides.output,
    "--ledger": overrides.ledger,
    "--pushgateway": overrides.pushgateway,
    "--metrics-file": overrides.metricsFile,
  });
  return { merged, names: judgeNames(file, env) };
}

/** An option that was just typed must not be passed over: `--ledger "$PLACE"` with no PLACE would go to the default. */
function checkFilled(options: Raw): void {
  for (const [option, text] of Object.entries(options)) {
    if (text === undefined || filled(text) !== undefined) continue;
    throw new GridmeterError(
      "usage",
      `${option} is empty; nothing was published. Name a place, or leave the option out.`,
    );
  }
}

/** A leftover QUERY_START is ignored in auto mode, as in KAPEL; an option that was just typed must not be. */
function checkOptions({ start, end }: Overrides, mode: string | undefined): void {
  if ((start === undefined && end === undefined) || filled(mode) === "gap") return;
  throw new GridmeterError(
    "usage",
    `--start and --end were given, but the mode is ${JSON.stringify(filled(mode) ?? "auto")}; nothing was published. ` +
      "Add --mode gap, or leave them out.",
  );
}

function definedOnly(raw: Raw): Raw {
  return Object.fromEntries(Object.entries(raw).filter(([, value]) => value !== undefined));
}

function absolute(raw: Raw, base: string): Raw {
  const paths = FILES.flatMap((name) => {
    const path = filled(raw[name]);
    return path === undefined ? [] : [[name, resolve(base, path)] as const];
  });
  return { ...raw, ...Object.fromEntries(paths) };
}

function rooted(connection: Connection, base: string): Connection {
  const { tokenFile, caFile, clientCertFile, clientKeyFile } = connection;
  return {
    ...connection,
    ...(tokenFile === undefined ? {} : { tokenFile: resolve(base, tokenFile) }),
    ...(caFile === undefined ? {} : { caFile: resolve(base, caFile) }),
    ...(clientCertFile === undefined ? {} : { clientCertFile: resolve(base, clientCertFile) }),
    ...(clientKeyFile === undefined ? {} : { clientKeyFile: resolve(base, clientKeyFile) }),
  };
}

function contents(path: string, setting: string): string {
  try {
    return readTextFile(path, LARGEST_TEXT);
  } catch (error) {
    throw configurationError([fileProblem(setting, path, error)]);
  }
}

/** Before anything is asked, so that a tenant's bad file is known before another tenant is published. */
function unreadable(tenant: string, connection: Connection): Problem[] {
  const certificates = certificateProblems(connection).map(({ setting, path, text }): Problem => ({
    setting,
    quoted: JSON.stringify(path),
    text,
    tenant,
  }));
  const { tokenFile } = connection;
  if (tokenFile === undefined) return certificates;
  try {
    accessSync(tokenFile, constants.R_OK);
    if (!statSync(tokenFile).isDirectory()) return certificates;
    return [fileProblem("PROMETHEUS_TOKEN_FILE", tokenFile, "it is a directory", tenant), ...certificates];
  } catch (error) {
    return [fileProblem("PROMETHEUS_TOKEN_FILE", tokenFile, error, tenant), ...certificates];
  }
}

function fileProblem(setting: string, path: string, cause: unknown, tenant?: string): Problem {
  return {
    setting,
    quoted: JSON.stringify(path),
    text: `cannot be read (${errorText(cause)}). Write the path of a readable file`,
    ...(tenant === undefined ? {} : { tenant }),
  };
}

/** Where a run's own metrics go: to a Pushgateway, into a file, to both, or nowhere. */
export type MetricsPlaces = {
  readonly gateway?: { readonly url: string; readonly authHeader?: string; readonly caFile?: string };
  readonly file?: string;
};

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
  /** where the run's own metrics go */
  readonly metrics: MetricsPlaces;
  /** allowed, but seldom meant; one line each */
  readonly warnings: readonly string[];
};

const partialRun = runSettings.partial();

/** What came of reading all settings; `settings` are there where there is no problem. */
type Judged = {
  readonly settings?: Settings;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
  readonly tenantNames: readonly string[];
};

/**
 * Reads all settings from environment variables and the text of the tenants file (of TENANTS_FILE; without it there is one
 * tenant). Unknown variables are ignored, unknown keys of the file are not. Whether files exist is not looked at.
 * @param names what is to be said about the names of the variables, with everything else
 * @throws GridmeterError `config_invalid` (`period_invalid` if only the period is off) that lists all problems, secrets masked
 */
export function parseSettings(env: Raw, tenantsFileText?: string, names: Names = NO_NAMES): Settings {
  const { settings, problems, warnings, tenantNames } = judgeSettings(env, tenantsFileText);
  const all = [...names.problems, ...problems];
  if (settings === undefined || all.length > 0) throw configurationError([...all, ...names.unset], tenantNames);
  return { ...settings, warnings: problemLines([...names.unset, ...names.warnings, ...warnings], tenantNames) };
}

/** As `parseSettings`, for who has more to say about them; throws nothing. */
export function judgeSettings(env: Raw, tenantsFileText?: string): Judged {
  const isGap = env["PUBLISHING_MODE"]?.trim() === "gap";
  // As KAPEL: a period that is left over in the environment means nothing in auto mode.
  const runRaw = isGap ? env : { ...env, QUERY_START: undefined, QUERY_END: undefined };
  const run = readSettings(runSettings, partialRun, runRaw);
  const file = tenantsFile(run.part.TENANTS_FILE, tenantsFileText);
  const parsed =
    file === undefined ? [parseTenant(undefined, env)] : file.tenants.map((listed) => parseListed(listed, env));
  const judged = {
    problems: [
      ...run.problems,
      ...periodProblems(run.part, isGap, new Set(run.problems.map(({ setting }) => setting)), runRaw),
      ...(file?.problems ?? []),
      ...parsed.flatMap((one) => one.problems),
      ...checkTogether(parsed),
    ],
    warnings: parsed.flatMap((one) => one.warnings),
    tenantNames: parsed.map(({ name }) => name),
  };
  if (run.full === undefined || judged.problems.length > 0) return judged;
  const { PUBLISHING_MODE: mode, OUTPUT_PATH: output, LEDGER_PATH: ledger } = run.full;
  const { QUERY_START: queryStart, QUERY_END: queryEnd } = run.full;
  const settings = {
    tenants: parsed.flatMap(({ made }) => (made === undefined ? [] : [made])),
    mode,
    ...(queryStart === undefined ? {} : { queryStart }),
    ...(queryEnd === undefined ? {} : { queryEnd }),
    output,
    ledger,
    metrics: metricsPlaces(run.full),
    warnings: [],
  };
  return { ...judged, settings };
}

function metricsPlaces(settings: z.output<typeof runSettings>): MetricsPlaces {
  const { PUSHGATEWAY_URL: url, PUSHGATEWAY_AUTH_HEADER: authHeader, PUSHGATEWAY_CA_FILE: caFile } = settings;
  const gateway = {
    ...(authHeader === undefined ? {} : { authHeader }),
    ...(caFile === undefined ? {} : { caFile }),
  };
  return {
    ...(url === undefined ? {} : { gateway: { url, ...gateway } }),
    ...(settings.METRICS_FILE === undefined ? {} : { file: settings.METRICS_FILE }),
  };
}

function tenantsFile(path: string | undefined, text: string | undefined): TenantsFile | undefined {
  if (text !== undefined) return parseTenantsFile(text);
  if (path === undefined) return undefined;
  const problem = { setting: "TENANTS_FILE", quoted: quoted("TENANTS_FILE", path), text: "was not read" };
  return { tenants: [], problems: [problem] };
}

function parseListed({ name, raw }: ListedTenant, env: Raw): ReturnType<typeof parseTenant> {
  const whole = withInherited(name, raw, env);
  const parsed = parseTenant(name, whole.raw);
  return { ...parsed, warnings: [...whole.warnings, ...parsed.warnings] };
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
    .filter((setting) => filled(raw[setting]) === undefined && !failed.has(setting))
    .map((setting) => ({ setting, text: `is not set, but gap mode needs it. ${hint(setting)}` }));
  if (start === undefined || end === undefined || end > start) return missing;
  const shown = quoted("QUERY_START", raw["QUERY_START"] ?? "");
  const text = `is not after QUERY_START=${shown}. Write a later end`;
  return [{ setting: "QUERY_END", quoted: quoted("QUERY_END", raw["QUERY_END"] ?? ""), text }];
}
