import { accessSync, constants, readFileSync, statSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, resolve } from "node:path";
import { LineCounter, parseDocument } from "yaml";
import type { z } from "zod";
import { type Problem, problemLine, quotedValue, settingsError } from "../shared/config-problems.ts";
import { type Raw, boolean, didYouMean, duration, filled, oneOf } from "../shared/config-values.ts";
import { GridmeterError, errorText } from "../shared/errors.ts";
import { maskServer } from "../shared/server-url.ts";
import { isInTheClear } from "../shared/text.ts";
import { probeKeys, probes } from "./config-probes.ts";
import { gatewayUrl, isMapping, listen, mapping, read, text } from "./config-values.ts";

/** The agent's job on the Pushgateway, if nothing else is said; what reaps dead groups goes by it too. */
export const AGENT_JOB = "gridmeter_agent";
/** job-exporter's port, so that what scrapes it goes on. */
const DEFAULT_LISTEN = ":9102";

const Gateway = {
  url: gatewayUrl.optional(),
  username: text("agent").optional(),
  passwordFile: text("/etc/gridmeter/password").optional(),
  bearerTokenFile: text("/var/run/secrets/token").optional(),
  caFile: text("/etc/gridmeter/ca.pem").optional(),
  // The alert rules take a group that is older than 5 minutes for a dead agent's.
  interval: read(duration(1, 120)).default(30),
};

const Agent = {
  listen: listen.default(DEFAULT_LISTEN),
  instance: text("gpu-node-1").optional(),
  job: text(AGENT_JOB).default(AGENT_JOB),
  pushgateway: mapping(Gateway).optional(),
  probes: probes.default({}),
  openpaiNames: read(boolean).default(false),
  logLevel: read(oneOf("debug", "info", "warn", "error")).default("info"),
};
const schema = mapping(Agent);
type Written = z.infer<typeof schema>;

/** A Pushgateway; the files' paths are absolute and the files were readable. `interval`: seconds between pushes without news. */
export type AgentGateway = Omit<NonNullable<Written["pushgateway"]>, "url"> & { readonly url: string };

/** The agent's configuration, whole and checked. Without `listen` there is no port, without `pushgateway` no push. */
export type AgentConfig = Omit<Written, "listen" | "instance" | "pushgateway"> & {
  readonly listen: string | undefined;
  readonly instance: string;
  readonly pushgateway: AgentGateway | undefined;
  /** where it was read, for the log */
  readonly file: string | undefined;
};

/** What the command line says; each wins over the environment, which wins over the file. */
export type AgentOverrides = {
  readonly config?: string | undefined;
  readonly listen?: string | undefined;
  readonly pushgateway?: string | undefined;
  readonly instance?: string | undefined;
  readonly openpaiNames?: boolean | undefined;
};

/**
 * Reads the agent's configuration: the YAML or JSON file of --config or GRIDMETER_AGENT_CONFIG (none is needed), with
 * PUSHGATEWAY_URL, NODE_NAME and the options in place of what it says. Relative paths in the file start beside it.
 *
 * @throws GridmeterError `config_invalid` that lists all that is wrong, files that cannot be read included; secrets are masked
 */
export function loadAgentConfig(env: Raw, overrides: AgentOverrides = {}): AgentConfig {
  const file = overrides.config ?? filled(env["GRIDMETER_AGENT_CONFIG"]);
  const document = file === undefined ? { ok: true as const, value: {} } : documentOf(file);
  if (!document.ok) throw agentConfigurationError(document.problems, file);
  const { raw, sources } = overlay(document.value ?? {}, env, overrides);
  const parsed = schema.safeParse(raw);
  const directory = file === undefined ? process.cwd() : dirname(resolve(file));
  const problems = [
    ...(parsed.success ? [] : problemsOf(parsed.error, raw, sources, keysOf)),
    ...gatewayProblems(
      isMapping(raw) ? raw["pushgateway"] : undefined,
      directory,
      isMapping(document.value) ? document.value["pushgateway"] : undefined,
    ),
  ];
  if (!parsed.success || problems.length > 0) throw agentConfigurationError(problems, file);
  const { instance, listen: address, pushgateway, ...rest } = parsed.data;
  return {
    ...rest,
    file,
    listen: address === "off" ? undefined : address,
    instance: instance ?? hostname(),
    pushgateway: rootedGateway(pushgateway, directory),
  };
}

