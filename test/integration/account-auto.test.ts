// What needs a clock of its own, at the library: auto mode day by day against the real Prometheus, into the real queue. And
// a server that refuses what is too large or too slow: the same figures, tile by tile.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { type RunResult, runAccounting } from "../../lib/accounting/run.ts";
import type { Tenant } from "../../lib/accounting/model/tenant.ts";
import type { ApelRecord } from "../../lib/accounting/apel/record.ts";
import { DirqQueue } from "../../lib/accounting/delivery/dirq.ts";
import { createClient } from "../../lib/accounting/prometheus/client.ts";
import { createMonitoring } from "../../lib/accounting/prometheus/monitoring.ts";
import { deliverAll } from "../../lib/accounting/delivery/deliver.ts";
import { DirectoryStore } from "../../lib/accounting/store/directory.ts";
import { kindsCluster, MIXED, monthStart, namespaceOf, NONE, simulate, truth } from "../simulator/index.ts";
import type { Figures, Kind } from "../simulator/index.ts";
import { ApelTable } from "../support/apel-table.ts";
import { dirqTool } from "../support/dirq-tool.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { bundledCli, gap, leastSettings, recordsIn, resultOf, runCli, treeOf } from "../support/run-cli.ts";
import { serveSeries } from "../support/serve-series.ts";
import { scratchDirectory } from "../support/store-script.ts";
import { longestRange, startWatchProxy } from "../support/watch-proxy.ts";
import { isLong } from "../support/size.ts";

const DAY = 86_400;
const KINDS: readonly Kind[] = [
  "plain",
  "several-containers",
  "native-sidecar",
  "last-seconds",
  "outage",
  "crosses-month",
  "early-container",
  "reused-name",
  "redeployed",
  "two-stacks",
  "still-running",
  "evicted",
  "deleted-early",
  "lingering",
];
const cluster = kindsCluster({ kinds: KINDS, scrapeInterval: 120 });
const series = simulate(cluster);
let server: PrometheusServer;
let program: readonly string[];
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;

beforeAll(async () => {
  scratch = await scratchDirectory();
  program = bundledCli(scratch.path);
  server = await serveSeries(series);
}, 180_000);

afterAll(async () => {
  await server.stop();
  await scratch.remove();
});

const figuresOf = (namespace: string, month: string, now = cluster.to): Figures =>
  truth({ ...cluster, to: now }, month).get(namespace) ?? NONE;

describe("auto, every night over a fortnight across a month's end", () => {
  /** Three tenants share a submit host, one has its own. */
  const tenants = [MIXED, namespaceOf("last-seconds"), namespaceOf("outage"), namespaceOf("lingering")].map(
    (namespace, index): Tenant => ({
      name: namespace,
      selection: { namespace, matchers: [], labelPrefix: "" },
      site: "EXAMPLE-SITE",
      submitHost: index < 3 ? "shared" : "own",
      vo: index === 1 ? "b" : "a",
      infrastructureType: "grid",
      nodeCount: 0,
      processors: 0,
      model: "core-seconds",
      format: "summary-0.2",
      serviceLevel: { type: "hepspec", value: 10 },
      settle: 6 * 3600,
    }),
  );

  async function night(folder: string, now: number): Promise<RunResult> {
    const store = new DirectoryStore(join(folder, "ledger"));
    const client = createClient({ url: server.url, timeoutSeconds: 120, concurrency: 4 });
    const result = await runAccounting(
      tenants,
      { store, monitoring: ({ selection }) => createMonitoring(client, selection) },
      {
        now,
        request: { mode: "auto" },
        recount: false,
        force: false,
        allowDecrease: false,
        allowIncomplete: false,
      },
    );
    await deliverAll(store, new DirqQueue(join(folder, "queue")), { now });
    return result;
  }

  /** ssmsend: takes all that is in the queue, in order, and the server loads it. */
  async function send(folder: string, table: ApelTable, now: number): Promise<void> {
    const queue = join(folder, "queue");
    const bodies = z.array(z.string()).parse(await dirqTool("read", queue));
    for (const body of bodies) expect(table.load(body, now)).toEqual([]);
    const names = (await treeOf(queue)).flatMap((line) => /^[0-9a-f]{8}\/[0-9a-f]{14}(?= )/.exec(line)?.[0] ?? []);
    expect(names).toHaveLength(bodies.length);
    await dirqTool("lock", queue, ...names);
    await dirqTool("send", queue, ...names);
  }

  const sorted = (rows: readonly ApelRecord[]): string[] => rows.map((row) => JSON.stringify(row)).sort();

  test("APEL's table is what one run at the end makes of it, and it is the truth", async () => {
    const [daily, once] = [join(scratch.path, "daily"), join(scratch.path, "once")];
    const [table, other] = [new ApelTable(), new ApelTable()];
    const first = monthStart("2025-02") + 21 * DAY;
    const nights = Array.from({ length: 15 }, (_, index) => first + index * DAY + 1800);
    const asked: number[] = [];
    for (const [index, now] of nights.entries()) {
      const result = await night(daily, now);
      const faults = result.months.flatMap(({ units }) => units.filter(({ error }) => error !== undefined));
      expect(faults).toEqual([]);
      asked.push(Math.max(...result.tenants.map(({ count }) => count.asked.days)));
      // ssmsend is down now and then; what waits meanwhile is replaced in the queue.
      if (index % 3 !== 1) await send(daily, table, now);
    }
    const last = nights.at(-1)!;
    await send(daily, table, last);
    await night(once, last);
    await send(once, other, last);

    // January was closed before the fortnight's end, so the one run at the end knows nothing of it.
    const open = (row: ApelRecord): boolean => row.kind !== "individual" && row.month > 1;
    expect(sorted(table.rows.filter(open))).toEqual(sorted(other.rows));
    for (const month of ["2025-01", "2025-02", "2025-03"]) {
      const figures = tenants.map(({ selection }) =>
        figuresOf(selection.namespace, month, month === "2025-01" ? first : last),
      );
      const jobs = figures.reduce((sum, each) => sum + each.jobs, 0);
      expect(table.totals(month).get("EXAMPLE-SITE")).toMatchObject({ jobs, syncJobs: jobs });
      expect(jobs).toBeGreaterThan(0);
    }
    const of = (month: string, namespace: string): Figures => figuresOf(namespace, month, last);
    const shared = [MIXED, namespaceOf("outage")].map((namespace) => of("2025-02", namespace));
    expect(table.rows).toContainEqual(
      expect.objectContaining({
        kind: "summary",
        submitHost: "shared",
        vo: "a",
        month: 2,
        numberOfJobs: shared[0]!.jobs + shared[1]!.jobs,
        wallDuration: Math.round((shared[0]!.milliCoreSeconds + shared[1]!.milliCoreSeconds) / 1000),
        earliestEndTime: Math.min(shared[0]!.firstEnd!, shared[1]!.firstEnd!),
        latestEndTime: Math.max(shared[0]!.lastEnd!, shared[1]!.lastEnd!),
      }),
    );
    // Two months at first; then the day, and the two before it, which settled at six in the morning of the next; and the
    // whole of February once more on the 4th.
    expect(asked[0]).toBe(31 + 22);
    expect(asked.slice(1, 6)).toEqual([3, 3, 3, 3, 3]);
    expect(asked[10]).toBeGreaterThanOrEqual(28);
    expect(Math.max(...asked.slice(11))).toBeLessThan(5);
  }, 180_000);
});

