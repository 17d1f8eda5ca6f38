import { LARGEST_OUTPUT, LONGEST_TIMEOUT, checkLimit } from "../../agent/runner-limits.ts";
import type { ProbeSettings } from "./settings.ts";

export type Limits = { readonly interval: number; readonly timeout: number; readonly maxBytes: number };

/**
 * When and within what limits a probe runs.
 *
 * @throws GridmeterError config_invalid if one is not finite or not above 0
 */
export const limitsOf = (name: string, settings: ProbeSettings, defaults: Limits): Limits => {
  const { interval = defaults.interval, timeout = defaults.timeout, maxBytes = defaults.maxBytes } = settings;
  const whose = `the probe ${name}`;
  checkLimit(whose, "interval", interval, LONGEST_TIMEOUT, "seconds");
  checkLimit(whose, "timeout", timeout, LONGEST_TIMEOUT, "seconds");
  checkLimit(whose, "byte cap", maxBytes, LARGEST_OUTPUT, "bytes");
  return { interval, timeout, maxBytes };
};
