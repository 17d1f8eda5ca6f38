import { finishedAt, runningAt, terminations } from "./job.ts";
import type { Container, Job, Termination } from "./job.ts";
import type { Exported, Segment } from "./series.ts";

type Labels = Readonly<Record<string, string>>;

/** All that kube-state-metrics (v2) exports about one pod, until its object is deleted. */
export function podSeries(job: Job): Exported[] {
  const gone = job.deleted ?? Infinity;
  const pod: Labels = { namespace: job.namespace, pod: job.pod, uid: job.uid };
  const life = { from: job.created, to: gone };
  const on = nodes(job, gone);
  const podLabels = Object.entries(job.labels).map(([key, value]) => [`label_${sanitised(key)}`, value]);
  return [
    ...on.map(({ node, from, to }) => ({
      name: "kube_pod_info",
      labels: { ...pod, node, created_by_kind: job.owner ?? "Job", host_network: "false", pod_ip: job.address ?? "" },
      segments: [{ from, to, value: 1 }],
    })),
    { name: "kube_pod_start_time", labels: pod, segments: startSegments(job, gone) },
    { name: "kube_pod_completion_time", labels: pod, segments: completionSegments(terminations(job), gone) },
    ...phases(job, gone).map(({ phase, segments }) => ({
      name: "kube_pod_status_phase",
      labels: { ...pod, phase },
      segments,
    })),
    {
      name: "kube_pod_labels",
      labels: { ...pod, ...Object.fromEntries(podLabels) },
      segments: [{ ...life, value: 1 }],
    },
    ...job.containers.flatMap((container) => requests("kube_pod_container_resource_requests", pod, container, on)),
    ...job.sidecars.flatMap((container) => [
      info(pod, container, "Always", job.created, gone),
      ...requests("kube_pod_init_container_resource_requests", pod, container, on),
    ]),
    ...job.initContainers.flatMap((container) => [
      info(pod, container, "", job.created, gone),
      ...requests("kube_pod_init_container_resource_requests", pod, container, on),
    ]),
  ];
}

type OnNode = { readonly node: string; readonly from: number; readonly to: number };

/** The values of the node label in time; "" before scheduling. */
function nodes(job: Job, gone: number): OnNode[] {
  const all = [{ node: "", from: job.created }, ...job.placements];
  return all
    .map(({ node, from }, index) => ({ node, from, to: Math.min(gone, all[index + 1]?.from ?? gone) }))
    .filter(({ from, to }) => to > from);
}

function startSegments(job: Job, gone: number): Segment[] {
  return job.starts.map(({ value, from }, index) => ({
    from,
    to: Math.min(gone, job.starts[index + 1]?.from ?? gone),
    value,
  }));
}

/** The latest end of the containers terminated at the time; absent while there is none. */
function completionSegments(ended: readonly Termination[], gone: number): Segment[] {
  const cuts = [...new Set(ended.flatMap(({ from, to }) => [from, Math.min(to, gone)]))].sort((a, b) => a - b);
  return cuts.slice(0, -1).flatMap((from, index) => {
    const to = cuts[index + 1]!;
    const values = ended.filter((one) => one.from <= from && one.to > from).map((one) => one.value);
    return from >= gone || values.length === 0 ? [] : [{ from, to: Math.min(to, gone), value: Math.max(...values) }];
  });
}

function phases(job: Job, gone: number): { phase: string; segments: Segment[] }[] {
  const finished = Math.min(gone, finishedAt(job) ?? gone);
  const running = Math.min(finished, runningAt(job));
  const stretches = [
    { phase: "Pending", from: job.created, to: running },
    { phase: "Running", from: running, to: finished },
    { phase: job.evicted === undefined ? job.outcome : "Failed", from: finished, to: gone },
  ];
  return ["Pending", "Running", "Succeeded", "Failed", "Unknown"].map((phase) => ({
    phase,
    segments: stretches
      .filter(({ from, to }) => to > from)
      .map(({ phase: current, from, to }) => ({ from, to, value: current === phase ? 1 : 0 })),
  }));
}

/** CPU in cores and memory in bytes, for each node label in turn; nothing for what a container does not request. */
function requests(name: string, pod: Labels, container: Container, on: readonly OnNode[]): Exported[] {
  const { milliCores, memory, resized } = container;
  return on.flatMap(({ node, from, to }) => {
    const series: Exported[] = [];
    const labels = { ...pod, container: container.name, node };
    if (milliCores !== undefined) {
      const cut = Math.min(to, Math.max(from, resized?.at ?? to));
      const segments = [
        { from, to: cut, value: milliCores / 1000 },
        { from: cut, to, value: (resized?.milliCores ?? 0) / 1000 },
      ].filter((segment) => segment.to > segment.from);
      series.push({ name, labels: { ...labels, resource: "cpu", unit: "core" }, segments });
    }
    if (memory !== undefined) {
      const segments = [{ from, to, value: memory }];
      series.push({ name, labels: { ...labels, resource: "memory", unit: "byte" }, segments });
    }
    return series;
  });
}

function info(pod: Labels, container: Container, restartPolicy: string, from: number, to: number): Exported {
  return {
    name: "kube_pod_init_container_info",
    labels: { ...pod, container: container.name, image: "registry/init:1", restart_policy: restartPolicy },
    segments: [{ from, to, value: 1 }],
  };
}

function sanitised(key: string): string {
  return key.replaceAll(/[^a-zA-Z0-9_]/g, "_");
}
