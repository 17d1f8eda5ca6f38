import { readFile } from "node:fs/promises";
import { GridmeterError, errorText } from "../shared/errors.ts";
import type { GatewayOptions } from "../shared/pushgateway.ts";
import type { AgentGateway } from "./config.ts";

/** How to talk to the configured Pushgateway once. @throws GridmeterError `config_invalid` if a secret cannot be read */
export async function gatewayOptions(gateway: AgentGateway): Promise<GatewayOptions> {
  const header = await authorizationOf(gateway)();
  const { caFile } = gateway;
  return { ...(header === undefined ? {} : { authHeader: header }), ...(caFile === undefined ? {} : { caFile }) };
}

/** With `username` and `passwordFile`: Basic authentication. */
type Credentials = Pick<AgentGateway, "username" | "passwordFile" | "bearerTokenFile">;

/**
 * What gives the value of the Authorization header, undefined if there is nothing to prove. Files are read again each time, since
 * tokens are replaced under a running program; the last line break does not belong to the secret. A question while a file is
 * being read gets the answer of that reading: on a file system that hangs, each further read would take one more of Node's few threads
 * for files, and with the last of them no probe could find its command any more.
 *
 * The function rejects with GridmeterError config_invalid if a file cannot be read or holds what no header can hold.
 */
export function authorizationOf(credentials: Credentials): () => Promise<string | undefined> {
  let reading: Promise<string | undefined> | undefined;
  return () => {
    reading ??= header(credentials).finally(() => (reading = undefined));
    return reading;
  };
}

async function header({ username, passwordFile, bearerTokenFile }: Credentials): Promise<string | undefined> {
  if (bearerTokenFile !== undefined) return `Bearer ${await secretIn(bearerTokenFile)}`;
  if (username === undefined) return undefined;
  const password = passwordFile === undefined ? "" : await secretIn(passwordFile);
  return `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
}

async function secretIn(file: string): Promise<string> {
  const secret = await readFile(file, "utf8").catch((thrown: unknown) => {
    throw unusable(file, `cannot be read: ${errorText(thrown)}`, thrown);
  });
  const text = secret.replace(/\r?\n$/, "");
  if (/^[^\p{Cc}]+$/u.test(text)) return text;
  throw unusable(file, text === "" ? "is empty" : "holds a line break or control character");
}

const unusable = (file: string, why: string, cause?: unknown): GridmeterError =>
  new GridmeterError(
    "config_invalid",
    `The file "${file}" with the secret for the Pushgateway ${why}. Nothing was pushed. Put the secret on one line into a file that this user may read.`,
    { cause },
  );
