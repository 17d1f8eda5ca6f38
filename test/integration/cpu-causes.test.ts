// Why a month has no measured CPU use, over the real Prometheus: what `account` refuses it with, and what `check` says before.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runAccounting } from "../../lib/accounting/run.ts";
import type { Tenant } from "../../lib/accounting/model/tenant.ts";
import { checkPrometheus } from "../../lib/accounting/check.ts";
import { MemoryStore } from "../../lib/accounting/store/store.ts";
import { createClient } from "../../lib/accounting/prometheus/client.ts";
import { createMonitoring } from "../../lib/accounting/prometheus/monitoring.ts";
import type { Series } from "../simulator/index.ts";
import { simulate } from "../simulator/index.ts";
import { MemoryMonitoring } from "../support/memory-monitoring.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { rowsOf } from "../support/rows-of.ts";
import { serveSeries } from "../support/serve-series.ts";
import { at, cluster, ended, message, tenant, unitIn } from "../unit/accounting/world.ts";

const NOW = at("2025-02-20");
const CPU = "container_cpu_usage_seconds_total";
const END = "2025-02-18T12:00";

/** A series of cAdvisor as a site's monitoring has it, by namespace; undefined where it has none. */
const CHANGED: Readonly<Record<string, (one: Series) => readonly Series[]>> = {
  fine: (one) => [one],
  "no-cadvisor": () => [],
  "no-label-id": (one) => [withLabels(one, { id: undefined, name: undefined })],
  "odd-ids": (one) => [withLabels(one, { id: `/docker/${one.labels["name"]}` })],
  // cAdvisor does not reach the container runtime: only whole pods are left.
  "no-container": (one) => [withLabels(one, { container: undefined })],
  // The kubelet's /metrics/resource is scraped as well: the same metric, without an id.
  "resource-too": (one) =>
    one.name === CPU && one.labels["container"] === "main"
      ? [one, withLabels(one, { id: undefined, name: undefined, metrics_path: "/metrics/resource" })]
      : [one],
  // One node of several is not scraped.
  "some-nodes": (one) => (one.labels["node"] === "node-1" ? [one] : []),
};
const NAMESPACES = Object.keys(CHANGED);

function withLabels(one: Series, labels: Readonly<Record<string, string | undefined>>): Series {
  const merged = Object.entries({ ...one.labels, ...labels });
  const kept = merged.flatMap(([name, value]): [string, string][] => (value === undefined ? [] : [[name, value]]));
  return { ...one, labels: Object.fromEntries(kept) };
}

const jobs = NAMESPACES.flatMap((name) =>
  ["node-1", "node-2", "node-3", "node-4"].map((node) =>
    ended(END, { in: name, placements: [{ node, from: at(END) - 3601 }], containers: [{ milliCores: 1000 }] }),
  ),
);
const series = simulate(cluster(jobs, { from: at("2025-02-01"), to: NOW, emptyNamespaces: ["idle"] })).flatMap((one) =>
  one.name.startsWith("container_") ? (CHANGED[one.labels["namespace"] ?? ""]?.(one) ?? [one]) : [one],
);

let server: PrometheusServer;
beforeAll(async () => {
  server = await serveSeries(series);
}, 180_000);
afterAll(() => server.stop());

const client = () => createClient({ url: server.url, timeoutSeconds: 60, concurrency: 4 });

/** The unit of February of a tenant that has the namespace, as a run of its own publishes it. */
async function february(namespace: string, more: Partial<Tenant> = {}) {
  const result = await runAccounting(
    [tenant(namespace, { model: "wallclock", since: "2025-02-01", ...more })],
    { store: new MemoryStore(), monitoring: (one) => createMonitoring(client(), one.selection) },
    {
      now: NOW,
      request: { mode: "auto" },
      recount: false,
      force: false,
      allowDecrease: false,
      allowIncomplete: false,
    },
  );
  return unitIn(result, "2025-02");
}

/** What `check` says of cAdvisor. */
async function finding(namespace: string, more: Partial<Tenant> = { model: "wallclock" }) {
  const findings = await checkPrometheus(client(), tenant(namespace, more), NOW, [namespace]);
  const [found] = findings.filter(({ question }) => question.includes("cAdvisor"));
  return { count: findings.length, ...found };
}

describe("a month that lacks CPU use is refused with the cause, and check says it before", () => {
  test.each([
    ["no-cadvisor", "there is no cAdvisor", "/metrics/cadvisor"],
    ["no-container", "there is no cAdvisor", "namespace, container and id"],
    ["no-label-id", "has no label id", "Do not drop the label id"],
    ["odd-ids", `unreadable: there is no pod's uid in "/docker/`, "report the form"],
  ])("%s", async (namespace, cause, remedy) => {
    const refused = await february(namespace);
    expect(refused.error).toMatchObject({ code: "cpu_data_refused", exit: 3 });
    expect(message(refused)).toContain(`4 jobs with 100.0 %`);
    expect(message(refused)).toContain(`on 2025-02-18, in namespace "${namespace}"`);
    expect(message(refused)).toContain(cause);
    expect(message(refused)).toContain(remedy);
    expect(await finding(namespace)).toMatchObject({
      ok: false,
      answer: expect.stringContaining(cause),
      remedy: expect.stringContaining(remedy),
    });
  });

  test("nodes that are not scraped", async () => {
    const refused = await february("some-nodes");
    expect(message(refused)).toMatch(/3 jobs with 75\.0 %.*there of other pods only.*every node/);
  });
});

describe("what is ordinary is neither refused nor complained of", () => {
  test.each(["fine", "resource-too"])("%s: each form of id is counted", async (namespace) => {
    expect(await february(namespace)).toMatchObject({ status: "published" });
    expect(await finding(namespace)).toMatchObject({ ok: true, answer: "yes" });
  });

  test("core-seconds need no cAdvisor", async () => {
    expect(await february("no-cadvisor", { model: "core-seconds" })).toMatchObject({ status: "published" });
    const findings = await checkPrometheus(client(), tenant("no-cadvisor"), NOW, ["no-cadvisor"]);
    expect(findings.filter(({ question }) => question.includes("cAdvisor"))).toEqual([]);
  });

  test("records of single jobs only lack MemoryReal", async () => {
    expect(await finding("no-cadvisor", { format: "individual-0.3" })).toMatchObject({
      ok: true,
      answer: expect.stringContaining("MemoryReal"),
    });
  });

  test("a namespace without pods", async () => {
    expect(await finding("idle")).toMatchObject({ remedy: expect.stringContaining("Fine if no pod ran there lately") });
  });
});

test.each(NAMESPACES)("%s: the in-memory monitoring has the same rows", async (namespace) => {
  const { selection } = tenant(namespace);
  const window = { from: at("2025-02-18"), to: at("2025-02-19") };
  const [real, memory] = [createMonitoring(client(), selection), new MemoryMonitoring(series, selection)];
  const sorted = async (monitoring: typeof real) =>
    (await rowsOf(monitoring, "cpu", window)).toSorted((a, b) => ((a.part ?? "") < (b.part ?? "") ? -1 : 1));
  expect(await sorted(memory)).toEqual(await sorted(real));
});