function documentOf(file: string): ReturnType<typeof parseAgentDocument> {
  let contents: string;
  try {
    contents = readFileSync(file, "utf8");
  } catch (error) {
    const problem: Problem = {
      setting: "the configuration",
      text: `cannot be read (${errorText(error)}). Write the path of a readable file`,
    };
    return { ok: false, problems: [problem] };
  }
  return parseAgentDocument(contents);
}

/** Puts options and variables in the places of the file's settings, and remembers where they came from. */
function overlay(written: unknown, env: Raw, overrides: AgentOverrides) {
  const sources = new Map<string, string>();
  const choose = (path: string, ...candidates: readonly (readonly [string, unknown])[]): Record<string, unknown> => {
    const found = candidates.find(([, value]) => value !== undefined);
    if (found === undefined) return {};
    sources.set(path, found[0]);
    return { [path.split(".").at(-1) ?? path]: found[1] };
  };
  const url = choose(
    "pushgateway.url",
    ["--pushgateway", overrides.pushgateway],
    ["PUSHGATEWAY_URL", filled(env["PUSHGATEWAY_URL"])],
  );
  const top = {
    ...choose("listen", ["--listen", overrides.listen]),
    ...choose("instance", ["--instance", overrides.instance], ["NODE_NAME", filled(env["NODE_NAME"])]),
    ...choose("openpaiNames", ["--openpai-names", overrides.openpaiNames === true ? true : undefined]),
  };
  if (!isMapping(written)) return { raw: written, sources };
  const gateway = written["pushgateway"] ?? {};
  const raw = {
    ...written,
    ...top,
    // A section of another shape stays as it is, to be refused.
    ...(sources.has("pushgateway.url") && isMapping(gateway) ? { pushgateway: { ...gateway, ...url } } : {}),
  };
  return { raw, sources };
}

function keysOf(path: readonly PropertyKey[]): readonly string[] {
  const [section, name] = path.map(String);
  if (section === undefined) return Object.keys(Agent);
  return section === "probes" && name !== undefined ? probeKeys(name) : Object.keys(Gateway);
}

/** What a file holds, or where it is no YAML. */
type AgentDocument =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/**
 * Reads YAML 1.2, of which JSON is a part. A key that occurs twice in a mapping is a problem, since one of the two would be
 * lost. Values are not quoted here: nobody knows yet what they are.
 */
function parseAgentDocument(text: string): AgentDocument {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  const problems = document.errors.map(({ pos, code }) => {
    const { line, col } = lines.linePos(pos[0]);
    const what = code === "DUPLICATE_KEY" ? "has a key that occurs twice" : `is not valid YAML (${code})`;
    return { setting: "the configuration", text: `line ${line}, column ${col} ${what}. Correct it` };
  });
  if (problems.length > 0) return { ok: false, problems };
  try {
    return { ok: true, value: document.toJS() ?? {} };
  } catch {
    // Aliases that multiply without end are the one thing that fails only here.
    return {
      ok: false,
      problems: [{ setting: "the configuration", text: "has aliases that multiply too often. Write it out" }],
    };
  }
}

const IN_URL = "a user in url";
const FILES = ["passwordFile", "bearerTokenFile", "caFile"] as const;

/**
 * What is wrong about the section `pushgateway` as a whole: files that cannot be read, credentials of two kinds, half of them, or
 * of another server. Looks at what was written, so that it is said together with all else.
 * @param given the section as it is in the file, before an option or a variable took the place of its address
 */
