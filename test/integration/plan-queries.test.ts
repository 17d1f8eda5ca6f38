// `gridmeter plan` beside `gridmeter account`: a real Prometheus behind a proxy that notes what was really sent.
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { kindsCluster, makeJob, MIXED, Random, simulate, STACK } from "../simulator/index.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { bundledCli, gap, jsonOf, leastSettings, runCli } from "../support/run-cli.ts";
import type { CliRun } from "../support/run-cli.ts";
import { serveSeries } from "../support/serve-series.ts";
import { scratchDirectory } from "../support/store-script.ts";
import { startWatchProxy } from "../support/watch-proxy.ts";
import type { WatchProxy } from "../support/watch-proxy.ts";

// An ordinary site, on which nothing is in doubt: questions about what is found to be wrong are in no plan.
const kinds = kindsCluster({ kinds: ["plain", "no-cpu-request", "failed"], scrapeInterval: 120 });
const random = new Random("plan");
const beside = kinds.jobs
  .filter(({ kind }) => kind === "no-cpu-request")
  .map(({ namespace, starts: [start], containers: [container] }) =>
    makeJob("plain", namespace, random, { start: start?.value ?? 0, end: container?.runs.at(-1)?.to ?? 0 }),
  );
const cluster = { ...kinds, jobs: [...kinds.jobs, ...beside], stacks: [STACK], outages: [] };
const IDLE = "idle";
let server: PrometheusServer;
let proxy: WatchProxy;
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let program: readonly string[];

beforeAll(async () => {
  scratch = await scratchDirectory();
  program = bundledCli(scratch.path);
  server = await serveSeries(simulate({ ...cluster, emptyNamespaces: [IDLE] }));
  proxy = await startWatchProxy(server.url);
}, 180_000);

afterAll(async () => {
  await proxy.stop();
  await server.stop();
  await scratch.remove();
});

function gridmeter(args: readonly string[], { env, month = ["2025-02", "2025-03"] }: Case): Promise<CliRun> {
  const settings = leastSettings(proxy.url, { NAMESPACE: MIXED, ...env });
  return runCli([...args, ...gap(...month), "--json"], { cwd: scratch.path, env: settings, program });
}

/** A query but for the length of its windows, and the pods that it is narrowed to, whose uids may stand in two places. */
const shape = (query: string): string =>
  query
    .replaceAll(/\[\d+s\]/g, "[]")
    .replaceAll(/,(?:exported_)?uid=~"[^"]*"/g, "")
    .replaceAll(',exported_uid=""', "")
    .replaceAll(/(\b\w+\([^()]*\)) or \1/g, "$1");

const planned = z.object({
  months: z.array(
    z.object({ pieces: z.array(z.object({ queries: z.array(z.object({ asks: z.string(), query: z.string() })) })) }),
  ),
});

/** What a plan has, by the queries' shapes. */
async function plan(each: Case): Promise<ReadonlyMap<string, string>> {
  const { months } = planned.parse(jsonOf(await gridmeter(["plan"], each)));
  const queries = months.flatMap(({ pieces }) => pieces.flatMap((piece) => piece.queries));
  return new Map(queries.map(({ asks, query }) => [shape(query), asks]));
}

const FAILED = "failed, only of pods that did not succeed";
const UNSCHEDULED = "unscheduledCores, only if a finished pod has no CPU request that names a node";
const CPU = "cpu, only if a pod has finished";
const MEMORY = ["memoryRequest, only if a pod has finished", "memoryUsed, only if a pod has finished"];
const NO_POD = "namespaces, only if no pod of the namespace is found";
const OWN_LABELS = "own labels, only if there are jobs";
/** There are days on which no job ended. */
const NONE_FINISHED = "pods of a day, only if none finished";
const STARTS = "starts, only if there are pods on a day on which none finished, and the one before has no series";
const OTHER_SIGN = "seen, only where the one before has no series";

const ORDINARY = [FAILED, UNSCHEDULED, OWN_LABELS, NONE_FINISHED];

type Case = {
  readonly name: string;
  readonly env: Readonly<Record<string, string>>;
  readonly month?: readonly [string, string];
  /** which of the queries that are not always sent are sent */
  readonly sometimes: readonly string[];
};

const cases: readonly Case[] = [
  { name: "summaries of core-seconds", env: {}, sometimes: [...ORDINARY] },
  {
    name: "summaries of the wallclock model",
    env: { ACCOUNTING_MODEL: "wallclock" },
    sometimes: [...ORDINARY, CPU],
  },
  {
    name: "single jobs",
    env: { MESSAGE_FORMAT: "individual-0.4" },
    sometimes: [...ORDINARY, CPU, ...MEMORY],
  },
  {
    name: "single jobs of core-seconds",
    env: { MESSAGE_FORMAT: "individual-0.4", ACCOUNTING_MODEL: "core-seconds" },
    sometimes: [...ORDINARY, ...MEMORY],
  },
  {
    name: "a VO label that no pod has",
    env: { VO_LABEL: "none" },
    sometimes: [...ORDINARY, "voLabelSeen, only if no job has the label label_none"],
  },
  {
    name: "a namespace without pods",
    env: { NAMESPACE: IDLE, MESSAGE_FORMAT: "individual-0.4" },
    sometimes: [NO_POD, NONE_FINISHED],
  },
  { name: "a sign of monitoring of one's own", env: { MONITORING_SELECTOR: "up" }, sometimes: [...ORDINARY] },
  {
    name: "a month before which there is no data",
    env: {},
    month: ["2025-01", "2025-02"],
    sometimes: [...ORDINARY, OTHER_SIGN, STARTS],
  },
];

test.for(cases)("$name: a run sends what its plan has, and nothing else", { timeout: 60_000 }, async (each) => {
  const expected = await plan(each);
  expect(proxy.requests.splice(0)).toEqual([]);
  await gridmeter(["account", "--dry-run"], each);
  const sent = new Set(proxy.requests.splice(0).flatMap(({ form }) => form.getAll("query").map(shape)));
  expect([...sent].filter((query) => !expected.has(query))).toEqual([]);
  const always = [...expected].filter(([, asks]) => !asks.includes(", only "));
  expect(always.filter(([query]) => !sent.has(query))).toEqual([]);
  const others = [...sent].flatMap((query) => expected.get(query) ?? []).filter((asks) => asks.includes(", only "));
  expect(new Set(others)).toEqual(new Set(each.sometimes));
});
