import type { Reader } from "./nvidia-smi-reader.ts";

/**
 * Where drivers print the power drawn, best first: up to 530 in `power_readings`; 535 renamed it (netdata#15755); 545 split it
 * into average and instant, of which the average is N/A on cards that still give the instant one.
 */
const DRAW = [
  ["gpu_power_readings", "average_power_draw"],
  ["gpu_power_readings", "instant_power_draw"],
  ["gpu_power_readings", "power_draw"],
  ["power_readings", "power_draw"],
] as const;

const LIMIT = [
  ["gpu_power_readings", "current_power_limit"],
  ["gpu_power_readings", "power_limit"],
  ["power_readings", "power_limit"],
  ["power_readings", "enforced_power_limit"],
] as const;

/** The fifth path: a superchip's module, CPU included. It is never taken for the GPU's own. */
const MODULE = [
  ["module_power_readings", "average_power_draw"],
  ["module_power_readings", "instant_power_draw"],
  ["module_power_readings", "power_draw"],
] as const;

export type Power = {
  readonly draw: number | undefined;
  /** which path the value came from, for people */
  readonly source: string | undefined;
  readonly limit: number | undefined;
  readonly module: number | undefined;
};

const first = (gpu: Reader, paths: readonly (readonly [string, string])[]) => {
  for (const path of paths) {
    const value = gpu.number("watts", ...path);
    if (value !== undefined) return { value, source: path.join("/") };
  }
  return undefined;
};

/** Power in watts. */
export const readPower = (gpu: Reader): Power => {
  const draw = first(gpu, DRAW);
  return {
    draw: draw?.value,
    source: draw?.source,
    limit: first(gpu, LIMIT)?.value,
    module: first(gpu, MODULE)?.value,
  };
};
