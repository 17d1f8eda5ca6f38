import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Fact, Monitoring, Row } from "../../lib/accounting/ports.ts";
import type { Selection } from "../../lib/accounting/tenant.ts";
import { checkPrometheus } from "../../lib/prometheus/check.ts";
import { type Client, createClient } from "../../lib/prometheus/connection.ts";
import { createMonitoring } from "../../lib/prometheus/monitoring.ts";
import { rowsOf } from "../support/rows-of.ts";
import { type PrometheusServer, startPrometheus } from "../support/prometheus-server.ts";

const HOUR = 3600;
const DAY = 86_400;
/** 2025-03-10T00:00:00Z */
const T0 = 1_741_564_800;
const day = { from: T0, to: T0 + DAY };
const NASTY = 'q"uo\\te\nü{}';

const text: string[] = [];

/** A series scraped every `step` seconds from `from` to `to`. */
function put(
  metric: string,
  labels: Readonly<Record<string, string>>,
  value: number | ((at: number) => number) | "NaN" | "+Inf",
  from: number = T0 + HOUR,
  to: number = T0 + 2 * HOUR,
  step = 60,
): void {
  const inside = Object.entries(labels)
    .map(([name, text]) => `${name}="${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`)
    .join(",");
  for (let at = from; at <= to; at += step) {
    text.push(`${metric}{${inside}} ${typeof value === "function" ? value(at) : value} ${at}`);
  }
}

/** The uid of the n-th pod of these tests. */
function uid(n: number): string {
  return `${n.toString(16).padStart(2, "0").repeat(4)}-1111-4222-8333-${n.toString().padStart(12, "0")}`;
}

type Labels = Readonly<Record<string, string>>;
const ksm: Labels = { job: "kube-state-metrics", instance: "10.0.0.1:8080" };
const cpu: Labels = { resource: "cpu", unit: "core", node: "n1" };
const memory: Labels = { resource: "memory", unit: "byte", node: "n1" };

/** The labels of the n-th pod. */
function pod(namespace: string, n: number): Labels {
  return { ...ksm, namespace, pod: `pod-${n}`, uid: uid(n) };
}

function container(of: Labels, name: string, value: number, more: Labels = cpu): void {
  put("kube_pod_container_resource_requests", { ...of, container: name, ...more }, value);
}

function phases(of: Labels, phase: string): void {
  for (const each of ["Pending", "Succeeded", "Failed", "Running", "Unknown"]) {
    put("kube_pod_status_phase", { ...of, phase: each }, each === phase ? 1 : 0);
  }
}

