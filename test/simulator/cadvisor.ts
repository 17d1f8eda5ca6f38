import { createHash } from "node:crypto";
import { usedCpuMs } from "./job.ts";
import type { Container, Job, Run } from "./job.ts";
import type { Exported, Segment } from "./series.ts";

type Labels = Readonly<Record<string, string>>;
const CPU = "container_cpu_usage_seconds_total";
const MEMORY = "container_memory_working_set_bytes";

/** All that cAdvisor exports about one pod: its containers, the copies at pod level, the pause container. */
export function containerSeries(job: Job): Exported[] {
  const containers = [...job.initContainers, ...job.sidecars, ...job.containers];
  const measured = containers.flatMap((container) =>
    container.runs.filter((run) => run.cpuMs !== undefined).map((run) => ({ container, run })),
  );
  return [
    ...measured.flatMap(({ container, run }) => ofContainer(job, container, run)),
    ...job.placements.flatMap((_, index) =>
      ofPod(
        job,
        index,
        measured.map((one) => one.run),
      ),
    ),
  ];
}

function ofContainer(job: Job, container: Container, run: Run): Exported[] {
  const until = Math.min(run.to ?? Infinity, job.evicted ?? Infinity, job.deleted ?? Infinity);
  if (until <= run.from) return [];
  const node = job.placements.findLast((placement) => placement.from <= run.from)?.node ?? "";
  const name = hash(`${job.uid}/${container.name}/${run.from}`);
  const labels = {
    namespace: job.namespace,
    pod: job.pod,
    container: container.name,
    name,
    image: "registry/worker:1",
    ...target(node),
    id: groupsOf(job.uid, node, name).container,
  };
  const peak = container.memoryUsed ?? 50_000_000;
  const end = Number.isFinite(until) ? until : run.from + 86_400;
  const at = (share: number): number => run.from + Math.floor((end - run.from) * share);
  const memory: Segment[] = [
    { from: run.from, to: at(0.25), value: Math.round(peak * 0.6) },
    { from: at(0.25), to: at(0.75), value: peak },
    { from: at(0.75), to: until, value: Math.round(peak * 0.5) },
  ];
  return [
    {
      name: CPU,
      labels: { ...labels, cpu: "total" },
      segments: [{ from: run.from, to: until, value: (time) => usedCpuMs(run, time) / 1000 }],
    },
    { name: MEMORY, labels, segments: memory.filter((segment) => segment.to > segment.from) },
  ];
}

/** The copy at pod level (container="") and the pause container: whoever adds these up counts the use twice. */
function ofPod(job: Job, index: number, runs: readonly Run[]): Exported[] {
  const { node, from } = job.placements[index]!;
  const lasts = runs.map((run) => run.to ?? Infinity);
  const ends = [Math.max(from, ...lasts), job.evicted, job.deleted, job.placements[index + 1]?.from];
  const until = Math.min(...ends.map((end) => end ?? Infinity));
  if (until <= from || runs.length === 0) return [];
  const name = hash(`${job.uid}/POD/${from}`);
  const groups = groupsOf(job.uid, node, name);
  const pod: Labels = { namespace: job.namespace, pod: job.pod, ...target(node) };
  const whole: Labels = { ...pod, id: groups.pod };
  const pause: Labels = { ...pod, id: groupsOf(job.uid, node, name).container, container: "POD", name };
  const total = (time: number): number => runs.reduce((sum, run) => sum + usedCpuMs(run, time), 30) / 1000;
  return [
    { name: CPU, labels: { ...whole, cpu: "total" }, segments: [{ from, to: until, value: total }] },
    { name: CPU, labels: { ...pause, cpu: "total" }, segments: [{ from, to: until, value: 0.03 }] },
    { name: MEMORY, labels: whole, segments: [{ from, to: until, value: 999_000_000_000 }] },
    { name: MEMORY, labels: pause, segments: [{ from, to: until, value: 400_000 }] },
  ];
}

function target(node: string): Labels {
  return { job: "kubelet", metrics_path: "/metrics/cadvisor", node, instance: `${node}:10250` };
}

const hash = (text: string): string => createHash("sha256").update(text).digest("hex");

/**
 * How kubelet and runtime write a pod's group and a container in it, by the last digit of the node's name: cgroupfs, systemd, a
 * kubelet with systemd over a containerd without it (its containers lie under its own service), and a node that is itself a
 * container (kind) with CRI-O.
 */
const FORMS: readonly ((uid: string, name: string) => { readonly pod: string; readonly container: string })[] = [
  (uid, name) => {
    const pod = `/kubepods/${qosOf(uid, "burstable/")}pod${uid}`;
    return { pod, container: `${pod}/${name}` };
  },
  (uid, name) => {
    const pod = `/kubepods.slice/${qosOf(uid, "kubepods-burstable.slice/")}${sliceOf(uid)}`;
    return { pod, container: `${pod}/cri-containerd-${name}.scope` };
  },
  (uid, name) => ({
    pod: `/kubepods.slice/${qosOf(uid, "kubepods-burstable.slice/")}${sliceOf(uid)}`,
    container: `/system.slice/containerd.service/${sliceOf(uid)}:cri-containerd:${name}`,
  }),
  (uid, name) => {
    const above = `/kubelet.slice/kubelet-kubepods.slice/${qosOf(uid, "kubelet-kubepods-burstable.slice/")}`;
    const pod = `/docker/${hash("node")}${above}kubelet-${sliceOf(uid)}`;
    return { pod, container: `${pod}/crio-${name}.scope` };
  },
];

/** The quality of service is in the path, but Guaranteed pods have no level of their own. */
const qosOf = (uid: string, level: string): string => (/^[0-7]/.test(uid) ? "" : level);
const sliceOf = (uid: string): string => `kubepods-${qosOf(uid, "burstable-")}pod${uid.replaceAll("-", "_")}.slice`;

function groupsOf(uid: string, node: string, name: string): { readonly pod: string; readonly container: string } {
  const digit = Number(/\d$/.exec(node)?.[0] ?? 1);
  return FORMS[(digit + 3) % FORMS.length]!(uid, name);
}
