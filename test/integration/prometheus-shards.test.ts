// One of several kube-state-metrics away, in the real Prometheus: accounting-rules, Shards. Each situation has a label `cluster`.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Window } from "../../lib/accounting/model/monitoring.ts";
import { createClient } from "../../lib/accounting/prometheus/client.ts";
import { createMonitoring } from "../../lib/accounting/prometheus/monitoring.ts";
import { type PrometheusServer, startPrometheus } from "../support/prometheus-server.ts";
import { type Labels, uidOf, WrittenSamples } from "../support/written-samples.ts";

const HOUR = 3600;
const DAY = 86_400;
/** 2025-03-10T00:00:00Z */
const T0 = 1_741_564_800;
/** Scrapes never fall on the edge of a cell. */
const OFFSET = 7;
const SCRAPE = 150;
const day: Window = { from: T0, to: T0 + DAY };
const written = new WrittenSamples(T0, T0 + DAY);

type Hours = readonly (readonly [number, number])[];
const ALL_DAY: Hours = [[0, 24]];
/** Away for two hours. */
const AWAY: Hours = [
  [0, 6],
  [8, 24],
];
const DOWN: Hours = [[6, 8]];

function put(metric: string, labels: Labels, value: number, hours: Hours): void {
  for (const [from, to] of hours)
    written.put(metric, labels, value, T0 + from * HOUR + OFFSET, T0 + to * HOUR - 1, SCRAPE);
}

type Shown = {
  readonly pods: readonly number[];
  readonly hours: Hours;
  readonly namespace?: string;
  readonly phase?: string;
  readonly node?: string;
  /** honor_labels: false */
  readonly renamed?: boolean;
};

/** A target of kube-state-metrics, up while it shows pods, and down in other hours. */
function putTarget(
  cluster: string,
  instance: string,
  shown: readonly Shown[],
  down: Hours = [],
  upAlso: Hours = [],
): void {
  const target = { job: "kube-state-metrics", instance: `${instance}:8080`, cluster };
  for (const { pods, hours, namespace = "grid", phase = "Running", node = "n1", renamed = false } of shown) {
    for (const n of pods) {
      const labels = renamed
        ? { exported_namespace: namespace, exported_pod: `pod-${n}`, namespace: "monitoring", pod: "ksm" }
        : { namespace, pod: `pod-${n}` };
      const pod = { ...target, ...labels, uid: uidOf(n) };
      put("kube_pod_status_phase", { ...pod, phase }, 1, hours);
      put("kube_pod_start_time", pod, T0 - HOUR, hours);
      put("kube_pod_info", { ...pod, node }, 1, hours);
    }
  }
  const up = [...(shown[0]?.hours ?? []), ...upAlso];
  put("up", target, 1, up);
  put("up", target, 0, down);
}

/** The first target of each cluster is there all day, with a pod of its own. */
function putCluster(cluster: string, ...others: readonly Parameters<typeof putTarget>[]): void {
  putTarget(cluster, "a", [{ pods: [1], hours: ALL_DAY }]);
  for (const other of others) putTarget(...other);
}

function writeTargets(): void {
  const second = (pods: readonly number[], more: Partial<Shown> = {}): Shown[] => [{ pods, hours: AWAY, ...more }];
  const b = (cluster: string, down: Hours, pods = [2, 3], more: Partial<Shown> = {}): Parameters<typeof putTarget> => [
    cluster,
    "b",
    second(pods, more),
    down,
  ];
  putCluster("down", b("down", DOWN));
  putCluster("down-renamed", b("down-renamed", DOWN, [2, 3], { renamed: true }));
  putCluster("gone-and-back", b("gone-and-back", []));
  const short: Hours = [
    [0, 6],
    [6.4, 24],
  ];
  putCluster("short", b("short", [[6, 6.4]], [2], { hours: short }));
  putCluster(
    "half-an-hour",
    b("half-an-hour", [[6, 6.5]], [2], {
      hours: [
        [0, 6],
        [6.5, 24],
      ],
    }),
  );
  // Both show the same pods.
  putCluster("copy", b("copy", DOWN, [1]));
  putCluster("copy-of-all", [
    "copy-of-all",
    "b",
    [
      { pods: [1], hours: AWAY },
      { pods: [8], hours: AWAY, namespace: "other" },
    ],
    DOWN,
  ]);
  // Gone for good: its pods run nowhere any more.
  putCluster("gone-for-good", b("gone-for-good", [], [2, 3], { hours: [[0, 6]] }));
  putCluster("finished-only", b("finished-only", [], [2, 3], { phase: "Succeeded" }));
  // Another tenant's pods, and the endpoint about kube-state-metrics itself.
  putCluster("others-pods", b("others-pods", DOWN, [2], { namespace: "other" }));
  putCluster("self", ["self", "self", [], DOWN, AWAY]);
  // A successor shows one of its pods: a quarter of an hour later, or two hours later.
  putCluster("successor", b("successor", [], [2, 3], { hours: [[0, 6]] }), [
    "successor",
    "c",
    [{ pods: [3, 4], hours: [[6.25, 24]] }],
  ]);
  putCluster("late-successor", b("late-successor", [[6, 24]], [2, 3], { hours: [[0, 6]] }), [
    "late-successor",
    "c",
    [{ pods: [3, 4], hours: [[8, 24]] }],
  ]);
  putCluster("late-successor-of-gone", b("late-successor-of-gone", [], [2, 3], { hours: [[0, 6]] }), [
    "late-successor-of-gone",
    "c",
    [{ pods: [3, 4], hours: [[8, 24]] }],
  ]);
  // Of a DaemonSet: each shows the pods of its own node.
  putCluster("daemonset-down", b("daemonset-down", DOWN, [2, 3], { node: "n2" }));
  putCluster("daemonset-back", b("daemonset-back", [], [2, 3], { node: "n2" }));
  putCluster("daemonset-node-gone", b("daemonset-node-gone", [], [2, 3], { node: "n2", hours: [[0, 6]] }));
  // Two jobs, each with a target of its own, are no shards of each other.
  putTarget("two-jobs", "a", [{ pods: [1], hours: ALL_DAY }]);
  const otherJob = { job: "monitoring/kube-state-metrics", instance: "b:8080", cluster: "two-jobs" };
  put("kube_pod_status_phase", { ...otherJob, namespace: "grid", uid: uidOf(2), phase: "Running" }, 1, AWAY);
  put("up", otherJob, 1, AWAY);
  put("up", otherJob, 0, DOWN);
  // Away when the day begins.
  putCluster(
    "before",
    b("before", [[-24, 3]], [2], {
      hours: [
        [-72, -24],
        [3, 24],
      ],
    }),
  );
}

