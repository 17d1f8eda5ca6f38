import { once } from "node:events";
import { readFileSync } from "node:fs";
import {
  Agent,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestOptions,
  request as httpRequest,
} from "node:http";
import { finished } from "node:stream/promises";
import { GridmeterError, errorText } from "./errors.ts";
import { below, nameOf, parseUrl } from "./server-url.ts";
import { hiderOf, secretsOfAddress, secretsOfHeader } from "./text.ts";

type PushOptions = GatewayOptions & {
  /** PUT (the default) replaces the whole group; POST only the metrics of the same names, and leaves the others */
  readonly method?: "PUT" | "POST";
};

/** The answers to these are short, whatever is in between. */
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
  await exchange(url, request, options, forget);
}

/** Deletes exactly one group; no error if there is none. @throws GridmeterError `pushgateway_failed` */
export async function deleteGroup(url: string, grouping: Grouping, options: GatewayOptions = {}): Promise<void> {
  const request = {
    ...LIMITS,
    method: "DELETE",
    path: groupPath(grouping),
    lost: "The group was not deleted",
  } as const;
  await exchange(url, request, options, forget);
}

/** What the gateway says when it took something. */
const forget = (): void => undefined;

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

/** Characters of an answer that are quoted. */
const LONGEST_BODY = 300;
/** Characters of an answer that are looked at for secrets. */
const LOOKED_AT = 10_000;

/**
 * Asks a gateway and hands its answer over while it arrives, so that memory does not depend on its size. Returns once all of it
 * was there, and gives its headers; what `take` throws comes out as it is. On Node's own client: the agent lives long, and axios takes 5 MB.
 * @throws GridmeterError `pushgateway_failed`, also for an answer that was cut off, and `config_invalid`
 */
export async function exchange(
  url: string,
  request: GatewayRequest,
  options: GatewayOptions,
  take: (chunk: Buffer) => void,
): Promise<IncomingHttpHeaders> {
  const { lost, largestAnswer = Infinity } = request;
  const { deadlineMs = request.usualDeadlineMs, authHeader } = options;
  const base = parseUrl(url, lost);
  const connections = options.connections ?? keepConnections(options.caFile);
  const deadline = AbortSignal.timeout(deadlineMs);
  const signal = options.signal === undefined ? deadline : AbortSignal.any([deadline, options.signal]);
  // A gateway, or what is before it, may repeat what it was sent. Made where something failed: an agent pushes all the time.
  const hide = (text: string): string => hiderOf([...secretsOfHeader(authHeader), ...secretsOfAddress(base)])(text);
  const failed = (failure: GatewayFailure, status: number | undefined, why: string, cause?: unknown) =>
    new PushgatewayError(
      failure,
      status,
      `${nameOf(base)} ${hide(why)}. ${lost}; nothing else was affected. Check PUSHGATEWAY_URL and the gateway.`,
      { cause: cause instanceof Error ? hide(cause.message) : cause },
    );
  const broken = (status: number | undefined, thrown: unknown): PushgatewayError => {
    if (signal.aborted) return failed("timeout", status, `did not answer within ${deadlineMs / 1000} s`);
    const what = status === undefined ? "could not be reached" : "broke its answer off";
    return failed("failed", status, `${what}: ${wordsOf(thrown)}`, thrown);
  };

  let answer: IncomingMessage | undefined;
  try {
    answer = await send(base, request, connections, signal, authHeader).catch((thrown: unknown) => {
      throw broken(undefined, thrown);
    });
    const status = answer.statusCode ?? 0;
    if (status < 200 || status >= 300) {
      // Hidden before it is cut, or the beginning of a secret could be left.
      const said = hide(await beginningOf(answer, LOOKED_AT))
        .trim()
        .slice(0, LONGEST_BODY);
      throw failed(failureOf(status), status, `answered ${status}${said === "" ? "" : ` (${said})`}`);
    }
    let bytes = 0;
    let refusal: unknown;
    answer.on("data", (chunk: Buffer) => {
      if (refusal !== undefined) return;
      bytes += chunk.length;
      try {
        if (bytes > largestAnswer)
          throw failed("failed", status, `answered with more than ${megabytes(largestAnswer)}`);
        take(chunk);
      } catch (thrown) {
        refusal = thrown;
        answer?.destroy();
      }
    });
    await finished(answer).catch((thrown: unknown) => (refusal ??= broken(status, thrown)));
    if (refusal !== undefined) throw refusal;
    return answer.headers;
  } finally {
    answer?.destroy();
    if (options.connections === undefined) connections.close();
  }
}

