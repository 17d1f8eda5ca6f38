import { readFileSync } from "node:fs";
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { type Readable, addAbortSignal } from "node:stream";
import { rootCertificates } from "node:tls";
import { type AxiosResponse, create, isAxiosError } from "axios";
import { GridmeterError, errorText } from "./errors.ts";
import { hiderOfRequest, proxyAdvice, unusableProxy } from "./proxy.ts";
import { below, nameOf, parseUrl } from "./server-url.ts";

type PushOptions = GatewayOptions & {
  /** PUT (the default) replaces the whole group; POST replaces only the metrics of the same names */
  readonly method?: "PUT" | "POST";
};

/** The gateway answers a push or a deletion with a few words. */
const LIMITS = { usualDeadlineMs: 10_000, largestAnswer: 2 ** 20 };
const HEADERS = { "Content-Type": "text/plain; version=0.0.4; charset=utf-8" };

/**
 * Pushes metrics in Prometheus' text format into exactly one group.
 * @throws GridmeterError `pushgateway_failed` with what the gateway said (a type that clashes with another group, say)
 */
export async function push(url: string, grouping: Grouping, text: string, options: PushOptions = {}): Promise<void> {
  const { method = "PUT" } = options;
  const lost = "The metrics were not pushed";
  const request = { ...LIMITS, method, path: groupPath(grouping), headers: HEADERS, body: text, lost };
  await exchange(url, request, options, discard);
}

/** Deletes exactly one group; no error if there is none. @throws GridmeterError `pushgateway_failed` */
export async function deleteGroup(url: string, grouping: Grouping, options: GatewayOptions = {}): Promise<void> {
  const lost = "The group was not deleted";
  await exchange(url, { ...LIMITS, method: "DELETE", path: groupPath(grouping), lost }, options, discard);
}

/** Reads an answer to its end, so that its connection can be used again. */
async function discard(body: Readable): Promise<void> {
  for await (const _ of body);
}

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

/** What is asked of a gateway. */
type GatewayRequest = {
  readonly method: "GET" | "PUT" | "POST" | "DELETE";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** milliseconds, where `deadlineMs` is not given */
  readonly usualDeadlineMs: number;
  /** bytes of the answer that are read; default: all */
  readonly largestAnswer?: number;
  /** what did not happen if this fails, for the error */
  readonly lost: string;
};

const http = create({
  // A redirect would take the credentials elsewhere, and turn a PUT into a GET that changes nothing.
  maxRedirects: 0,
  validateStatus: () => true,
  responseType: "stream",
  headers: { "Accept-Encoding": "identity" },
});

/**
 * Asks a gateway and hands its answer to `read` as a stream. What `read` itself throws comes out as it is. `date` is the answer's
 * header of this name.
 * @throws GridmeterError `pushgateway_failed`, also for an answer that was cut off, and `config_invalid`
 */
export async function exchange<T>(
  url: string,
  request: GatewayRequest,
  options: GatewayOptions,
  read: (body: Readable, date: string | undefined) => Promise<T>,
): Promise<T> {
  const { method, path, headers, body: data, largestAnswer = -1 } = request;
  const { deadlineMs = request.usualDeadlineMs, authHeader } = options;
  const base = parseUrl(url, request.lost);
  const connections = options.connections ?? keepConnections(options.caFile);
  const deadline = AbortSignal.timeout(deadlineMs);
  const signal = options.signal === undefined ? deadline : AbortSignal.any([deadline, options.signal]);
  const failed = failureAt(base, request.lost, authHeader);
  const broken = (status: number | undefined, thrown: unknown): PushgatewayError => {
    const sent = isAxiosError(thrown) ? { request: thrown.request, code: thrown.code } : {};
    if (signal.aborted) return failed("timeout", status, `did not answer within ${deadlineMs / 1000} s`, sent);
    const what = status === undefined ? "could not be reached" : "broke its answer off";
    return failed("failed", status, `${what}: ${wordsOf(thrown)}`, { ...sent, cause: thrown });
  };

  try {
    const answer = await http
      .request<Readable>({
        method,
        url: addressOf(base, path, authHeader),
        headers: { ...headers, ...(authHeader === undefined ? {} : { Authorization: authHeader }) },
        data,
        signal,
        maxContentLength: largestAnswer,
        httpAgent: connections.http,
        httpsAgent: connections.https,
      })
      .catch((thrown: unknown) => {
        throw unusableProxy(thrown, base, request.lost) ?? broken(undefined, thrown);
      });
    const { status } = answer;
    // axios ends a stream at the deadline, but not the one that it wraps to count its bytes.
    const body = addAbortSignal(signal, answer.data);
    if (status < 200 || status >= 300) {
      const said = await beginningOf(body);
      throw failed(failureOf(status), status, `answered ${status}`, { said, request: answer.request });
    }
    try {
      return await read(body, dateOf(answer));
    } catch (thrown) {
      throw signal.aborted || body.errored !== null ? broken(status, thrown) : thrown;
    } finally {
      body.destroy();
    }
  } finally {
    if (options.connections === undefined) connections.close();
  }
}

/** The address of what is asked for. A header wins over a user and password in the URL, which axios would send in its place. */
function addressOf(base: URL, path: string, authHeader: string | undefined): string {
  const url = below(base, path);
  if (authHeader !== undefined) {
    url.username = "";
    url.password = "";
  }
  return url.href;
}

