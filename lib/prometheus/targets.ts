import { CELL, type Window } from "../accounting/ports.ts";
import type { Selection } from "../accounting/tenant.ts";
import { windowsOf } from "./cells.ts";
import type { Client } from "./connection.ts";
import { inParts } from "./in-parts.ts";
import { overTime, selector } from "./promql.ts";

/** A scrape target of kube-state-metrics, and in which cells it was up (true) or down; cells without `up` are absent. */
export type Target = { readonly job: string; readonly instance: string; readonly up: ReadonlyMap<number, boolean> };

/** Points a query and series: Prometheus allows 11,000, Amazon 32 days. */
const POINTS = 8640;

/**
 * Labels of `up` that name kube-state-metrics: where one job scrapes the services of all kinds (kubernetes-service-endpoints of the
 * chart prometheus), the service and its labels do, where the target is written down, its address does.
 */
const NAMED_BY = ["job", "service", "app_kubernetes_io_name", "kubernetes_name", "instance"];

/** `up` of kube-state-metrics' targets. */
export function upSelectors({ matchers }: Selection): readonly string[] {
  return NAMED_BY.map((label) => selector("up", [`${label}=~".*kube-state-metrics.*"`, ...matchers]));
}

/** Whether each target of kube-state-metrics was up, cell by cell. */
export function targetsQuery(selection: Selection): string {
  return `max by (job,instance) (${overTime("max_over_time", upSelectors(selection), CELL)})`;
}

/** The targets of kube-state-metrics in the window; none where Prometheus has no `up` of them. */
export async function findTargets(client: Client, selection: Selection, window: Window): Promise<readonly Target[]> {
  const found = new Map<string, { job: string; instance: string; up: Map<number, boolean> }>();
  const ask = async ({ from, to }: Window): Promise<readonly never[]> => {
    for (const { labels, values } of await client.range(targetsQuery(selection), from + CELL, to, CELL)) {
      const { job = "", instance = "" } = labels;
      const key = JSON.stringify([job, instance]);
      const target = found.get(key) ?? { job, instance, up: new Map<number, boolean>() };
      found.set(key, target);
      for (const [at, value] of values) target.up.set(at, value > 0);
    }
    return [];
  };
  await inParts(windowsOf(window, POINTS), ask, { asked: "the targets of kube-state-metrics", shortest: CELL });
  return [...found.values()];
}
