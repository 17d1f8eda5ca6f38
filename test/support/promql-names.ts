import { parser } from "@prometheus-io/lezer-promql";
import { SELF_METRICS } from "../../lib/agent/metrics/self.ts";
import { GPU_METRICS, NODE_METRICS } from "../../lib/agent/probes/common/metric-families.ts";
import { exposition } from "../../functions/common/metrics.ts";

/** Where the PromQL grammar could not read a query; empty for a good one. */
export function promqlFaults(query: string): readonly string[] {
  const found: string[] = [];
  parser.parse(query).iterate({
    enter: (node) => {
      if (node.type.isError) found.push(`${node.from}-${node.to} in ${query}`);
    },
  });
  return found;
}

/** The names of the metrics that a query selects. */
export function metricNames(query: string): readonly string[] {
  const found = new Set<string>();
  parser.parse(query).iterate({
    enter: (node) => {
      const name = query.slice(node.from, node.to);
      if (node.name === "VectorSelector" && /^[{]/.test(name)) throw new Error(`A selector without a name: ${name}`);
      if (node.name === "Identifier" && node.node.parent?.name === "VectorSelector") found.add(name);
    },
  });
  return [...found];
}

/** What the Pushgateway itself adds. */
const GATEWAY = ["push_time_seconds", "push_failure_time_seconds", "pushgateway_build_info"];

/** What the accounting functions push: the names in a real exposition of a success, which has all of them. */
async function accountingNames(): Promise<readonly string[]> {
  const item = {
    v: 1,
    site: "S",
    submitHost: "h/ns",
    month: "2025-01",
    mode: "auto",
    run: { id: "r", now: 1.7e9 },
  } as const;
  const figures = {
    kind: "done",
    jobs: 1,
    leftOut: { no_start: 1 },
    daysAsked: 1,
    messages: 1,
    duration: 1,
    at: 1,
  } as const;
  const text = await exposition(item, figures);
  return [...text.matchAll(/^# TYPE (?<name>\S+) /gm)].map((found) => found.groups?.["name"] ?? "");
}

/** Every metric name that the agent, the accounting functions and the Pushgateway publish, the parts of histograms included. */
export async function knownMetricNames(): Promise<ReadonlySet<string>> {
  const meta = Object.entries(SELF_METRICS).flatMap(([name, { type }]) =>
    type === "histogram" ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
  );
  const own = [...Object.keys(GPU_METRICS), ...Object.keys(NODE_METRICS), ...meta];
  return new Set([...own, ...(await accountingNames()), ...GATEWAY]);
}
