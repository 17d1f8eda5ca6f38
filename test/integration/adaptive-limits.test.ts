// A server that refuses: the same messages as from one that does not, or a clean error, and never other figures.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RunResult, runAccounting } from "../../lib/accounting/run.ts";
import type { Tenant } from "../../lib/accounting/model/tenant.ts";
import { MemoryStore } from "../../lib/accounting/store/store.ts";
import { GridmeterError } from "../../lib/shared/errors.ts";
import { createClient } from "../../lib/accounting/prometheus/client.ts";
import { createMonitoring } from "../../lib/accounting/prometheus/monitoring.ts";
import { monthStart, openMetrics, Random, simulate, truth } from "../simulator/index.ts";
import type { Cluster, Series } from "../simulator/index.ts";
import { denseCluster } from "../support/dense-cluster.ts";
import { type Fault, prometheusError, startFaultProxy } from "../support/fault-proxy.ts";
import { MemoryMonitoring } from "../support/memory-monitoring.ts";
import { type PrometheusServer, startPrometheus } from "../support/prometheus-server.ts";
import { serveSeries } from "../support/serve-series.ts";
import { longestRange, startWatchProxy } from "../support/watch-proxy.ts";
import { isLong } from "../support/size.ts";

const HOUR = 3600;
const DAY = 86_400;
const MONTH = "2025-03";

const TENANT: Tenant = {
  name: "grid",
  selection: { namespace: "grid", matchers: [], labelPrefix: "" },
  site: "EXAMPLE-SITE",
  submitHost: "host",
  vo: "ops",
  infrastructureType: "grid",
  nodeCount: 0,
  processors: 0,
  model: "core-seconds",
  format: "summary-0.2",
  serviceLevel: { type: "si2k", value: 2500 },
  settle: 6 * HOUR,
};

/** One gap run over the month up to the cluster's end. */
function account(cluster: Cluster, server: string | readonly Series[], since: number): Promise<RunResult> {
  const tenant = { ...TENANT, since: new Date(since * 1000).toISOString().slice(0, 10) };
  const monitoring =
    typeof server === "string"
      ? createMonitoring(createClient({ url: server, timeoutSeconds: 60, concurrency: 4 }), tenant.selection)
      : new MemoryMonitoring(server, tenant.selection);
  return runAccounting(
    [tenant],
    { store: new MemoryStore(), monitoring: () => monitoring },
    {
      now: cluster.to,
      request: { mode: "gap", start: monthStart(MONTH), end: cluster.to },
      recount: false,
      force: false,
      allowDecrease: false,
      allowIncomplete: false,
    },
  );
}

/** What was published, or the errors. */
const outcome = (result: RunResult) =>
  result.months.flatMap(({ units }) => units.map(({ status, messages, error }) => ({ status, messages, error })));

function jobsIn(cluster: Cluster): number {
  return truth(cluster, MONTH).get("grid")?.jobs ?? 0;
}

describe("--query.max-samples below the series of one hour", () => {
  const from = monthStart(MONTH) + 2 * DAY;
  // 60 pods end in an hour, so about 150 are there, and a query may hold 64 samples.
  const cluster = denseCluster({ from, to: from + 14 * HOUR, jobs: 60 * 14, scrapeInterval: 300 });
  const series = simulate(cluster);

  test("the uids are split, and the messages are the same", async () => {
    const small = await serveSeries(series, ["--query.max-samples=64"]);
    const proxy = await startWatchProxy(small.url);
    try {
      const found = outcome(await account(cluster, proxy.url, from));
      expect(found).toEqual(outcome(await account(cluster, series, from)));
      expect(found[0]).toMatchObject({ status: "published" });
      expect([...(found[0]?.messages ?? [])].join("\n")).toContain(`NumberOfJobs: ${jobsIn(cluster)}\n`);
      const split = proxy.requests.filter(({ form }) => form.get("query")?.includes(`uid=~"(?:`) === true);
      expect(split.filter(({ status }) => status === 200).length).toBeGreaterThan(100);
      const refused = proxy.requests.filter(({ status }) => status === 422);
      expect(refused.length).toBeGreaterThan(10);
      // What an hour holds was learnt, so most questions were answered.
      expect(refused.length).toBeLessThan(proxy.requests.length / 4);
      expect(proxy.requests.length).toBeLessThan(3000);
    } finally {
      await proxy.stop();
      await small.stop();
    }
  }, 180_000);
});

