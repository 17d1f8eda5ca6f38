// When monitoring was seen, in the real Prometheus: accounting-rules, Seen or not seen. Each situation has a label `cluster`.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Presence, Sighting, Window } from "../../lib/accounting/model/monitoring.ts";
import type { Selection } from "../../lib/accounting/model/tenant.ts";
import { createClient } from "../../lib/accounting/prometheus/client.ts";
import { createMonitoring } from "../../lib/accounting/prometheus/monitoring.ts";
import { type PrometheusServer, startPrometheus } from "../support/prometheus-server.ts";
import { KSM, type Labels, podOf, WrittenSamples } from "../support/written-samples.ts";

const HOUR = 3600;
const DAY = 86_400;
/** 2025-03-10T00:00:00Z */
const T0 = 1_741_564_800;
/** Scrapes never fall on the edge of a cell. */
const OFFSET = 7;
const SCRAPE = 150;
const day: Window = { from: T0, to: T0 + DAY };
const written = new WrittenSamples(T0, T0 + DAY);

/** A series that is there in these hours since T0. */
function put(metric: string, labels: Labels, value: number, ...hours: readonly (readonly [number, number])[]): void {
  for (const [from, to] of hours)
    written.put(metric, labels, value, T0 + from * HOUR + OFFSET, T0 + to * HOUR - 1, SCRAPE);
}

const OWN: Labels = { namespace: "monitoring", pod: "kube-state-metrics-5d4c", uid: "own", node: "n1" };
/** The tenant's pods are there all day but from hour 6 to 8. */
const WITH_HOLE = [
  [0, 6],
  [8, 24],
] as const;
const ALL_DAY = [0, 24] as const;

/** A cluster whose kube-state-metrics is up all day, and whose tenant's pods are away from hour 6 to 8. */
function putCluster(cluster: string): Labels {
  const target = { ...KSM, cluster };
  put("up", target, 1, ALL_DAY);
  put("kube_pod_start_time", { ...podOf("grid", 1), cluster }, T0 - HOUR, ...WITH_HOLE);
  return target;
}

function writeSigns(): void {
  // The endpoint about itself shares the job's name, and is up while the one about pods is not scraped.
  put("kube_pod_info", { ...putCluster("own-pod"), ...OWN }, 1, ...WITH_HOLE);
  put("up", { ...KSM, cluster: "own-pod", instance: "10.0.0.1:8081" }, 1, ALL_DAY);
  const { namespace = "", pod = "", ...others } = OWN;
  const renamed = { ...others, exported_namespace: namespace, exported_pod: pod, namespace, pod };
  put("kube_pod_info", { ...putCluster("own-pod-renamed"), ...renamed }, 1, ...WITH_HOLE);
  // Named by nobody, but with the address that is scraped.
  put(
    "kube_pod_info",
    { ...putCluster("own-address"), ...OWN, pod: "metrics-7x", pod_ip: "10.0.0.1" },
    1,
    ...WITH_HOLE,
  );
  const system = { ...OWN, namespace: "kube-system", pod: "coredns-1", phase: "Running" };
  put("kube_pod_status_phase", { ...putCluster("kube-system"), ...system }, 1, ...WITH_HOLE);
  const service = { ...OWN, namespace: "services", pod: "database-0" };
  const putService = (cluster: string, started: number, phase = "Running"): void => {
    const target = putCluster(cluster);
    put("kube_pod_start_time", { ...target, ...service }, started, ...WITH_HOLE);
    put("kube_pod_status_phase", { ...target, ...service, phase }, 1, ...WITH_HOLE);
  };
  putService("old-service", T0 - 7 * DAY);
  putService("young-service", T0 - 5 * DAY);
  putService("finished-service", T0 - 7 * DAY, "Succeeded");
  putCluster("idle");

  // kube-state-metrics' own pod covers what `up` does not know of, and where it is down its pods' series are stale.
  put("kube_pod_info", { ...KSM, ...OWN, cluster: "down" }, 1, ...WITH_HOLE);
  put("up", { ...KSM, cluster: "down" }, 1, ...WITH_HOLE);
  put("up", { ...KSM, cluster: "down" }, 0, [6, 8]);
  put("kube_pod_info", { ...KSM, ...OWN, cluster: "absent" }, 1, ...WITH_HOLE);
  put("kube_pod_info", { ...putCluster("short"), ...OWN }, 1, [0, 6], [6.3, 24]);
  put("up", { ...KSM, cluster: "never" }, 1, ALL_DAY);
  put("up", { job: "own-job", cluster: "other-job" }, 1, [0, 6]);

  // Away when the day begins: the pods before it decide, as long as they are not too old.
  put("up", { ...KSM, cluster: "before" }, 1, [-6 * 24, 24]);
  put("kube_pod_info", { ...KSM, ...OWN, cluster: "before" }, 1, [-6 * 24, -5 * 24]);
  put("up", { ...KSM, cluster: "idle-before" }, 1, [-6 * 24, 24]);
  put("kube_pod_start_time", { ...podOf("grid", 2), cluster: "idle-before" }, T0, [-6 * 24, -5 * 24]);
  put("up", { ...KSM, cluster: "long-before" }, 1, ALL_DAY);
  put("kube_pod_info", { ...KSM, ...OWN, cluster: "long-before" }, 1, [-32 * 24, -31 * 24]);

  // Without `up` and without a pod of its own: by pods, then by phases alone.
  put("kube_pod_start_time", { ...podOf("other", 3), cluster: "pods-only" }, T0, [1, 3]);
  put("kube_pod_status_phase", { ...podOf("other", 3), cluster: "pods-only", phase: "Running" }, 0, [12, 13]);
  put("kube_pod_info", { ...podOf("other", 3), cluster: "pods-only" }, 1, [15, 16]);
}

