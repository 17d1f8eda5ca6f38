// What docs/accounting-semantics.md says of two releases of KAPEL: their queries against the real Prometheus, their joins.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ASKED, referenceFigures, referenceQueries, valuesByPod } from "../../bench/accounting/reference.ts";
import type { Figures } from "../../bench/accounting/jobs.ts";
import { simulate, STACK } from "../simulator/index.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { serveSeries } from "../support/serve-series.ts";
import { at, cluster, HOUR, job } from "../unit/accounting/world.ts";

const [from, to] = [at("2025-01-10"), at("2025-01-12")];
const START = at("2025-01-10T08:00");
/** A pod of one hour whose containers, in the order of their names, request so many milli-cores. */
const pod = (namespace: string, ...milliCores: readonly number[]) =>
  job(START, START + HOUR, {
    in: namespace,
    pod: namespace,
    containers: milliCores.map((each, index) => ({ name: `c${index}`, milliCores: each })),
  });
const second = { ...STACK, job: "prod-kube-state-metrics", instances: [{ instance: "10.42.9.9:8080", from: 0 }] };
const oneStack = {
  jobs: [
    pod("plain", 2000),
    pod("equal", 1000, 1000),
    pod("large-first", 2000, 500),
    pod("large-last", 500, 2000),
    pod("same-name", 1000),
    job(START + 3 * HOUR, START + 4 * HOUR, { in: "same-name", pod: "same-name" }),
  ],
  stacks: [STACK],
};
const servers = new Map<"one" | "two", PrometheusServer>();

beforeAll(async () => {
  const serve = (stacks: typeof oneStack.stacks, jobs: typeof oneStack.jobs): Promise<PrometheusServer> =>
    serveSeries(simulate(cluster(jobs, { from, to, stacks })));
  servers.set("one", await serve(oneStack.stacks, oneStack.jobs));
  servers.set("two", await serve([STACK, second], [pod("plain", 2000)]));
}, 60_000);

afterAll(async () => {
  for (const server of servers.values()) await server.stop();
});

/** In Kuantifier this half of one query is different, since 29 May 2025; all else is the same. */
const OLD = "max without (instance, node)";
const NEW = "max by (pod, uid)";

/** A summary's figures, or how the program ends. */
async function outcome(release: "1.0.0" | "Kuantifier", namespace: string, stacks: "one" | "two" = "one") {
  const queries = referenceQueries(namespace, to - from);
  const results = new Map<string, ReadonlyMap<string, number>>();
  for (const asked of ASKED) {
    const query = release === "1.0.0" ? queries[asked] : queries[asked].replace(OLD, NEW);
    const body = new URLSearchParams({ query, time: String(to) });
    const answer = await fetch(`${servers.get(stacks)!.url}/api/v1/query`, { method: "POST", body });
    const text = await answer.text();
    if (!answer.ok) return `${answer.status} ${/found duplicate series for the match group/.exec(text)?.[0]}`;
    results.set(asked, valuesByPod(text));
  }
  const of = (asked: string) => results.get(asked)!;
  const all = {
    cputime: of("cputime"),
    endtime: of("endtime"),
    starttime: of("starttime"),
    cores: of("cores"),
    memory: of("memory"),
    cpuusage: of("cpuusage"),
  };
  try {
    return referenceFigures(all, { from });
  } catch (error) {
    return String(error);
  }
}

const REFUSED = "422 found duplicate series for the match group";
const ASSERTION = expect.stringContaining("does not add up") as string;
const hours = (cores: number): Figures => ({ jobs: 1, coreSeconds: cores * HOUR });

test("the two queries differ", () => {
  expect(referenceQueries("a", 60).cputime).toContain(OLD);
});

describe.for([
  ["one container of 2 cores", "plain", "one", hours(2), hours(2)],
  ["containers of 1 and 1 core", "equal", "one", REFUSED, hours(1)],
  ["containers of 2 and 0.5 cores", "large-first", "one", REFUSED, ASSERTION],
  ["containers of 0.5 and 2 cores", "large-last", "one", REFUSED, hours(2)],
  ["two stacks, one container of 2 cores", "plain", "two", REFUSED, hours(2)],
  ["one name twice", "same-name", "one", REFUSED, REFUSED],
] as const)("%s", ([, namespace, stacks, kapel, kuantifier]) => {
  test("KAPEL 1.0.0", async () => {
    expect(await outcome("1.0.0", namespace, stacks)).toEqual(kapel);
  });
  test("Kuantifier", async () => {
    expect(await outcome("Kuantifier", namespace, stacks)).toEqual(kuantifier);
  });
});
