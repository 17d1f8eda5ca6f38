import { z } from "zod";
import type { Figures } from "./jobs.ts";
import type { Stretch } from "./shape.ts";

/** What the reference program asks for, in its order. */
export const ASKED = ["cputime", "endtime", "starttime", "cores", "memory", "cpuusage"] as const;
export type Asked = (typeof ASKED)[number];

/**
 * The PromQL that KAPEL 1.0.0 (https://github.com/rptaylor/kapel, now Kuantifier) issues for one period, to be evaluated at
 * its end: the release that joins by pod name and takes a namespace. Each goes over the whole period.
 */
export function referenceQueries(namespace: string, seconds: number): Readonly<Record<Asked, string>> {
  const over = (metric: string, ...matchers: readonly string[]): string =>
    `max_over_time(${metric}{${[...matchers, `namespace="${namespace}"`].join(",")}}[${seconds}s])`;
  const end = over("kube_pod_completion_time");
  const start = over("kube_pod_start_time");
  const request = (resource: string): string =>
    over("kube_pod_container_resource_requests", `resource="${resource}"`, `node!=""`);
  return {
    cputime: `(${end} - ${start}) * on (pod) group_left() max without (instance, node) (${request("cpu")})`,
    endtime: end,
    starttime: start,
    cores: request("cpu"),
    memory: `sum by (pod) (${request("memory")}) / 1000`,
    cpuusage: `sum by (pod) (last_over_time(container_cpu_usage_seconds_total{namespace="${namespace}"}[${seconds}s]))`,
  };
}

const answer = z.object({
  status: z.literal("success"),
  data: z.object({
    result: z.array(z.object({ metric: z.object({ pod: z.string() }), value: z.tuple([z.number(), z.string()]) })),
  }),
});

/** An answer's values by pod name; of several series of one name the last one stays, as in KAPEL. */
export function valuesByPod(body: string): ReadonlyMap<string, number> {
  const values = new Map<string, number>();
  for (const { metric, value } of answer.parse(JSON.parse(body)).data.result) values.set(metric.pod, Number(value[1]));
  return values;
}

/**
 * The period's figures as KAPEL joins them: pods that ended since the period's start and have a cputime; all that ended
 * are counted as jobs.
 */
export function referenceFigures(
  results: Readonly<Record<Asked, ReadonlyMap<string, number>>>,
  { from }: Pick<Stretch, "from">,
): Figures {
  const { cputime, endtime, starttime, cores } = results;
  let jobs = 0;
  let coreSeconds = 0;
  for (const [pod, end] of endtime) {
    if (end < from) continue;
    jobs += 1;
    const [used, start, count] = [cputime.get(pod), starttime.get(pod), cores.get(pod)];
    if (used === undefined || start === undefined || count === undefined || end < start) continue;
    if (Math.abs(used - (end - start) * count) >= 0.001) throw new Error(`The cputime of pod ${pod} does not add up.`);
    coreSeconds += used;
  }
  return { jobs, coreSeconds: Math.round(coreSeconds) };
}
