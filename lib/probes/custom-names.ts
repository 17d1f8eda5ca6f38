import type { Labels } from "../agent/types.ts";

/** Names of the agent itself, of the gateway's own metrics, and of what Prometheus adds to every scrape. */
export const FORBIDDEN_PREFIXES: readonly string[] = [
  "gridmeter_",
  "go_",
  "process_",
  "pushgateway_",
  "promhttp_",
  "scrape_",
];
export const FORBIDDEN_NAMES: readonly string[] = ["up", "push_time_seconds", "push_failure_time_seconds"];

/** Whether a custom command may not use this metric name: the gateway would refuse the push, or the name be ambiguous. */
export const isForbiddenName = (name: string): boolean =>
  FORBIDDEN_NAMES.includes(name) || FORBIDDEN_PREFIXES.some((prefix) => name.startsWith(prefix));

/** The agent's own labels, which a Pushgateway writes over those in the body. */
const OWN_LABELS: readonly string[] = ["job", "instance", "probe"];

/** Gives way to the agent's labels as Prometheus does; undefined where the new name is taken. */
export const renameLabels = (labels: Labels): Labels | undefined => {
  const renamed = Object.entries(labels).map(
    ([name, value]) => [OWN_LABELS.includes(name) ? `exported_${name}` : name, value] as const,
  );
  return new Set(renamed.map(([name]) => name)).size === renamed.length ? Object.fromEntries(renamed) : undefined;
};
