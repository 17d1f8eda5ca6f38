import { z } from "zod";
import { GridmeterError, errorText } from "./errors.ts";
import { hiderOf, secretsOfAddress, secretsOfHeader } from "./text.ts";

/** With these Node refuses to send a request. The server's own address was checked before, so it is the proxy's that is wrong. */
const UNUSABLE = z.object({ code: z.enum(["ERR_INVALID_URL", "ERR_INVALID_PROTOCOL"]) });
/** Node's own words for a proxy that did not let a TLS connection through (NODE_USE_ENV_PROXY). */
const TUNNEL = "ERR_PROXY_TUNNEL";
/** A plain request to a proxy has a whole address as its path; one through a tunnel has an agent that knows the proxy. */
const SENT_TO_PROXY = z.union([
  z.object({ path: z.string().regex(/^https?:\/\//) }),
  z.object({ agent: z.object({ proxy: z.looseObject({}) }) }),
]);

/** The variable of the environment that names a proxy, and the proxy's address as written and without credentials. */
type Proxy = { readonly variable: string; readonly written: string; readonly address: string };

/**
 * What to say of a request that failed and went through a proxy; empty where it did not. What was sent decides, so that NO_PROXY
 * counts in each form that axios knows.
 * @param request what Node sent, as axios gives it with an answer or an error
 * @param code of the error, if there is one
 */
export function proxyAdvice(request: unknown, base: URL, code?: string): string {
  if (code !== TUNNEL && !SENT_TO_PROXY.safeParse(request).success) return "";
  const proxy = proxyOf(base);
  if (proxy === undefined) return "";
  const { variable, address } = proxy;
  const odd = /^https?:/i.test(address) ? "" : ", which is no http:// or https:// proxy";
  return (
    ` The request went through the proxy ${address} (${variable})${odd}: see that it lets it pass, ` +
    `or name ${base.hostname} in NO_PROXY.`
  );
}

/**
 * The error for a proxy's address that cannot be used; undefined where something else was thrown.
 * @param lost what did not happen, e.g. "Nothing was published"
 */
export function unusableProxy(thrown: unknown, base: URL, lost: string): GridmeterError | undefined {
  const proxy = UNUSABLE.safeParse(thrown).success ? proxyOf(base) : undefined;
  if (proxy === undefined) return undefined;
  return new GridmeterError(
    "config_invalid",
    `${proxy.variable} names the proxy "${proxy.address}", which cannot be used (${errorText(thrown)}). ${lost}. ` +
      `Write it as http://host:port, or name ${base.hostname} in NO_PROXY.`,
  );
}

/**
 * Takes out of a text what a request carried and no message may show, since a server or a proxy may repeat it: the header, and the
 * passwords and query strings of the server's address and of the proxy's.
 * @param header value of the Authorization header
 */
export function hiderOfRequest(base: URL, header: string | undefined): (text: string) => string {
  const written = proxyOf(base)?.written ?? "";
  const ofProxy = URL.canParse(written) ? secretsOfAddress(new URL(written)) : [];
  return hiderOf([...secretsOfHeader(header), ...secretsOfAddress(base), ...ofProxy]);
}

/** The proxy that is set for an address, looked for in axios' order; whether it is used NO_PROXY decides. */
function proxyOf({ protocol }: URL): Proxy | undefined {
  const scheme = protocol.replace(":", "");
  for (const name of [`${scheme}_proxy`, "all_proxy"]) {
    for (const variable of [name, name.toUpperCase()]) {
      const value = process.env[variable] ?? "";
      if (value === "") continue;
      const written = value.includes("://") ? value : `${scheme}://${value}`;
      return { variable, written, address: withoutCredentials(written) };
    }
  }
  return undefined;
}

function withoutCredentials(address: string): string {
  const slashes = address.indexOf("://") + 3;
  // All up to the last @, whatever is in it.
  const bare = address.slice(0, slashes) + address.slice(Math.max(slashes, address.lastIndexOf("@") + 1));
  let end = bare.length;
  while (bare[end - 1] === "/") end--;
  return bare.slice(0, end);
}
