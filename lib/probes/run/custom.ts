import { GridmeterError } from "../../errors.ts";
import { missingTool } from "../availability.ts";
import { parseCustom } from "../custom.ts";
import { USUAL_INTERVAL } from "./settings.ts";
import type { ProbeKind } from "./kind.ts";
import { limitsOf } from "./limits.ts";
import { PROBE_NAMES } from "./settings.ts";
import { singleProbe } from "./single.ts";

/** Of a custom probe, which has no command but the configured one. */
export const CUSTOM_DEFAULTS = { interval: USUAL_INTERVAL, timeout: 10, maxBytes: 1024 * 1024 } as const;

/** A probe of the operator's own, whose command prints Prometheus text. Its command is called by the probe's name. */
export const custom = (name: string): ProbeKind => ({
  create: (settings) => {
    const { command } = settings;
    if (command === undefined) {
      throw new GridmeterError(
        "config_invalid",
        `The probe ${JSON.stringify(name)} has no command, and is none of gridmeter's own. It was not started. ` +
          `Set its command, or call it one of ${PROBE_NAMES.join(", ")}.`,
      );
    }
    return singleProbe({
      name,
      limits: limitsOf(name, settings, CUSTOM_DEFAULTS),
      label: name,
      argv: () => Promise.resolve(command),
      parse: parseCustom,
      metrics: (metrics) => metrics,
      readings: () => Promise.resolve({}),
      unavailable: () => missingTool([command[0]]),
    });
  },
  parseSaved: (output) => {
    const { value, rejected } = parseCustom(output);
    return { metrics: value, parsed: value, rejected };
  },
});
