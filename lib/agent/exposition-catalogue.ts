import { GPU_METRICS } from "../probes/gpu-metrics.ts";
import { NODE_METRICS } from "../probes/node-metrics.ts";
import type { Known } from "./exposition-agreed.ts";
import { META_METRICS } from "./meta-catalogue.ts";

const KNOWN: ReadonlyMap<string, Known> = new Map<string, Known>([
  ...Object.entries(GPU_METRICS),
  ...Object.entries(NODE_METRICS),
  ...Object.entries(META_METRICS).flatMap(([name, { type, help }]) =>
    type === "histogram" ? [] : [[name, { type, help }] as const],
  ),
]);

/** What the catalogues of GPU, node and agent metrics say of a name; undefined for a custom command's. */
export const knownMetric = (name: string): Known | undefined => KNOWN.get(name);
