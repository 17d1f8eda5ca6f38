import { type AxiosError, type AxiosRequestConfig, isAxiosError } from "axios";
import { GridmeterError } from "../../shared/errors.ts";
import { maskServer } from "../../shared/server-url.ts";
import { withoutEnd } from "../../shared/text.ts";
import { QueryTooLong, type Source, failure, refusal, serverText } from "./errors.ts";

/** Longest address of a GET, characters. Servers and proxies take 8 kB for it, some of them with all headers. */
const LONGEST_URL = 6000;
const FORM = "application/x-www-form-urlencoded";
/** How a server, or what is before it, says that it takes no POST. */
const NO_POST = [403, 405, 501];
/** What servers say of a POST whose body was dropped on its way: there is no query, or no start of a range. */
const NO_BODY =
  /no expression found in input|(?:1:1|unknown position|char [01]): parse error: unexpected end of input$|cannot parse "" to a valid timestamp|missing [`"']?query\b/;

/** Sends a request and reads the answer. */
type Send<T> = (request: AxiosRequestConfig) => Promise<T>;

/**
 * Asks by POST, which has room for any query, and where the server refuses that by GET, as Prometheus' own Go client does.
 * Once a GET was answered no POST is sent any more. Queries on their way at the same time each find out by themselves.
 * What it gives throws GridmeterErrors only: `QueryTooLong` for a query that has no room in a GET, else as `failure`.
 */
export function createAsker(
  source: Source,
): <T>(url: string, fields: Readonly<Record<string, string>>, send: Send<T>) => Promise<T> {
  let takesPost = true;
  return async (url, fields, send) => {
    let refused: AxiosError | undefined;
    if (takesPost) {
      const data = new URLSearchParams(fields).toString();
      try {
        return await send({ method: "POST", url, headers: { "Content-Type": FORM }, data });
      } catch (thrown) {
        if (!refusesPost(thrown)) throw failure(thrown, source);
        refused = thrown;
      }
    }
    const address = withQuery(url, fields);
    if (address.length >= LONGEST_URL) throw tooLong(address.length, source, refused);
    try {
      // A cache on the way may have kept the answer to the same question of an earlier run.
      const answer = await send({ method: "GET", url: address, headers: { "Cache-Control": "no-cache" } });
      takesPost = false;
      return answer;
    } catch (thrown) {
      throw failure(thrown, source, refused);
    }
  };
}

function refusesPost(thrown: unknown): thrown is AxiosError {
  if (!isAxiosError(thrown) || thrown.response === undefined) return false;
  const { status, data } = thrown.response;
  // VictoriaMetrics refuses with 422, whatever it is about.
  const isDropped = (status === 400 || status === 422) && NO_BODY.test(serverText(data));
  return isDropped || NO_POST.includes(status);
}

/** An address with a query string. Encoded as AWS encodes it to sign it, so that all who read it read the same. */
function withQuery(url: string, fields: Readonly<Record<string, string>>): string {
  const encode = (text: string): string =>
    encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
  const pairs = Object.entries(fields).map(([name, value]) => `${encode(name)}=${encode(value)}`);
  const address = new URL(url);
  address.search = [address.search, ...pairs].filter((part) => part !== "").join("&");
  return address.href;
}

function tooLong(length: number, source: Source, refused: AxiosError | undefined): GridmeterError {
  const why = refused === undefined ? `${source.name} takes no POST.` : `${refusal(refused, source)}.`;
  return new QueryTooLong(
    `${why} By GET this query has an address of ${length} characters, and ${LONGEST_URL} and more are not sent. ` +
      "Nothing was published. Let the server, or the proxy before it, take POST, or shorten PROMETHEUS_LABELS.",
  );
}

/** The base address. Throws `config_invalid` for anything but http and https. */
export function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && (url.protocol === "http:" || url.protocol === "https:")) return url;
  // The text is not quoted whole: an address may carry a password.
  throw new GridmeterError(
    "config_invalid",
    `PROMETHEUS_SERVER is not an http:// or https:// address: "${maskServer(text).slice(0, 100)}". ` +
      "Nothing was asked or published. Give the base address of the server, e.g. http://prometheus:9090.",
  );
}

/** The address of a path of the API, under the base's own path. */
export function address(base: URL, path: string): string {
  const url = new URL(base);
  url.pathname = withoutEnd(base.pathname, "/") + path;
  return url.href;
}

/** How messages name the server: without credentials. */
export function nameOf(base: URL): string {
  return `Prometheus at ${base.origin}${withoutEnd(base.pathname, "/")}`;
}
