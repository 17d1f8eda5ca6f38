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

/** One kind of probe. Both functions throw GridmeterError config_invalid for settings that cannot be. */
export type ProbeKind<Readings = object> = {
  readonly create: (settings: ProbeSettings) => Probe<Readings>;
  /** throws ParseError if nothing can be read */
  readonly parseSaved: (output: Output, settings: ProbeSettings) => Saved;
};
