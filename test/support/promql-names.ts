import { parser } from "@prometheus-io/lezer-promql";
import { SELF_METRICS } from "../../lib/agent/metrics/self.ts";
import { GPU_METRICS, NODE_METRICS } from "../../lib/agent/probes/common/metric-families.ts";
import { ACCOUNTING_JOB, ACCOUNTING_METRICS } from "../../lib/accounting/metrics.ts";

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

/** Every metric name that the agent, the accounting and the Pushgateway publish, the parts of histograms included. */
export function knownMetricNames(): ReadonlySet<string> {
  const meta = Object.entries(SELF_METRICS).flatMap(([name, { type }]) =>
    type === "histogram" ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
  );
  const own = [...Object.keys(GPU_METRICS), ...Object.keys(NODE_METRICS), ...meta];
  const accounting = Object.keys(ACCOUNTING_METRICS).map((name) => `${ACCOUNTING_JOB}_${name}`);
  return new Set([...own, ...accounting, ...GATEWAY]);
}