function writePresence(): void {
  const pod = { ...podOf("jobs", 4), cluster: "metrics" };
  const [first, second, third] = [
    [1, 2],
    [25, 26],
    [49, 50],
  ] as const;
  put("kube_pod_completion_time", pod, T0, first);
  put("kube_pod_start_time", pod, T0, second);
  put("kube_pod_status_phase", { ...pod, phase: "Running" }, 1, first, second, third);
  put("kube_pod_status_phase", { ...pod, phase: "Succeeded" }, 0, third);
  put("kube_pod_status_phase", { ...pod, phase: "Pending" }, 1, first);
  put("kube_pod_status_phase", { ...pod, phase: "Pending" }, 0, second);
  const requests = "kube_pod_container_resource_requests";
  put(requests, { ...pod, container: "main", resource: "memory" }, 1, first);
  put(requests, { ...pod, container: "main", resource: "cpu" }, 1, second);
  const system = { ...OWN, cluster: "metrics", namespace: "kube-system", pod: "coredns-1" };
  put(requests, { ...system, container: "main", resource: "cpu" }, 1, third);
  put("kube_pod_info", system, 1, first);
  const renamed = { ...KSM, cluster: "metrics", namespace: "monitoring", exported_namespace: "kube-system", uid: "x" };
  put("kube_pod_status_phase", { ...renamed, phase: "Running" }, 1, third);
  // kube-state-metrics runs in kube-system itself, and renames the labels of the others' pods.
  const inside = { ...KSM, cluster: "inside", namespace: "kube-system", exported_namespace: "jobs", uid: "y" };
  put("kube_pod_info", inside, 1, first);
}

let server: PrometheusServer;
beforeAll(async () => {
  writeSigns();
  writePresence();
  server = await startPrometheus({ openmetrics: written.openmetrics });
});
afterAll(() => server.stop());

const client = () => createClient({ url: server.url, timeoutSeconds: 30, concurrency: 4 });

function selectionOf(cluster: string, more: Partial<Selection> = {}): Selection {
  return { namespace: "grid", matchers: [`cluster="${cluster}"`], labelPrefix: "", ...more };
}

async function seen(cluster: string, tenants = ["grid"], window = day, more: Partial<Selection> = {}) {
  const sighting = await createMonitoring(client(), selectionOf(cluster, more), tenants).seen(window);
  return inHours(sighting);
}

