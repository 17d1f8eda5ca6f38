import { type AxiosError, type AxiosResponse, isAxiosError, isCancel } from "axios";
import { isNetworkError } from "axios-retry";
import { z } from "zod";
import { type ErrorCode, GridmeterError, errorText } from "../../shared/errors.ts";
import { proxyAdvice, unusableProxy } from "../../shared/proxy.ts";
import { parseJson } from "../../shared/text.ts";
import { CutShort } from "../model/split.ts";

/** What an error message may say about the server, and how it hides secrets. */
export type Source = {
  readonly name: string;
  /** the base address, which may hold a password */
  readonly base: URL;
  /** Takes every secret out of a text. */
  hide(text: string): string;
  readonly deadlineSeconds: number;
  /** requests are signed for Amazon, so no header or token of the settings counts */
  readonly signed: boolean;
};

/** A query whose text is longer than the server takes. Of pods named one by one, fewer may be asked for. */
export class QueryTooLong extends GridmeterError {
  constructor(message: string) {
    super("prometheus_bad_query", message);
  }
}

/** Code given to a 200 whose JSON stops in the middle. */
export const CUT_SHORT = "GRIDMETER_CUT_SHORT";
/** Code given to a 200 that is not JSON at all. */
export const NOT_JSON = "GRIDMETER_NOT_JSON";

/** How much of a long text is quoted: servers come to the point at once or at the very end. */
const QUOTED = { start: 200, end: 250 };
/** Characters at either end of a text that are looked at. */
const LOOKED_AT = 5_000;
/** A TLS handshake that one side refuses or does not understand it will not take the next time. */
const BROKEN_OFF = /\balert\b|_ALERT_|wrong.version.number|CERT_ALTNAME/i;

/** Whether the same request may succeed in a moment. A query that is too large never does. */
export function isTransient(error: AxiosError): boolean {
  const { response } = error;
  if (response === undefined) return isNetworkError(error) && !BROKEN_OFF.test(`${error.code} ${error.message}`);
  if (response.status < 300) return error.code !== NOT_JSON;
  return judgeRefusal(response.status, serverText(response.data)) === "passing";
}

/**
 * The error for whatever the HTTP client threw; its cause never holds the request, which holds the secrets.
 * @param post the refusal of the same question by POST, where it was asked by GET for that
 */
export function failure(thrown: unknown, source: Source, post?: AxiosError): GridmeterError {
  if (thrown instanceof GridmeterError) return hidden(thrown, source);
  if (!isAxiosError(thrown)) {
    const text = `The answer of ${source.name} could not be read: ${source.hide(errorText(thrown))}. Nothing was published.`;
    const unusable = unusableProxy(thrown, source.base, "Nothing was published");
    return unusable ?? new GridmeterError("prometheus_bad_answer", text);
  }
  const proxy = proxyAdvice(thrown.request ?? thrown.response?.request, source.base, thrown.code);
  if (isCancel(thrown)) {
    return new GridmeterError(
      "prometheus_too_large",
      `${source.name} did not finish its answer within ${source.deadlineSeconds} s. Nothing was published. ` +
        `Raise QUERY_TIMEOUT (and the server's --query.timeout), or lower QUERY_CONCURRENCY.${proxy}`,
    );
  }
  const before = post === undefined ? "" : `${refusal(post, source)}, so it was asked by GET. `;
  const { response } = thrown;
  if (response === undefined) return unreachable(thrown, source, before, proxy);
  if (response.status < 300) return unreadable(thrown, source, before, proxy);
  const { code, advice } = advised(response, source, post);
  const message = `${before}${refusal(thrown, source)}. Nothing was published. ${source.hide(advice)}${proxy}`;
  return isTooLong(response.status, serverText(response.data))
    ? new QueryTooLong(message)
    : new GridmeterError(code, message);
}

/** What was found wrong in an answer of 200 quotes it. */
function hidden(error: GridmeterError, source: Source): GridmeterError {
  const message = source.hide(error.message);
  return message === error.message ? error : new GridmeterError(error.code, message);
}

/** What to do about an answer. Where GET is not taken either, that POST was forbidden is what can be mended. */
function advised({ status, data, headers }: AxiosResponse, source: Source, post: AxiosError | undefined): Judged {
  const forbidden = post?.response?.status === 403 && (status === 405 || status === 501) ? post.response : undefined;
  const text = serverText(forbidden?.data ?? data);
  return adviseOn(forbidden?.status ?? status, text, location(headers), source.signed);
}

