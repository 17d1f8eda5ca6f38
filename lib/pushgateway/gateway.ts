import { readFileSync } from "node:fs";
import { Agent as HttpAgent } from "node:http";
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
  /** connections that are kept for the next exchange; they bring their own authorities, and `caFile` does not count then */
  readonly connections?: Connections;
  /** gives the exchange up before its deadline */
  readonly signal?: AbortSignal;
};

/** Connections to a gateway that are kept open between exchanges. */
export type Connections = { readonly http: HttpAgent; readonly https: Agent; close(): void };

/**
 * Keeps connections to a gateway for a program that pushes again and again.
 * @param caFile PEM file of a further authority to trust, read now
 * @throws GridmeterError `config_invalid` if it cannot be read
 */
export function keepConnections(caFile?: string): Connections {
  const kept = { keepAlive: true, timeout: IDLE_MS };
  const http = new HttpAgent(kept);
  const https = new Agent({ ...kept, ...readable(caFile) });
  return {
    http,
    https,
    close: () => {
      http.destroy();
      https.destroy();
    },
  };
}

export const authorities = (caFile?: string) =>
  caFile === undefined ? {} : { ca: [...rootCertificates, readFileSync(caFile)] };

function readable(caFile?: string): ReturnType<typeof authorities> {
  try {
    return authorities(caFile);
  } catch (thrown) {
    throw new GridmeterError(
      "config_invalid",
      `The file "${caFile}" of the Pushgateway's authority could not be read: ${errorText(thrown)}. Nothing was pushed. Give a PEM file that this user may read.`,
      { cause: thrown },
    );
  }
}

/**
 * How an exchange failed: `refused` by the gateway (4xx), `redirected` (which is not followed), `timeout` at the deadline, and
 * `failed` for the rest: no connection, a broken one, a 5xx.
 */
export type GatewayFailure = "refused" | "redirected" | "timeout" | "failed";

/** An exchange with a gateway that failed. */
export class PushgatewayError extends GridmeterError {
  readonly failure: GatewayFailure;
  /** the status of the answer, if there was one */
  readonly status: number | undefined;

  constructor(failure: GatewayFailure, status: number | undefined, message: string, options: ErrorOptions = {}) {
    super("pushgateway_failed", message, options);
    this.failure = failure;
    this.status = status;
  }
}

export type PushOptions = GatewayOptions & {
  /** PUT (the default) replaces the whole group; POST only the metrics of the same names, and leaves the others */
  readonly method?: "PUT" | "POST";
};

const DEADLINE_MS = 10_000;
/** A kept connection that nobody uses is closed after this. */
const IDLE_MS = 60_000;
/** Bytes of an answer to a push that are taken in. */
const LARGEST_ANSWER = 2 ** 20;
/** Characters of an answer that are quoted. */
export const LONGEST_BODY = 300;

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

type Request = {
  readonly method: "PUT" | "POST" | "DELETE";
  readonly data?: string;
  readonly headers?: Readonly<Record<string, string>>;
};

async function exchange(
  url: string,
  path: string,
  request: Request,
  options: GatewayOptions,
  lost: string,
): Promise<string> {
  const { authHeader, caFile, deadlineMs = DEADLINE_MS, connections, signal } = options;
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
      maxContentLength: LARGEST_ANSWER,
      signal: AbortSignal.any([AbortSignal.timeout(deadlineMs), ...(signal === undefined ? [] : [signal])]),
      ...(connections !== undefined
        ? { httpAgent: connections.http, httpsAgent: connections.https }
        : caFile === undefined
          ? {}
          : { httpsAgent: new Agent(authorities(caFile)) }),
    });
    return data;
  } catch (thrown) {
    throw new PushgatewayError(
      failureOf(thrown),
      statusOf(thrown),
      `${nameOf(base)} ${reason(thrown, deadlineMs)}. ${lost}; nothing else was affected. Check PUSHGATEWAY_URL and the gateway.`,
      // axios keeps the whole request in its error, credentials included.
      { cause: thrown instanceof Error ? thrown.message : thrown },
    );
  }
}

function failureOf(thrown: unknown): GatewayFailure {
  if (!isAxiosError(thrown)) return "failed";
  if (thrown.code === "ERR_CANCELED") return "timeout";
  const status = thrown.response?.status ?? 0;
  return status >= 300 && status < 400 ? "redirected" : status >= 400 && status < 500 ? "refused" : "failed";
}

/** The status of the answer, also of one that was too large to be taken in. */
function statusOf(thrown: unknown): number | undefined {
  if (!isAxiosError(thrown)) return undefined;
  return thrown.response?.status ?? (isTooLarge(thrown) ? 200 : undefined);
}

/** axios has no code of its own for it, and gives no answer then. */
const isTooLarge = ({ response, message }: { readonly response?: unknown; readonly message: string }): boolean =>
  response === undefined && message.startsWith("maxContentLength");

function reason(thrown: unknown, deadlineMs: number): string {
  if (!isAxiosError(thrown)) return `could not be asked: ${errorText(thrown)}`;
  if (isTooLarge(thrown)) return `answered with more than ${Math.floor(LARGEST_ANSWER / 2 ** 20)} MiB`;
  if (thrown.code === "ERR_CANCELED") return `did not answer within ${deadlineMs / 1000} s`;
  const { response } = thrown;
  if (response === undefined) return `could not be reached: ${thrown.message || (thrown.code ?? "no answer")}`;
  const said = String(response.data).trim().slice(0, LONGEST_BODY);
  return `answered ${response.status}${said === "" ? "" : ` (${said})`}`;
}

/** @throws GridmeterError `config_invalid` */
export function parseUrl(text: string, lost: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && (url.protocol === "http:" || url.protocol === "https:")) return url;
  throw new GridmeterError(
    "config_invalid",
    `PUSHGATEWAY_URL is not an http:// or https:// address: "${text.replace(/^.*@/, "***@").slice(0, 100)}". ${lost}. ` +
      "Give the address of the gateway, e.g. http://pushgateway:9091.",
  );
}

export const nameOf = (url: URL): string => `The Pushgateway at ${url.origin}${url.pathname.replace(/\/+$/, "")}`;
