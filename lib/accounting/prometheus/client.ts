import { IncomingMessage } from "node:http";
import { type Readable, addAbortSignal } from "node:stream";
import { AxiosError, type AxiosInstance, type AxiosRequestConfig, create, isAxiosError, isCancel } from "axios";
import axiosRetry, { exponentialDelay } from "axios-retry";
import pLimit from "p-limit";
import { GridmeterError, errorText } from "../../shared/errors.ts";
import { type Signer, authorization, createSigner, hider } from "./auth.ts";
import { type CertificateFiles, tlsAgent } from "./certificates.ts";
import { CUT_SHORT, NOT_JSON, type Source, isTransient } from "./errors.ts";
import { address, createAsker, nameOf, parseUrl } from "./request.ts";
import { type Sample, type Series, readMatrix, readVector, readVersion } from "./response.ts";
import { NotJson, readJson, streamVector } from "./stream.ts";

/** How to reach a Prometheus HTTP API (also Thanos, Mimir, VictoriaMetrics, Amazon Managed Service for Prometheus). */
export type Connection = CertificateFiles & {
  /** base address, with or without a path prefix: what comes before /api/v1 */
  readonly url: string;
  readonly authHeader?: string;
  readonly tokenFile?: string;
  /** Amazon's region: requests are signed for it, and Amazon's limits are kept */
  readonly sigv4Region?: string;
  /** Mimir's tenant, sent as X-Scope-OrgID */
  readonly orgId?: string;
  /** sent to the server as its limit for a query */
  readonly timeoutSeconds: number;
  /** queries at once */
  readonly concurrency: number;
};

/** Asks one server. Every failure is a GridmeterError of one of the `prometheus_*` codes. */
export type Client = {
  /** An instant query at `at` (epoch seconds). */
  instant(query: string, at: number): Promise<readonly Sample[]>;
  /** The same, its samples handed over while the answer arrives: they hold only if this does not throw, and may come again. */
  stream(query: string, at: number, take: (sample: Sample) => void): Promise<void>;
  /** A range query at `from`, `from + step`, ... up to `to` (epoch seconds). */
  range(query: string, from: number, to: number, step: number): Promise<readonly Series[]>;
  /** The server's version, or undefined where it does not say (Thanos and managed services). */
  version(): Promise<string | undefined>;
};

/** Characters of a refusal that are read. */
const LONGEST_REFUSAL = 100_000;
/** Characters of a version that are shown. */
const LONGEST_VERSION = 100;
const RETRIES = 3;
const FIRST_DELAY_MS = 150;
const LONGEST_DELAY_MS = 20_000;
/** Time for the answer's way back beyond what the server may spend on the query, seconds; at most doubles the limit. */
const TRANSFER = 30;
/**
 * Thanos answers from what it reaches, downsampled, unless asked not to. VictoriaMetrics answers from its cache, and moves a
 * query at a moment just past to half a minute earlier, unless asked not to. Others ignore these.
 */
const WHOLE_ANSWER = { partial_response: "false", dedup: "true", max_source_resolution: "0s", nocache: "1" };

/**
 * A client for one run: it reads the token and certificate files now, retries what may pass (429, 5xx, network, cut bodies), and
 * gives up on a query after `timeoutSeconds` and a margin, all tries together. Throws `config_invalid`.
 */
export function createClient(connection: Connection): Client {
  const base = parseUrl(connection.url);
  const header = authorization(connection);
  const { sigv4Region, timeoutSeconds } = connection;
  const deadlineSeconds = timeoutSeconds + Math.min(timeoutSeconds, TRANSFER);
  const source: Source = {
    name: nameOf(base),
    base,
    hide: hider(base, header),
    deadlineSeconds,
    signed: sigv4Region !== undefined,
  };
  const http = httpClient(connection, header);
  const limit = pLimit(connection.concurrency);
  const deadline = (): AbortSignal => AbortSignal.timeout(deadlineSeconds * 1000);
  const asker = createAsker(source);
  // Prometheus takes no fraction of a second.
  const timeout = Number.isInteger(timeoutSeconds) ? `${timeoutSeconds}s` : `${Math.ceil(timeoutSeconds * 1000)}ms`;
  const ask = <T>(path: string, fields: Record<string, string>, read: (body: Readable) => Promise<T>): Promise<T> =>
    limit(() => {
      const signal = deadline();
      return asker(address(base, path), { ...fields, timeout, ...WHOLE_ANSWER }, (request) =>
        send(http, request, signal, read),
      );
    });
  const longest = sigv4Region === undefined ? Number.POSITIVE_INFINITY : AMAZON_LOOKBACK;
  const askInstant = async <T>(query: string, at: number, read: (body: Readable) => Promise<T>): Promise<T> => {
    checkLookback(lookbackOf(query), longest, source.name);
    return ask("/api/v1/query", { query, time: `${at}` }, read);
  };

  return {
    instant: (query, at) =>
      askInstant(query, at, async (body) => readVector(await readJson(body, source.name), source.name)),
    stream: (query, at, take) =>
      askInstant(query, at, (body) => {
        // What the HTTP client has decompressed is another stream than the message that came.
        const isCompressed = !(body instanceof IncomingMessage);
        return streamVector(body, source.name, take, isCompressed);
      }),
    range: async (query, from, to, step) => {
      checkLookback(to - from + lookbackOf(query), longest, source.name);
      return ask("/api/v1/query_range", { query, start: `${from}`, end: `${to}`, step: `${step}` }, async (body) =>
        readMatrix(await readJson(body, source.name), source.name),
      );
    },
    version: () => limit(() => versionOf(http, base, deadline(), source)),
  };
}

