import { type AxiosError, isAxiosError, isCancel } from "axios";
import { isNetworkError } from "axios-retry";
import { z } from "zod";
import { type ErrorCode, GridmeterError, errorText } from "../errors.ts";

/** What an error message may say about the server, and how it hides secrets. */
export type Source = {
  readonly name: string;
  /** Takes every secret out of a text. */
  hide(text: string): string;
  readonly deadlineSeconds: number;
};

/** Code given to a 200 whose JSON stops in the middle. */
export const CUT_SHORT = "GRIDMETER_CUT_SHORT";
/** Code given to a 200 that is not JSON at all. */
export const NOT_JSON = "GRIDMETER_NOT_JSON";

const TEXT_LENGTH = 300;
const TIMEOUT = /time[d]?[- ]?out|deadline exceeded/i;
const TOO_MANY = /too many (?:samples|series|chunks|points|bytes)|exceeded (?:series|samples|chunks?|bytes) limit/i;
/** How Thanos, Mimir, Cortex, Amazon and VictoriaMetrics say the same. */
const OVER_LIMIT =
  /exceed(?:s|ed|ing)?\b.*\b(?:limit|max(?:imum)?)\b|limit .*(?:exceeded|violated)|cannot select more/i;
/** Cortex and Amazon refuse long ranges with a 400. */
const TOO_LONG = /time range exceeds the limit|query length/i;
const TLS = /CERT|TLS|SSL|UNABLE_TO_|EPROTO/;

/** Whether the same request may succeed in a moment. A query that is too large never does. */
export function isTransient(error: AxiosError): boolean {
  const { response } = error;
  if (response === undefined) return isNetworkError(error);
  if (response.status < 300) return error.code !== NOT_JSON;
  if (isTooLarge(response.status, serverText(response.data))) return false;
  return response.status === 429 || response.status >= 500;
}

/** The error for whatever the HTTP client threw; its cause never holds the request, which holds the secrets. */
export function failure(thrown: unknown, source: Source): GridmeterError {
  if (thrown instanceof GridmeterError) return thrown;
  if (!isAxiosError(thrown)) {
    const text = `The answer of ${source.name} could not be read: ${source.hide(errorText(thrown))}. Nothing was published.`;
    return new GridmeterError("prometheus_bad_answer", text);
  }
  if (isCancel(thrown)) {
    return new GridmeterError(
      "prometheus_too_large",
      `${source.name} did not finish its answer within ${source.deadlineSeconds} s. Nothing was published. ` +
        "Raise QUERY_TIMEOUT (and the server's --query.timeout), or lower QUERY_CONCURRENCY.",
    );
  }
  const { response } = thrown;
  if (response === undefined) return unreachable(thrown, source);
  if (response.status < 300) return unreadable(thrown, source);
  const text = serverText(response.data);
  const { code, advice } = judge(response.status, text, location(response.headers));
  const quoted = text === "" ? "without a text" : `"${source.hide(text).slice(0, TEXT_LENGTH)}"`;
  return new GridmeterError(
    code,
    `${source.name} answered ${response.status}: ${quoted}. Nothing was published. ${source.hide(advice)}`,
  );
}

function judge(status: number, text: string, target: string): { code: ErrorCode; advice: string } {
  if (isTooLarge(status, text) || status === 504) {
    return {
      code: "prometheus_too_large",
      advice:
        "Raise the server's --query.max-samples or --query.timeout and QUERY_TIMEOUT, or lower QUERY_CONCURRENCY.",
    };
  }
  if (status === 401 || status === 403) {
    return { code: "prometheus_auth", advice: "Check PROMETHEUS_AUTH_HEADER or PROMETHEUS_TOKEN_FILE." };
  }
  if (status === 400 || status === 422) {
    return {
      code: "prometheus_bad_query",
      advice:
        "Check PROMETHEUS_LABELS, PROMETHEUS_LABEL_PREFIX and MONITORING_SELECTOR; `gridmeter plan` shows the queries.",
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

function isTooLarge(status: number, text: string): boolean {
  if (status === 413 || status === 408) return true;
  if (status === 400) return TOO_LONG.test(text);
  if (status === 422) return TOO_MANY.test(text) || OVER_LIMIT.test(text) || TOO_LONG.test(text) || TIMEOUT.test(text);
  return status >= 500 && (TIMEOUT.test(text) || TOO_MANY.test(text));
}

function unreachable(error: AxiosError, source: Source): GridmeterError {
  const code = error.code ?? "";
  const text = source.hide([code, error.message].filter((part) => part !== "").join(": "));
  const advice = TLS.test(code)
    ? "The TLS connection failed: if the certificate is signed by an own CA, name its PEM file in PROMETHEUS_CA_FILE."
    : "Check PROMETHEUS_SERVER, the network and that the server is up.";
  return new GridmeterError(
    "prometheus_unreachable",
    `No answer from ${source.name} (${text}). Nothing was published. ${advice}`,
    { cause: error.cause },
  );
}

function unreadable(error: AxiosError, source: Source): GridmeterError {
  const start = serverText(error.response?.data);
  if (error.code === NOT_JSON) {
    return new GridmeterError(
      "prometheus_bad_answer",
      `${source.name} answered 200 with something that is not JSON: "${source.hide(start).slice(0, TEXT_LENGTH)}". ` +
        "Nothing was published. Set PROMETHEUS_SERVER to the base of the Prometheus HTTP API, not to a sign-in or web page.",
    );
  }
  return new GridmeterError(
    "prometheus_bad_answer",
    `The answer of ${source.name} was cut short, time after time (${source.hide(error.message)}). ` +
      "Nothing was published. See whether a proxy in between limits the size or the duration of an answer.",
  );
}

const serverError = z.object({ error: z.string(), errorType: z.string().optional() });

/** The server's own words: Prometheus' `errorType: error`, or the text of a proxy's page. */
function serverText(data: unknown): string {
  if (typeof data !== "string") return "";
  const known = serverError.safeParse(parseJson(data));
  if (known.success) return [known.data.errorType, known.data.error].filter((part) => part !== undefined).join(": ");
  return data
    .slice(0, 10_000)
    .replace(/<(?:style|script)[\s\S]*?<\/(?:style|script)>|<[^>]*>/gi, " ")
    .replace(/\s+/g, " ")
    .trim();
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
  return known.success ? known.data.location.replace(/[?#].*$/, "") : "an address that it does not name";
}
