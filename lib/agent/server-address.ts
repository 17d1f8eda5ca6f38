import { GridmeterError } from "../errors.ts";

/** Where to listen; without a host on all addresses of the machine. */
export type Address = { readonly host?: string; readonly port: number };

const FORM = /^(?:\[(?<v6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?<host>[A-Za-z0-9._-]*)):(?<port>\d{1,5})$/;

/**
 * Reads `host:port`, `:port` or `[::1]:port`. Port 0 is any free one.
 * @throws GridmeterError config_invalid for anything else
 */
export function parseAddress(text: string): Address {
  const { v6, host, port } = FORM.exec(text.trim())?.groups ?? {};
  const number = Number(port);
  if (port === undefined || number > 65_535) {
    throw new GridmeterError(
      "config_invalid",
      `"${text}" is no address to listen on. Nothing was started. Give host:port, :port or [::1]:port, e.g. 0.0.0.0:9102.`,
    );
  }
  const given = v6 ?? host ?? "";
  return { port: number, ...(given === "" ? {} : { host: given }) };
}
