import { describe, expect, test } from "vitest";
import { isService, STACK, makeJob, openMetrics, Random, samples, simulate } from "../../simulator/index.ts";
import type { Cluster, Job, Series, Stack } from "../../simulator/index.ts";
import type { JobPlan } from "../../simulator/make-job.ts";

const START = 1_735_689_600; // 2025-01-01T00:00:00Z
const job = (plan: JobPlan): Job => makeJob("plain", "grid", new Random(1), plan);

function cluster(jobs: readonly Job[], more: Partial<Cluster> = {}): Cluster {
  return { from: START, to: START + 7200, scrapeInterval: 60, jobs, stacks: [STACK], outages: [], ...more };
}

function find(series: readonly Series[], name: string, labels: Record<string, string> = {}): Series[] {
  const matching = Object.entries(labels);
  return series.filter(
    (one) => one.name === name && !isService(one.labels) && matching.every(([key, value]) => one.labels[key] === value),
  );
}

const all = (series: readonly Series[]): (readonly [number, number])[] => series.flatMap((one) => [...samples(one)]);
const times = (series: readonly Series[]): number[] => all(series).map(([time]) => time);
const values = (series: readonly Series[]): number[] => [...new Set(all(series).map(([, value]) => value))];

describe("scraping", () => {
  test("happens every interval, shifted by the stack's offset, and never during an outage", () => {
    const outages = [
      { from: START + 600, to: START + 1200, kind: "absent" },
      { from: START + 1800, to: START + 2400, kind: "down" },
    ] as const;
    const series = simulate(cluster([job({ start: START + 200, end: null })], { outages }));
    const up = all(find(series, "up"));
    expect(up.slice(0, 3)).toEqual([
      [START + 7, 1],
      [START + 67, 1],
      [START + 127, 1],
    ]);
    expect(up.filter(([time]) => time >= START + 600 && time < START + 1200)).toEqual([]);
    expect(up.filter(([, value]) => value === 0).map(([time]) => time)).toEqual(
      Array.from({ length: 10 }, (_, index) => START + 1807 + 60 * index),
    );
    const scraped = times(find(series, "kube_pod_start_time"));
    expect(scraped.filter((time) => time >= START + 600 && time < START + 1200)).toEqual([]);
    expect(scraped.filter((time) => time >= START + 1800 && time < START + 2400)).toEqual([]);
    expect(scraped.length).toBe(120 - 4 - 20);
  });

  test("of a redeployed kube-state-metrics ends each series and begins another with a new instance", () => {
    const instances = [
      { instance: "a:8080", from: 0 },
      { instance: "b:8080", from: START + 1000 },
    ];
    const series = simulate(cluster([job({ start: START + 200, end: null })], { stacks: [{ ...STACK, instances }] }));
    expect(Math.max(...times(find(series, "kube_pod_start_time", { instance: "a:8080" })))).toBe(START + 967);
    expect(Math.min(...times(find(series, "kube_pod_start_time", { instance: "b:8080" })))).toBe(START + 1027);
    expect(find(series, "container_cpu_usage_seconds_total", { container: "main" })).toHaveLength(1);
  });

  test("by two stacks makes copies that differ in job, instance and replica", () => {
    const second = { ...STACK, job: "monitoring/kube-state-metrics", labels: { prometheus_replica: "b" }, offset: 31 };
    const series = simulate(cluster([job({ start: START + 200, end: START + 900 })], { stacks: [STACK, second] }));
    const ends = find(series, "kube_pod_completion_time");
    expect(ends.map((one) => one.labels["prometheus_replica"])).toEqual([undefined, "b"]);
    expect(values(ends)).toEqual([START + 900]);
  });

  test("without honorLabels moves namespace, pod and container to exported_*", () => {
    const series = simulate(
      cluster([job({ start: START + 200, end: START + 900 })], { stacks: [{ ...STACK, exported: true }] }),
    );
    expect(find(series, "kube_pod_start_time")[0]?.labels).toMatchObject({
      exported_namespace: "grid",
      namespace: "monitoring",
      exported_pod: expect.stringMatching(/^plain-/),
    });
  });
});