/** Clusters whose kube-state-metrics say how many shards they are. */
function writeSelfMetrics(): void {
  const putShards = (cluster: string, total: number, shards: readonly Hours[]): void => {
    putTarget(cluster, "a", [{ pods: [1], hours: ALL_DAY }]);
    shards.forEach((hours, ordinal) => {
      const self = { job: "kube-state-metrics-self", instance: `${ordinal}:8081`, cluster };
      put("kube_state_metrics_total_shards", self, total, hours);
      put("kube_state_metrics_shard_ordinal", { ...self, shard_ordinal: String(ordinal) }, ordinal, hours);
    });
  };
  putShards("all-shards", 2, [ALL_DAY, ALL_DAY]);
  putShards("one-away", 2, [ALL_DAY, AWAY]);
  putShards("one-away-shortly", 2, [
    ALL_DAY,
    [
      [0, 6],
      [6.4, 24],
    ],
  ]);
  putShards("one-never", 3, [ALL_DAY, ALL_DAY]);
  putShards("none-says", 2, [AWAY, AWAY]);
  putShards("one-shard", 1, [AWAY]);
}

let server: PrometheusServer;
beforeAll(async () => {
  writeTargets();
  writeSelfMetrics();
  server = await startPrometheus({ openmetrics: written.openmetrics });
});
afterAll(() => server.stop());

/** Where the tenant's monitoring was seen, as hours since T0. */
async function seen(cluster: string, window = day) {
  const client = createClient({ url: server.url, timeoutSeconds: 30, concurrency: 4 });
  const selection = { namespace: "grid", matchers: [`cluster="${cluster}"`], labelPrefix: "" };
  const { cells, partly } = await createMonitoring(client, selection).seen(window);
  const runs: { from: number; to: number }[] = [];
  for (const cell of cells) {
    const last = runs.at(-1);
    if (last?.to === cell - 300) last.to = cell;
    else runs.push({ from: cell - 300, to: cell });
  }
  const hours = (stretches: readonly Window[]): readonly string[] =>
    stretches.map(({ from, to }) => `${(from - T0) / HOUR} to ${(to - T0) / HOUR}`);
  return { cells: hours(runs), partly: hours(partly) };
}

const WHOLE = { cells: ["0 to 24"], partly: [] };
const GAP = { cells: ["0 to 6", "8 to 24"], partly: [] };

describe("targets of one job that share the pods", () => {
  test.each(["down", "down-renamed", "gone-and-back", "late-successor", "late-successor-of-gone"])(
    "%s: a gap",
    async (cluster) => {
      expect(await seen(cluster)).toEqual(GAP);
    },
  );

  test("away for half an hour exactly: a gap", async () => {
    expect(await seen("half-an-hour")).toEqual({ cells: ["0 to 6", "6.5 to 24"], partly: [] });
  });

  test.each([
    "short",
    "copy",
    "copy-of-all",
    "gone-for-good",
    "finished-only",
    "others-pods",
    "self",
    "successor",
    "two-jobs",
  ])("%s: no gap", async (cluster) => {
    expect(await seen(cluster)).toEqual(WHOLE);
  });

  test.each(["daemonset-down", "daemonset-back"])(
    "%s: a gap of one node, which leaves the day seen",
    async (cluster) => {
      expect(await seen(cluster)).toEqual({ ...WHOLE, partly: ["6 to 8"] });
    },
  );

  test("a node that is gone for good, with its pods", async () => {
    expect(await seen("daemonset-node-gone")).toEqual(WHOLE);
  });

  test("away since before the day began", async () => {
    expect(await seen("before")).toEqual({ cells: ["3 to 24"], partly: [] });
  });
});

describe("shards that say how many they are", () => {
  test("one of them away", async () => {
    expect(await seen("one-away")).toEqual(GAP);
  });

  test("one that was never there", async () => {
    expect(await seen("one-never")).toEqual({ cells: [], partly: [] });
  });

  test.each(["all-shards", "one-away-shortly", "none-says", "one-shard"])("%s: no gap", async (cluster) => {
    expect(await seen(cluster)).toEqual(WHOLE);
  });

  test("over more days than one question may ask about", async () => {
    const window = { from: T0 - 40 * DAY, to: T0 + 40 * DAY };
    expect(await seen("one-away", window)).toEqual(GAP);
    expect(await seen("all-shards", window)).toEqual(WHOLE);
  });
});
