import { GPU_METRICS } from "../probes/gpu-metrics.ts";
import { NODE_METRICS } from "../probes/node-metrics.ts";
import type { Known } from "./exposition-agreed.ts";
import { META_METRICS } from "./meta-catalogue.ts";
import { OPENPAI_METRICS } from "./openpai-catalogue.ts";

type Entry = { readonly type: Known["type"] | "histogram"; readonly help: string };

/** Histograms are not data of a probe, and are laid out apart. */
const simple = (metrics: Readonly<Record<string, Entry>>): readonly (readonly [string, Known])[] =>
  Object.entries(metrics).flatMap(([name, { type, help }]) => (type === "histogram" ? [] : [[name, { type, help }]]));

const KNOWN: ReadonlyMap<string, Known> = new Map([
  ...simple(GPU_METRICS),
  ...simple(NODE_METRICS),
  ...simple(META_METRICS),
]);
const OPENPAI: ReadonlyMap<string, Known> = new Map(simple(OPENPAI_METRICS));

/** What the catalogues of GPU, node and agent metrics say of a name; undefined for a custom command's. */
export const knownMetric = (name: string): Known | undefined => KNOWN.get(name);

/** The same where OpenPAI's names are published too: a custom command does not decide what type they have. */
export const knownWithOpenPai = (name: string): Known | undefined => KNOWN.get(name) ?? OPENPAI.get(name);