/** What the server answered to a request of which method, in its own words. */
export function refusal({ response, config }: AxiosError, source: Source): string {
  const text = serverText(response?.data);
  const quoted = text === "" ? "without a text" : `"${cut(source.hide(withoutQuery(text)))}"`;
  return `${source.name} answered ${response?.status} to ${config?.method?.toUpperCase() ?? "GET"}: ${quoted}`;
}

function cut(text: string): string {
  if (text.length <= QUOTED.start + QUOTED.end) return text;
  return `${text.slice(0, QUOTED.start)} ... ${text.slice(-QUOTED.end)}`;
}

function unreachable(error: AxiosError, source: Source, before: string, proxy: string): GridmeterError {
  const code = error.code ?? "";
  const text = source.hide([code, error.message].filter((part) => part !== "").join(": "));
  const advice = tlsAdvice(code, error.message) ?? "Check PROMETHEUS_SERVER, the network and that the server is up.";
  return new GridmeterError(
    "prometheus_unreachable",
    `${before}No answer from ${source.name} (${text}). Nothing was published. ${advice}${proxy}`,
    { cause: error.cause },
  );
}

function unreadable(error: AxiosError, source: Source, before: string, proxy: string): GridmeterError {
  const start = serverText(error.response?.data);
  if (error.code === NOT_JSON) {
    return new GridmeterError(
      "prometheus_bad_answer",
      `${before}${source.name} answered 200 with something that is not JSON: "${cut(source.hide(start))}". ` +
        `Nothing was published. Set PROMETHEUS_SERVER to the base of the Prometheus HTTP API, not to a sign-in or web page.${proxy}`,
    );
  }
  return new CutShort(
    `The answer of ${source.name} was cut short, time after time (${source.hide(error.message)}). ` +
      `Nothing was published. See whether a proxy in between limits the size or the duration of an answer.${proxy}`,
  );
}

const serverError = z.object({ error: z.string(), errorType: z.string().optional() });
const amazonError = z.object({ message: z.string() });

/**
 * The server's own words: Prometheus' `errorType: error`, Amazon's `message`, or the text of a proxy's page. Of a long text the
 * beginning and the end, so that looking through it takes no long time whatever it says.
 */
export function serverText(data: unknown): string {
  if (typeof data !== "string") return "";
  const json = parseJson(data);
  const known = serverError.safeParse(json);
  if (known.success)
    return shortened([known.data.errorType, known.data.error].filter((part) => part !== undefined).join(": "));
  const amazon = amazonError.safeParse(json);
  if (amazon.success) return shortened(amazon.data.message);
  return withoutTags(shortened(data)).replace(/\s+/g, " ").trim();
}

/** The text of a web page, without its tags, styles and scripts. */
function withoutTags(page: string): string {
  const parts: string[] = [];
  let done = 0;
  for (let at = page.indexOf("<"); at !== -1; at = page.indexOf("<", done)) {
    const close = page.indexOf(">", at);
    if (close === -1) break;
    const [, name] = /^<(style|script)/i.exec(page.slice(at, at + 7)) ?? [];
    // A style or script without an end is a tag like any other.
    const end = name === undefined ? -1 : page.slice(close).search(/<\/(?:style|script)>/i);
    parts.push(page.slice(done, at));
    done = end === -1 ? close + 1 : page.indexOf(">", close + end + 1) + 1;
  }
  return [...parts, page.slice(done)].join(" ");
}

function shortened(text: string): string {
  return text.length <= 2 * LOOKED_AT ? text : `${text.slice(0, LOOKED_AT)} ... ${text.slice(-LOOKED_AT)}`;
}