describe("kube-state-metrics", () => {
  test("reports the latest end of any terminated container while others run", () => {
    const containers = [{ milliCores: 1000 }, { milliCores: 500, to: START + 1000 }];
    const series = simulate(cluster([job({ start: START + 200, end: START + 2000, containers })]));
    const ends = all(find(series, "kube_pod_completion_time"));
    expect(ends[0]).toEqual([START + 1027, START + 1000]);
    expect(ends.find(([, value]) => value === START + 2000)?.[0]).toBe(START + 2047);
    const running = all(find(series, "kube_pod_status_phase", { phase: "Running" })).filter(([, value]) => value === 1);
    expect(running.at(-1)?.[0]).toBe(START + 1987);
  });

  test("takes the end away while a restarting container waits or runs", () => {
    const runs = [
      [START + 203, START + 600],
      [START + 1200, START + 2000],
    ] as const;
    const series = simulate(
      cluster([job({ start: START + 200, end: START + 2000, containers: [{ milliCores: 1000, runs }] })]),
    );
    const seen = times(find(series, "kube_pod_completion_time"));
    expect(seen.filter((time) => time < START + 900).length).toBe(5);
    expect(seen.filter((time) => time >= START + 900 && time < START + 2000)).toEqual([]);
    expect(find(series, "container_cpu_usage_seconds_total", { container: "main" })).toHaveLength(2);
  });

  test("reports an evicted pod as Failed, without an end", () => {
    const series = simulate(cluster([job({ start: START + 200, end: null, evicted: START + 2000 })]));
    expect(find(series, "kube_pod_completion_time")).toEqual([]);
    expect(all(find(series, "kube_pod_status_phase", { phase: "Failed" })).at(-1)?.[1]).toBe(1);
  });

  test("has five phases of which one is 1 at any time", () => {
    const series = simulate(cluster([job({ start: START + 200, end: START + 900, outcome: "Failed" })]));
    const phases = find(series, "kube_pod_status_phase");
    expect(phases).toHaveLength(5);
    const sums = new Map<number, number>();
    for (const [time, value] of all(phases)) sums.set(time, (sums.get(time) ?? 0) + value);
    expect([...new Set(sums.values())]).toEqual([1]);
  });

  test("has the request without a node before scheduling, and none of a container that requests nothing", () => {
    const containers = [{ milliCores: 250, memory: 1024 }, { name: "proxy" }];
    const series = simulate(cluster([job({ start: START + 200, end: START + 900, containers })]));
    const requests = find(series, "kube_pod_container_resource_requests", { resource: "cpu" });
    expect(requests.map((one) => [one.labels["container"], one.labels["node"] ?? ""])).toEqual([
      ["main", ""],
      ["main", expect.stringMatching(/^node-/)],
    ]);
    expect(values(requests)).toEqual([0.25]);
    expect(values(find(series, "kube_pod_container_resource_requests", { resource: "memory" }))).toEqual([1024]);
  });

  test("tells native sidecars from init containers by the restart policy alone", () => {
    const series = simulate(
      cluster([
        job({
          start: START + 200,
          end: START + 900,
          sidecars: [{ name: "fuse", milliCores: 100 }],
          initContainers: [{ name: "fetch", milliCores: 4000, to: START + 300 }],
        }),
      ]),
    );
    expect(
      find(series, "kube_pod_init_container_info").map((one) => [
        one.labels["container"],
        one.labels["restart_policy"],
      ]),
    ).toEqual([
      ["fuse", "Always"],
      ["fetch", undefined],
    ]);
    expect(
      new Set(find(series, "kube_pod_init_container_resource_requests").map((one) => one.labels["container"])),
    ).toEqual(new Set(["fuse", "fetch"]));
  });

  test("forgets a pod when its object is deleted", () => {
    const series = simulate(cluster([job({ start: START + 200, end: START + 900, deleted: START + 1500 })]));
    expect(Math.max(...times(find(series, "kube_pod_completion_time")))).toBe(START + 1447);
  });
});

