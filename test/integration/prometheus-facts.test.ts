import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Fact, Monitoring, Row } from "../../lib/accounting/model/monitoring.ts";
import type { Selection } from "../../lib/accounting/model/tenant.ts";
import { type Client, createClient } from "../../lib/accounting/prometheus/client.ts";
import { createMonitoring } from "../../lib/accounting/prometheus/monitoring.ts";
import { type PrometheusServer, startPrometheus } from "../support/prometheus-server.ts";
import { rowsOf } from "../support/rows-of.ts";
import { sorted } from "../support/same-rows.ts";
import { CPU, KSM, type Labels, MEMORY, podOf, uidOf, WrittenSamples } from "../support/written-samples.ts";

const HOUR = 3600;
const DAY = 86_400;
/** 2025-03-10T00:00:00Z */
const T0 = 1_741_564_800;
const day = { from: T0, to: T0 + DAY };
const NASTY = 'q"uo\\te\nü{}';

const written = new WrittenSamples(T0 + HOUR, T0 + 2 * HOUR);
const put = written.put.bind(written);
const container = written.container.bind(written);
const phases = written.phases.bind(written);
const [uid, pod] = [uidOf, podOf];

function writeSamples(): void {
  const two = pod("containers", 1);
  container(two, "a", 0.25);
  container(two, "b", 1.5);
  container(two, "a", 1024, MEMORY);
  container(two, "b", 4096, MEMORY);
  put("kube_pod_container_resource_requests", { ...two, container: "a", ...CPU, resource: "nvidia_com_gpu" }, 2);

  const copied = pod("copies", 2);
  for (const instance of ["10.0.0.1:8080", "10.0.0.2:8080"]) {
    for (const node of ["", "n1", "n2"]) {
      for (const prometheus_replica of ["a", "b"]) {
        const copy = { ...copied, instance, prometheus_replica };
        put("kube_pod_container_resource_requests", { ...copy, container: "main", ...CPU, node }, 2);
        put("kube_pod_completion_time", { ...copy, node }, T0 + (instance.includes(".1:") ? 5000 : 5100));
        put("kube_pod_start_time", { ...copy, node }, T0 + 100);
      }
    }
  }

  const sidecar = pod("sidecars", 3);
  container(sidecar, "main", 1);
  for (const [name, cores] of [
    ["native", 0.5],
    ["ordinary", 4],
    ["onfailure", 8],
  ] as const) {
    put("kube_pod_init_container_resource_requests", { ...sidecar, container: name, ...CPU }, cores);
  }
  put("kube_pod_init_container_info", { ...sidecar, container: "native", image: "i", restart_policy: "Always" }, 1);
  put("kube_pod_init_container_info", { ...sidecar, container: "ordinary", image: "i" }, 1);
  put("kube_pod_init_container_info", { ...sidecar, container: "onfailure", restart_policy: "OnFailure" }, 1);
  // Only the native sidecar of this one requests CPU.
  const lonely = pod("sidecars", 4);
  put("kube_pod_init_container_resource_requests", { ...lonely, container: "native", ...CPU }, 0.125);
  put("kube_pod_init_container_info", { ...lonely, container: "native", restart_policy: "Always" }, 1);

  const resized = pod("resized", 5);
  put("kube_pod_container_resource_requests", { ...resized, container: "main", ...CPU }, (at) =>
    at < T0 + 1.5 * HOUR ? 4 : 1,
  );
  // Lowered in place after scheduling: the copy from before, with no node, ended with the old request.
  const lowered = { ...pod("resized", 35), container: "main", ...CPU };
  put("kube_pod_container_resource_requests", { ...lowered, node: "" }, 4);
  put("kube_pod_container_resource_requests", { ...lowered, node: "n1" }, (at) => (at < T0 + 1.5 * HOUR ? 4 : 1));

  phases(pod("phases", 6), "Succeeded");
  phases(pod("phases", 7), "Failed");
  phases(pod("phases", 8), "Running");

  for (const [vo, n] of [
    ["atlas", 9],
    ["cms", 9],
    ["", 10],
  ] as const) {
    put("kube_pod_labels", { ...pod("vos", n), label_vo: vo, label_app: vo }, 1);
  }
  put("kube_pod_labels", pod("vos", 11), 1);
  for (const instance of ["10.0.0.1:8080", "10.0.0.2:8080"])
    put("kube_pod_labels", { ...pod("vos", 12), instance, label_vo_conflict1: "cms", label_vo_conflict2: "atlas" }, 1);
  put("kube_pod_labels", { ...pod("vos", 13), label_vo_conflict1: "cms" }, 1);
  put("kube_pod_labels", { ...pod("elsewhere", 14), label_vo_conflict1: "cms" }, 1);

  writeExported();
  writePhases();
  writeCopies();

  put("kube_pod_completion_time", pod(NASTY, 30), T0 + 5000);
  put("kube_pod_container_resource_requests", { ...pod("odd", 31), container: "main", ...CPU }, "NaN");
  put("kube_pod_container_resource_requests", { ...pod("odd", 32), container: "main", ...CPU }, "+Inf");
  for (const cluster of ["east", "west"]) {
    put("kube_pod_start_time", { ...pod("clusters", cluster === "east" ? 33 : 34), cluster }, T0);
  }
  for (let n = 0; n < 32; n += 1) put("kube_pod_start_time", pod("many", 64 + n * 6), T0 + n);
  for (const name of ["containers", "idle"]) {
    for (const phase of ["Active", "Terminating"]) {
      put("kube_namespace_status_phase", { ...KSM, namespace: name, phase }, phase === "Active" ? 1 : 0);
    }
  }
}