function location(headers: unknown): string {
  const known = z.object({ location: z.string() }).safeParse(headers);
  // The query string of a sign-in page may carry a session.
  return known.success ? (known.data.location.split(/[?#]/, 1)[0] ?? "") : "an address that it does not name";
}

/**
 * What a refusal says about the request that met it:
 * - `too_large`: less may be asked (a shorter range, fewer pods); the same again will be refused again
 * - `passing`: the same may be answered in a moment
 * - `final`: neither
 */
export type Verdict = "too_large" | "passing" | "final";

/** Prometheus, Amazon ("query timed out - consider simplifying"), VictoriaMetrics ("timeout exceeded"), gRPC, gateways. */
const TIMEOUT = /time[d]?[- ]?out|deadline ?exceeded/i;
const TOO_MANY = /too many (?:samples|series|chunks|points|bytes)|exceeded (?:series|samples|chunks?|bytes) limit/i;
/** How Thanos, Mimir, Cortex, Amazon and VictoriaMetrics say the same; gRPC's code is for limits and for long messages. */
const OVER_LIMIT =
  /exceed(?:s|ed|ing)?\b.*\b(?:limit|max(?:imum)?)\b|\bhit the .* limit\b|limit .*(?:exceeded|violated)|cannot (?:select|process) more|ResourceExhausted|larger than the? ?max/i;
/** Limits of a query's range: Cortex and Mimir (`err-mimir-max-query-length`, `err-mimir-max-total-query-length`), Azure, Amazon. */
const TOO_LONG = /time range (?:exceeds|cannot exceed)|query length|queries with long day range/i;
/** It is the query's text that is too long: asked for the hundredth part of the time it would be refused all the same. */
const LONG_TEXT = /err-mimir-max-query-expression-size-bytes|query size in bytes exceeds|too long query/i;
/** Prometheus had no turn for the query in all its time: nothing is said about its size. */
const QUEUED = /timed out in query queue/i;
/** A store that Thanos or Mimir did not reach, which they report as a failed execution. */
const STORE_AWAY =
  /code = (?:Unavailable|Aborted)|err-mimir-(?:store-consistency-check-failed|bucket-index-too-old)|connection refused|too many unhealthy instances/i;

/** Judges an answer other than 2xx by its status and the server's own words. */
export function judgeRefusal(status: number, words: string): Verdict {
  const text = pointOf(words);
  if (status === 413 || status === 408) return "too_large";
  if (status === 429 || (status >= 500 && QUEUED.test(text))) return "passing";
  if (status === 400) return TOO_LONG.test(text) ? "too_large" : "final";
  if (status === 422) {
    if (LONG_TEXT.test(text)) return "final";
    if ([TIMEOUT, TOO_MANY, OVER_LIMIT, TOO_LONG].some((pattern) => pattern.test(text))) return "too_large";
    return STORE_AWAY.test(text) ? "passing" : "final";
  }
  if (status < 500 || status === 501) return "final";
  return [TIMEOUT, TOO_MANY, TOO_LONG].some((pattern) => pattern.test(text)) ? "too_large" : "passing";
}

/** Whether the text of the query is longer than the server takes, or than what is before it takes in an address (414). */
export function isTooLong(status: number, words: string): boolean {
  return status === 414 || ((status === 400 || status === 422) && LONG_TEXT.test(pointOf(words)));
}

/** What a server says in more characters than this is a page, or a text that somebody made. */
const LONGEST_POINT = 4000;

/** The words that are looked at: of a long text both ends, since VictoriaMetrics quotes parts of the query before it comes to the point. */
function pointOf(words: string): string {
  const text = withoutQuery(words);
  if (text.length <= LONGEST_POINT) return text;
  return `${text.slice(0, LONGEST_POINT / 2)} ... ${text.slice(-LONGEST_POINT / 2)}`;
}

/** VictoriaMetrics repeats the query before it comes to the point; names in it are not the server's words. */
export function withoutQuery(words: string): string {
  const [first = "", ...others] = words.replace(/\bquery="(?:[^"\\]|\\.)*"/g, "query=...").split("requestURI: ");
  // The address ends at a semicolon; without one there is none.
  const shortened = others.map((part) => (part.includes(";") ? `...${part.slice(part.indexOf(";"))}` : part));
  return [first, ...shortened].join("requestURI: ");
}

const TLS = /CERT|TLS|SSL|UNABLE_TO_|EPROTO/;
/** Go's servers say so with a 400. */
const PLAIN_TO_TLS = /HTTP request to an HTTPS server/i;

/** The error code for a refusal, and what a person can do about it. */
type Judged = { readonly code: ErrorCode; readonly advice: string };

/**
 * Judges an answer other than 2xx. `target` is where a redirect leads; `signed`: the request was signed for Amazon, so no
 * header or token of the settings counts.
 */
export function adviseOn(status: number, text: string, target: string, signed: boolean): Judged {
  const verdict = judgeRefusal(status, text);
  if (verdict === "too_large" || status === 504) {
    return {
      code: "prometheus_too_large",
      advice:
        "Raise the server's limits of a query (Prometheus: --query.max-samples, --query.timeout) and QUERY_TIMEOUT, or lower " +
        "QUERY_CONCURRENCY.",
    };
  }
  if (status === 401 || status === 403) return { code: "prometheus_auth", advice: authAdvice(text, signed) };
  if (status === 407) {
    return {
      code: "prometheus_auth",
      advice: "Write the proxy's user and password into the variable that names it: http://user:password@host:port.",
    };
  }
  if (PLAIN_TO_TLS.test(text)) {
    return { code: "prometheus_bad_answer", advice: "Write https:// instead of http:// in PROMETHEUS_SERVER." };
  }
  if (verdict === "passing" && status === 422) {
    return { code: "prometheus_unavailable", advice: "See that all its stores are up, then run again." };
  }
  if (status === 400 || status === 422) {
    return {
      code: "prometheus_bad_query",
      advice:
        "Check PROMETHEUS_LABELS, PROMETHEUS_LABEL_PREFIX and MONITORING_SELECTOR; `gridmeter plan` shows the queries.",
    };
  }
  if (status === 414)
    return { code: "prometheus_bad_query", advice: "Let the server, or the proxy before it, take POST." };
  if (status === 405 || status === 501) {
    return {
      code: "prometheus_bad_answer",
      advice:
        "Set PROMETHEUS_SERVER to the base of the Prometheus HTTP API, the part before /api/v1, and let the server, or the " +
        "proxy before it, take POST or GET there.",
    };
  }
  if (status === 429) {
    return { code: "prometheus_unavailable", advice: "Lower QUERY_CONCURRENCY, or run again later." };
  }
  if (status >= 500) return { code: "prometheus_unavailable", advice: "See that the server is up, then run again." };
  if (status < 400) {
    return {
      code: "prometheus_bad_answer",
      advice:
        `It redirects to ${target}, which is not followed because of the credentials. Set PROMETHEUS_SERVER to the ` +
        "final address; a redirect to a sign-in page means that PROMETHEUS_AUTH_HEADER is missing.",
    };
  }
  return {
    code: "prometheus_bad_answer",
    advice: "Set PROMETHEUS_SERVER to the base of the Prometheus HTTP API, the part before /api/v1.",
  };
}

function authAdvice(text: string, signed: boolean): string {
  if (/no org id/i.test(text)) return "Set PROMETHEUS_ORG_ID to the tenant's id (Mimir's X-Scope-OrgID).";
  if (!signed) return "Check PROMETHEUS_AUTH_HEADER or PROMETHEUS_TOKEN_FILE.";
  if (/signature (?:expired|not yet current)/i.test(text)) return "Set the clock of this machine.";
  return (
    "Check the AWS credentials that this program finds, their right aps:QueryMetrics on the workspace, and that " +
    "PROMETHEUS_SIGV4_REGION is the workspace's region."
  );
}

/** What to do about a TLS connection that was not made; undefined where the code is not about TLS. */
function tlsAdvice(code: string, message: string): string | undefined {
  if (!TLS.test(code)) return undefined;
  if (/wrong version number|packet length too long/i.test(message)) {
    return "The server does not speak TLS there: check the port, or write http:// in PROMETHEUS_SERVER.";
  }
  if (/alert/i.test(`${code} ${message}`)) {
    return (
      "The server broke off the TLS handshake: it asks for a certificate of this client, or does not take the one it got. " +
      "Name a pair that its authority has signed in PROMETHEUS_CLIENT_CERT_FILE and PROMETHEUS_CLIENT_KEY_FILE."
    );
  }
  if (code === "CERT_HAS_EXPIRED") return "The server's certificate has expired: it must be renewed there.";
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") {
    return "The server's certificate is for other names: write one of them in PROMETHEUS_SERVER.";
  }
  return "The TLS connection failed: if the certificate is signed by an own CA, name its PEM file in PROMETHEUS_CA_FILE.";
}
