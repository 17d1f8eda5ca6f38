import { readFileSync } from "node:fs";
import { Agent } from "node:https";
import type { Readable } from "node:stream";
import { rootCertificates } from "node:tls";
import { AxiosError, type AxiosRequestConfig, create, isAxiosError, isCancel } from "axios";
import axiosRetry, { exponentialDelay } from "axios-retry";
import pLimit from "p-limit";
import { GridmeterError, errorText } from "../errors.ts";
import { type Sample, type Series, readMatrix, readVersion } from "./answer.ts";
import { authorization, secretsOf } from "./authorization.ts";
import { CUT_SHORT, NOT_JSON, type Source, failure, isTransient } from "./failures.ts";
import { NotJson, readJson, streamVector } from "./stream.ts";

/** How to reach a Prometheus HTTP API (also Thanos, Mimir, VictoriaMetrics). */
export type Connection = {
  /** base address, with or without a path prefix: what comes before /api/v1 */
  readonly url: string;
  readonly authHeader?: string;
  readonly tokenFile?: string;
  readonly caFile?: string;
  /** sent to the server as its limit for a query */
  readonly timeoutSeconds: number;
  /** queries at once */
  readonly concurrency: number;
};

/** Asks one server. Every failure is a GridmeterError of one of the `prometheus_*` codes. */
export type Client = {
  /** An instant query at `at` (epoch seconds). */
  instant(query: string, at: number): Promise<readonly Sample[]>;
  /** The same, its samples handed to `add` while the answer arrives; every try begins anew with what `begin` gives. */
  gather<T>(query: string, at: number, begin: () => T, add: (into: T, sample: Sample) => void): Promise<T>;
  /** A range query at `from`, `from + step`, ... up to `to` (epoch seconds). */
  range(query: string, from: number, to: number, step: number): Promise<readonly Series[]>;
  /** The server's version, or undefined where it does not tell (Thanos and managed services). */
  version(): Promise<string | undefined>;
};

/** Characters of a refusal that are read. */
const LONGEST_REFUSAL = 100_000;
const RETRIES = 3;
const FIRST_DELAY_MS = 150;
const LONGEST_DELAY_MS = 20_000;
/** Time for the answer's way back beyond what the server may spend on the query, seconds; at most doubles the limit. */
const TRANSFER = 30;
/** Thanos answers from what it reaches, downsampled, unless told not to. Others ignore these. */
const WHOLE_ANSWER = { partial_response: "false", dedup: "true", max_source_resolution: "0s" };

/**
 * A client for one run: it reads the token and CA files now, retries what may pass (429, 5xx, network, cut bodies), and
 * gives up on a query after `timeoutSeconds` and a margin, all tries together. Throws `config_invalid`.
 */