/** honor_labels: false, with kube-state-metrics redeployed, and a uid label of the target itself. */
function writeExported(): void {
  const real = (n: number): Labels => ({ exported_namespace: "renamed", exported_pod: `pod-${n}` });
  for (const target of ["ksm-1", "ksm-2"]) {
    const own = { ...KSM, namespace: "monitoring", pod: target, container: "kube-state-metrics" };
    const plain = { ...own, ...real(20), uid: uid(20) };
    const clashing = { ...own, ...real(21), uid: `uid-of-${target}`, exported_uid: uid(21) };
    for (const each of [plain, clashing]) {
      put("kube_pod_container_resource_requests", { ...each, exported_container: "a", ...CPU }, 0.5);
      put("kube_pod_container_resource_requests", { ...each, exported_container: "b", ...CPU }, 0.25);
      put("kube_pod_completion_time", each, T0 + 5000);
      phases(each, "Succeeded");
    }
  }
}

function writePhases(): void {
  const running = { phase: "Running" };
  const succeeded = pod("no-zeros", 60);
  put("kube_pod_status_phase", { ...succeeded, ...running }, 1, T0 + HOUR, T0 + 1.5 * HOUR);
  put("kube_pod_status_phase", { ...succeeded, phase: "Succeeded" }, 1, T0 + 1.5 * HOUR + 60);
  put("kube_pod_status_phase", { ...pod("no-zeros", 61), phase: "Failed" }, 1);
  put("kube_pod_status_phase", { ...pod("no-zeros", 62), ...running }, 1);
  // Running for two minutes between two looks five minutes apart, then in no phase that is written.
  const short = (at: number): number => (at < T0 + 4000 ? 1 : 0);
  put("kube_pod_status_phase", { ...pod("no-zeros", 63), ...running }, short, T0 + 3910, T0 + 5000, 30);

  phases(pod("last-days", 65), "Failed", T0 - 3 * DAY + HOUR, T0 - 2 * DAY + HOUR);
  phases(pod("last-days", 66), "Running", T0 - 60, T0 + DAY - 60);
  phases(pod("last-days", 67), "Running", T0 + DAY + 60, T0 + DAY + 60);
}

/** kube-state-metrics was redeployed when the pod was resized and got another VO; what the old one said ends there. */
function writeCopies(): void {
  const resized = pod("redeployed", 70);
  for (const [instance, cores, vo, from, to] of [
    ["10.0.0.1:8080", 4, "atlas", T0 + HOUR, T0 + 1.5 * HOUR],
    ["10.0.0.2:8080", 1, "cms", T0 + 1.5 * HOUR + 60, T0 + 2 * HOUR],
  ] as const) {
    const copy = { ...resized, instance };
    put("kube_pod_container_resource_requests", { ...copy, container: "main", ...CPU }, cores, from, to);
    put("kube_pod_container_resource_requests", { ...copy, container: "main", ...MEMORY }, 1024, from, to);
    put("kube_pod_labels", { ...copy, label_vo: vo }, 1, from, to);
  }
  container(pod("redeployed", 71), "main", 2);
}