function dateOf({ headers }: AxiosResponse): string | undefined {
  const { date } = headers;
  return typeof date === "string" ? date : undefined;
}

/** Characters of an answer that are quoted. */
const LONGEST_QUOTE = 300;
/** Characters of an answer that are looked at for secrets, which are hidden before it is cut. */
const LOOKED_AT = 10_000;

/** What is known of a failure, besides its words: what the gateway said, what was sent, axios's code, and what was thrown. */
type Details = {
  readonly said?: string;
  readonly request?: unknown;
  readonly code?: string | undefined;
  readonly cause?: unknown;
};

type Failed = (failure: GatewayFailure, status: number | undefined, why: string, details: Details) => PushgatewayError;

/** Makes the errors of one exchange. A gateway, or what is in front of it, may repeat the secrets that it was sent. */
function failureAt(base: URL, lost: string, authHeader: string | undefined): Failed {
  // Made where something failed, since an agent pushes all the time.
  const hide = (text: string): string => hiderOfRequest(base, authHeader)(text);
  return (failure, status, why, { said = "", request, code, cause }) => {
    const quote = hide(said).trim().slice(0, LONGEST_QUOTE);
    const reason = quote === "" ? hide(why) : `${hide(why)} (${quote})`;
    return new PushgatewayError(
      failure,
      status,
      `${nameOf(base)} ${reason}. ${lost}; nothing else was affected. Check PUSHGATEWAY_URL and the gateway.` +
        proxyAdvice(request, base, code),
      // An error of axios holds the request with its headers.
      { cause: cause === undefined ? undefined : hide(wordsOf(cause)) },
    );
  };
}

/** Where a name has several addresses and none answers, the error's own text is empty. */
function wordsOf(thrown: unknown): string {
  const cause = thrown instanceof Error ? thrown.cause : undefined;
  return cause instanceof AggregateError ? cause.errors.map(errorText).join(", ") : errorText(thrown);
}

/** The first words of an answer; of one that breaks, what arrived. */
async function beginningOf(body: Readable): Promise<string> {
  let text = "";
  try {
    for await (const chunk of body.setEncoding("utf8")) {
      text += String(chunk);
      if (text.length >= LOOKED_AT) break;
    }
  } catch {
    // The status says more than why the text was not read to its end.
  }
  return text.slice(0, LOOKED_AT);
}

/** Connections to a gateway, which are kept open between exchanges. */
export type Connections = { readonly http: HttpAgent; readonly https: HttpsAgent; close(): void };

/** A kept connection that nobody uses is closed after this. */
const IDLE_MS = 60_000;

/**
 * Keeps connections to a gateway for a program that pushes again and again.
 * @param caFile PEM file of a further authority to trust, read now
 * @throws GridmeterError `config_invalid` if it cannot be read
 */
export function keepConnections(caFile?: string): Connections {
  const kept = { keepAlive: true, timeout: IDLE_MS };
  const http = new HttpAgent(kept);
  const https = new HttpsAgent({
    ...kept,
    ...(caFile === undefined ? {} : { ca: [...rootCertificates, readable(caFile)] }),
  });
  return {
    http,
    https,
    close: () => {
      http.destroy();
      https.destroy();
    },
  };
}

function readable(caFile: string): string {
  try {
    return readFileSync(caFile, "utf8");
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
type GatewayFailure = "refused" | "redirected" | "timeout" | "failed";

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

/** What a status other than 2xx comes to. */
function failureOf(status: number): GatewayFailure {
  if (status >= 300 && status < 400) return "redirected";
  return status >= 400 && status < 500 ? "refused" : "failed";
}

/** Labels of a Pushgateway group, exactly as the gateway holds them: `job` and any further ones. */
export type Grouping = Readonly<Record<string, string>>;

const LABEL = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
/** What is in a path as it is. `.` and `..` would be taken for directories on the way. */
const PLAIN = /^(?!\.{1,2}$)[A-Za-z0-9._-]+$/;

/**
 * The path of a group: `/metrics/job/<job>/<label>/<value>...`, labels sorted. Values that a path cannot hold (slashes,
 * nothing at all, anything but plain ASCII) are written in base64 as the gateway defines it (`/label@base64/<value>`).
 * @throws GridmeterError `pushgateway_failed` if there is no job, or a name is no label name
 */
export function groupPath(grouping: Grouping): string {
  const { job = "", ...others } = grouping;
  const wrong = Object.keys(others).find((name) => !LABEL.test(name) || name.startsWith("__"));
  if (job === "" || wrong !== undefined) {
    const what = job === "" ? "there is no job" : `${JSON.stringify(wrong)} is no label name`;
    throw new GridmeterError(
      "pushgateway_failed",
      `The Pushgateway has no group ${JSON.stringify(grouping)}: ${what}. Nothing was sent.`,
    );
  }
  const sorted = Object.entries(others).sort(([a], [b]) => (a < b ? -1 : 1));
  return `/metrics${[["job", job] as const, ...sorted].map(([name, value]) => segment(name, value)).join("")}`;
}

function segment(name: string, value: string): string {
  if (PLAIN.test(value)) return `/${name}/${value}`;
  // A lone `=` is padding alone, which decodes to nothing: two slashes in a row would be merged.
  return `/${name}@base64/${Buffer.from(value, "utf8").toString("base64url") || "="}`;
}