export function createClient(connection: Connection): Client {
  const base = parseUrl(connection.url);
  const header = authorization(connection);
  const http = create({
    headers: header === undefined ? {} : { Authorization: header },
    // A redirect would take the credentials elsewhere, and turns a POST into a GET.
    maxRedirects: 0,
    responseType: "stream",
    ...(connection.caFile === undefined ? {} : { httpsAgent: trusting(connection.caFile) }),
  });
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
  axiosRetry(http, {
    retries: RETRIES,
    retryCondition: isTransient,
    retryDelay: (count, error) =>
      Math.min(exponentialDelay(count, error, FIRST_DELAY_MS), LONGEST_DELAY_MS) * (1 + Math.random() / 4),
  });

  const deadlineSeconds = connection.timeoutSeconds + Math.min(connection.timeoutSeconds, TRANSFER);
  const source: Source = { name: nameOf(base), hide: hider(base, header), deadlineSeconds };
  const limit = pLimit(connection.concurrency);

  const ask = <T>(path: string, request: AxiosRequestConfig, read: (body: Readable) => Promise<T>): Promise<T> =>
    limit(async () => {
      let refusal: unknown;
      try {
        const response = await http.request<T>({
          ...request,
          url: address(base, path),
          signal: AbortSignal.timeout(deadlineSeconds * 1000),
          // Read before it is judged whether to try again, since a body may be cut short.
          transformResponse: (body: Readable, _headers, status = 0) => (status < 300 ? read(body) : startOf(body)),
          "axios-retry": { onRetry: (_count, error) => void (refusal = error) },
        });
        return response.data;
      } catch (thrown) {
        // A deadline reached while waiting to try again is the server's refusal, not a query too large.
        throw failure(isCancel(thrown) ? (refusal ?? thrown) : thrown, source);
      }
    });
  const post = <T>(path: string, form: Record<string, string>, read: (body: Readable) => Promise<T>): Promise<T> =>
    ask(
      path,
      {
        method: "POST",
        data: new URLSearchParams({ ...form, timeout: `${connection.timeoutSeconds}s`, ...WHOLE_ANSWER }),
      },
      read,
    );
  const gather: Client["gather"] = (query, at, begin, add) =>
    post("/api/v1/query", { query, time: `${at}` }, async (body) => {
      const into = begin();
      await streamVector(body, source.name, (sample) => add(into, sample));
      return into;
    });

  return {
    gather,
    instant: (query, at) => {
      const begin = (): Sample[] => [];
      return gather(query, at, begin, (into, sample) => void into.push(sample));
    },
    range: (query, from, to, step) =>
      post("/api/v1/query_range", { query, start: `${from}`, end: `${to}`, step: `${step}` }, async (body) =>
        readMatrix(await readJson(body), source.name),
      ),
    version: async () => {
      try {
        return readVersion(await ask("/api/v1/status/buildinfo", { method: "GET" }, readJson));
      } catch {
        return undefined;
      }
    },
  };
}

/** The beginning of a refusal's text; one that stops in the middle tells as much as there is. */
async function startOf(body: Readable): Promise<string> {
  let start = "";
  try {
    for await (const chunk of body.setEncoding("utf8")) {
      start += String(chunk);
      if (start.length > LONGEST_REFUSAL) break;
    }
  } catch (thrown) {
    if (isCancel(thrown)) throw thrown;
  }
  return start;
}

function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && (url.protocol === "http:" || url.protocol === "https:")) return url;
  // The text is not quoted whole: an address may carry a password.
  throw new GridmeterError(
    "config_invalid",
    `PROMETHEUS_SERVER is not an http:// or https:// address: "${text.replace(/^.*@/, "***@").slice(0, 100)}". ` +
      "Nothing was asked or published. Give the base address of the server, e.g. http://prometheus:9090.",
  );
}

function address(base: URL, path: string): string {
  const url = new URL(base);
  url.pathname = base.pathname.replace(/\/+$/, "") + path;
  return url.href;
}

function nameOf(base: URL): string {
  return `Prometheus at ${base.origin}${base.pathname.replace(/\/+$/, "")}`;
}

function hider(base: URL, header: string | undefined): (text: string) => string {
  const secrets = [...secretsOf(header), base.password, decodeURIComponent(base.password)].filter((s) => s !== "");
  return (text) => secrets.reduce((shown, secret) => shown.replaceAll(secret, "***"), text);
}

function trusting(caFile: string): Agent {
  let problem: string;
  try {
    const pem = readFileSync(caFile, "utf8");
    if (pem.includes("-----BEGIN CERTIFICATE-----")) {
      return new Agent({ ca: [...rootCertificates, pem], keepAlive: true });
    }
    problem = "holds no certificate in PEM form";
  } catch (thrown) {
    problem = `could not be read: ${errorText(thrown)}`;
  }
  throw new GridmeterError(
    "config_invalid",
    `The CA file "${caFile}" (PROMETHEUS_CA_FILE) ${problem}. Nothing was asked or published. ` +
      "Give a PEM file that this user may read.",
  );
}