function gatewayProblems(written: unknown, directory: string, given: unknown = written): Problem[] {
  if (!isMapping(written)) return [];
  const has = (key: string): boolean => written[key] !== undefined && written[key] !== null;
  const problem = (key: string, text: string): Problem => ({ setting: `pushgateway.${key}`, text });
  const inUrl = typeof written["url"] === "string" && hasCredentials(written["url"]);
  const kinds = [
    ...(inUrl ? [IN_URL] : []),
    ...(has("username") || has("passwordFile") ? ["username and passwordFile"] : []),
    ...(has("bearerTokenFile") ? ["bearerTokenFile"] : []),
  ];
  return [
    ...(has("url") || Object.keys(written).length === 0
      ? []
      : [problem("url", "is not set, so nothing could be pushed. Write for example http://pushgateway:9091")]),
    ...(kinds.length > 1
      ? [{ setting: "pushgateway", text: `has ${kinds.join(" and ")}, of which only one can be sent. Leave one` }]
      : []),
    ...(has("username") && !has("passwordFile")
      ? [problem("passwordFile", "is not set, but username is. Write the path of the file with the password")]
      : []),
    ...(has("passwordFile") && !has("username")
      ? [problem("username", "is not set, but passwordFile is. Write whose password it is")]
      : []),
    ...(isOther(written["url"], isMapping(given) ? given["url"] : undefined) && kinds.some((kind) => kind !== IN_URL)
      ? [
          problem(
            "url",
            "is replaced by an address with another scheme, host or port, which would get the credentials that the file has for this one. Write the address into the file, or take them out of it",
          ),
        ]
      : []),
    ...FILES.flatMap((key) => {
      const path = written[key];
      const why = typeof path === "string" ? unreadable(resolve(directory, path.trim())) : undefined;
      return why === undefined ? [] : [{ ...problem(key, why), quoted: JSON.stringify(path) }];
    }),
  ];
}

type GatewayFiles = {
  readonly url?: string | undefined;
  readonly passwordFile?: string | undefined;
  readonly bearerTokenFile?: string | undefined;
  readonly caFile?: string | undefined;
};

/** The section with absolute paths; undefined without a URL. */
function rootedGateway<T extends GatewayFiles>(gateway: T | undefined, directory: string) {
  if (gateway?.url === undefined) return undefined;
  const at = (path: string | undefined): string | undefined =>
    path === undefined ? undefined : resolve(directory, path);
  return {
    ...gateway,
    url: gateway.url,
    passwordFile: at(gateway.passwordFile),
    bearerTokenFile: at(gateway.bearerTokenFile),
    caFile: at(gateway.caFile),
  };
}

function isOther(url: unknown, given: unknown): boolean {
  if (typeof url !== "string" || typeof given !== "string" || !URL.canParse(url) || !URL.canParse(given)) return false;
  return new URL(url).origin !== new URL(given).origin;
}

/** What is allowed about it and yet seldom meant; undefined if nothing is. */
export function gatewayWarning(
  gateway: (GatewayFiles & { readonly username?: string | undefined }) | undefined,
): string | undefined {
  if (gateway?.url === undefined || !isInTheClear(new URL(gateway.url))) return undefined;
  const { url, username, bearerTokenFile } = gateway;
  if (username === undefined && bearerTokenFile === undefined && !hasCredentials(url)) return undefined;
  return `the Pushgateway's address ${maskServer(url)} is not https, so the credentials for it can be read on the way; write https://`;
}

function hasCredentials(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url !== undefined && (url.username !== "" || url.password !== "");
}

function unreadable(path: string): string | undefined {
  try {
    accessSync(path, constants.R_OK);
    return statSync(path).isDirectory() ? "is a directory. Write the path of a readable file" : undefined;
  } catch (error) {
    return `cannot be read (${errorText(error)}). Write the path of a readable file`;
  }
}

/** What is at a path of the configuration; undefined if nothing does. */
function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
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
  return quotedValue(path === "pushgateway.url" && typeof value === "string" ? maskServer(value) : value);
}

/**
 * Zod's issues as problems. Unknown keys are named without their values, which may be a password that was put in the wrong place.
 * @param sources where a value did not come from the file: the option or variable, by path
 * @param keysOf the keys that a mapping may have, by its path
 */
function problemsOf(
  error: z.ZodError,
  raw: unknown,
  sources: ReadonlyMap<string, string>,
  keysOf: (path: readonly PropertyKey[]) => readonly string[],
): Problem[] {
  return error.issues.flatMap((issue): Problem[] => {
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
function agentConfigurationError(problems: readonly Problem[], file: string | undefined): GridmeterError {
  return settingsError("config_invalid", [...new Set(problems.map((problem) => problemLine(problem)))], {
    of: file === undefined ? " of the agent" : ` of the agent (${JSON.stringify(file)})`,
    done: "nothing was started and nothing was published",
    docs: "docs/agent.md",
  });
}
