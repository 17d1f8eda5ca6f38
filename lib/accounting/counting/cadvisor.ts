import type { Monitoring, Window } from "../model/monitoring.ts";
import { type LongestWindows, ask } from "../model/split.ts";

/**
 * How many of cAdvisor's series belong to pods. A query that was split may count a series more than once, so only the
 * proportions mean something.
 */
export type CpuSeen = {
  readonly ofPods: number;
  /** series without the label id */
  readonly withoutId: number;
  /** series in whose id no uid is found */
  readonly unreadable: number;
  /** one such id */
  readonly example?: string;
};

/** Looks at cAdvisor's series of CPU use in the tenant's namespace. Throws what `ask` throws. */
export async function lookForCpu(monitoring: Monitoring, window: Window, longest?: LongestWindows): Promise<CpuSeen> {
  let [ofPods, withoutId, unreadable] = [0, 0, 0];
  let example: string | undefined;
  await ask(
    monitoring,
    "cpu",
    window,
    ({ uid, part = "" }) => {
      if (uid !== "") ofPods += 1;
      else if (part === "") withoutId += 1;
      else {
        unreadable += 1;
        // The first in the alphabet, so that the example does not depend on the order of the answer.
        if (example === undefined || part < example) example = part;
      }
    },
    longest,
  );
  return { ofPods, withoutId, unreadable, ...(example === undefined ? {} : { example }) };
}

/** What is wrong with cAdvisor's series where jobs have no measured CPU use, and what to do about it. */
export function explainCpu({ ofPods, withoutId, unreadable, example = "" }: CpuSeen): {
  readonly what: string;
  readonly remedy: string;
} {
  if (unreadable > 0) {
    return {
      what: `the label id of container_cpu_usage_seconds_total is unreadable: there is no pod's uid in "${quotable(example)}"`,
      remedy:
        "Let Prometheus scrape the kubelets' own /metrics/cadvisor and leave its label id as it is; if this is what they write, " +
        "report the form of the id",
    };
  }
  if (withoutId > 0) {
    return {
      what: "container_cpu_usage_seconds_total has no label id, which alone names the pod's uid",
      remedy:
        "Do not drop the label id of this metric (metric_relabel_configs, cAdvisorMetricRelabelings), and let Prometheus scrape the " +
        "kubelets' /metrics/cadvisor: their /metrics/resource has no id",
    };
  }
  if (ofPods > 0) {
    return {
      what: "container_cpu_usage_seconds_total is there of other pods only",
      remedy:
        "See that Prometheus scrapes /metrics/cadvisor of every node that runs jobs, often enough for the shortest job",
    };
  }
  return {
    what: "there is no cAdvisor: no container_cpu_usage_seconds_total of any container",
    remedy:
      "Let Prometheus scrape the kubelets' /metrics/cadvisor, and keep this metric and its labels namespace, container and id",
  };
}

/** Characters of an id that are quoted; the id of a pod's container has about 200. */
const LONGEST_QUOTE = 240;

/** An id as one line of printable ASCII. */
function quotable(id: string): string {
  const plain = id.slice(0, LONGEST_QUOTE).replaceAll(/[^ !#-~]/g, "?");
  return id.length > LONGEST_QUOTE ? `${plain}...` : plain;
}
