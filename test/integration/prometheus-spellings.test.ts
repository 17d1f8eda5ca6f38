// Both ways in which the labels of a pod are spelled, in the real Prometheus: accounting-rules, Two spellings.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Fact, Monitoring, Row } from "../../lib/accounting/model/monitoring.ts";
import { createClient } from "../../lib/accounting/prometheus/client.ts";
import { createMonitoring } from "../../lib/accounting/prometheus/monitoring.ts";
import { type PrometheusServer, startPrometheus } from "../support/prometheus-server.ts";
import { rowsOf } from "../support/rows-of.ts";
import { FACTS, sorted } from "../support/same-rows.ts";
import { CPU, KSM, type Labels, MEMORY, podOf, uidOf, WrittenSamples } from "../support/written-samples.ts";

const HOUR = 3600;
const DAY = 86_400;
/** 2025-03-10T00:00:00Z */
const T0 = 1_741_564_800;
const day = { from: T0, to: T0 + DAY };
const [BEGIN, SWITCH, END] = [T0 + HOUR, T0 + 1.5 * HOUR, T0 + 2 * HOUR];

/** How one kube-state-metrics writes the labels of a pod's container; each is a situation of its own, told apart by `cluster`. */
type Spelled = (pod: Labels, container?: string) => Labels;

const plain: Spelled = (pod, container) => ({ ...pod, ...(container === undefined ? {} : { container }) });

/** honor_labels: false. Labels that the target has itself stay its own: of kube-state-metrics' pod, in its own namespace. */
function renamedIn(home: string): Spelled {
  return ({ namespace = "", pod = "", ...others }, container) => ({
    ...others,
    exported_namespace: namespace,
    exported_pod: pod,
    ...(container === undefined ? {} : { exported_container: container }),
    namespace: home,
    pod: "ksm-0",
    container: "kube-state-metrics",
  });
}

/** A relabelling that copies exported_* back to the plain labels, and keeps them. */
const both: Spelled = (pod, container) => ({
  ...renamedIn("monitoring")(pod, container),
  ...plain(pod, container),
});

/** A relabelling of the namespace alone. */
const namespaceOnly: Spelled = (pod, container) => ({
  ...plain(pod, container),
  exported_namespace: pod["namespace"] ?? "",
});

const written = new WrittenSamples(BEGIN, END);

type Put = { readonly cluster: string; readonly spelled: Spelled; readonly from?: number; readonly to?: number };

/** A finished pod with two containers, a native sidecar and a VO, as one kube-state-metrics writes it. */
function putPod(
  namespace: string,
  n: number,
  { cluster, spelled, from = BEGIN, to = END }: Put,
  more: Labels = {},
): void {
  const pod = { ...podOf(namespace, n), ...more, cluster };
  const put = (metric: string, labels: Labels, value: number): void => written.put(metric, labels, value, from, to);
  const requests = "kube_pod_container_resource_requests";
  put("kube_pod_completion_time", spelled(pod), T0 + 5000);
  put("kube_pod_start_time", spelled(pod), T0 + 100);
  for (const phase of ["Pending", "Running", "Succeeded", "Failed", "Unknown"])
    put("kube_pod_status_phase", { ...spelled(pod), phase }, phase === "Succeeded" ? 1 : 0);
  put(requests, { ...spelled(pod, "main"), ...CPU }, 1);
  put(requests, { ...spelled(pod, "helper"), ...CPU }, 0.5);
  put(requests, { ...spelled(pod, "main"), ...MEMORY }, 4096);
  put("kube_pod_init_container_resource_requests", { ...spelled(pod, "native"), ...CPU }, 0.25);
  put("kube_pod_init_container_info", { ...spelled(pod, "native"), restart_policy: "Always" }, 1);
  put("kube_pod_labels", { ...spelled(pod), label_vo: "atlas" }, 1);
  put("kube_namespace_status_phase", { ...spelled({ ...KSM, namespace, cluster }), phase: "Active" }, 1);
}

const renamed = renamedIn("monitoring");
const inside = renamedIn("grid");
const other = { instance: "10.0.0.2:8080" };

function writeSamples(): void {
  putPod("grid", 1, { cluster: "plain", spelled: plain });
  putPod("grid", 1, { cluster: "renamed", spelled: renamed });
  putPod("grid", 1, { cluster: "inside", spelled: inside });
  // Of another namespace, as kube-state-metrics inside the jobs' namespace writes it; and its own pod.
  putPod("other", 2, { cluster: "inside", spelled: inside });
  putPod("grid", 1, { cluster: "both-kept", spelled: both });
  putPod("other", 2, { cluster: "both-kept", spelled: both });
  putPod("grid", 1, { cluster: "namespace-kept", spelled: namespaceOnly });
  putPod("grid", 1, { cluster: "switched", spelled: plain, to: SWITCH });
  putPod("grid", 1, { cluster: "switched", spelled: renamed, from: SWITCH + 60 });
  putPod("grid", 1, { cluster: "stacks", spelled: plain });
  putPod("grid", 1, { cluster: "stacks", spelled: renamed }, other);
  // Inside the namespace, beside a stack that honours labels: the plain namespace of the one is no pod's.
  putPod("grid", 1, { cluster: "inside-stacks", spelled: plain });
  putPod("grid", 1, { cluster: "inside-stacks", spelled: inside }, other);
  putPod("other", 2, { cluster: "inside-stacks", spelled: inside }, other);

  const resized = { ...podOf("grid", 3), cluster: "resized" };
  const requests = "kube_pod_container_resource_requests";
  written.put(requests, { ...plain(resized, "main"), ...CPU }, 4, BEGIN, SWITCH);
  written.put(requests, { ...renamed(resized, "main"), ...CPU }, 1, SWITCH + 60, END);
  written.put("kube_pod_labels", { ...plain(resized), label_vo: "cms" }, 1, BEGIN, SWITCH);
  written.put("kube_pod_labels", { ...renamed(resized), label_vo: "atlas" }, 1, SWITCH + 60, END);

  // A prefix that somebody chose, under which nothing is looked for unless it is set.
  const { namespace = "", ...chosen } = { ...podOf("grid", 4), cluster: "chosen" };
  written.put("kube_pod_start_time", { ...chosen, orig_namespace: namespace, namespace: "monitoring" }, T0);
}

