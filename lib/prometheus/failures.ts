import { type AxiosError, type AxiosResponse, isAxiosError, isCancel } from "axios";
import { isNetworkError } from "axios-retry";
import { z } from "zod";
import { CutShort } from "../accounting/tries.ts";
import { GridmeterError, errorText } from "../errors.ts";
import { type Judged, adviseOn, tlsAdvice } from "./advice.ts";
import { proxyAdvice, unusableProxy } from "./proxy.ts";
import { isTooLong, judgeRefusal, withoutQuery } from "./refusals.ts";

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
  const proxy = proxyAdvice(thrown, source.base);
  if (!isAxiosError(thrown)) {
    const text = `The answer of ${source.name} could not be read: ${source.hide(errorText(thrown))}. Nothing was published.`;
    return unusableProxy(thrown, source.base) ?? new GridmeterError("prometheus_bad_answer", text);
  }
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

/** The text as JSON, or undefined if it is none. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function location(headers: unknown): string {
  const known = z.object({ location: z.string() }).safeParse(headers);
  // The query string of a sign-in page may carry a session.
  return known.success ? (known.data.location.split(/[?#]/, 1)[0] ?? "") : "an address that it does not name";
}