function writeSamples(): void {
  const two = pod("containers", 1);
  container(two, "a", 0.25);
  container(two, "b", 1.5);
  container(two, "a", 1024, memory);
  container(two, "b", 4096, memory);
  put("kube_pod_container_resource_requests", { ...two, container: "a", ...cpu, resource: "nvidia_com_gpu" }, 2);

  const copied = pod("copies", 2);
  for (const instance of ["10.0.0.1:8080", "10.0.0.2:8080"]) {
    for (const node of ["", "n1", "n2"]) {
      for (const prometheus_replica of ["a", "b"]) {
        const copy = { ...copied, instance, prometheus_replica };
        put("kube_pod_container_resource_requests", { ...copy, container: "main", ...cpu, node }, 2);
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
    put("kube_pod_init_container_resource_requests", { ...sidecar, container: name, ...cpu }, cores);
  }
  put("kube_pod_init_container_info", { ...sidecar, container: "native", image: "i", restart_policy: "Always" }, 1);
  put("kube_pod_init_container_info", { ...sidecar, container: "ordinary", image: "i" }, 1);
  put("kube_pod_init_container_info", { ...sidecar, container: "onfailure", restart_policy: "OnFailure" }, 1);
  // Only the native sidecar of this one requests CPU.
  const lonely = pod("sidecars", 4);
  put("kube_pod_init_container_resource_requests", { ...lonely, container: "native", ...cpu }, 0.125);
  put("kube_pod_init_container_info", { ...lonely, container: "native", restart_policy: "Always" }, 1);

  const resized = pod("resized", 5);
  put("kube_pod_container_resource_requests", { ...resized, container: "main", ...cpu }, (at) =>
    at < T0 + 1.5 * HOUR ? 4 : 1,
  );
  // Lowered in place after scheduling: the copy from before, with no node, ended with the old request.
  const lowered = { ...pod("resized", 35), container: "main", ...cpu };
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

  writeExported();
  writeCadvisor();

  put("kube_pod_completion_time", pod(NASTY, 30), T0 + 5000);
  put("kube_pod_container_resource_requests", { ...pod("odd", 31), container: "main", ...cpu }, "NaN");
  put("kube_pod_container_resource_requests", { ...pod("odd", 32), container: "main", ...cpu }, "+Inf");
  for (const cluster of ["east", "west"]) {
    put("kube_pod_start_time", { ...pod("clusters", cluster === "east" ? 33 : 34), cluster }, T0);
  }
  for (let n = 0; n < 32; n += 1) put("kube_pod_start_time", pod("many", 64 + n * 6), T0 + n);
  for (const name of ["containers", "idle"]) {
    for (const phase of ["Active", "Terminating"]) {
      put("kube_namespace_status_phase", { ...ksm, namespace: name, phase }, phase === "Active" ? 1 : 0);
    }
  }
  // Two stacks scrape; both are down from 06:00 to 08:00, one answers 0 then.
  const up = { job: "monitoring/kube-state-metrics", instance: "a" };
  put("up", up, (at) => (at > T0 + 6 * HOUR && at <= T0 + 8 * HOUR ? 0 : 1), T0 + 60, T0 + DAY);
  put("up", { ...up, instance: "b" }, 1, T0 + 3 * HOUR, T0 + 4 * HOUR);
  // While kube-state-metrics is down, somebody's pods are still there: an `up` of 0 is an answer all the same.
  put("kube_pod_start_time", pod("other", 40), 1, T0 + 6 * HOUR, T0 + 7 * HOUR);
  // The day before has no `up` at all, but pods for two hours, and later phases alone.
  put("kube_pod_start_time", pod("other", 41), 1, T0 - DAY + HOUR + 60, T0 - DAY + 3 * HOUR);
  put("kube_pod_status_phase", { ...pod("other", 41), phase: "Running" }, 0, T0 - 12 * HOUR + 60, T0 - 11 * HOUR);
  put("up", { job: "own-ksm" }, 1, T0 - DAY + 10 * HOUR + 60, T0 - DAY + 11 * HOUR);
  text.push("# EOF\n");
}

/** honor_labels: false, with kube-state-metrics redeployed, and a uid label of the target itself. */
function writeExported(): void {
  const real = (n: number): Labels => ({ exported_namespace: "renamed", exported_pod: `pod-${n}` });
  for (const target of ["ksm-1", "ksm-2"]) {
    const own = { ...ksm, namespace: "monitoring", pod: target, container: "kube-state-metrics" };
    const plain = { ...own, ...real(20), uid: uid(20) };
    const clashing = { ...own, ...real(21), uid: `uid-of-${target}`, exported_uid: uid(21) };
    for (const each of [plain, clashing]) {
      put("kube_pod_container_resource_requests", { ...each, exported_container: "a", ...cpu }, 0.5);
      put("kube_pod_container_resource_requests", { ...each, exported_container: "b", ...cpu }, 0.25);
      put("kube_pod_completion_time", each, T0 + 5000);
      phases(each, "Succeeded");
    }
  }
  const id = (n: number, name: string): string => `/kubepods/burstable/pod${uid(n)}/${name}`;
  const usage = "container_cpu_usage_seconds_total";
  put(usage, { namespace: "renamed", pod: "pod-20", container: "a", cpu: "total", id: id(20, "aa") }, 10);
  put(usage, { namespace: "renamed", pod: "pod-20", container: "", cpu: "total", id: `/kubepods/pod${uid(20)}` }, 99);
  const renamed = { exported_namespace: "renamed", namespace: "kube-system" };
  put(usage, { ...renamed, exported_pod: "pod-21", exported_container: "a", id: id(21, "aa") }, 20);
  put(usage, { ...renamed, exported_pod: "pod-21", exported_container: "POD", id: id(21, "pp") }, 99);
  put(usage, { ...renamed, pod: "pod-22", container: "a", id: id(22, "aa") }, 30);
  put(usage, { ...renamed, pod: "pod-22", container: "", id: `/kubepods/burstable/pod${uid(22)}` }, 99);
}

function writeCadvisor(): void {
  const usage = "container_cpu_usage_seconds_total";
  const set = "container_memory_working_set_bytes";
  const one = { namespace: "cadvisor", pod: "pod-50", job: "kubelet", node: "n1" };
  const cgroup = `/kubepods/burstable/pod${uid(50)}`;
  const rising = (start: number) => (at: number) => Math.min(start, (at - T0 - HOUR) / 10);
  put(
    usage,
    { ...one, container: "main", cpu: "total", id: `${cgroup}/first` },
    rising(40),
    T0 + HOUR,
    T0 + 1.4 * HOUR,
  );
  put(usage, { ...one, container: "main", cpu: "total", id: `${cgroup}/second` }, rising(60), T0 + 1.5 * HOUR);
  put(
    usage,
    { ...one, container: "main", cpu: "total", id: `${cgroup}/second`, node: "n2" },
    rising(60),
    T0 + 1.5 * HOUR,
  );
  put(usage, { ...one, container: "", cpu: "total", id: cgroup }, 500);
  put(usage, { ...one, container: "POD", cpu: "total", id: `${cgroup}/pause` }, 500);
  put(set, { ...one, container: "main", id: `${cgroup}/first` }, 700);
  put(set, { ...one, container: "main", id: `${cgroup}/second` }, (at) => (at === T0 + HOUR + 600 ? 900 : 100));
  put(set, { ...one, container: "helper", id: `${cgroup}/third` }, 50);
  put(set, { ...one, container: "", id: cgroup }, 5000);
  put(set, { ...one, container: "POD", id: `${cgroup}/pause` }, 5000);

  const systemd = `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${uid(51).replaceAll("-", "_")}.slice`;
  const other = { namespace: "cadvisor", pod: "pod-51", job: "kubelet", node: "n1" };
  for (const each of ["cpu00", "cpu01"]) {
    put(usage, { ...other, container: "main", cpu: each, id: `${systemd}/cri-containerd-aa.scope` }, 7);
  }
  put(usage, { ...other, container: "", cpu: "total", id: systemd }, 500);
}

let server: PrometheusServer;
let client: Client;

beforeAll(async () => {
  writeSamples();
  server = await startPrometheus({ openmetrics: text.join("\n") });
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

function sorted(rows: readonly Row[]): readonly Row[] {
  const key = (row: Row): string => `${row.uid} ${row.part ?? ""}`;
  return [...rows].sort((a, b) => (key(a) < key(b) ? -1 : 1));
}

function row(n: number, value: number): Row {
  return { uid: uid(n), value };
}

describe("facts about pods", () => {
  it("adds up the requests of all containers, milli-cores too, and keeps resources apart", async () => {
    expect(await facts("cores", "containers")).toEqual([row(1, 1.75)]);
    expect(await facts("memoryRequest", "containers")).toEqual([row(1, 5120)]);
  });

  it("merges copies of replicas, nodes, instances and a redeployed kube-state-metrics; the latest end counts", async () => {
    expect(await facts("cores", "copies")).toEqual([row(2, 2)]);
    expect(await facts("end", "copies")).toEqual([row(2, T0 + 5100)]);
    expect(await facts("start", "copies")).toEqual([row(2, T0 + 100)]);
    expect(await facts("name", "copies")).toEqual([{ ...row(2, T0 + 5100), text: "pod-2" }]);
  });

  it("adds native sidecars, and no ordinary init containers", async () => {
    expect(await facts("cores", "sidecars")).toEqual([row(3, 1.5), row(4, 0.125)]);
  });

  it("takes the request in force at the end of a pod resized in place", async () => {
    expect(await facts("cores", "resized")).toEqual([row(5, 1), row(35, 1)]);
    expect(await facts("unscheduledCores", "resized")).toEqual([row(35, 4)]);
  });

  it("asks about named pods in as many queries as their names need", async () => {
    const others = Array.from({ length: 900 }, (_, n) => uid(1000 + n));
    const rows = await rowsOf(monitoring("resized"), "unscheduledCores", day, { uids: [...others, uid(35), uid(5)] });
    expect(rows).toEqual([row(35, 4)]);
    expect(await rowsOf(monitoring("phases"), "finished", day, { uids: [uid(7), uid(8)] })).toEqual([
      row(7, 1),
      row(8, 0),
    ]);
  });

  it("finished is 1 for Succeeded and Failed, and 0 for a pod that was seen with neither", async () => {
    expect(await facts("finished", "phases")).toEqual([row(6, 1), row(7, 1), row(8, 0)]);
  });

  it("reads the VO label; the greatest of several, no row without one", async () => {
    const vo = { voLabel: "label_vo" };
    expect(await facts("vo", "vos", vo)).toEqual([{ ...row(9, 1), text: "cms" }]);
    expect(await monitoring("vos", vo).voLabelSeen(day)).toBe(true);
    expect(await monitoring("vos", { voLabel: "label_other" }).voLabelSeen(day)).toBe(false);
    expect(await monitoring("phases", vo).voLabelSeen(day)).toBe(false);
    expect(await monitoring("vos").voLabelSeen(day)).toBe(false);
  });

  it("finds exported_ labels, merging a redeployed kube-state-metrics and a uid under either label", async () => {
    const renamed = { labelPrefix: "exported_" };
    expect(await facts("cores", "renamed", renamed)).toEqual([row(20, 0.75), row(21, 0.75)]);
    expect(await facts("end", "renamed", renamed)).toEqual([row(20, T0 + 5000), row(21, T0 + 5000)]);
    expect(await facts("finished", "renamed", renamed)).toEqual([row(20, 1), row(21, 1)]);
    expect(await facts("cores", "renamed")).toEqual([]);
    for (const n of [20, 21]) {
      expect(await rowsOf(monitoring("renamed", renamed), "cores", day, { prefixes: [uid(n).slice(0, 10)] })).toEqual([
        row(n, 0.75),
      ]);
    }
  });

  it("finds a namespace with quotes, a backslash and a line break in its name", async () => {
    expect(await facts("end", NASTY)).toEqual([row(30, T0 + 5000)]);
  });

  it("hands on NaN and infinity", async () => {
    expect(await facts("cores", "odd")).toEqual([row(31, Number.NaN), row(32, Number.POSITIVE_INFINITY)]);
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

describe("facts from cAdvisor", () => {
  it("adds a restarted container, and neither pause nor pod-level copies; both cgroup drivers; old series a CPU", async () => {
    const parts = await facts("cpu", "cadvisor");
    const values = parts.map((part) => [part.uid, part.part?.split("/").at(-1), part.value]);
    expect(values).toEqual([
      [uid(50), "first", 40],
      [uid(50), "second", 60],
      [uid(51), "cri-containerd-aa.scope", 14],
    ]);
  });

  it("has the maximum of each container's memory, a restarted one once", async () => {
    const parts = await facts("memoryUsed", "cadvisor");
    expect(parts.map((part) => [part.uid, part.value])).toEqual(
      expect.arrayContaining([[uid(50), expect.any(Number)]]),
    );
    expect(parts.reduce((sum, part) => sum + part.value, 0)).toBe(950);
  });

  it("by uid prefix, also past the first dash under systemd", async () => {
    const of = async (prefix: string): Promise<readonly string[]> =>
      (await rowsOf(monitoring("cadvisor"), "cpu", day, { prefixes: [prefix] })).map((part) => part.uid);
    expect(await of(uid(50).slice(0, 12))).toEqual([uid(50), uid(50)]);
    expect(await of(uid(51).slice(0, 12))).toEqual([uid(51)]);
    expect(await of("ffff")).toEqual([]);
  });

  it("finds usage under prefixed and plain labels", async () => {
    const parts = await facts("cpu", "renamed", { labelPrefix: "exported_" });
    expect(parts.map(({ uid, value }) => ({ uid, value }))).toEqual([row(20, 10), row(21, 20), row(22, 30)]);
  });
});

describe("was monitoring seen", () => {
  /** Cells as hours relative to T0, joined into stretches. */
  async function stretches(from: number, to: number, changes: Partial<Selection> = {}): Promise<string[]> {
    const cells = await monitoring("containers", changes).seen({ from, to });
    const found: [number, number][] = [];
    for (const cell of cells) {
      const last = found.at(-1);
      if (last?.[1] === cell - 300) last[1] = cell;
      else found.push([cell - 300, cell]);
    }
    return found.map(([start, end]) => `${(start - T0) / HOUR} to ${(end - T0) / HOUR}`);
  }
  // Prometheus 2 closes a range at both ends, so that a sample on a cell's start counts in it too.
  const slack = 1 / 12;

  it("by `up` of kube-state-metrics; 0 means no, whatever pods say", async () => {
    expect(await stretches(T0, T0 + DAY)).toEqual([`0 to ${6 + slack}`, "8 to 24"]);
  });

  it("where there is no `up` at all, by pods, then by phases, and the same in parts as at once", async () => {
    const before = [`-23 to ${-21 + slack}`, `-12 to ${-11 + slack}`];
    expect(await stretches(T0 - DAY, T0)).toEqual(before);
    expect(await stretches(T0 - DAY, T0 + DAY)).toEqual([...before, `0 to ${6 + slack}`, "8 to 24"]);
    expect(await stretches(T0 - 40 * DAY, T0)).toEqual(before);
  });

  it("by a configured selector alone", async () => {
    const monitoringSelector = 'up{job="own-ksm"}';
    expect(await stretches(T0 - DAY, T0 + DAY, { monitoringSelector })).toEqual([`-14 to ${-13 + slack}`]);
  });

  it("with the extra matchers", async () => {
    expect(await stretches(T0, T0 + DAY, { matchers: ['cluster="east"'] })).toEqual([`${1 - slack} to ${2 + slack}`]);
    expect(await stretches(T0, T0 + DAY, { matchers: ['cluster="south"'] })).toEqual([]);
  });
});

describe("namespaces", () => {
  it("lists those of the window, apart from the renamed ones", async () => {
    const { names, exportedNames } = await monitoring("containers").namespaces(day);
    expect(names).toEqual(["clusters", "containers", "copies", "idle", "many", "other"]);
    expect(exportedNames).toEqual([]);
  });

  it("always finds the tenant's own, however short its pods lived", async () => {
    const short = { from: T0 - 20 * DAY, to: T0 + 2 * DAY };
    expect((await monitoring("copies").namespaces(short)).names).toContain("copies");
  });
});

describe("a query that is too large for the server", () => {
  it("is prometheus_too_large, so that the caller asks for less", async () => {
    const small = await startPrometheus({ openmetrics: text.join("\n"), extraFlags: ["--query.max-samples=50"] });
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
      const cells = await evidence.seen({ from: T0 - DAY, to: T0 + DAY });
      expect(cells).toEqual(await monitoring("many", pods).seen({ from: T0 - DAY, to: T0 + DAY }));
      expect(cells.length).toBeGreaterThan(10);
    } finally {
      await small.stop();
    }
  });
});

describe("a query that is too slow for the server", () => {
  it("is prometheus_too_large as well", async () => {
    const slow = await startPrometheus({ openmetrics: text.join("\n"), extraFlags: ["--query.timeout=0s"] });
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

describe("gridmeter check", () => {
  const now = T0 + DAY + 600;
  const answers = async (
    namespace: string,
    changes: Partial<Selection> = {},
    at: number = now,
  ): Promise<Record<string, string>> => {
    const findings = await checkPrometheus(client, selection(namespace, changes), at);
    for (const finding of findings) expect(finding.ok || finding.remedy !== undefined).toBe(true);
    return Object.fromEntries(findings.map((each) => [each.question, `${each.ok ? "ok" : "not ok"}: ${each.answer}`]));
  };

  it("answers each question", async () => {
    const found = await answers("phases", { voLabel: "label_vo" });
    expect(found).toMatchObject({
      "Is Prometheus reachable?": expect.stringMatching(/^ok: yes, version 2\./),
      "Was monitoring seen in the last hour?": "ok: yes, last at 2025-03-11 00:05 UTC",
      "Do labels have their own names?": "ok: yes, none is exported_",
      "How far back does the data go?": "not ok: to 2025-03-10, 1 day",
      "Does kube_pod_status_phase exist in the namespace?": "ok: yes, 15 series in the last 7 days",
      "Does kube_pod_completion_time exist in the namespace?": "not ok: no, not in the last 7 days",
      "Does the VO label exist?": "not ok: no pod has label_vo in kube_pod_labels",
    });
    const gaps = found["When was it not seen in the last 35 days?"];
    expect(gaps).toBe("not ok: not seen: 2025-03-10 06:05 UTC to 2025-03-10 08:00 UTC");
  });

  it("lists the known namespaces for an unknown one", async () => {
    const found = await answers("prodd");
    expect(found["Is the namespace there?"]).toMatch(/^not ok: no, "prodd" .* known are: containers, idle$/);
  });

  it("says so where there is nothing at all", async () => {
    const found = await answers("phases", { matchers: ['cluster="none"'] });
    expect(found["Was monitoring seen in the last hour?"]).toMatch(/^not ok: no: nothing for up\{/);
    expect(found["How far back does the data go?"]).toBe("not ok: there is none in the last 400 days");
  });

  it("stops at a server that is not there", async () => {
    const nowhere = createClient({ url: "http://prometheus.invalid", timeoutSeconds: 5, concurrency: 1 });
    const findings = await checkPrometheus(nowhere, selection("phases"), now);
    expect(findings).toHaveLength(1);
    expect(findings[0]).toMatchObject({ ok: false, answer: expect.stringMatching(/^prometheus_unreachable: /) });
  });
});

describe("labels renamed by honor_labels: false", () => {
  let renamed: PrometheusServer;
  beforeAll(async () => {
    const labels = 'namespace="monitoring",pod="ksm",exported_namespace="prod",exported_pod="p",uid="u"';
    const lines = [0, 60, 120].map((s) => `kube_pod_start_time{${labels}} 1 ${T0 + s}`);
    renamed = await startPrometheus({ openmetrics: [...lines, "# EOF\n"].join("\n") });
  });
  afterAll(async () => {
    await renamed.stop();
  });

  it("are found as exported names, and as names once the prefix is set", async () => {
    const client = createClient({ url: renamed.url, timeoutSeconds: 30, concurrency: 4 });
    const window = { from: T0 - HOUR, to: T0 + HOUR };
    const without = createMonitoring(client, selection("prod"));
    expect(await without.namespaces(window)).toEqual({ names: [], exportedNames: ["prod"] });
    const prefixed = createMonitoring(client, selection("prod", { labelPrefix: "exported_" }));
    expect(await prefixed.namespaces(window)).toEqual({ names: ["prod"], exportedNames: [] });
    const findings = await checkPrometheus(client, selection("prod"), T0 + HOUR);
    expect(findings.find((each) => each.question.startsWith("Do labels"))).toMatchObject({
      ok: false,
      remedy: expect.stringContaining("PROMETHEUS_LABEL_PREFIX=exported_"),
    });
  });
});