/** The server's version; undefined where it does not say, or does not answer. */
async function versionOf(
  http: AxiosInstance,
  base: URL,
  signal: AbortSignal,
  source: Source,
): Promise<string | undefined> {
  try {
    const request = { method: "GET", url: address(base, "/api/v1/status/buildinfo") };
    const build = await send(http, request, signal, (body) => readJson(body, source.name));
    const version = readVersion(build);
    return version === undefined ? undefined : source.hide(version).slice(0, LONGEST_VERSION);
  } catch {
    return undefined;
  }
}

/** axios with the connection's credentials and certificates, which tries again what may pass. */
function httpClient(connection: Connection, header: string | undefined): AxiosInstance {
  const { sigv4Region, orgId } = connection;
  const agent = tlsAgent(connection);
  const http = create({
    headers: {
      // Uids hardly shrink, and to compress them costs Prometheus and us an eighth of the time.
      "Accept-Encoding": "identity",
      ...(header === undefined ? {} : { Authorization: header }),
      ...(orgId === undefined ? {} : { "X-Scope-OrgID": orgId }),
    },
    // A redirect would take the credentials elsewhere, and turns a POST into a GET.
    maxRedirects: 0,
    responseType: "stream",
    ...(agent === undefined ? {} : { httpsAgent: agent }),
  });
  if (sigv4Region !== undefined) signWith(http, createSigner(sigv4Region));
  readBodies(http);
  axiosRetry(http, {
    retries: RETRIES,
    retryCondition: isTransient,
    retryDelay: (count, error) =>
      Math.min(exponentialDelay(count, error, FIRST_DELAY_MS), LONGEST_DELAY_MS) * (1 + Math.random() / 4),
  });
  return http;
}

/** Waits for what `transformResponse` makes of a body, so that one that was cut short counts as a failure of the request. */
function readBodies(http: AxiosInstance): void {
  http.interceptors.response.use(
    async (response) => {
      try {
        return { ...response, data: await response.data };
      } catch (thrown) {
        // What is wrong with the answer itself is wrong again the next time.
        if (thrown instanceof GridmeterError || isCancel(thrown)) throw thrown;
        const start = thrown instanceof NotJson ? thrown.start : "";
        const code = /^\s*(?:\{|$)/.test(start) ? CUT_SHORT : NOT_JSON;
        const cut = { ...response, data: start };
        throw new AxiosError(errorText(thrown), code, response.config, undefined, cut);
      }
    },
    async (error: unknown) => {
      if (isAxiosError(error) && error.response !== undefined) error.response.data = await error.response.data;
      throw error;
    },
  );
}

/** Sends a request, and reads the answer's body unless it is a refusal. Throws what axios throws. */
async function send<T>(
  http: AxiosInstance,
  request: AxiosRequestConfig,
  signal: AbortSignal,
  read: (body: Readable) => Promise<T>,
): Promise<T> {
  let refusal: unknown;
  try {
    const response = await http.request<T>({
      ...request,
      signal,
      // Read before it is judged whether to try again, since a body may be cut short.
      transformResponse: (body: Readable, _headers, status = 0) =>
        status < 300 ? read(body) : startOf(addAbortSignal(signal, body)),
      "axios-retry": { onRetry: (_count, error) => void (refusal = error) },
    });
    return response.data;
  } catch (thrown) {
    // A deadline reached while waiting to try again is the server's refusal, not a query too large.
    throw isCancel(thrown) ? (refusal ?? thrown) : thrown;
  }
}

/** The beginning of a refusal's text; one that stops in the middle, or does not end in time, says as much as there is. */
async function startOf(body: Readable): Promise<string> {
  let start = "";
  try {
    for await (const chunk of body.setEncoding("utf8")) {
      start += String(chunk);
      if (start.length > LONGEST_REFUSAL) break;
    }
  } catch {
    // The status is known, which says more than why its text was not read to the end.
  }
  return start;
}

/** Signs each request as it is sent: one that is tried again passes here again, and has a new date. */
function signWith(http: AxiosInstance, sign: Signer): void {
  http.interceptors.request.use(async (config) => {
    const { method = "GET", url = "", data, headers } = config;
    const contentType = headers.get("Content-Type");
    headers.set(
      await sign({
        method: method.toUpperCase(),
        url: new URL(url),
        contentType: typeof contentType === "string" ? contentType : undefined,
        body: typeof data === "string" ? data : "",
      }),
    );
    return config;
  });
}

/** Amazon answers instant queries that look back less than this; longer ones are a 422 (quota "query time range"), seconds. */
const AMAZON_LOOKBACK = 32 * 86_400;

/** How far a query looks back from the moment it is evaluated at, seconds: its longest range, e.g. 3900 for `x[3900s]`. */
function lookbackOf(query: string): number {
  // A label's value may look like a range.
  const code = query.replace(/"(?:[^"\\]|\\.)*"/g, '""');
  return [...code.matchAll(/\[(\d+)s\]/g)].reduce((most, [, seconds]) => Math.max(most, Number(seconds)), 0);
}

/**
 * Refuses what the server would refuse, before it is asked, so that less is asked instead.
 * Throws `prometheus_too_large` for a reach of `limit` seconds or more.
 */
function checkLookback(seconds: number, limit: number, server: string): void {
  if (seconds < limit) return;
  throw new GridmeterError(
    "prometheus_too_large",
    `${server} takes queries over less than ${limit / 86_400} days, and this one is over ${(seconds / 86_400).toFixed(1)} days. ` +
      "It was not asked and nothing was published. Ask for a shorter period.",
  );
}
