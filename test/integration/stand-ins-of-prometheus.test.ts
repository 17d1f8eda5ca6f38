import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { runAccounting } from "../../lib/accounting/run.ts";
import type { Tenant } from "../../lib/accounting/model/tenant.ts";
import { MemoryStore } from "../../lib/accounting/store/store.ts";
import { readMessage } from "../../lib/accounting/apel/read.ts";
import { type Connection, createClient } from "../../lib/accounting/prometheus/client.ts";
import { createMonitoring } from "../../lib/accounting/prometheus/monitoring.ts";
import { type Kind, kindsCluster, MIXED, monthStart, simulate, truth } from "../simulator/index.ts";
import { startAps } from "../support/aps-server.ts";
import { type Gate, type GateRules, apiError, startGate } from "../support/gate.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { serveSeries } from "../support/serve-series.ts";
import { type VictoriaMetrics, startVictoriaMetrics } from "../support/victoria-metrics.ts";
import { longestRange } from "../support/watch-proxy.ts";

/** Those in which copies, restarts, edges and phases make the answers of servers differ, if they do. */
const KINDS: readonly Kind[] = [
  "crosses-month",
  "failed",
  "last-seconds",
  "native-sidecar",
  "outage",
  "redeployed",
  "resized",
  "restarted",
  "several-containers",
  "two-stacks",
];
const DAY = 86_400;
/** With an outage at its end. */
const MONTH = "2025-02";
const cluster = kindsCluster({ kinds: KINDS, scrapeInterval: 300 });
let prometheus: PrometheusServer;
let victoria: VictoriaMetrics;
let direct: ReadonlyMap<string, string>;
const open: Gate[] = [];

beforeAll(async () => {
  const series = simulate(cluster);
  [prometheus, victoria] = await Promise.all([serveSeries(series), startVictoriaMetrics(series)]);
  direct = await messages({ url: prometheus.url });
}, 300_000);
afterAll(() => Promise.all([prometheus.stop(), victoria.stop()]));
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const gate of open.splice(0)) await gate.stop();
});

/** Every fact is asked: the first by VO, the second with CPU time and memory for each job. */
function tenants(): readonly Tenant[] {
  const common = {
    selection: { namespace: MIXED, matchers: [], labelPrefix: "" },
    vo: "ops",
    infrastructureType: "grid",
    nodeCount: 0,
    processors: 0,
    serviceLevel: { type: "si2k" as const, value: 2500 },
    settle: 6 * 3600,
  };
  const selection = { ...common.selection, voLabel: "label_example_org_vo" };
  return [
    { ...common, name: "summary", site: "A", submitHost: "a", selection, model: "core-seconds", format: "summary-0.2" },
    { ...common, name: "single", site: "B", submitHost: "b", model: "wallclock", format: "individual-0.4" },
  ];
}

/** The messages of a run over the month, by the name under which they are stored. */
async function messages(connection: Partial<Connection> & { readonly url: string }): Promise<Map<string, string>> {
  const client = createClient({ timeoutSeconds: 120, concurrency: 2, ...connection });
  const found = new Map<string, string>();
  // Each by itself: two tenants of one run may not select the same pods.
  for (const tenant of tenants()) {
    const store = new MemoryStore();
    const result = await runAccounting(
      [tenant],
      { store, monitoring: ({ selection }) => createMonitoring(client, selection) },
      {
        now: cluster.to,
        request: { mode: "gap", start: monthStart(MONTH), end: monthStart(MONTH, 1) },
        recount: false,
        force: false,
        allowDecrease: false,
        allowIncomplete: false,
      },
    );
    for (const { error } of result.months.flatMap(({ units }) => units)) if (error !== undefined) throw error;
    for (const key of await store.list("outgoing/")) found.set(key, (await store.get(key))?.body ?? "");
  }
  return found;
}

async function gateWith(rules: GateRules): Promise<Gate> {
  const gate = await startGate(prometheus.url, rules);
  open.push(gate);
  return gate;
}

/** What is asked of the whole time at once, besides facts. */
async function namesOf(connection: Partial<Connection> & { readonly url: string }): Promise<unknown> {
  const client = createClient({ timeoutSeconds: 120, concurrency: 2, ...connection });
  const [summary] = tenants();
  const monitoring = createMonitoring(client, summary?.selection ?? { namespace: "", matchers: [], labelPrefix: "" });
  const all = { from: cluster.from, to: cluster.to };
  const days = { from: cluster.from, to: Math.floor(cluster.to / DAY) * DAY };
  const presence: number[][] = [];
  for (const of of ["ends", "starts", "phases", "both phases", "zero phases", "requests", "kube-system"] as const)
    presence.push([...(await monitoring.presence(of, days))].sort((a, b) => a - b));
  return {
    namespaces: await monitoring.namespaces(all),
    voLabel: [await monitoring.voLabelSeen(all), await monitoring.voLabelSplit(all)],
    seen: await monitoring.seen(days),
    presence,
    // Which of the pods are sampled depends on the parts that are asked for.
    sampled: (await monitoring.sample(all, 12)).length,
  };
}

