import { describe, expect, test } from "vitest";
import {
  type Verdict,
  adviseOn,
  isTooLong,
  judgeRefusal,
  withoutQuery,
} from "../../../../lib/accounting/prometheus/errors.ts";

const VICTORIA = 'error when executing query="max(x{a=\\"too many samples\\"})" for (time=1743500000000, step=300000):';

describe("a refusal is judged by what the server says", () => {
  test.each<[server: string, status: number, words: string, verdict: Verdict]>([
    [
      "Prometheus",
      422,
      "execution: query processing would load too many samples into memory in query execution",
      "too_large",
    ],
    ["Prometheus", 503, "timeout: query timed out in expression evaluation", "too_large"],
    ["Prometheus", 503, "timeout: query timed out in query queue", "passing"],
    ["Prometheus", 503, "unavailable: TSDB not ready", "passing"],
    ["Prometheus", 400, 'bad_data: invalid parameter "query": 1:5: parse error: exceeds the limit', "final"],
    ["Prometheus", 400, "bad_data: exceeded maximum resolution of 11,000 points per timeseries", "final"],
    ["Prometheus", 422, "execution: found duplicate series for the match group", "final"],
    [
      "Thanos",
      422,
      "rpc error: code = ResourceExhausted desc = exceeded series limit: limit 10 violated (got 11)",
      "too_large",
    ],
    ["Thanos", 422, "code = ResourceExhausted desc = grpc: received message larger than max (5 vs. 4)", "too_large"],
    ["Thanos", 422, "rpc error: code = Unavailable desc = connection error: dial tcp: connection refused", "passing"],
    ["Thanos", 422, "rpc error: code = Aborted desc = no store matched", "passing"],
    ["Thanos", 422, "rpc error: code = DeadlineExceeded desc = context deadline exceeded", "too_large"],
    [
      "Mimir",
      422,
      "the query exceeded the maximum number of chunks (limit: 9 chunks) (err-mimir-max-chunks-per-query)",
      "too_large",
    ],
    [
      "Mimir",
      422,
      "the query exceeded the aggregated chunks size limit (limit: 9 bytes) (err-mimir-max-chunks-bytes-per-query)",
      "too_large",
    ],
    [
      "Mimir",
      422,
      "the query exceeded the maximum allowed estimated amount of memory consumed by a single query (limit: 9 bytes)",
      "too_large",
    ],
    [
      "Mimir",
      422,
      "the query time range exceeds the limit (query length: 12000h0m0s, limit: 768h0m0s) (err-mimir-max-query-length)",
      "too_large",
    ],
    ["Mimir", 500, "the query time range exceeds the limit (query length: 12000h0m0s, limit: 768h0m0s)", "too_large"],
    ["Mimir", 400, "the total query time range exceeds the limit (err-mimir-max-total-query-length)", "too_large"],
    [
      "Mimir",
      400,
      "the raw query size in bytes exceeds the limit (err-mimir-max-query-expression-size-bytes)",
      "final",
    ],
    [
      "Mimir",
      422,
      "the raw query size in bytes exceeds the limit (err-mimir-max-query-expression-size-bytes)",
      "final",
    ],
    ["Mimir", 422, "failed to fetch some blocks (err-mimir-store-consistency-check-failed)", "passing"],
    ["Mimir", 429, "too many outstanding requests", "passing"],
    ["Cortex", 422, "the query hit the max number of series limit (limit: 100 series)", "too_large"],
    ["Amazon", 422, "the query hit the max number of chunks limit while fetching chunks from ingesters", "too_large"],
    ["Amazon", 422, "execution: query timed out - consider simplifying your query", "too_large"],
    [
      "Amazon",
      422,
      "queries with long day range (32d to 95d) are currently only supported for range type queries",
      "too_large",
    ],
    ["Amazon", 413, "response larger than the max (181673024 vs 52428800)", "too_large"],
    ["Amazon", 429, "Rate exceeded", "passing"],
    ["Azure", 400, "Invalid time range. Timestamps must be valid and time range cannot exceed 32 days.", "too_large"],
    [
      "VictoriaMetrics",
      422,
      `${VICTORIA} the number of matching timeseries exceeds 50; either narrow down the search or increase -search.max* command-line flag values`,
      "too_large",
    ],
    [
      "VictoriaMetrics",
      422,
      `${VICTORIA} cannot select more than -search.maxSamplesPerQuery=20000 samples`,
      "too_large",
    ],
    [
      "VictoriaMetrics",
      422,
      `${VICTORIA} cannot execute "${"last_over_time(x[9s]) or ".repeat(400)}": the number of matching timeseries exceeds 20; either narrow down the search or increase -search.max* command-line flag values`,
      "too_large",
    ],
    ["VictoriaMetrics", 422, `${VICTORIA} cannot process more than 200 samples per series`, "too_large"],
    ["VictoriaMetrics", 422, `${VICTORIA} timeout exceeded during query execution: 30.000 seconds`, "too_large"],
    ["VictoriaMetrics", 422, `${VICTORIA} labelFilterExpr: unexpected token`, "final"],
    [
      "VictoriaMetrics",
      422,
      "too long query; got 20000 bytes; mustn't exceed `-search.maxQueryLen=16384` bytes",
      "final",
    ],
    [
      "VictoriaMetrics",
      503,
      'remoteAddr: "127.0.0.1:1"; requestURI: /api/v1/query?query=timeout; cannot handle more than 1 concurrent search requests',
      "passing",
    ],
    ["a gateway", 504, "upstream", "passing"],
    ["a gateway", 504, "504 Gateway Time-out", "too_large"],
    ["a gateway", 408, "", "too_large"],
    ["a gateway", 404, "", "final"],
    ["a gateway", 414, "", "final"],
    ["a gateway", 501, "Not Implemented", "final"],
    ["a gateway", 302, "", "final"],
  ])("%s %i %.200s", (_, status, words, verdict) => {
    expect(judgeRefusal(status, words)).toBe(verdict);
  });
});