const CLUSTERS = [
  "plain",
  "renamed",
  "inside",
  "both-kept",
  "namespace-kept",
  "switched",
  "stacks",
  "inside-stacks",
] as const;

let server: PrometheusServer;
beforeAll(async () => {
  writeSamples();
  server = await startPrometheus({ openmetrics: written.openmetrics });
});
afterAll(() => server.stop());

function monitoring(cluster: string, labelPrefix = "", namespace = "grid"): Monitoring {
  const client = createClient({ url: server.url, timeoutSeconds: 30, concurrency: 4 });
  return createMonitoring(client, { namespace, matchers: [`cluster="${cluster}"`], labelPrefix, voLabel: "label_vo" });
}

const uid = uidOf(1);
const parts = (rows: Readonly<Record<string, number>>): readonly Row[] =>
  Object.entries(rows).map(([part, value]) => ({ uid, part, value }));

/** What each fact must be, whichever way it is spelled. Of cAdvisor there is nothing here. */
const RIGHT: Readonly<Record<Exclude<Fact, "cpu" | "memoryUsed" | "runningUntil">, readonly Row[]>> = {
  end: [{ uid, value: T0 + 5000 }],
  name: [{ uid, value: T0 + 5000, text: "pod-1" }],
  start: [{ uid, value: T0 + 100 }],
  succeeded: [{ uid, value: 1 }],
  failed: [{ uid, value: 0 }],
  lastDay: [{ uid, value: T0 }],
  cores: parts({ helper: 0.5, main: 1, native: 0.25 }),
  unscheduledCores: [],
  coresAt: parts({ helper: 0.5, main: 1, native: 0.25 }).map((row) => ({ ...row, at: END })),
  vo: [{ uid, value: 1, text: "atlas" }],
  voAt: [{ uid, value: 1, text: "atlas", at: END }],
  memoryRequest: parts({ main: 4096 }),
  unscheduledMemoryRequest: [],
  memoryRequestAt: parts({ main: 4096 }).map((row) => ({ ...row, at: END })),
};

describe.each(CLUSTERS)("%s", (cluster) => {
  test.each(["", "exported_"])("every fact of the tenant's pods, and of no other pod (prefix %j)", async (prefix) => {
    const asked = monitoring(cluster, prefix);
    const wanted = Object.entries(RIGHT);
    expect(wanted.length).toBe(FACTS.length - 3);
    for (const fact of FACTS) {
      if (fact === "cpu" || fact === "memoryUsed" || fact === "runningUntil") continue;
      for (const only of [undefined, { uids: [uid, uidOf(2)] }, { prefixes: [uid.slice(0, 3)] }]) {
        const rows = sorted(await rowsOf(asked, fact, day, only));
        expect({ fact, only, rows }).toEqual({ fact, only, rows: RIGHT[fact] });
      }
    }
  });

  test("its namespace is known, the VO label seen, its pods sampled", async () => {
    const asked = monitoring(cluster);
    const { names, prefixes } = await asked.namespaces(day);
    expect(names).toContain("grid");
    expect(names).not.toContain("monitoring");
    expect(prefixes).toEqual([]);
    expect(await asked.voLabelSeen(day)).toBe(true);
    expect(await asked.sample(day, 10)).toEqual([uid]);
  });

  test("its pods are a sign of monitoring", async () => {
    const { cells } = await monitoring(cluster).seen(day);
    // Prometheus 2 closes a range at both ends, so that a sample on a cell's edge counts in two.
    expect([cells.length, cells[0], cells.at(-1)]).toEqual([14, BEGIN, END + 300]);
  });
});

test("a request and a VO that changed with the spelling: both values, and the newest is known", async () => {
  const asked = monitoring("resized");
  const row = { uid: uidOf(3), part: "main" };
  expect(sorted(await rowsOf(asked, "coresAt", day))).toEqual([
    { ...row, value: 1, at: END },
    { ...row, value: 4, at: SWITCH },
  ]);
  expect(sorted(await rowsOf(asked, "voAt", day))).toEqual([
    { uid: row.uid, value: 1, text: "atlas", at: END },
    { uid: row.uid, value: 1, text: "cms", at: SWITCH },
  ]);
});

test("another prefix is found, and read once it is set", async () => {
  expect(await monitoring("chosen").namespaces(day)).toEqual({ names: ["monitoring"], prefixes: ["orig_"] });
  expect(await rowsOf(monitoring("chosen"), "start", day)).toEqual([]);
  expect(await monitoring("chosen", "orig_").namespaces(day)).toEqual({ names: ["grid"], prefixes: [] });
  expect(await rowsOf(monitoring("chosen", "orig_"), "start", day)).toEqual([{ uid: uidOf(4), value: T0 }]);
  expect(await monitoring("chosen", "", "nobody").namespaces(day)).toMatchObject({ prefixes: [] });
});
