import { workspaceRegion } from "../prometheus/sigv4.ts";
import type { Problem } from "./problems.ts";
import type { Raw } from "./read.ts";
import { parseServer } from "./server.ts";

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

/** Whether the tenant's server is the one that stands beside the common credentials. */
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
      "is not sent to this tenant's PROMETHEUS_SERVER, since it was not given for it (another scheme, host or port stands beside it). " +
      "Give the tenant credentials of its own, or an empty PROMETHEUS_AUTH_HEADER if its server wants none",
  };
}
