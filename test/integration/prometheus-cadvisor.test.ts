// What cAdvisor's series say of pods, in the real Prometheus.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Fact, Monitoring, Row } from "../../lib/accounting/model/monitoring.ts";
import { createClient } from "../../lib/accounting/prometheus/client.ts";
import { createMonitoring } from "../../lib/accounting/prometheus/monitoring.ts";
import { type PrometheusServer, startPrometheus } from "../support/prometheus-server.ts";
import { rowsOf } from "../support/rows-of.ts";
import { sorted } from "../support/same-rows.ts";
import { uidOf as uid, WrittenSamples } from "../support/written-samples.ts";

const HOUR = 3600;
const DAY = 86_400;
/** 2025-03-10T00:00:00Z */
const T0 = 1_741_564_800;
const day = { from: T0, to: T0 + DAY };
const written = new WrittenSamples(T0 + HOUR, T0 + 2 * HOUR);
const put = written.put.bind(written);

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

/** honor_labels: false: under renamed labels, and under plain ones where the kubelet has none of its own. */
function writeRenamed(): void {
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

let server: PrometheusServer;
beforeAll(async () => {
  writeCadvisor();
  writeRenamed();
  server = await startPrometheus({ openmetrics: written.openmetrics });
});
afterAll(() => server.stop());

function monitoring(namespace: string, labelPrefix = ""): Monitoring {
  const client = createClient({ url: server.url, timeoutSeconds: 30, concurrency: 4 });
  return createMonitoring(client, { namespace, matchers: [], labelPrefix });
}

async function facts(fact: Fact, namespace: string, labelPrefix = ""): Promise<readonly Row[]> {
  return sorted(await rowsOf(monitoring(namespace, labelPrefix), fact, day));
}

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

  it.each(["", "exported_"])("finds usage under prefixed and plain labels (prefix %j)", async (labelPrefix) => {
    const parts = await facts("cpu", "renamed", labelPrefix);
    expect(parts.map(({ uid, value }) => ({ uid, value }))).toEqual([
      { uid: uid(20), value: 10 },
      { uid: uid(21), value: 20 },
      { uid: uid(22), value: 30 },
    ]);
  });
});
