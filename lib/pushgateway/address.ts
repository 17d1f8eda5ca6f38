import { maskServer } from "../config/server.ts";
import { GridmeterError } from "../errors.ts";
import { withoutEnd } from "../without-end.ts";

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
