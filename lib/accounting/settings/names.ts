import { type Raw, didYouMean, misspelt } from "../../shared/config-values.ts";
import { parseServer } from "../../shared/server-url.ts";
import { workspaceRegion } from "../prometheus/auth.ts";
import type { EnvFile } from "./env-file.ts";
import type { Problem } from "../../shared/config-problems.ts";

import { ABOUT } from "./table.ts";

/** What is to be said about names that are no settings, and about `${NAME}` that are set nowhere. */
export type Names = {
  readonly problems: readonly Problem[];
  /** a `${NAME}` that was read as empty: a warning, and part of the explanation where something else is refused */
  readonly unset: readonly Problem[];
  readonly warnings: readonly Problem[];
};

export const NO_NAMES: Names = { problems: [], unset: [], warnings: [] };

const SETTINGS = [...ABOUT.keys()];

/**
 * What serverless.yml and the spooler's unit read and the command line does not: one env file may serve all. AWS_REGION and
 * S3_SSE are not here: the command line reads them too, but from the environment, so in an env file they are ignored.
 */
export const DEPLOYMENT: readonly string[] = [
  "ALARM_EMAIL",
  "ALARM_KMS_KEY_ARN",
  "EXISTING_BUCKET",
  "AMS_CA_PARAMETER",
  "AMS_CERTIFICATE_PARAMETER",
  "AMS_KEY_PARAMETER",
  "AMS_SECRET_ARNS",
  "AMS_TOKEN_PARAMETER",
  "DELIVERY",
  "GRIDMETER_BUCKET",
  "GRIDMETER_PREFIX",
  "GRIDMETER_REPORT",
  "GRIDMETER_STAGE",
  "KMS_KEY_ARN",
  "PARAMETER_KMS_KEY_ARN",
  "PERMISSIONS_BOUNDARY_ARN",
  "PLAN_RESERVED_CONCURRENCY",
  "POWERTOOLS_LOG_LEVEL",
  "PROMETHEUS_AUTH_HEADER_PARAMETER",
  "PROMETHEUS_CA_PARAMETER",
  "PROMETHEUS_CLIENT_CERT_PARAMETER",
  "PROMETHEUS_CLIENT_KEY_PARAMETER",
  "PROMETHEUS_WORKSPACE_ARN",
  "PUSHGATEWAY_AUTH_HEADER_PARAMETER",
  "ROLE_PATH",
  "SPOOL_OUTPUT",
  "SPOOL_QUEUE_URL",
  "SPOOL_SOURCE",
  "SPOOL_SWEEP_INTERVAL",
  "TENANTS_OBJECT",
  "TENANTS_PARAMETER",
  "VPC_SECURITY_GROUP_IDS",
  "VPC_SUBNET_IDS",
  "WORK_DEAD_LETTER_QUEUE_URL",
  "WORK_QUEUE_URL",
];

/** What Kubernetes sets in every container for each service: PROMETHEUS_SERVER_PORT_80_TCP for one called prometheus-server. */
const SERVICE = /_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$/;

const MOST_SHOWN = 20;

/**
 * Judges the names in an env file and in the environment. A misspelt one would leave its setting at the default without a
 * word. In the file it is refused, since people write that by hand; the environment is full of other programs' names.
 * @param also further names that are read of this file
 */
export function judgeNames(file: EnvFile, env: Raw, also: readonly string[] = []): Names {
  const known = [...SETTINGS, ...also];
  const isStray = (name: string): boolean => isStrange(name, file) && !also.includes(name);
  const strange = [...file.values].filter(([name, value]) => value.trim() !== "" && isStray(name)).map(first);
  const meant = new Map(strange.map((name) => [name, misspelt(name, known)]));
  const problems = strange.flatMap((name) => misspeltProblem(name, meant.get(name), "is no setting"));
  const inEnvironment = Object.keys(env).filter((name) => (env[name] ?? "").trim() !== "" && isStray(name));
  const warnings = [
    ...inEnvironment.flatMap((name) =>
      misspeltProblem(name, misspelt(name, known), "is no setting, so what the environment says there is ignored"),
    ),
    ...ignored(
      strange.filter((name) => meant.get(name) === undefined),
      known,
    ),
    ...unread(file.unread),
  ];
  return { problems, unset: unsetProblems(file, env), warnings };
}

const first = ([name]: readonly [string, string]): string => name;

function isStrange(name: string, { used }: EnvFile): boolean {
  return !ABOUT.has(name) && !used.has(name) && !DEPLOYMENT.includes(name) && !SERVICE.test(name);
}

function misspeltProblem(name: string, meant: string | undefined, text: string): Problem[] {
  return meant === undefined ? [] : [{ setting: name, text: `${text}; did you mean ${meant}?` }];
}

