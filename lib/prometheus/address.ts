import { maskServer } from "../config/server.ts";
import { GridmeterError } from "../errors.ts";
import { withoutEnd } from "../without-end.ts";

/** The base address. Throws `config_invalid` for anything but http and https. */
export function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && (url.protocol === "http:" || url.protocol === "https:")) return url;
  // The text is not quoted whole: an address may carry a password.
  throw new GridmeterError(
    "config_invalid",
    `PROMETHEUS_SERVER is not an http:// or https:// address: "${maskServer(text).slice(0, 100)}". ` +
      "Nothing was asked or published. Give the base address of the server, e.g. http://prometheus:9090.",
  );
}

/** The address of a path of the API, under the base's own path. */
export function address(base: URL, path: string): string {
  const url = new URL(base);
  url.pathname = withoutEnd(base.pathname, "/") + path;
  return url.href;
}

/** How messages name the server: without credentials. */
export function nameOf(base: URL): string {
  return `Prometheus at ${base.origin}${withoutEnd(base.pathname, "/")}`;
}