describe("pods of the cluster itself", () => {
  const instances = [
    { instance: "10.0.0.5:8080", from: 0 },
    { instance: "10.0.0.9:8080", from: START + 3000 },
  ];
  const ofServices = (stack: Partial<Stack> = {}): Series[] =>
    simulate(cluster([job({ start: START + 200, end: null })], { stacks: [{ ...STACK, instances, ...stack }] })).filter(
      ({ labels }) => isService(labels),
    );
  const named = (name: string, series: readonly Series[]): Series[] => series.filter((one) => one.name === name);

  test("kube-state-metrics reports its own pod, another one after a redeploy, at every scrape", () => {
    const infos = named("kube_pod_info", ofServices()).filter(({ labels }) => labels["pod_ip"] !== undefined);
    const own = infos.filter(({ labels }) => labels["instance"] === `${labels["pod_ip"]}:8080`);
    expect(own.map(({ labels }) => labels)).toEqual(
      ["10.0.0.5", "10.0.0.9"].map((address) =>
        expect.objectContaining({
          namespace: "monitoring",
          pod: expect.stringMatching(/^kube-state-metrics-\w+-\w+$/),
          pod_ip: address,
        }),
      ),
    );
    expect(new Set(own.map(({ labels }) => labels["uid"])).size).toBe(2);
    expect(times(own)).toEqual(Array.from({ length: 120 }, (_, index) => START + 7 + 60 * index));
  });

  test("they run, and one of kube-system requests CPU", () => {
    const running = named("kube_pod_status_phase", ofServices()).filter(({ labels }) => labels["phase"] === "Running");
    const system = running.filter(({ labels }) => labels["namespace"] === "kube-system");
    expect(values(system)).toEqual([1]);
    expect(times(system)).toHaveLength(7200 / 300);
    const requests = named("kube_pod_container_resource_requests", ofServices());
    expect(requests.map(({ labels }) => labels["namespace"])).toContain("kube-system");
    expect(values(requests)).toEqual([0.1]);
  });

  test("are not seen by a kube-state-metrics that may list other namespaces only", () => {
    const sees = ["grid"];
    expect(ofServices({ sees })).toEqual([]);
    const all = simulate(cluster([job({ start: START + 200, end: null })], { stacks: [{ ...STACK, sees }] }));
    expect(find(all, "kube_pod_start_time")).toHaveLength(1);
    expect(find(all, "up")).toHaveLength(1);
  });
});

describe("cAdvisor", () => {
  test("writes the uid into the id as the node's cgroup driver does, with copies of the pod and the pause container", () => {
    const on = (node: string): Job =>
      job({ start: START + 200, end: START + 900, placements: [{ node, from: START + 199 }] });
    const ids = (one: Job): (string | undefined)[] =>
      find(simulate(cluster([one])), "container_cpu_usage_seconds_total").map((found) => found.labels["id"]);
    const systemd = on("node-2");
    const cgroupfs = on("node-1");
    expect(ids(systemd)).toHaveLength(3);
    for (const id of ids(systemd)) expect(id).toContain(`pod${systemd.uid.replaceAll("-", "_")}.slice`);
    for (const id of ids(cgroupfs)) expect(id).toContain(`pod${cgroupfs.uid}`);
    const mixed = on("node-3");
    expect(ids(mixed)[0]).toMatch(/^\/system\.slice\/containerd\.service\/kubepods-.*\.slice:cri-containerd:/);
    expect(ids(on("node-4"))[0]).toMatch(/^\/docker\/.*\/kubelet-kubepods\.slice\/.*\/crio-/);
    expect(
      find(simulate(cluster([systemd])), "container_cpu_usage_seconds_total").map((one) => one.labels["container"]),
    ).toEqual(["main", undefined, "POD"]);
  });

  test("counts up to the run's total and no further, and ends with the container", () => {
    const one = job({ start: START + 200, end: START + 2000 });
    const main = find(simulate(cluster([one])), "container_cpu_usage_seconds_total", { container: "main" });
    const counted = all(main).map(([, value]) => value);
    expect(counted).toEqual(counted.toSorted((a, b) => a - b));
    expect(counted.at(-1)).toBe((one.containers[0]?.runs[0]?.cpuMs ?? 0) / 1000);
    expect(Math.max(...times(main))).toBe(START + 1987);
  });
});

test("OpenMetrics text: each family once, counters typed, series in time order, # EOF", () => {
  const text = [...openMetrics(simulate(cluster([job({ start: START + 200, end: START + 900 })])))].join("");
  const lines = text.trimEnd().split("\n");
  expect(lines.at(-1)).toBe("# EOF");
  const types = lines.filter((line) => line.startsWith("# TYPE"));
  expect(new Set(types).size).toBe(types.length);
  expect(types).toContain("# TYPE container_cpu_usage_seconds counter");
  expect(text).not.toContain('=""');
  const last = new Map<string, number>();
  for (const line of lines.filter((one) => !one.startsWith("#"))) {
    const parsed = /^(?<series>\w+(?:\{.*\})?) \S+ (?<time>\d+)$/.exec(line)?.groups;
    expect(parsed).toBeDefined();
    const { series = "", time = "" } = parsed ?? {};
    expect(Number(time)).toBeGreaterThan(last.get(series) ?? 0);
    last.set(series, Number(time));
  }
});