const megabytes = (bytes: number): string => `${Math.floor(bytes / 2 ** 20)} MiB`;

/** Where a name has several addresses and none answers, the error's own text is empty. */
const wordsOf = (thrown: unknown): string =>
  thrown instanceof AggregateError ? thrown.errors.map(errorText).join(", ") : errorText(thrown);

/** What is asked of a gateway. */
type GatewayRequest = {
  readonly method: "GET" | "PUT" | "POST" | "DELETE";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** milliseconds, where `deadlineMs` is not given */
  readonly usualDeadlineMs: number;
  /** bytes of the answer that are taken in; default: all */
  readonly largestAnswer?: number;
  /** what did not happen if this fails, for the error */
  readonly lost: string;
};

/**
 * Sends a request, and gives the answer once its head is there. A redirect is not followed: it would take the credentials
 * elsewhere, and turn a PUT into a GET that changes nothing. Rejects as Node does, also when the signal aborts.
 */
async function send(
  base: URL,
  { method, path, headers, body }: Pick<GatewayRequest, "method" | "path" | "headers" | "body">,
  connections: Connections,
  signal: AbortSignal,
  authHeader: string | undefined,
): Promise<IncomingMessage> {
  const url = below(base, path);
  const options: RequestOptions = {
    method,
    headers: { ...headers, ...(authHeader === undefined ? {} : { Authorization: authHeader }) },
    agent: await connections.agentFor(url),
    signal,
  };
  const asked =
    url.protocol === "https:" ? (await import("node:https")).request(url, options) : httpRequest(url, options);
  // Once the answer has begun, what breaks is an error of the answer's too, and there it is dealt with.
  asked.on("error", () => {});
  asked.end(body);
  // An answer of 101 is neither a response to Node nor an error: the connection is closed, and that is all.
  const closed = once(asked, "close", { signal }).then(() => {
    throw new Error("the connection was closed without an answer");
  });
  const [answer] = await Promise.race([once(asked, "response", { signal }), closed]);
  return answer;
}

/** The first words of an answer; of one that breaks, what was there. */
async function beginningOf(answer: IncomingMessage, characters: number): Promise<string> {
  let text = "";
  try {
    for await (const chunk of answer.setEncoding("utf8")) {
      text += String(chunk);
      if (text.length >= characters) break;
    }
  } catch {
    // What it said so far has to do.
  }
  return text.slice(0, characters);
}

/** Connections to a gateway, which may be kept open between exchanges. */
export type Connections = {
  /** what holds the connections for an address; https is loaded for the first address that needs it */
  agentFor(url: URL): Promise<Agent>;
  /** closes them all; they are not to be used afterwards */
  close(): void;
};

/** A kept connection that nobody uses is closed after this. */
const IDLE_MS = 60_000;

/**
 * Keeps connections to a gateway for a program that pushes again and again.
 * @param caFile PEM file of a further authority to trust, read now
 * @throws GridmeterError `config_invalid` if it cannot be read
 */
export function keepConnections(caFile?: string): Connections {
  const authority = caFile === undefined ? undefined : readable(caFile);
  // The variables that say which proxy is to be used; Node before 24.5 does not know of them.
  const kept = { keepAlive: true, timeout: IDLE_MS, proxyEnv: process.env };
  const http = new Agent(kept);
  let https: Promise<Agent> | undefined;
  return {
    agentFor: async ({ protocol }) => {
      if (protocol === "http:") return http;
      return await (https ??= httpsAgent(kept, authority));
    },
    close: () => {
      http.destroy();
      void https?.then((agent) => agent.destroy());
    },
  };
}

/** TLS takes 8 MB of memory, which an agent that pushes within a cluster has no use for. */
async function httpsAgent(kept: object, authority: Buffer | undefined): Promise<Agent> {
  const { Agent: HttpsAgent } = await import("node:https");
  if (authority === undefined) return new HttpsAgent(kept);
  const { createSecureContext, rootCertificates } = await import("node:tls");
  // One for all connections: given the authorities, each of them would read a hundred and fifty certificates again.
  const secureContext = createSecureContext({ ca: [...rootCertificates, authority] });
  return new HttpsAgent({ ...kept, secureContext });
}

function readable(caFile: string): Buffer {
  try {
    return readFileSync(caFile);
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
