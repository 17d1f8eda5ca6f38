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
