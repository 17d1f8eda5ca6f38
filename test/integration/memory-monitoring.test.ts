import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CELL } from "../../lib/accounting/ports.ts";
import type { Fact, Monitoring, Row, Window } from "../../lib/accounting/ports.ts";
import type { Selection } from "../../lib/accounting/tenant.ts";
import { createClient } from "../../lib/prometheus/connection.ts";
import { createMonitoring } from "../../lib/prometheus/monitoring.ts";
import { KIND_NAMES, kindsCluster, MIXED, namespaceOf, Random, simulate } from "../simulator/index.ts";
import type { Series } from "../simulator/index.ts";
import { MemoryMonitoring } from "../support/memory-monitoring.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { rowsOf } from "../support/rows-of.ts";
import { serveSeries } from "../support/serve-series.ts";

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

// Two minutes between scrapes halve the import; the semantics under test are the same.
const cluster = kindsCluster({ scrapeInterval: 120 });
const series = simulate(cluster);
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
  const selection = { namespace, matchers: [], labelPrefix: "", voLabel: "label_example_org_vo", ...more };
  const client = createClient({ url, timeoutSeconds: 60, concurrency: 4 });
  return [createMonitoring(client, selection), new MemoryMonitoring(all, selection)];
}

const sorted = (rows: readonly Row[]): Row[] =>
  rows
    // Prometheus may add in another order: equal to 12 digits is equal.
    .map((row) => ({ ...row, value: Number(row.value.toPrecision(12)) }))
    .sort((a, b) => (a.uid + (a.part ?? "") < b.uid + (b.part ?? "") ? -1 : 1));

/** Windows with ends that fall on scrapes, on edges of months, on nothing. */
function windows(count: number): Window[] {
  const random = new Random("windows");
  const drawn = Array.from({ length: count }, () => {
    const length = random.pick([60, 301, 3600, 6 * 3600, DAY, 9 * DAY, 31 * DAY]);
    const from = random.int(cluster.from, cluster.to - length);
    return { from, to: from + length };
  });
  const onScrape = cluster.from + 40 * DAY + 7;
  return [
    ...drawn,
    { from: cluster.from, to: cluster.to },
    { from: onScrape, to: onScrape + 120 * 300 },
    { from: onScrape - 1, to: onScrape + 7200 - 1 },
  ];
}

describe("the in-memory monitoring answers as the real Prometheus does", () => {
  test.each(FACTS)("%s, row by row, over many windows of the mixed namespace", async (fact) => {
    const [real, memory] = both(MIXED);
    let rows = 0;
    for (const window of windows(40)) {
      const answer = sorted(await rowsOf(real, fact, window));
      rows += answer.length;
      expect({ window, rows: sorted(await rowsOf(memory, fact, window)) }).toEqual({ window, rows: answer });
    }
    expect(rows).toBeGreaterThan(100);
  });

  test.each(KIND_NAMES)("kind %s: all facts over its whole time", async (kind) => {
    const [real, memory] = both(namespaceOf(kind));
    const window = { from: cluster.from, to: cluster.to };
    for (const fact of FACTS) {
      expect(sorted(await rowsOf(memory, fact, window))).toEqual(sorted(await rowsOf(real, fact, window)));
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
        expect(sorted(await rowsOf(memory, fact, window, only))).toEqual(
          sorted(await rowsOf(real, fact, window, only)),
        );
      }
    }
    expect((await rowsOf(real, "end", window)).length).toBeGreaterThan(0);
  });

  test("when monitoring was seen, cell by cell over three months with outages", async () => {
    const [real, memory] = both(MIXED);
    const window = { from: cluster.from, to: Math.floor(cluster.to / CELL) * CELL };
    const cells = await real.seen(window);
    expect(await memory.seen(window)).toEqual(cells);
    const outage = cluster.outages[0]!;
    expect(cells.filter((cell) => cell > outage.from + CELL && cell <= outage.to)).toEqual([]);
  });

  test("which namespaces there are, and whether the VO label was seen", async () => {
    const window = { from: cluster.from, to: cluster.to };
    const [real, memory] = both(MIXED);
    expect(await memory.namespaces(window)).toEqual(await real.namespaces(window));
    for (const voLabel of ["label_example_org_vo", "label_nowhere"]) {
      const [one, other] = both(MIXED, { voLabel });
      expect(await other.voLabelSeen(window)).toBe(await one.voLabelSeen(window));
    }
  });

  test("with labels renamed to exported_*, with the prefix and without it", async () => {
    const plain = kindsCluster({ kinds: ["native-sidecar"], scrapeInterval: 300 });
    const renamed = simulate({ ...plain, stacks: plain.stacks.map((stack) => ({ ...stack, exported: true })) });
    const other = await serveSeries(renamed);
    try {
      const window = { from: plain.from, to: plain.to };
      for (const labelPrefix of ["exported_", ""]) {
        const [real, memory] = both(MIXED, { labelPrefix }, other.url, renamed);
        const namespaces = await real.namespaces(window);
        expect([...namespaces.names, ...namespaces.exportedNames]).toContain(MIXED);
        expect(await memory.namespaces(window)).toEqual(namespaces);
        for (const fact of FACTS) {
          const answer = sorted(await rowsOf(real, fact, window));
          expect(sorted(await rowsOf(memory, fact, window))).toEqual(answer);
          if (fact.startsWith("unscheduled")) continue;
          expect(answer.length > 0).toBe(labelPrefix !== "" || fact === "cpu" || fact === "memoryUsed");
        }
      }
    } finally {
      await other.stop();
    }
  });
});
