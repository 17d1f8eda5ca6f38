import { containerSeries } from "./cadvisor.ts";
import { homeOf, lists, outagesOf, reports, scrapesOf, upScrapesOf } from "./cluster.ts";
import type { Cluster, Stack } from "./cluster.ts";
import { podSeries } from "./kube-state-metrics.ts";
import type { Schedule } from "./schedule.ts";
import { ownPods, servicesOf } from "./services.ts";
import { clip } from "./series.ts";
import type { Exported, Segment, Series } from "./series.ts";

/** Of kube_namespace_status_phase only its presence matters, so a sample an hour keeps months of it small. */
const SPARSE = 3600;
/** What shows that pods were seen has a sample in every cell; see lib/accounting/model/monitoring.ts CELL. */
const EVERY_CELL = 300;

/** Everything the cluster's Prometheus holds at `cluster.to`, as if it had been scraped all along. */
export function simulate(cluster: Cluster): Series[] {
  const pods = cluster.jobs.map((job) => ({ job, series: podSeries(job) }));
  const services = [...ownPods(cluster), ...servicesOf(cluster)].map((job) => ({ job, series: podSeries(job) }));
  const containers = cluster.jobs.flatMap(containerSeries);
  const namespaces = namespaceSeries(cluster);
  return cluster.stacks.flatMap((stack) => {
    const scrapes = scrapesOf(cluster, stack);
    const reported = (all: typeof pods): Exported[] =>
      all.filter(({ job }) => reports(stack, job)).flatMap(({ series }) => series);
    return [
      ...targets(up(cluster, stack), stack, upScrapesOf(cluster, stack)),
      ...targets(
        namespaces.filter(({ labels }) => lists(stack, labels["namespace"] ?? "")),
        stack,
        scrapesOf(cluster, stack, SPARSE),
      ),
      ...reported(services).flatMap((one) =>
        targets([one], stack, scrapesOf(cluster, stack, steadyInterval(one, cluster))),
      ),
      ...targets(reported(pods), stack, scrapes),
      // cAdvisor's job honours labels also where that of kube-state-metrics does not.
      ...containers.map((one) => scraped(one, one.labels, one.segments, { ...stack, exported: false }, scrapes)),
    ].filter((series) => hasSample(series));
  });
}

/**
 * Pods that run for months would fill the database with what never changes: kube-state-metrics' own kube_pod_info keeps
 * every scrape, other signs of life one a cell.
 */
function steadyInterval({ name, labels }: Exported, { scrapeInterval }: Cluster): number {
  if (name === "kube_pod_info" && labels["pod_ip"] !== "") return scrapeInterval;
  const signs = ["kube_pod_info", "kube_pod_start_time"].includes(name) || labels["phase"] === "Running";
  return Math.max(scrapeInterval, signs ? EVERY_CELL : SPARSE);
}

/** The series of kube-state-metrics, once per instance: a redeploy ends every series and begins another. */
function targets(exported: readonly Exported[], stack: Stack, schedule: Schedule): Series[] {
  return stack.instances.flatMap(({ instance, from }, index) => {
    const stretch = { from, to: stack.instances[index + 1]?.from ?? Infinity };
    const own = { job: stack.job, instance };
    return exported.map((one) => scraped(one, { ...one.labels, ...own }, clip(one.segments, stretch), stack, schedule));
  });
}

function scraped(
  exported: Exported,
  labels: Readonly<Record<string, string>>,
  segments: readonly Segment[],
  stack: Stack,
  schedule: Schedule,
): Series {
  // An empty label is no label to Prometheus.
  const kept = Object.entries({ ...labels, ...stack.labels }).filter(([, value]) => value !== "");
  const named = stack.exported === true && exported.name !== "up" ? kept.flatMap(renamed(stack)) : kept;
  return { name: exported.name, labels: Object.fromEntries(named), segments, schedule };
}

/** honorLabels false: the labels that the target has itself move away; `uid` is not one of them. */
function renamed(stack: Stack): (label: [string, string]) => [string, string][] {
  const own = new Map([
    ["namespace", homeOf(stack)],
    ["pod", "kube-state-metrics-0"],
    ["container", "kube-state-metrics"],
  ]);
  return ([key, value]) => {
    const target = own.get(key);
    return target === undefined
      ? [[key, value]]
      : [
          [`exported_${key}`, value],
          [key, target],
        ];
  };
}

function up(cluster: Cluster, stack: Stack): Exported[] {
  const down = outagesOf(cluster, stack).filter((outage) => outage.kind === "down");
  const cuts = [0, ...down.flatMap(({ from, to }) => [from, to]), Infinity].sort((a, b) => a - b);
  const segments = cuts.slice(0, -1).map((from, index) => ({
    from,
    to: cuts[index + 1]!,
    value: down.some((outage) => outage.from <= from && outage.to > from) ? 0 : 1,
  }));
  return [{ name: "up", labels: {}, segments: segments.filter((segment) => segment.to > segment.from) }];
}

function namespaceSeries(cluster: Cluster): Exported[] {
  const pods = [...cluster.jobs, ...ownPods(cluster), ...servicesOf(cluster)];
  const names = new Set([...pods.map((job) => job.namespace), ...(cluster.emptyNamespaces ?? [])]);
  return [...names].sort().flatMap((namespace) =>
    ["Active", "Terminating"].map((phase) => ({
      name: "kube_namespace_status_phase",
      labels: { namespace, phase },
      segments: [{ from: 0, to: Infinity, value: phase === "Active" ? 1 : 0 }],
    })),
  );
}

function hasSample(series: Series): boolean {
  return series.segments.some((segment) => series.schedule.last(segment.from, segment.to) !== undefined);
}
