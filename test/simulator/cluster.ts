import type { Job } from "./job.ts";
import { Schedule } from "./schedule.ts";
import type { Stretch } from "./schedule.ts";

/** One Prometheus (or one replica) with its own kube-state-metrics target. A second one makes copies of every series. */
export type Stack = {
  /** job label of kube-state-metrics */
  readonly job: string;
  /** instances of kube-state-metrics, each from the given moment: a redeploy changes the label */
  readonly instances: readonly { readonly instance: string; readonly from: number }[];
  /** further labels on every series, e.g. prometheus_replica, cluster */
  readonly labels: Readonly<Record<string, string>>;
  /** scrapes are at offset + n x scrapeInterval; never a multiple of 300, see lib/accounting/model/monitoring.ts CELL */
  readonly offset: number;
  /** when it exists; absent: always */
  readonly life?: Stretch;
  /** honorLabels false: namespace, pod, container become exported_namespace ... */
  readonly exported?: boolean;
  /** the namespaces that its kube-state-metrics may list (`--namespaces`); absent: all; empty: its endpoint about itself */
  readonly sees?: readonly string[];
  /** the pods of one shard of several; absent: all */
  readonly holds?: (job: Job) => boolean;
  /** the namespace in which its kube-state-metrics runs; absent: monitoring */
  readonly home?: string;
  /** the node on which its kube-state-metrics runs; absent: any */
  readonly node?: string;
  /** when it alone is not scraped */
  readonly outages?: readonly Outage[];
};

/** Nothing is scraped. `down`: `up` is 0; `absent`: there is no `up` either. */
export type Outage = Stretch & { readonly kind: "down" | "absent" };

export type Cluster = {
  readonly from: number;
  /** now: nothing is scraped at or after it */
  readonly to: number;
  /** seconds */
  readonly scrapeInterval: number;
  readonly jobs: readonly Job[];
  readonly stacks: readonly Stack[];
  readonly outages: readonly Outage[];
  /** namespaces without a job, reported all the same */
  readonly emptyNamespaces?: readonly string[];
  /** pods of the cluster itself, which are nobody's jobs; absent: one of kube-system that runs all along */
  readonly services?: readonly Job[];
};

/** The usual stack. */
export const STACK: Stack = {
  job: "kube-state-metrics",
  instances: [{ instance: "10.42.0.11:8080", from: 0 }],
  labels: {},
  offset: 7,
};

/** The namespace in which a stack's kube-state-metrics runs. */
export const homeOf = (stack: Stack): string => stack.home ?? "monitoring";

/** Whether a stack's kube-state-metrics reports a namespace. */
export const lists = (stack: Stack, namespace: string): boolean => stack.sees?.includes(namespace) ?? true;

/** Whether a stack's kube-state-metrics reports a pod. */
export const reports = (stack: Stack, job: Job): boolean => lists(stack, job.namespace) && (stack.holds?.(job) ?? true);

/** When the pods' metrics are scraped by a stack. `interval` for series that are kept sparse. */
export function scrapesOf(cluster: Cluster, stack: Stack, interval: number = cluster.scrapeInterval): Schedule {
  return new Schedule(interval, stack.offset, lifeOf(cluster, stack), outagesOf(cluster, stack));
}

/** When a stack writes `up`: also while a target is down. */
export function upScrapesOf(cluster: Cluster, stack: Stack): Schedule {
  const absent = outagesOf(cluster, stack).filter((outage) => outage.kind === "absent");
  return new Schedule(cluster.scrapeInterval, stack.offset, lifeOf(cluster, stack), absent);
}

/** When a stack is not scraped, for whatever reason. */
export function outagesOf(cluster: Cluster, stack: Stack): readonly Outage[] {
  return [...cluster.outages, ...(stack.outages ?? [])];
}

function lifeOf(cluster: Cluster, { life }: Stack): Stretch {
  return { from: Math.max(cluster.from, life?.from ?? 0), to: Math.min(cluster.to, life?.to ?? Infinity) };
}

/** The last scrape of any stack in [from, to), or undefined. */
export function lastScrape(schedules: readonly Schedule[], from: number, to: number): number | undefined {
  const times = schedules.map((schedule) => schedule.last(from, to)).filter((time) => time !== undefined);
  return times.length === 0 ? undefined : Math.max(...times);
}
