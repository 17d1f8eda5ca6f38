import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CELL, type Fact, type Monitoring, type Presence, type Window } from "../../lib/accounting/model/monitoring.ts";
import type { Selection } from "../../lib/accounting/model/tenant.ts";
import { createClient } from "../../lib/accounting/prometheus/client.ts";
import { createMonitoring } from "../../lib/accounting/prometheus/monitoring.ts";
import { KIND_NAMES, kindsCluster, MIXED, namespaceOf, Random, simulate } from "../simulator/index.ts";
import type { Series } from "../simulator/index.ts";
import { MemoryMonitoring } from "../support/memory-monitoring.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { rowsOf } from "../support/rows-of.ts";
import { bothRows, FACTS, isMoment } from "../support/same-rows.ts";
import { serveSeries } from "../support/serve-series.ts";

const DAY = 86_400;

// Two minutes between scrapes halve the import; the semantics under test are the same.
const INTERVAL = 120;
const cluster = kindsCluster({ scrapeInterval: INTERVAL });
const VO = "label_example_org_vo";
const series = simulate(cluster).map(splitLabel);
let server: PrometheusServer;

beforeAll(async () => {
  server = await serveSeries(series);
}, 180_000);

afterAll(() => server.stop());

/** Both answer for the same tenant. */
function both(
  namespace: string,
  more: Partial<Selection> = {},
  url = server.url,
  all: readonly Series[] = series,
): readonly [real: Monitoring, memory: MemoryMonitoring] {
  const selection = { namespace, matchers: [], labelPrefix: "", voLabel: VO, ...more };
  const client = createClient({ url, timeoutSeconds: 60, concurrency: 4 });
  return [createMonitoring(client, selection), new MemoryMonitoring(all, selection)];
}

/** Pods whose uid begins with 7 have two labels of one name, which kube-state-metrics tells apart by a number. */
function splitLabel(one: Series): Series {
  const { [VO]: vo, ...labels } = one.labels;
  if (vo === undefined || labels["uid"]?.startsWith("7") !== true) return one;
  return { ...one, labels: { ...labels, [`${VO}_conflict1`]: vo, [`${VO}_conflict2`]: "other" } };
}

/** The whole time; for facts that are moments the days with a redeploy and with the second stack. */
function wholeFor(fact: Fact): Window {
  if (isMoment(fact)) return { from: cluster.from + 9 * DAY, to: cluster.from + 23 * DAY };
  return { from: cluster.from, to: cluster.to };
}

/** Windows with ends that fall on scrapes, on edges of months, on nothing; all of them short for facts that are moments. */
function windows(fact: Fact, count: number): Window[] {
  const longest = isMoment(fact) ? 2 * DAY : Infinity;
  const random = new Random("windows");
  const drawn = Array.from({ length: count }, () => {
    const length = random.pick([60, 301, 3600, 6 * 3600, DAY, 9 * DAY, 31 * DAY].filter((each) => each <= longest));
    const from = random.int(cluster.from, cluster.to - length);
    return { from, to: from + length };
  });
  const onScrape = cluster.from + 40 * DAY + 7;
  return [
    ...drawn,
    ...(isMoment(fact) ? [] : [wholeFor(fact)]),
    { from: onScrape, to: onScrape + 120 * 300 },
    { from: onScrape - 1, to: onScrape + 7200 - 1 },
  ];
}

