import { makeJob, Random, STACK } from "../simulator/index.ts";
import type { Cluster } from "../simulator/index.ts";

const HOUR = 3600;

/**
 * A cluster in which jobs of an hour end evenly from `from` to `to`, each lingering half an hour: many pods in any hour.
 * One in ten fails; sizes and VOs differ.
 */
export function denseCluster(options: {
  readonly from: number;
  readonly to: number;
  readonly jobs: number;
  readonly scrapeInterval: number;
  readonly namespace?: string;
}): Cluster {
  const { from, to, jobs, scrapeInterval, namespace = "grid" } = options;
  const random = new Random(`dense ${jobs}`);
  return {
    from: from - 2 * HOUR,
    to: to + 8 * HOUR,
    scrapeInterval,
    jobs: Array.from({ length: jobs }, (_, index) => {
      const end = Math.floor(from + ((to - from) * (index + 0.5)) / jobs);
      return makeJob("plain", namespace, random, {
        start: end - random.int(HOUR / 2, HOUR),
        end,
        lingers: HOUR / 2,
        outcome: index % 10 === 0 ? "Failed" : "Succeeded",
        containers: [{ milliCores: 500 * random.int(1, 8), measured: false }],
      });
    }),
    stacks: [STACK],
    outages: [],
    emptyNamespaces: [namespace],
  };
}
