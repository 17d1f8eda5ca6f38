import type { Family, Sample } from "./exposition.ts";
import { META_METRICS } from "./meta-catalogue.ts";
import type { MetaMetricName } from "./meta-catalogue.ts";

/** A family of the catalogue with its samples. */
export function family(name: MetaMetricName, samples: readonly Sample[]): Family {
  const { help, type } = META_METRICS[name];
  return { name, help, type, samples };
}

/** A family with one sample and no labels of its own, or none if there is no value: what is not known is absent. */
export function single(name: MetaMetricName, value: number | undefined): Family {
  return family(name, value === undefined ? [] : [{ labels: {}, value }]);
}
