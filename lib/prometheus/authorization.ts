import { GridmeterError, errorText } from "../errors.ts";
import { hiderOf, secretsOfAddress, secretsOfHeader } from "../secrets.ts";
import { readTextFile } from "../text-file.ts";
import { secretsOfProxy } from "./proxy.ts";

/** No server takes a longer header, bytes. */
const LONGEST_TOKEN = 65_536;

const JWT = /^eyJ[\w-]*\.[\w-]+\.[\w-]*$/;

/**
 * The value of the Authorization header, or undefined where none is configured. The token file is read anew on every
 * call, since Kubernetes replaces projected tokens under a running program.
 * Throws `config_invalid` for a file that cannot be read and for a value that no HTTP header can hold.
 */
export function authorization(settings: {
  readonly authHeader?: string;
  readonly tokenFile?: string;
}): string | undefined {
  if (settings.tokenFile !== undefined) {
    const token = readToken(settings.tokenFile);
    return checked(token.includes(" ") ? token : `Bearer ${token}`, `the token file ${settings.tokenFile}`);
  }
  if (settings.authHeader === undefined || settings.authHeader.trim() === "") return undefined;
  const header = settings.authHeader.trim();
  // KAPEL's users set the bare token of a service account here.
  return checked(JWT.test(header) ? `Bearer ${header}` : header, "PROMETHEUS_AUTH_HEADER");
}

/**
 * Takes out of a text what must never be shown, since a server or a proxy may repeat it: the header, the address's and the proxy's
 * passwords and query strings, and the session token of signed requests, which Amazon repeats when it finds a signature wrong.
 */
export function hider(base: URL, header: string | undefined): (text: string) => string {
  const hide = hiderOf([...secretsOfHeader(header), ...secretsOfAddress(base), ...secretsOfProxy(base)]);
  return (text) => hide(text).replace(/(x-amz-security-token["']?\s*[:=]\s*["']?)[\w+/=%-]+/gi, "$1***");
}

function readToken(path: string): string {
  let token: string;
  try {
    token = readTextFile(path, LONGEST_TOKEN).trim();
  } catch (thrown) {
    throw new GridmeterError(
      "config_invalid",
      `The token file "${path}" (PROMETHEUS_TOKEN_FILE) could not be read: ${errorText(thrown)}. ` +
        "Nothing was asked or published. Give a file that this user may read.",
      { cause: thrown },
    );
  }
  if (token !== "") return token;
  throw new GridmeterError(
    "config_invalid",
    `The token file "${path}" (PROMETHEUS_TOKEN_FILE) is empty. Nothing was asked or published. Put a token into it.`,
  );
}

function checked(header: string, source: string): string {
  if (/^[\x20-\x7e]+$/.test(header)) return header;
  throw new GridmeterError(
    "config_invalid",
    `The value of ${source} has a line break or a character that no HTTP header can hold (it is not shown here). ` +
      "Nothing was asked or published. Write it on one line, in ASCII.",
  );
}