let server: PrometheusServer;
let client: Client;

beforeAll(async () => {
  writeSamples();
  server = await startPrometheus({ openmetrics: written.openmetrics });
  client = createClient({ url: server.url, timeoutSeconds: 30, concurrency: 4 });
});
afterAll(async () => {
  await server.stop();
});

function selection(namespace: string, changes: Partial<Selection> = {}): Selection {
  return { namespace, matchers: [], labelPrefix: "", ...changes };
}

function monitoring(namespace: string, changes: Partial<Selection> = {}): Monitoring {
  return createMonitoring(client, selection(namespace, changes));
}

async function facts(fact: Fact, namespace: string, changes: Partial<Selection> = {}): Promise<readonly Row[]> {
  return sorted(await rowsOf(monitoring(namespace, changes), fact, day));
}

function row(n: number, value: number): Row {
  return { uid: uid(n), value };
}

/** The request of one container. */
function of(n: number, part: string, value: number): Row {
  return { uid: uid(n), value, part };
}

describe("facts about pods", () => {
  it("has the request of each container, milli-cores too, and keeps resources apart", async () => {
    expect(await facts("cores", "containers")).toEqual([of(1, "a", 0.25), of(1, "b", 1.5)]);
    expect(await facts("memoryRequest", "containers")).toEqual([of(1, "a", 1024), of(1, "b", 4096)]);
  });

  it("merges copies of replicas, nodes, instances and a redeployed kube-state-metrics; the latest end counts", async () => {
    expect(await facts("cores", "copies")).toEqual([of(2, "main", 2)]);
    expect(await facts("end", "copies")).toEqual([row(2, T0 + 5100)]);
    expect(await facts("start", "copies")).toEqual([row(2, T0 + 100)]);
    expect(await facts("name", "copies")).toEqual([{ ...row(2, T0 + 5100), text: "pod-2" }]);
  });

  it("has native sidecars, and no ordinary init containers", async () => {
    const rows = [of(3, "main", 1), of(3, "native", 0.5), of(4, "native", 0.125)];
    expect(await facts("cores", "sidecars")).toEqual(rows);
    expect(sorted(await rowsOf(monitoring("sidecars"), "cores", day, { uids: [uid(3), uid(4)] }))).toEqual(rows);
  });

  it("takes the request in force at the end of a pod resized in place", async () => {
    expect(await facts("cores", "resized")).toEqual([of(5, "main", 1), of(35, "main", 1)]);
    expect(await facts("unscheduledCores", "resized")).toEqual([of(35, "main", 4)]);
  });

  it("asks about named pods in as many queries as their names need", async () => {
    const others = Array.from({ length: 900 }, (_, n) => uid(1000 + n));
    const rows = await rowsOf(monitoring("resized"), "unscheduledCores", day, { uids: [...others, uid(35), uid(5)] });
    expect(rows).toEqual([of(35, "main", 4)]);
    const failed = await rowsOf(monitoring("phases"), "failed", day, { uids: [...others, uid(7), uid(8)] });
    expect(sorted(failed)).toEqual([row(7, 1), row(8, 0)]);
  });

  it("succeeded and failed are 1 for that phase, and 0 for a pod that was seen with another", async () => {
    expect(await facts("succeeded", "phases")).toEqual([row(6, 1), row(7, 0), row(8, 0)]);
    expect(await facts("failed", "phases")).toEqual([row(6, 0), row(7, 1), row(8, 0)]);
  });

  it("has no row of a phase where kube-state-metrics writes only the one that holds", async () => {
    expect(await facts("succeeded", "no-zeros")).toEqual([row(60, 1)]);
    expect(await facts("failed", "no-zeros")).toEqual([row(61, 1)]);
  });

  it("knows until when a pod was in another phase, to five minutes; of one seen for a moment, that it was", async () => {
    for (const namespace of ["phases", "no-zeros"]) {
      const rows = await rowsOf(monitoring(namespace), "runningUntil", day);
      const running = rows.find((each) => each.uid === uid(namespace === "phases" ? 8 : 62));
      expect(running?.value).toBeGreaterThan(T0 + 2 * HOUR - 300);
      expect(running?.value).toBeLessThanOrEqual(T0 + 2 * HOUR);
    }
    const others = (await rowsOf(monitoring("no-zeros"), "runningUntil", day)).filter((each) => each.uid !== uid(62));
    expect(sorted(others)).toEqual([row(60, T0 + 1.5 * HOUR), row(63, T0)]);
  });

  it("knows the last day on which a pod was seen, in whatever phase", async () => {
    const days = { from: T0 - 3 * DAY, to: T0 + 3 * DAY };
    expect(sorted(await rowsOf(monitoring("last-days"), "lastDay", days))).toEqual([
      row(65, T0 - 2 * DAY),
      row(66, T0),
      row(67, T0 + DAY),
    ]);
    const named = await rowsOf(monitoring("last-days"), "lastDay", days, { uids: [uid(66)] });
    expect(named).toEqual([row(66, T0)]);
  });

  it("has a request for each value that copies have, and the copies with the moments of their last samples", async () => {
    const [old, late] = [T0 + 1.5 * HOUR, T0 + 2 * HOUR];
    expect(await facts("cores", "redeployed")).toEqual([of(70, "main", 1), of(70, "main", 4), of(71, "main", 2)]);
    expect(await facts("coresAt", "redeployed")).toEqual([
      { ...of(70, "main", 1), at: late },
      { ...of(70, "main", 4), at: old },
      { ...of(71, "main", 2), at: late },
    ]);
    const named = await rowsOf(monitoring("redeployed"), "coresAt", day, { uids: [uid(71)] });
    expect(named).toEqual([{ ...of(71, "main", 2), at: late }]);
    expect(await facts("memoryRequestAt", "redeployed")).toEqual([{ ...of(70, "main", 1024), at: late }]);
    const vo = { voLabel: "label_vo" };
    expect(await facts("voAt", "redeployed", vo)).toEqual([
      { ...row(70, 1), text: "atlas", at: old },
      { ...row(70, 1), text: "cms", at: late },
    ]);
  });

  it("reads the VO label, each value of copies; no row without one", async () => {
    const vo = { voLabel: "label_vo" };
    expect(await facts("vo", "vos", vo)).toEqual([
      { ...row(9, 1), text: "atlas" },
      { ...row(9, 1), text: "cms" },
    ]);
    expect(await monitoring("vos", vo).voLabelSeen(day)).toBe(true);
    expect(await monitoring("vos", { voLabel: "label_other" }).voLabelSeen(day)).toBe(false);
    expect(await monitoring("phases", vo).voLabelSeen(day)).toBe(false);
    expect(await monitoring("vos").voLabelSeen(day)).toBe(false);
  });

  it("counts the pods of which kube-state-metrics splits the VO label, copies and other namespaces not", async () => {
    expect(await monitoring("vos", { voLabel: "label_vo" }).voLabelSplit(day)).toBe(2);
    expect(await monitoring("vos", { voLabel: "label_app" }).voLabelSplit(day)).toBe(0);
    expect(await monitoring("vos").voLabelSplit(day)).toBe(0);
  });

  it.each(["", "exported_"])(
    "finds exported_ labels (prefix %j), merging a redeployed kube-state-metrics and a uid under either label",
    async (labelPrefix) => {
      const renamed = { labelPrefix };
      const cores = [20, 21].flatMap((n) => [of(n, "a", 0.5), of(n, "b", 0.25)]);
      expect(await facts("cores", "renamed", renamed)).toEqual(cores);
      expect(await facts("end", "renamed", renamed)).toEqual([row(20, T0 + 5000), row(21, T0 + 5000)]);
      expect(await facts("succeeded", "renamed", renamed)).toEqual([row(20, 1), row(21, 1)]);
      for (const n of [20, 21]) {
        const only = { prefixes: [uid(n).slice(0, 10)] };
        expect(sorted(await rowsOf(monitoring("renamed", renamed), "cores", day, only))).toEqual(
          cores.filter((each) => each.uid === uid(n)),
        );
      }
    },
  );

  it("finds a namespace with quotes, a backslash and a line break in its name", async () => {
    expect(await facts("end", NASTY)).toEqual([row(30, T0 + 5000)]);
  });

  it("hands on NaN and infinity", async () => {
    expect(await facts("cores", "odd")).toEqual([of(31, "main", Number.NaN), of(32, "main", Number.POSITIVE_INFINITY)]);
  });

  it("tells clusters apart by extra matchers", async () => {
    expect(await facts("start", "clusters", { matchers: ['cluster="east"'] })).toEqual([row(33, T0)]);
    expect(await facts("start", "clusters", { matchers: ['cluster=~"east|west"'] })).toHaveLength(2);
  });

  it("by uid prefixes, in sixteen parts, finds the same rows as at once", async () => {
    const whole = await facts("start", "many");
    expect(whole).toHaveLength(32);
    const digits = Array.from({ length: 16 }, (_, digit) => digit.toString(16));
    const parts = await Promise.all(
      digits.map((digit) => rowsOf(monitoring("many"), "start", day, { prefixes: [digit] })),
    );
    expect(parts.filter((part) => part.length > 0).length).toBeGreaterThan(5);
    expect(sorted(parts.flat())).toEqual(whole);
    expect(sorted(await rowsOf(monitoring("many"), "start", day, { prefixes: digits }))).toEqual(whole);
  });

  it("sees nothing outside its window", async () => {
    expect(await rowsOf(monitoring("copies"), "end", { from: T0 + 3 * HOUR, to: T0 + DAY })).toEqual([]);
  });
});

