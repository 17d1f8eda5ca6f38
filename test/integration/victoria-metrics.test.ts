import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CELL, type Presence, type Window } from "../../lib/accounting/model/monitoring.ts";
import type { Selection } from "../../lib/accounting/model/tenant.ts";
import { type Client, createClient } from "../../lib/accounting/prometheus/client.ts";
import { createMonitoring } from "../../lib/accounting/prometheus/monitoring.ts";
import { rowsOf } from "../support/rows-of.ts";
import { bothRows, FACTS, isMoment, sorted } from "../support/same-rows.ts";
import { type Cluster, kindsCluster, MIXED, Random, type Series, simulate } from "../simulator/index.ts";
import { Schedule } from "../simulator/schedule.ts";
import { MemoryMonitoring } from "../support/memory-monitoring.ts";
import { startWatchProxy, withoutBody } from "../support/watch-proxy.ts";
import { type VictoriaMetrics, startVictoriaMetrics } from "../support/victoria-metrics.ts";

const DAY = 86_400;

const INTERVAL = 300;

/** The cluster, its series told apart by a label. */
const marked = (cluster: Cluster, name: string, exported: boolean): Cluster => ({
  ...cluster,
  stacks: cluster.stacks.map((stack) => ({ ...stack, exported, labels: { ...stack.labels, cluster: name } })),
});
const cluster = kindsCluster({ scrapeInterval: INTERVAL });
const renamed = kindsCluster({ scrapeInterval: INTERVAL, kinds: ["native-sidecar", "failed", "redeployed"] });
const series = [...simulate(marked(cluster, "plain", false)), ...simulate(marked(renamed, "renamed", true))];
let victoria: VictoriaMetrics;
let client: Client;

beforeAll(async () => {
  const many = ["namespace", "exported_namespace"].flatMap(manyPods);
  victoria = await startVictoriaMetrics([...series, ...many, ...splitLabels(), justNow()]);
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

/** The labels of two pods of which kube-state-metrics splits the VO label, one of them seen by two stacks. */
function splitLabels(): Series[] {
  const schedule = new Schedule(300, 7, when, []);
  const labels = { namespace: "split", label_vo_conflict1: "cms", label_vo_conflict2: "atlas" };
  return [
    { uid: "11111111-1111-4111-8111-111111111111", instance: "a" },
    { uid: "11111111-1111-4111-8111-111111111111", instance: "b" },
    { uid: "22222222-2222-4222-8222-222222222222", instance: "a" },
  ].map((pod) => ({
    name: "kube_pod_labels",
    labels: { ...labels, ...pod },
    segments: [{ ...when, value: 1 }],
    schedule,
  }));
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
    const longest = isMoment(fact) ? 9 * DAY : Infinity;
    for (const window of [all, { from: onScrape, to: onScrape + 12 * 300 }, ...drawn]) {
      if (window.to - window.from > longest) continue;
      for (const only of [undefined, { prefixes: ["0", "7", "c"] }]) {
        const { answer, expected } = await bothRows([real, memory], fact, window, INTERVAL, only);
        rows += answer.length;
        expect({ window, only, rows: answer }).toEqual({ window, only, rows: expected });
      }
    }
    expect(rows).toBeGreaterThan(isMoment(fact) ? 5 : 50);
  });

  test("cell by cell, when monitoring was seen in three months with outages", async () => {
    const selection = selectionOf("plain");
    const window = { from: all.from, to: Math.floor(all.to / CELL) * CELL };
    const sighting = await createMonitoring(client, selection).seen(window);
    expect(sighting.cells.length).toBeGreaterThan(20_000);
    expect(sighting).toEqual(await new MemoryMonitoring(series, selection).seen(window));
  });

  test.each(["exported_", ""])("with labels renamed to exported_*, the prefix %j", async (labelPrefix) => {
    const selection = selectionOf("renamed", labelPrefix);
    const [real, memory] = [createMonitoring(client, selection), new MemoryMonitoring(series, selection)];
    const namespaces = await real.namespaces(all);
    expect(namespaces.names).toContain(MIXED);
    expect(namespaces).toEqual(await memory.namespaces(all));
    for (const fact of FACTS) {
      const window = isMoment(fact) ? { from: all.from + 8 * DAY, to: all.from + 12 * DAY } : all;
      const { answer, expected } = await bothRows([real, memory], fact, window, INTERVAL);
      expect({ fact, rows: answer }).toEqual({ fact, rows: expected });
      if (!fact.startsWith("unscheduled")) expect(answer.length).toBeGreaterThan(0);
    }
  });

  test.each(["plain", "renamed"])("on which days there was a metric, and some of the pods, labels %s", async (name) => {
    const selection = selectionOf(name);
    const [real, memory] = [createMonitoring(client, selection), new MemoryMonitoring(series, selection)];
    const window = { from: all.from, to: all.from + 40 * DAY };
    const questions: readonly Presence[] = [
      "ends",
      "starts",
      "phases",
      "both phases",
      "zero phases",
      "requests",
      "kube-system",
      "own pods",
    ];
    for (const of of questions) {
      const found = [...(await real.presence(of, window))].sort((a, b) => a - b);
      expect({ of, found }).toEqual({ of, found: [...(await memory.presence(of, window))].sort((a, b) => a - b) });
      expect(found.length).toBeGreaterThan(0);
    }
    const started = new Set((await rowsOf(memory, "start", window)).map(({ uid }) => uid));
    expect(new Set(await real.sample(window, 4 * started.size))).toEqual(started);
    expect(await real.sample(window, 4)).toHaveLength(4);
  });

  test("how many pods have a VO label that was split, copies not counted", async () => {
    const selection = { namespace: "split", matchers: [], labelPrefix: "", voLabel: "label_vo" };
    const monitoring = createMonitoring(client, selection);
    expect(await monitoring.voLabelSplit({ from: when.from, to: when.to })).toBe(2);
    expect(await monitoring.voLabelSplit({ from: when.to + DAY, to: when.to + 2 * DAY })).toBe(0);
  });

  test.each(["", "exported_"])(
    "asked for many pods by name, the prefix %j, it takes every query",
    async (labelPrefix) => {
      const selection = { namespace: "many", matchers: [], labelPrefix };
      const asked = createMonitoring(client, selection);
      const window = { from: when.from, to: when.to };
      const succeeded = await rowsOf(asked, "succeeded", window);
      expect(succeeded).toHaveLength(PODS);
      const open = succeeded.filter(({ value }) => value === 0).map(({ uid }) => uid);
      expect(open).toHaveLength(FAILED);
      const failed = await rowsOf(asked, "failed", window, { uids: open });
      expect(failed.filter(({ value }) => value === 1)).toHaveLength(FAILED);
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
