import { homeOf } from "./cluster.ts";
import type { Cluster, Stack } from "./cluster.ts";
import type { Job } from "./job.ts";
import { makeJob } from "./make-job.ts";
import type { JobPlan } from "./make-job.ts";
import { DAY } from "./place.ts";
import { Random } from "./random.ts";

const SYSTEM = "kube-system";
/** How long the pods of the cluster itself have run when the simulation begins. */
const BEFORE = 20 * DAY;

/** A pod of the cluster itself: it requests 100 milli-cores and runs on, unless said otherwise. */
export function service(namespace: string, pod: string, plan: Pick<JobPlan, "start"> & Partial<JobPlan>): Job {
  const random = new Random(`${namespace}/${pod}`);
  const job = makeJob("service", namespace, random, {
    end: null,
    pod,
    labels: { app: pod },
    containers: [{ name: "server", milliCores: 100, measured: false }],
    ...plan,
  });
  return { ...job, owner: "ReplicaSet" };
}

/** The pod of every kube-state-metrics, which it reports as it does any other: one for each instance. */
export function ownPods(cluster: Cluster): readonly Job[] {
  const aboutPods = cluster.stacks.filter(({ sees }) => sees?.length !== 0);
  return aboutPods.flatMap((stack) =>
    stack.instances.map(({ instance, from }, index) => {
      const start = Math.max(from, stack.life?.from ?? cluster.from - BEFORE) - 5;
      const deleted = Math.min(stack.instances[index + 1]?.from ?? Infinity, stack.life?.to ?? Infinity);
      return ownPod(stack, instance, start, deleted);
    }),
  );
}

function ownPod(stack: Stack, instance: string, start: number, deleted: number): Job {
  const random = new Random(`${stack.job} ${instance} ${JSON.stringify(stack.labels)}`);
  const pod = `kube-state-metrics-${random.suffix()}-${random.suffix()}`;
  const job = service(homeOf(stack), pod, {
    start,
    ...(stack.node === undefined ? {} : { placements: [{ node: stack.node, from: start - 1 }] }),
    ...(Number.isFinite(deleted) ? { deleted } : {}),
  });
  return { ...job, address: instance.replace(/:\d+$/, "") };
}

/** The pods of the cluster itself besides those of kube-state-metrics. */
export function servicesOf(cluster: Cluster): readonly Job[] {
  return cluster.services ?? [service(SYSTEM, "coredns-5d78c9869d-7k2xv", { start: cluster.from - BEFORE })];
}

/** Whether labels are those of a pod in a namespace of the cluster itself, under either spelling. */
export function isService(labels: Readonly<Record<string, string>>): boolean {
  return ["monitoring", SYSTEM].includes(labels["exported_namespace"] ?? labels["namespace"] ?? "");
}
