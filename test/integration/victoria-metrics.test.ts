import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CELL } from "../../lib/accounting/ports.ts";
import type { Fact, Row, Window } from "../../lib/accounting/ports.ts";
import type { Selection } from "../../lib/accounting/tenant.ts";
import { type Client, createClient } from "../../lib/prometheus/connection.ts";
import { rowsOf } from "../support/rows-of.ts";
import { createMonitoring } from "../../lib/prometheus/monitoring.ts";
import { type Cluster, kindsCluster, MIXED, Random, type Series, simulate } from "../simulator/index.ts";
import { Schedule } from "../simulator/schedule.ts";
import { MemoryMonitoring } from "../support/memory-monitoring.ts";
import { startWatchProxy, withoutBody } from "../support/watch-proxy.ts";
import { type VictoriaMetrics, startVictoriaMetrics } from "../support/victoria-metrics.ts";

const FACTS: readonly Fact[] = [
  "end",
  "name",
  "start",
  "finished",
  "cores",
  "unscheduledCores",
  "vo",
  "cpu",
  "memoryRequest",
  "unscheduledMemoryRequest",
  "memoryUsed",
];
const DAY = 86_400;

/** The cluster, its series told apart by a label. */
const marked = (cluster: Cluster, name: string, exported: boolean): Cluster => ({
  ...cluster,
  stacks: cluster.stacks.map((stack) => ({ ...stack, exported, labels: { ...stack.labels, cluster: name } })),
});
const cluster = kindsCluster({ scrapeInterval: 300 });
const renamed = kindsCluster({ scrapeInterval: 300, kinds: ["native-sidecar", "failed", "redeployed"] });
const series = [...simulate(marked(cluster, "plain", false)), ...simulate(marked(renamed, "renamed", true))];
let victoria: VictoriaMetrics;
let client: Client;

beforeAll(async () => {
  const many = ["namespace", "exported_namespace"].flatMap(manyPods);
  victoria = await startVictoriaMetrics([...series, ...many, justNow()]);
  client = createClient({ url: victoria.url, timeoutSeconds: 60, concurrency: 4 });
}, 120_000);
afterAll(() => victoria.stop());

const PODS = 4000;
const FAILED = 900;
const when = { from: cluster.from, to: cluster.from + 600 };

/** Pods of which so many failed that they are asked for by name in several queries; a sample or two each. */
function manyPods(label: string): Series[] {
  const random = new Random("many pods");
  const schedule = new Schedule(300, 7, when, []);
  return Array.from({ length: PODS }, (_, index) => ({ uid: random.uid(), failed: index < FAILED })).flatMap(
    ({ uid, failed }) =>
      ["Succeeded", "Failed"].map((phase) => ({
        name: "kube_pod_status_phase",
        labels: { [label]: "many", uid, phase },
        segments: [{ ...when, value: (phase === "Failed") === failed ? 1 : 0 }],
        schedule,
      })),
  );
}

/** A sample of a moment ago. */
const moment = Math.floor(Date.now() / 1000) - 60;
function justNow(): Series {
  const segments = [{ from: moment, to: moment + 1, value: 7 }];
  return { name: "just_now", labels: {}, segments, schedule: new Schedule(1, 0, { from: 0, to: Infinity }, []) };
}

function selectionOf(name: string, labelPrefix = ""): Selection {
  return { namespace: MIXED, matchers: [`cluster="${name}"`], labelPrefix, voLabel: "label_example_org_vo" };
}

const sorted = (rows: readonly Row[]): Row[] =>
  rows
    // Servers add in different orders: equal to 12 digits is equal.
    .map((row) => ({ ...row, value: Number(row.value.toPrecision(12)) }))
    .sort((a, b) => (a.uid + (a.part ?? "") < b.uid + (b.part ?? "") ? -1 : 1));