/** One warning for all. What does not look like a name may be a piece of a key that was pasted in, so it is not shown. */
function ignored(names: readonly string[], known: readonly string[]): Problem[] {
  if (names.length === 0) return [];
  const shown = names.filter((name) => /^[A-Z_][A-Z0-9_]{0,59}$/.test(name));
  const listed = shown.slice(0, MOST_SHOWN).map((name) => {
    const hint = didYouMean(name, known).replace(/^; /, "");
    return hint === "" ? name : `${name} (${hint})`;
  });
  const more = names.length - listed.length;
  const rest = more === 0 ? [] : [`${more} ${listed.length === 0 ? "names" : "more"}`];
  return [{ setting: "env file", text: `no settings, and ignored: ${[...listed, ...rest].join(", ")}` }];
}

function unread(lines: readonly number[]): Problem[] {
  if (lines.length === 0) return [];
  const shown = lines.slice(0, MOST_SHOWN).join(", ") + (lines.length > MOST_SHOWN ? ", ..." : "");
  const which = lines.length === 1 ? `line ${shown} is` : `lines ${shown} are`;
  return [{ setting: "env file", text: `${which} not NAME=value and left out, as in KAPEL` }];
}

function unsetProblems({ unset, used }: EnvFile, env: Raw): Problem[] {
  const counts = unset.filter(
    ({ variable }) => env[variable] === undefined && (ABOUT.has(variable) || used.has(variable)),
  );
  return counts.map(({ variable, name }) => {
    const about = ABOUT.get(variable);
    const where = "is set neither in the environment nor above in the env file; it was read as empty, as in KAPEL";
    // In a secret, what looks like a name may be a piece of it.
    if (about?.secret === true || about?.quote !== undefined || !/^\w{1,60}$/.test(name)) {
      const remedy = `If the value holds it as it is, set ${variable} in the environment, where nothing is expanded`;
      return { setting: variable, text: `holds a \${...} whose name ${where}. ${remedy}` };
    }
    return {
      setting: variable,
      text: `holds \${${name}}, which ${where}. Set ${name}, or write \${${name}:-default}`,
    };
  });
}

/** Only one of these is sent, so a tenant that sets one does not inherit the others. */
const AUTHORIZATION = ["PROMETHEUS_AUTH_HEADER", "PROMETHEUS_TOKEN_FILE", "PROMETHEUS_SIGV4_REGION"];
/** A certificate goes with its own key only. */
const CERTIFICATE = ["PROMETHEUS_CLIENT_CERT_FILE", "PROMETHEUS_CLIENT_KEY_FILE"];
const ONE_OF_A_KIND = [["SUMMARIZE_RECORDS", "MESSAGE_FORMAT"], AUTHORIZATION, CERTIFICATE];

/**
 * What proves to a server who asks. A signature is none of these: it holds for one host and one request, and gives away no secret.
 * PROMETHEUS_ORG_ID and PROMETHEUS_CA_FILE are no secrets either.
 */
const CREDENTIALS = ["PROMETHEUS_AUTH_HEADER", "PROMETHEUS_TOKEN_FILE", ...CERTIFICATE];

/**
 * A tenant's settings: its own, and what it inherits of all tenants' ones. Credentials are inherited for the server only that
 * they were given for, since its neighbour would learn them: the scheme, host and port of the PROMETHEUS_SERVER beside them.
 */
export function withInherited(
  tenant: string,
  own: Raw,
  common: Raw,
): { readonly raw: Raw; readonly warnings: readonly Problem[] } {
  const replaced = ONE_OF_A_KIND.filter((kind) => kind.some((setting) => own[setting] !== undefined)).flat();
  const withheld = isFor(own, common)
    ? []
    : CREDENTIALS.filter((setting) => !replaced.includes(setting) && isFilled(common[setting]));
  const left = Object.entries(common).filter(([setting]) => !replaced.includes(setting) && !withheld.includes(setting));
  return {
    raw: { ...Object.fromEntries(left), ...own },
    warnings: hasCredentials(own) ? [] : withheld.map((setting) => warning(setting, tenant)),
  };
}

/** Whether the tenant's server is the one that is beside the common credentials. */
function isFor(own: Raw, common: Raw): boolean {
  if (!isFilled(own["PROMETHEUS_SERVER"])) return true;
  const origin = originOf(own["PROMETHEUS_SERVER"]);
  return origin !== undefined && origin === originOf(common["PROMETHEUS_SERVER"]);
}

function originOf(text: string | undefined): string | undefined {
  const server = parseServer(text?.trim() ?? "");
  return server.ok ? new URL(server.value.url).origin : undefined;
}

/** An empty one says that there are to be none. */
function hasCredentials(own: Raw): boolean {
  const server = parseServer(own["PROMETHEUS_SERVER"]?.trim() ?? "");
  const inAddress =
    server.ok && (server.value.authHeader !== undefined || workspaceRegion(server.value.url) !== undefined);
  return inAddress || [...AUTHORIZATION, ...CERTIFICATE].some((setting) => own[setting] !== undefined);
}

function isFilled(text: string | undefined): text is string {
  return text !== undefined && text.trim() !== "";
}

function warning(setting: string, tenant: string): Problem {
  return {
    setting,
    tenant,
    text:
      "is not sent to this tenant's PROMETHEUS_SERVER, since it was not given for it (another scheme, host or port is beside it). " +
      "Give the tenant credentials of its own, or an empty PROMETHEUS_AUTH_HEADER if its server wants none",
  };
}