describe("a tiny --query.timeout", () => {
  const from = monthStart(MONTH) + DAY;
  const cluster = denseCluster({ from, to: from + 4 * DAY, jobs: 4000, scrapeInterval: 300 });
  const series = simulate(cluster);

  test("which days exceed and hours meet: the messages are the same", async () => {
    // Blocks as short as a real server's: of each that a query touches it looks up all series.
    const hasty = await startPrometheus({
      openmetrics: [...openMetrics(series)].join(""),
      blockHours: 54,
      extraFlags: ["--query.timeout=30ms"],
    });
    const proxy = await startWatchProxy(hasty.url);
    try {
      const found = outcome(await account(cluster, proxy.url, from));
      expect(found).toEqual(outcome(await account(cluster, series, from)));
      expect([...(found[0]?.messages ?? [])].join("\n")).toContain(`NumberOfJobs: ${jobsIn(cluster)}\n`);
      const refused = proxy.requests.filter(({ status }) => status === 503 || status === 422);
      expect(Math.max(...refused.map(({ form }) => longestRange(form.get("query") ?? "")))).toBeGreaterThan(DAY);
    } finally {
      await proxy.stop();
      await hasty.stop();
    }
  }, 180_000);
});

describe("a proxy that answers 429, 503, 413 and cut bodies at random", () => {
  const from = monthStart(MONTH) + DAY;
  const cluster = denseCluster({ from, to: from + 6 * DAY, jobs: 600, scrapeInterval: 300 });
  const series = simulate(cluster);
  let server: PrometheusServer;
  beforeAll(async () => {
    server = await serveSeries(series);
  }, 60_000);
  afterAll(() => server.stop());

  function drawn(random: Random): Fault {
    switch (random.int(1, 5)) {
      case 1:
        return prometheusError(429, "too_many_requests", "slow down");
      case 2:
        return prometheusError(503, "unavailable", "overloaded");
      case 3:
        return { kind: "answer", status: 413, body: "<html>Request Entity Too Large</html>" };
      default:
        return { kind: "shortened", share: random.int(0, 999) / 1000, tells: random.int(0, 1) === 1 };
    }
  }

  test.runIf(isLong)("every longer answer is cut short: less is asked, and the messages are the same", async () => {
    const proxy = await startFaultProxy(server.url);
    const cut: Fault = { kind: "shortened", share: 0.9, tells: true };
    let cuts = 0;
    proxy.draw(({ form }) => {
      if (longestRange(form.get("query") ?? "") <= 3 * DAY) return undefined;
      cuts += 1;
      return cut;
    });
    try {
      expect(outcome(await account(cluster, proxy.url, from))).toEqual(outcome(await account(cluster, series, from)));
      expect(cuts).toBeGreaterThan(4);
    } finally {
      await proxy.stop();
    }
  });

  test.each(isLong ? [1, 5, 10, 15, 20, 25, 30] : [10])(
    "%i of 100: the same messages or a clean error",
    async (percent) => {
      const expected = outcome(await account(cluster, series, from));
      expect(expected).toMatchObject([{ status: "published" }]);
      const runs = await Promise.all(
        [1, 2, 3, 4, 5, 6, 7, 8].map(async (seed) => {
          const random = new Random(`${percent} of 100, ${seed}`);
          const proxy = await startFaultProxy(server.url);
          let faults = 0;
          proxy.draw(() => {
            if (random.int(1, 100) > percent) return undefined;
            faults += 1;
            return drawn(random);
          });
          try {
            return { found: outcome(await account(cluster, proxy.url, from)), faults };
          } finally {
            await proxy.stop();
          }
        }),
      );
      let published = 0;
      for (const { found } of runs) {
        if (found[0]?.error === undefined) {
          expect(found).toEqual(expected);
          published += 1;
          continue;
        }
        const { error } = found[0];
        if (!(error instanceof GridmeterError)) throw error;
        expect(error.code).toMatch(/^prometheus_(?:too_large|unavailable|bad_answer|unreachable)$/);
        expect(error.message).toContain("Nothing was published.");
      }
      expect(published).toBeGreaterThan(2);
      expect(runs.reduce((sum, { faults }) => sum + faults, 0)).toBeGreaterThanOrEqual(Math.floor(percent / 4));
    },
    60_000,
  );
});