const statuses = ({ seen }: Gate): Set<number> => new Set(seen.map(({ status }) => status));
const reach = (form: URLSearchParams): number => {
  const span = Number(form.get("end") ?? 0) - Number(form.get("start") ?? 0);
  return span + longestRange(form.get("query") ?? "");
};

test("directly, the messages hold every job", () => {
  const records = [...direct.values()].flatMap((body) => readMessage(body, cluster.to));
  const jobs = truth(cluster, MONTH).get(MIXED)?.jobs;
  expect(jobs).toBeGreaterThan(15);
  expect(records.filter((record) => record.kind === "individual")).toHaveLength(jobs ?? 0);
  const summarised = records.flatMap((record) => (record.kind === "summary" ? [record.numberOfJobs] : []));
  expect(summarised.reduce((sum, some) => sum + some, 0)).toBe(jobs);
});

describe("VictoriaMetrics, which has the same data, gives the same messages", () => {
  test("as it is", async () => {
    expect(await messages({ url: victoria.url })).toEqual(direct);
  });

  test("where it allows few series and few samples a query", async () => {
    await victoria.restart(["-search.maxUniqueTimeseries=20", "-search.maxSamplesPerQuery=10000"]);
    const gate = await startGate(victoria.url, {});
    open.push(gate);
    expect(await messages({ url: gate.url })).toEqual(direct);
    expect(statuses(gate)).toEqual(new Set([200, 422]));
  });

  test("where it takes one query at a time and keeps none waiting for long", async () => {
    await victoria.restart(["-search.maxConcurrentRequests=1", "-search.maxQueueDuration=5ms"]);
    expect(await messages({ url: victoria.url, concurrency: 2 })).toEqual(direct);
  });
});

test("Amazon, with small answers and while it throttles, gives the same messages", async () => {
  vi.stubEnv("AWS_ACCESS_KEY_ID", "ASIAGRID");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "secret/of+the=grid");
  vi.stubEnv("AWS_SESSION_TOKEN", "token//");
  const keys = { ASIAGRID: { secret: "secret/of+the=grid", token: "token//" } };
  const gate = await startAps(prometheus.url, {
    keys,
    largest: (path) => (path.endsWith("_range") ? 50_000 : 1600),
    throttled: (count) => count % 25 === 7,
  });
  open.push(gate);
  expect(await messages({ url: gate.url, sigv4Region: "eu-west-1" })).toEqual(direct);
  expect(statuses(gate)).toEqual(new Set([200, 413, 429]));
  expect(await namesOf({ url: gate.url, sigv4Region: "eu-west-1" })).toEqual(await namesOf({ url: prometheus.url }));
  expect(Math.max(...gate.seen.map(({ form }) => reach(form)))).toBeLessThanOrEqual(32 * DAY);
});

test("Mimir, within its limits of range and series, gives the same messages to its tenant only", async () => {
  const gate = await gateWith({
    request: ({ headers, form }) => {
      if (headers["x-scope-orgid"] !== "grid") return { status: 401, body: "no org id" };
      if (reach(form) > 20 * DAY) {
        const text = "the total query time range exceeds the limit (query length: 505h0m0s, limit: 480h0m0s)";
        return apiError(400, "bad_data", `${text} (err-mimir-max-total-query-length). To adjust the related ...`);
      }
      if (!form.has("time") || longestRange(form.get("query") ?? "") <= 4 * DAY) return undefined;
      const text = "expanding series: the query exceeded the maximum number of series (limit: 100 series)";
      return apiError(422, "execution", `${text} (err-mimir-max-series-per-query). Consider reducing ...`);
    },
  });
  expect(await messages({ url: gate.url, orgId: "grid" })).toEqual(direct);
  expect(await namesOf({ url: gate.url, orgId: "grid" })).toEqual(await namesOf({ url: prometheus.url }));
  expect(statuses(gate)).toEqual(new Set([200, 400, 422]));
  const client = createClient({ url: gate.url, timeoutSeconds: 10, concurrency: 1 });
  await expect(client.instant("up", 1)).rejects.toMatchObject({ code: "prometheus_auth" });
  await expect(client.instant("up", 1)).rejects.toThrow("PROMETHEUS_ORG_ID");
});

test("Thanos, asked for whole answers while a store is away now and then, gives the same messages", async () => {
  let count = 0;
  const gate = await gateWith({
    request: ({ form }) => {
      const whole = ["partial_response", "dedup", "max_source_resolution"].map((name) => form.get(name));
      if (String(whole) !== "false,true,0s") throw new Error(`a partial answer was asked for: ${form.toString()}`);
      count += 1;
      const rpc = "expanding series: proxy Series(): rpc error: code =";
      if (count % 20 === 3) return apiError(422, "execution", `${rpc} Unavailable desc = connection refused`);
      if (!form.has("time") || longestRange(form.get("query") ?? "") <= 4 * DAY) return undefined;
      return apiError(422, "execution", `${rpc} ResourceExhausted desc = exceeded series limit: limit 100 violated`);
    },
  });
  expect(await messages({ url: gate.url })).toEqual(direct);
  expect(statuses(gate)).toEqual(new Set([200, 422]));
});