describe("the in-memory monitoring answers as the real Prometheus does", () => {
  test.each(FACTS)("%s, row by row, over many windows of the mixed namespace", async (fact) => {
    let rows = 0;
    for (const window of windows(fact, 40)) {
      const { answer, expected } = await bothRows(both(MIXED), fact, window, INTERVAL);
      rows += answer.length;
      expect({ window, rows: expected }).toEqual({ window, rows: answer });
    }
    expect(rows).toBeGreaterThan(isMoment(fact) ? 20 : 100);
  });

  test.each(KIND_NAMES)("kind %s: all facts over its whole time", async (kind) => {
    for (const fact of FACTS) {
      const { answer, expected } = await bothRows(both(namespaceOf(kind)), fact, wholeFor(fact), INTERVAL);
      expect({ fact, rows: expected }).toEqual({ fact, rows: answer });
    }
  });

  test("restricted to uid prefixes and to one replica's series", async () => {
    const [real, memory] = both(MIXED, { matchers: [`prometheus_replica="b"`] });
    const window = { from: cluster.from, to: cluster.to };
    const started = await rowsOf(memory, "start", window);
    for (const fact of FACTS) {
      const uids = started.slice(3, 9).map(({ uid }) => uid);
      for (const only of [
        { prefixes: ["0", "1", "2", "a"] },
        { prefixes: ["3f"] },
        { prefixes: ["b", "c", "d"] },
        { uids },
      ]) {
        const { answer, expected } = await bothRows([real, memory], fact, wholeFor(fact), INTERVAL, only);
        expect({ fact, only, rows: expected }).toEqual({ fact, only, rows: answer });
      }
    }
    expect((await rowsOf(real, "end", window)).length).toBeGreaterThan(0);
  });

  test("when monitoring was seen, cell by cell over three months with outages", async () => {
    const [real, memory] = both(MIXED);
    const window = { from: cluster.from, to: Math.floor(cluster.to / CELL) * CELL };
    const sighting = await real.seen(window);
    expect(await memory.seen(window)).toEqual(sighting);
    const outage = cluster.outages[0]!;
    expect(sighting.cells.filter((cell) => cell > outage.from + CELL && cell <= outage.to)).toEqual([]);
  });

  test("which namespaces there are, and whether the VO label was seen, or split", async () => {
    const window = { from: cluster.from, to: cluster.to };
    const [real, memory] = both(MIXED);
    expect(await memory.namespaces(window)).toEqual(await real.namespaces(window));
    for (const voLabel of [VO, "label_nowhere"]) {
      const [one, other] = both(MIXED, { voLabel });
      expect(await other.voLabelSeen(window)).toBe(await one.voLabelSeen(window));
      const split = await one.voLabelSplit(window);
      expect(await other.voLabelSplit(window)).toBe(split);
      expect(split > 0).toBe(voLabel === VO);
    }
  });

  test("on which days there was a metric, of all stacks and of one that lived for three days", async () => {
    const midnight = Math.floor(cluster.from / DAY) * DAY;
    const window = { from: midnight, to: midnight + 40 * DAY };
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
    for (const matchers of [[], [`prometheus_replica="b"`], [`prometheus_replica="c"`]]) {
      const [real, memory] = both(MIXED, { matchers });
      for (const of of questions) {
        const found = [...(await real.presence(of, window))].sort((a, b) => a - b);
        expect({ of, found }).toEqual({ of, found: [...(await memory.presence(of, window))].sort((a, b) => a - b) });
        expect(found.length > 0).toBe(matchers[0] !== `prometheus_replica="c"`);
      }
    }
  });

  test("some of the pods of a window, or all where there are few", async () => {
    const [real, memory] = both(MIXED);
    const window = { from: cluster.from + 3 * DAY, to: cluster.from + 23 * DAY };
    const started = new Set((await rowsOf(memory, "start", window)).map(({ uid }) => uid));
    expect(new Set(await real.sample(window, 4 * started.size))).toEqual(started);
    const some = await real.sample(window, 8);
    expect(some).toHaveLength(8);
    expect(some.filter((uid) => !started.has(uid))).toEqual([]);
    expect(await both("nobody")[0].sample(window, 8)).toEqual([]);
  });

  test("with labels renamed to exported_*, whether the prefix is set or not", async () => {
    const plain = kindsCluster({ kinds: ["native-sidecar", "redeployed", "resized"], scrapeInterval: 300 });
    const renamed = simulate({ ...plain, stacks: plain.stacks.map((stack) => ({ ...stack, exported: true })) });
    const other = await serveSeries(renamed);
    try {
      const window = { from: plain.from, to: plain.to };
      for (const labelPrefix of ["exported_", ""]) {
        const [real, memory] = both(MIXED, { labelPrefix }, other.url, renamed);
        const namespaces = await real.namespaces(window);
        expect(namespaces.names).toContain(MIXED);
        expect(await memory.namespaces(window)).toEqual(namespaces);
        for (const fact of FACTS) {
          const { answer, expected } = await bothRows([real, memory], fact, wholeFor(fact), 300);
          expect({ fact, rows: expected }).toEqual({ fact, rows: answer });
          if (!fact.startsWith("unscheduled")) expect(answer.length).toBeGreaterThan(0);
          const only = { uids: answer.slice(0, 9).map(({ uid }) => uid) };
          const some = await bothRows([real, memory], fact, wholeFor(fact), 300, only);
          expect({ fact, only, rows: some.expected }).toEqual({ fact, only, rows: some.answer });
        }
      }
    } finally {
      await other.stop();
    }
  });
});