describe("namespaces", () => {
  it("lists those of the window", async () => {
    const { names, prefixes } = await monitoring("containers").namespaces(day);
    expect(names).toEqual(["clusters", "containers", "copies", "idle", "many"]);
    expect(prefixes).toEqual([]);
  });

  it("always finds the tenant's own, however short its pods lived", async () => {
    const short = { from: T0 - 20 * DAY, to: T0 + 2 * DAY };
    expect((await monitoring("copies").namespaces(short)).names).toContain("copies");
  });
});

describe("a query that is too large for the server", () => {
  it("is prometheus_too_large, so that the caller asks for less", async () => {
    const small = await startPrometheus({ openmetrics: written.openmetrics, extraFlags: ["--query.max-samples=50"] });
    try {
      const smallClient = createClient({ url: small.url, timeoutSeconds: 30, concurrency: 4 });
      const asked = createMonitoring(smallClient, selection("many"));
      await expect(rowsOf(asked, "start", day)).rejects.toMatchObject({ code: "prometheus_too_large" });
      const less = { from: T0 + 2 * HOUR - 60, to: T0 + 2 * HOUR };
      expect(await rowsOf(asked, "start", less, { prefixes: ["4"] })).not.toEqual([]);
      const pods = selection("many", { matchers: ['pod=~"pod-64|pod-70|pod-76"'] });
      const evidence = createMonitoring(smallClient, pods);
      const atOnce = smallClient.range('group(kube_pod_start_time{pod=~"pod-.."})', T0, T0 + DAY, 300);
      await expect(atOnce).rejects.toMatchObject({ code: "prometheus_too_large" });
      const sighting = await evidence.seen({ from: T0 - DAY, to: T0 + DAY });
      expect(sighting).toEqual(await monitoring("many", pods).seen({ from: T0 - DAY, to: T0 + DAY }));
      expect(sighting.cells.length).toBeGreaterThan(10);
    } finally {
      await small.stop();
    }
  });
});

describe("a query that is too slow for the server", () => {
  it("is prometheus_too_large as well", async () => {
    const slow = await startPrometheus({ openmetrics: written.openmetrics, extraFlags: ["--query.timeout=0s"] });
    try {
      const client = createClient({ url: slow.url, timeoutSeconds: 30, concurrency: 4 });
      const asked = createMonitoring(client, selection("copies"));
      // Without any time it is chance whether a query is refused at work, or already in the queue and tried again.
      const tries = Array.from({ length: 6 }, () => rowsOf(asked, "cores", day).catch((refusal: unknown) => refusal));
      const refusals = await Promise.all(tries);
      expect(refusals).toContainEqual(expect.objectContaining({ code: "prometheus_too_large" }));
      for (const refusal of refusals) expect(refusal).toHaveProperty("message", expect.stringContaining("timed out"));
    } finally {
      await slow.stop();
    }
  });
});
