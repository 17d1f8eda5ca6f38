import { constantFrom, integer, nat, record } from "fast-check";
import type { Arbitrary } from "fast-check";
import type { Cluster } from "./cluster.ts";
import { randomCluster } from "./clusters.ts";

/** Random small clusters for property tests; shrinks towards few jobs. */
export function arbitraryCluster(options: { readonly maxJobs?: number } = {}): Arbitrary<Cluster> {
  const { maxJobs = 24 } = options;
  return record({
    seed: nat(1_000_000),
    size: integer({ min: 1, max: maxJobs }),
    scrapeInterval: constantFrom(60, 120),
  }).map(({ seed, size, scrapeInterval }) => ({ ...randomCluster(seed, size), scrapeInterval }));
}