/** Stretches as hours since T0. */
function inHours({ cells, partly, upOnly, silent }: Sighting) {
  const runs: { from: number; to: number }[] = [];
  for (const cell of cells) {
    const last = runs.at(-1);
    if (last?.to === cell - 300) last.to = cell;
    else runs.push({ from: cell - 300, to: cell });
  }
  const hours = (stretches: readonly Window[]): readonly string[] =>
    stretches.map(({ from, to }) => `${(from - T0) / HOUR} to ${(to - T0) / HOUR}`);
  return { cells: hours(runs), partly: hours(partly), upOnly: hours(upOnly), silent: hours(silent) };
}

const HOLE = { cells: ["0 to 6", "8 to 24"], partly: [], upOnly: [], silent: ["6 to 8"] };
const COVERED = { cells: ["0 to 24"], partly: [], upOnly: ["6 to 8"], silent: [] };

describe("`up` without pods is a gap where a pod was there at its edge that does not just stop", () => {
  test.each(["own-pod", "own-pod-renamed", "own-address", "kube-system", "old-service"])("%s", async (cluster) => {
    expect(await seen(cluster)).toEqual(HOLE);
  });

  test.each(["idle", "young-service", "finished-service"])("%s: no gap, `up` counts", async (cluster) => {
    expect(await seen(cluster)).toEqual(COVERED);
  });

  test("a pod of another tenant's namespace may stop at any time", async () => {
    expect(await seen("old-service", ["grid", "services"])).toEqual(COVERED);
  });

  test("where the day begins in it, the pods of the thirty days before decide", async () => {
    const nothing = { cells: [], partly: [], upOnly: [], silent: ["0 to 24"] };
    expect(await seen("before")).toEqual(nothing);
    expect(await seen("idle-before")).toEqual({ ...COVERED, upOnly: ["0 to 24"] });
    expect(await seen("long-before")).toEqual({ ...COVERED, upOnly: ["0 to 24"] });
    expect(await seen("never")).toEqual({ ...COVERED, upOnly: ["0 to 24"] });
  });

  test("less than half an hour is none, whatever was at its edge", async () => {
    expect(await seen("short")).toMatchObject({ cells: ["0 to 24"], silent: [] });
  });
});

describe("what is no gap by pods, and what is one without them", () => {
  test("`up` of 0, and no `up` at all", async () => {
    expect(await seen("down")).toEqual({ ...HOLE, silent: [] });
    expect(await seen("absent")).toEqual({ ...HOLE, silent: [] });
  });

  test("pods without `up`: by starts, by phases, by kube_pod_info; the same in parts as at once", async () => {
    const cells = ["1 to 3", "12 to 13", "15 to 16"];
    expect(await seen("pods-only")).toMatchObject({ cells, upOnly: [], silent: [] });
    expect(await seen("pods-only", ["grid"], { from: T0 - 40 * DAY, to: T0 + 40 * DAY })).toMatchObject({ cells });
  });

  test("a configured selector replaces all that", async () => {
    const monitoringSelector = 'up{job="own-job"}';
    expect(await seen("other-job")).toMatchObject({ cells: [] });
    expect(await seen("own-pod", ["grid"], day, { monitoringSelector })).toEqual({
      cells: ["0 to 6"],
      partly: [],
      upOnly: [],
      silent: [],
    });
  });

  test("nothing of another cluster", async () => {
    expect(await seen("south")).toEqual({ cells: [], partly: [], upOnly: [], silent: [] });
  });
});

describe("on which days anybody reports a metric, in whatever namespace and spelling", () => {
  const days = { from: T0 - DAY, to: T0 + 4 * DAY };
  test.each<[Presence, number[]]>([
    ["ends", [0]],
    ["starts", [1]],
    ["phases", [2]],
    ["both phases", []],
    ["zero phases", [1]],
    ["requests", [1, 2]],
    ["own pods", [0, 1]],
    ["kube-system", [0, 2]],
  ])("%s", async (of, expected) => {
    const found = await createMonitoring(client(), selectionOf("metrics", { namespace: "jobs" })).presence(of, days);
    expect([...found].sort((a, b) => a - b)).toEqual(expected.map((index) => T0 + index * DAY));
  });

  test("the namespace of kube-state-metrics itself is not that of the pods that it renames", async () => {
    expect(await createMonitoring(client(), selectionOf("inside")).presence("kube-system", days)).toEqual(new Set());
  });
});
