import type { Probe } from "../../agent/probe.ts";
import type { Metric, Output } from "../../agent/types.ts";
import type { ProbeSettings } from "./settings.ts";

/** What a saved output of a probe's command says. */
export type Saved = {
  readonly metrics: readonly Metric[];
  /** the values that were read, for people and for JSON; their shape is the probe's own */
  readonly parsed: unknown;
  /** rows that were broken and left out */
  readonly rejected: number;
};

export declare function createProbe(name: string, settings?: ProbeSettings): Probe;
export declare function parseSaved(name: string, output: Output, settings?: ProbeSettings): Saved;
