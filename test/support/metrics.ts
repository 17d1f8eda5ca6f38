import { expect } from "vitest";
import type { Metric } from "../../lib/shared/exposition.ts";
import { NODE_METRICS, type NodeMetricName } from "../../lib/agent/probes/common/metric-families.ts";

/** Finite samples, each series once, and the labels that the catalogue says throughout a metric. */
export const sameLabelsThroughout = (metrics: readonly Metric[]): void => {
  expect(new Set(metrics.map(({ name }) => name)).size).toBe(metrics.length);
  for (const { name, type, help, samples } of metrics) {
    const entry = NODE_METRICS[name as NodeMetricName];
    expect({ type, help }).toEqual({ type: entry.type, help: entry.help });
    for (const { labels, value } of samples) {
      expect(Object.keys(labels).sort(), name).toEqual([...entry.labels].sort());
      expect(Number.isFinite(value), name).toBe(true);
    }
    expect(new Set(samples.map(({ labels }) => JSON.stringify(labels))).size, name).toBe(samples.length);
  }
};

/** The values of one metric, by the value of one of its labels. */
export const valuesBy = (metrics: readonly Metric[], name: string, label: string): Record<string, number> =>
  Object.fromEntries(
    (metrics.find((metric) => metric.name === name)?.samples ?? []).map(({ labels, value }) => [labels[label], value]),
  );
