import { readFileSync } from "node:fs";
import { Agent } from "node:https";
import { rootCertificates } from "node:tls";
import axios, { isAxiosError } from "axios";
import { GridmeterError, errorText } from "../errors.ts";
import { groupPath } from "./grouping.ts";
import type { Grouping } from "./grouping.ts";

export type GatewayOptions = {
  /** value of the Authorization header, e.g. `Bearer ...`; user and password in the URL are sent as Basic authentication */
  readonly authHeader?: string;
  /** PEM file of a further authority to trust */
  readonly caFile?: string;
  /** for the whole exchange, connecting included, milliseconds */
  readonly deadlineMs?: number;
};

export type PushOptions = GatewayOptions & {
  /** PUT (the default) replaces the whole group; POST only the metrics of the same names, and leaves the others */
  readonly method?: "PUT" | "POST";
};

const DEADLINE_MS = 10_000;
/** The gateway lists all metrics of all groups with their help texts. */
const LARGEST_LIST = 64 * 2 ** 20;
const LONGEST_BODY = 300;

/**
 * Pushes metrics in Prometheus' text format into exactly one group.
 * @throws GridmeterError `pushgateway_failed` with what the gateway said (a type that clashes with another group, say)
 */
export async function push(url: string, grouping: Grouping, text: string, options: PushOptions = {}): Promise<void> {
  const { method = "PUT" } = options;
  const headers = { "Content-Type": "text/plain; version=0.0.4; charset=utf-8" };
  await exchange(url, groupPath(grouping), { method, data: text, headers }, options, "The metrics were not pushed");
}

/** Deletes exactly one group; no error if there is none. @throws GridmeterError `pushgateway_failed` */
export async function deleteGroup(url: string, grouping: Grouping, options: GatewayOptions = {}): Promise<void> {
  await exchange(url, groupPath(grouping), { method: "DELETE" }, options, "The group was not deleted");
}

/** Asks the gateway's API. @throws GridmeterError `pushgateway_failed` */
export async function ask(url: string, path: string, options: GatewayOptions): Promise<unknown> {
  const text = await exchange(url, path, { method: "GET" }, options, "Its groups were not read");
  try {
    return JSON.parse(text);
  } catch {
    throw new GridmeterError(
      "pushgateway_failed",
      `${nameOf(new URL(url))}${path} did not answer with JSON: ${JSON.stringify(text.slice(0, LONGEST_BODY))}. Its groups were not read. Check PUSHGATEWAY_URL.`,
    );
  }
}

type Request = {
  readonly method: "GET" | "PUT" | "POST" | "DELETE";
  readonly data?: string;
  readonly headers?: Readonly<Record<string, string>>;
};

async function exchange(
  url: string,
  path: string,
  request: Request,
  { authHeader, caFile, deadlineMs = DEADLINE_MS }: GatewayOptions,
  lost: string,
): Promise<string> {
  const base = parseUrl(url, lost);
  try {
    const { data } = await axios.request<string>({
      ...request,
      url: base.href.replace(/\/+$/, "") + path,
      headers: { ...request.headers, ...(authHeader === undefined ? {} : { Authorization: authHeader }) },
      // A redirect would take the credentials elsewhere, and turn a PUT into a GET that changes nothing.
      maxRedirects: 0,
      responseType: "text",
      transformResponse: (body: unknown) => String(body),
      maxContentLength: LARGEST_LIST,
      signal: AbortSignal.timeout(deadlineMs),
      ...(caFile === undefined ? {} : { httpsAgent: new Agent({ ca: [...rootCertificates, readFileSync(caFile)] }) }),
    });
    return data;
  } catch (thrown) {
    throw new GridmeterError(
      "pushgateway_failed",
      `${nameOf(base)} ${reason(thrown, deadlineMs)}. ${lost}; nothing else was affected. Check PUSHGATEWAY_URL and the gateway.`,
      // axios keeps the whole request in its error, credentials included.
      { cause: thrown instanceof Error ? thrown.message : thrown },
    );
  }
}

function reason(thrown: unknown, deadlineMs: number): string {
  if (!isAxiosError(thrown)) return `could not be asked: ${errorText(thrown)}`;
  if (thrown.code === "ERR_CANCELED") return `did not answer within ${deadlineMs / 1000} s`;
  const { response } = thrown;
  if (response === undefined) return `could not be reached: ${thrown.message || (thrown.code ?? "no answer")}`;
  const said = String(response.data).trim().slice(0, LONGEST_BODY);
  return `answered ${response.status}${said === "" ? "" : ` (${said})`}`;
}

function parseUrl(text: string, lost: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && (url.protocol === "http:" || url.protocol === "https:")) return url;
  throw new GridmeterError(
    "config_invalid",
    `PUSHGATEWAY_URL is not an http:// or https:// address: "${text.replace(/^.*@/, "***@").slice(0, 100)}". ${lost}. ` +
      "Give the address of the gateway, e.g. http://pushgateway:9091.",
  );
}

const nameOf = (url: URL): string => `The Pushgateway at ${url.origin}${url.pathname.replace(/\/+$/, "")}`;
