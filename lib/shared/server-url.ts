import { type Parsed, bad, good } from "./config-values.ts";
import { GridmeterError } from "./errors.ts";
import { withoutEnd } from "./text.ts";

/** Prometheus's address without a trailing slash, and the `Authorization` header for credentials that were part of it. */
type Server = { readonly url: string; readonly authHeader?: string };

/** Reads PROMETHEUS_SERVER: an http(s) URL, optionally with a path and `user:password@`, without query or fragment. */
export function parseServer(text: string): Parsed<Server> {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || /\s/.test(text))
    return bad("is not a URL. Write http://HOST:PORT or https://HOST[:PORT][/PATH]");
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    return bad("does not begin with http:// or https://");
  }
  if (url.search !== "" || url.hash !== "" || /[?#]/.test(text)) {
    return bad("has a query or a fragment. Write only the address, the path of the API is added here");
  }
  if (/\/api\/v1(\/|$)/.test(url.pathname)) {
    return bad("ends in the path of the API, which is added here. Write what comes before /api/v1");
  }
  const address = url.origin + withoutEnd(url.pathname, "/");
  if (url.username === "" && url.password === "") return good({ url: address });
  const user = percentDecoded(url.username);
  const password = percentDecoded(url.password);
  if (user === undefined || password === undefined || user.includes(":")) {
    return bad("has a user or password that is not properly percent-encoded (or a user name with a colon)");
  }
  // RFC 7617: user-id ":" password, in base64.
  return good({ url: address, authHeader: `Basic ${Buffer.from(`${user}:${password}`, "utf8").toString("base64")}` });
}

function percentDecoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** A host, a port and a path, with or without a scheme: what may be shown of a text that is no URL. */
const NO_SECRET = /^(?:[a-z]+:?\/\/)?[^:@?#]*(?::\d*)?(?:\/[^:@?#]*)?$/i;

/** The URL for a message: credentials, query and fragment are replaced by `***`; all of it where they cannot be distinguished. */
export function maskServer(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  // `http://user:password` without a host is none, and in `user:password` the user looks like a scheme.
  if (url === undefined || url.host === "") return NO_SECRET.test(text) ? text : "***";
  // A raw "/" or "?" in a password ends the authority early; what follows up to the "@" is then still the password.
  if ((url.pathname + url.search + url.hash).includes("@")) return "***";
  const user = url.username === "" && url.password === "" ? "" : "***@";
  const slashes = text.slice(url.protocol.length).startsWith("//") ? "//" : "";
  return `${url.protocol}${slashes}${user}${url.host}${url.pathname}${url.search && "?***"}${url.hash && "#***"}`;
}

/** Whether an address has a user, a password or a query in it, or something where they cannot be distinguished. */
export function holdsCredentials(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined) return text.includes("@");
  return url.username !== "" || url.password !== "" || url.search !== "" || maskServer(text) === "***";
}

/** Reads PROMETHEUS_SIGV4_REGION, such as eu-central-1 or us-gov-west-1. */
export function parseRegion(text: string): Parsed<string> {
  return /^[a-z]{2,}(?:-[a-z0-9]+)+$/.test(text) ? good(text) : bad("is not the code of an AWS region");
}

/** Reads PROMETHEUS_ORG_ID. Mimir: letters, digits and ! - _ . * ' ( ), at most 150 of them, for each of the joined ids. */
export function parseOrgId(text: string): Parsed<string> {
  return text.split("|").every((id) => /^[A-Za-z0-9!_.*'()-]{1,150}$/.test(id) && id !== "." && id !== "..")
    ? good(text)
    : bad("is not an id that Mimir takes: letters, digits and ! - _ . * ' ( ), at most 150, several joined with |");
}

/** Reads PROMETHEUS_AUTH_HEADER. A bare JSON Web Token gets its `Bearer` where the header is sent (lib/accounting/prometheus). */
export function parseAuthorization(text: string): Parsed<string> {
  return /^[\x20-\x7E]+$/.test(text)
    ? good(text)
    : bad("has a line break, a control character or a non-ASCII character. Write the header's value on one line");
}

/**
 * The address of a gateway.
 * @param lost what did not happen without it, for the error
 * @throws GridmeterError `config_invalid`
 */
export function parseUrl(text: string, lost: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && (url.protocol === "http:" || url.protocol === "https:")) return url;
  throw new GridmeterError(
    "config_invalid",
    `PUSHGATEWAY_URL is not an http:// or https:// address: "${maskServer(text).slice(0, 100)}". ${lost}. ` +
      "Give the address of the gateway, e.g. http://pushgateway:9091.",
  );
}

/** The gateway as errors call it, without user and password. */
export const nameOf = (url: URL): string => `The Pushgateway at ${url.origin}${withoutEnd(url.pathname, "/")}`;

/** The address of something on the gateway, which may have a path of its own. */
export const below = (url: URL, path: string): URL => new URL(withoutEnd(url.href, "/") + path);