describe("the real VictoriaMetrics answers as Prometheus does", () => {
  const all: Window = { from: cluster.from, to: cluster.to };

  test.each(FACTS)("%s, row by row, over windows with ends on scrapes and beside them", async (fact) => {
    const selection = selectionOf("plain");
    const [real, memory] = [createMonitoring(client, selection), new MemoryMonitoring(series, selection)];
    const onScrape = cluster.from + 40 * DAY + 7;
    const random = new Random(`windows of ${fact}`);
    const drawn = Array.from({ length: 8 }, () => {
      const length = random.pick([301, 3600, DAY, 9 * DAY, 31 * DAY]);
      const from = random.int(cluster.from, cluster.to - length);
      return { from, to: from + length };
    });
    let rows = 0;
    for (const window of [all, { from: onScrape, to: onScrape + 12 * 300 }, ...drawn]) {
      for (const only of [undefined, { prefixes: ["0", "7", "c"] }]) {
        const answer = sorted(await rowsOf(real, fact, window, only));
        rows += answer.length;
        const expected = sorted(await rowsOf(memory, fact, window, only));
        expect({ window, only, rows: answer }).toEqual({ window, only, rows: expected });
      }
    }
    expect(rows).toBeGreaterThan(50);
  });

  test("cell by cell, when monitoring was seen in three months with outages", async () => {
    const selection = selectionOf("plain");
    const window = { from: all.from, to: Math.floor(all.to / CELL) * CELL };
    const cells = await createMonitoring(client, selection).seen(window);
    expect(cells.length).toBeGreaterThan(20_000);
    expect(cells).toEqual(await new MemoryMonitoring(series, selection).seen(window));
  });

  test.each(["exported_", ""])("with labels renamed to exported_*, the prefix %j", async (labelPrefix) => {
    const selection = selectionOf("renamed", labelPrefix);
    const [real, memory] = [createMonitoring(client, selection), new MemoryMonitoring(series, selection)];
    const namespaces = await real.namespaces(all);
    expect([...namespaces.names, ...namespaces.exportedNames]).toContain(MIXED);
    expect(namespaces).toEqual(await memory.namespaces(all));
    for (const fact of FACTS) {
      expect(sorted(await rowsOf(real, fact, all))).toEqual(sorted(await rowsOf(memory, fact, all)));
    }
  });

  test.each(["", "exported_"])(
    "asked for many pods by name, the prefix %j, it takes every query",
    async (labelPrefix) => {
      const selection = { namespace: "many", matchers: [], labelPrefix };
      const asked = createMonitoring(client, selection);
      const rows = await rowsOf(asked, "finished", { from: when.from, to: when.to });
      expect(rows).toHaveLength(PODS);
      expect(rows.filter(({ value }) => value === 1)).toHaveLength(PODS);
    },
  );

  test.each(["plain", "renamed"])("asked for the requests of many pods by name, labels %s", async (name) => {
    const selection = selectionOf(name, name === "plain" ? "" : "exported_");
    const [real, memory] = [createMonitoring(client, selection), new MemoryMonitoring(series, selection)];
    const known = (await rowsOf(memory, "start", all)).map(({ uid }) => uid);
    const random = new Random("uids of nobody");
    const only = { uids: [...known, ...Array.from({ length: 400 }, () => random.uid())] };
    for (const fact of ["cores", "unscheduledCores", "memoryRequest"] as const) {
      const answer = sorted(await rowsOf(real, fact, all, only));
      expect(answer).toEqual(sorted(await rowsOf(memory, fact, all, only)));
      if (fact === "cores") expect(answer.length).toBeGreaterThan(10);
    }
  });

  test.each(["instant", "range"])(
    "a body that is dropped on its way is missed, and it is asked by GET (%s)",
    async (kind) => {
      const proxy = await startWatchProxy(victoria.url, withoutBody);
      try {
        const asking = createClient({ url: proxy.url, timeoutSeconds: 60, concurrency: 1 });
        const answer =
          kind === "instant" ? asking.instant("just_now", moment) : asking.range("1", moment, moment + 60, 60);
        expect(await answer).toHaveLength(1);
        expect(proxy.requests.map(({ method, status }) => [method, status])).toEqual([
          ["POST", 422],
          ["GET", 200],
        ]);
      } finally {
        await proxy.stop();
      }
    },
  );
});

test("a query at a moment just past is answered for that moment, not for an earlier one", async () => {
  await victoria.restart(["-search.latencyOffset=1h"]);
  expect(await client.instant("max_over_time(just_now[3600s])", moment + 1)).toEqual([
    { labels: { __name__: "just_now" }, value: 7 },
  ]);
});

describe("what the real VictoriaMetrics refuses is known for what it is", () => {
  const codeOf = (answer: Promise<unknown>): Promise<unknown> =>
    answer.then(
      () => "answered",
      (error: { code?: string }) => error.code,
    );
  // The names are not the server's words, which it repeats all the same.
  const query = `max_over_time(kube_pod_status_phase{namespace!="too many samples, timeout"}[${90 * DAY}s])`;

  test.each([
    ["-search.maxUniqueTimeseries=50", query, "prometheus_too_large"],
    ["-search.maxSamplesPerQuery=5000", query, "prometheus_too_large"],
    ["-search.maxSamplesPerSeries=10", query, "prometheus_too_large"],
    ["-search.maxQueryLen=50", query, "prometheus_bad_query"],
  ])("%s", async (flag, text, code) => {
    await victoria.restart([flag]);
    expect(await codeOf(client.instant(text, cluster.to))).toBe(code);
  });

  test("a query that is none, and more points than it gives", async () => {
    await victoria.restart(["-search.maxPointsPerTimeseries=100"]);
    expect(await codeOf(client.instant('up{a="timeout"', 1))).toBe("prometheus_bad_query");
    expect(await codeOf(client.range("up", 0, DAY, 300))).toBe("prometheus_too_large");
  });
});