test.each([
  [414, "Request-URI Too Large", true],
  [422, "too long query; got 20000 bytes; mustn't exceed `-search.maxQueryLen=16384` bytes", true],
  [400, "the raw query size in bytes exceeds the limit (err-mimir-max-query-expression-size-bytes)", true],
  [422, `${VICTORIA} oops`, false],
  [422, 'error when executing query="x{a=\\"too long query\\"}": oops', false],
  [503, "too long query", false],
  [413, "", false],
])("%i %s: whether the query's text is too long", (status, words, isLong) => {
  expect(isTooLong(status, words)).toBe(isLong);
});

test("the query that a server repeats is neither judged nor quoted", () => {
  expect(withoutQuery(`${VICTORIA} oops`)).toBe(
    "error when executing query=... for (time=1743500000000, step=300000): oops",
  );
});

test.each([
  [401, "no org id", false, "PROMETHEUS_ORG_ID"],
  [401, "Unauthorized", false, "PROMETHEUS_TOKEN_FILE"],
  [403, "Forbidden", true, "aps:QueryMetrics"],
  [403, "Signature expired: 20261130T000000Z is now earlier than ...", true, "clock"],
  [422, "rpc error: code = Unavailable", false, "all its stores are up"],
  [400, "Client sent an HTTP request to an HTTPS server.", false, "https://"],
  [429, "Rate exceeded", true, "QUERY_CONCURRENCY"],
  [307, "", false, "somewhere"],
  [405, "", false, "take POST or GET"],
  [501, "", false, "take POST or GET"],
  [407, "", false, "user:password@"],
  [414, "", false, "take POST"],
])("%i %s: what to do", (status, words, signed, advice) => {
  expect(adviseOn(status, words, "somewhere", signed).advice).toContain(advice);
});
