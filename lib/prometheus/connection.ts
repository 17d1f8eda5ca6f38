import { readFileSync } from "node:fs";
import { Agent } from "node:https";
import { rootCertificates } from "node:tls";
import { AxiosError, type AxiosRequestConfig, create, isCancel } from "axios";
import axiosRetry, { exponentialDelay } from "axios-retry";
import pLimit from "p-limit";
import { GridmeterError, errorText } from "../errors.ts";
import { type Sample, type Series, readMatrix, readVector, readVersion } from "./answer.ts";
import { authorization, secretsOf } from "./authorization.ts";
import { CUT_SHORT, NOT_JSON, type Source, failure, isTransient, parseJson } from "./failures.ts";

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
  /** A range query at `from`, `from + step`, ... up to `to` (epoch seconds). */
  range(query: string, from: number, to: number, step: number): Promise<readonly Series[]>;
  /** The server's version, or undefined where it does not tell (Thanos and managed services). */
  version(): Promise<string | undefined>;
};

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
    responseType: "text",
    transformResponse: (body: unknown) => body,
    ...(connection.caFile === undefined ? {} : { httpsAgent: trusting(connection.caFile) }),
  });
  http.interceptors.response.use((response) => {
    const text = String(response.data);
    const body = parseJson(text);
    if (body !== undefined) return { ...response, data: body };
    const code = /^\s*(?:\{|$)/.test(text) ? CUT_SHORT : NOT_JSON;
    throw new AxiosError("the JSON stops in the middle", code, response.config, undefined, response);
  });
  axiosRetry(http, {
    retries: RETRIES,
    retryCondition: isTransient,
    retryDelay: (count, error) =>
      Math.min(exponentialDelay(count, error, FIRST_DELAY_MS), LONGEST_DELAY_MS) * (1 + Math.random() / 4),
  });

  const deadlineSeconds = connection.timeoutSeconds + Math.min(connection.timeoutSeconds, TRANSFER);
  const source: Source = { name: nameOf(base), hide: hider(base, header), deadlineSeconds };
  const limit = pLimit(connection.concurrency);

  const ask = (path: string, request: AxiosRequestConfig): Promise<unknown> =>
    limit(async () => {
      let refusal: unknown;
      try {
        const response = await http.request<unknown>({
          ...request,
          url: address(base, path),
          signal: AbortSignal.timeout(deadlineSeconds * 1000),
          "axios-retry": { onRetry: (_count, error) => void (refusal = error) },
        });
        return response.data;
      } catch (thrown) {
        // A deadline reached while waiting to try again is the server's refusal, not a query too large.
        throw failure(isCancel(thrown) ? (refusal ?? thrown) : thrown, source);
      }
    });
  const post = (path: string, form: Record<string, string>): Promise<unknown> =>
    ask(path, {
      method: "POST",
      data: new URLSearchParams({ ...form, timeout: `${connection.timeoutSeconds}s`, ...WHOLE_ANSWER }),
    });

  return {
    instant: async (query, at) => readVector(await post("/api/v1/query", { query, time: `${at}` }), source.name),
    range: async (query, from, to, step) =>
      readMatrix(
        await post("/api/v1/query_range", { query, start: `${from}`, end: `${to}`, step: `${step}` }),
        source.name,
      ),
    version: async () => {
      try {
        return readVersion(await ask("/api/v1/status/buildinfo", { method: "GET" }));
      } catch {
        return undefined;
      }
    },
  };
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