describe("a Prometheus that refuses large or long queries: the same messages", () => {
  const months = ["2025-01", "2025-02", "2025-03"];

  async function account(name: string, url: string): Promise<void> {
    const cwd = join(scratch.path, name);
    await mkdir(cwd);
    const run = await runCli(["account", ...gap("2025-01", "2025-04"), "--json"], {
      cwd,
      env: leastSettings(url),
      program,
    });
    expect(run).toMatchObject({ code: 0 });
    const records = await recordsIn(join(cwd, "gridmeter-data/outgoing"), Date.now() / 1000);
    expect(records).toHaveLength(6);
    for (const [index, month] of months.entries()) {
      const { jobs, milliCoreSeconds, firstEnd, lastEnd, leftOut } = figuresOf(MIXED, month);
      const seconds = Math.round(milliCoreSeconds / 1000);
      const own = { year: 2025, month: index + 1, numberOfJobs: jobs };
      const summary = {
        kind: "summary",
        ...own,
        wallDuration: seconds,
        cpuDuration: seconds,
        earliestEndTime: firstEnd,
        latestEndTime: lastEnd,
      };
      expect(records).toContainEqual(expect.objectContaining(summary));
      expect(records).toContainEqual(expect.objectContaining({ kind: "sync", ...own }));
      expect(resultOf(run).months[index]?.tenants[0]).toMatchObject({ jobs, leftOut, error: null });
    }
  }

  test("--query.max-samples", async () => {
    const small = await serveSeries(series, ["--query.max-samples=4000"]);
    const proxy = await startWatchProxy(small.url);
    try {
      await account("max-samples", proxy.url);
      const refused = proxy.requests.filter(({ status }) => status === 422);
      expect(refused.length).toBeGreaterThanOrEqual(5);
      const smallest = Math.min(
        ...refused.map(({ form }) => longestRange(form.get("query") ?? "")).filter((range) => range > 0),
      );
      expect(smallest).toBeLessThan(DAY);
    } finally {
      await proxy.stop();
      await small.stop();
    }
  }, 180_000);

  test.runIf(isLong)(
    "a query timeout that nothing longer than half a day meets",
    async () => {
      // The real server's own refusal: it gets a microsecond for what reaches back further.
      const proxy = await startWatchProxy(server.url, (form) => {
        if (longestRange(form.get("query") ?? "") > DAY / 2) form.set("timeout", "0.000001");
      });
      try {
        await account("timeout", proxy.url);
        const refused = proxy.requests.filter(({ status }) => status === 503);
        expect(refused.length).toBeGreaterThan(20);
        expect(proxy.requests.filter(({ status }) => status === 200).length).toBeGreaterThan(300);
      } finally {
        await proxy.stop();
      }
    },
    180_000,
  );
});
