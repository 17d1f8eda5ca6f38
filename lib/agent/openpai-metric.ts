import { OPENPAI_METRICS, type OpenPaiName } from "./openpai-catalogue.ts";
import type { Labels, Metric } from "./types.ts";

/** One series; undefined is what was not read, and is left out. */
export type OpenPaiSample = { readonly labels: Labels; readonly value: number | undefined };

/** A metric of the catalogue, without what was not read; a histogram comes as its parts, by openpai-account.ts. */
export const openPaiMetric = (name: OpenPaiName, samples: readonly OpenPaiSample[]): Metric => {
  const { type, help } = OPENPAI_METRICS[name];
  return {
    name,
    help,
    type: type === "counter" ? "counter" : "gauge",
    samples: samples.flatMap(({ labels, value }) =>
      value === undefined || !Number.isFinite(value) ? [] : [{ labels, value }],
    ),
  };
};

/** Metrics that have a sample. */
export const withSamples = (metrics: readonly Metric[]): readonly Metric[] =>
  metrics.filter(({ samples }) => samples.length > 0);

/** 0 to 1 as percent. */
export const percent = (share: number | undefined): number | undefined =>
  share === undefined ? undefined : share * 100;
