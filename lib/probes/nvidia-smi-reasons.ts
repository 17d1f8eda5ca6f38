import type { Reader } from "./nvidia-smi-reader.ts";

/** Why clocks are lower than they could be: NVML's closed set, and `other` for what later drivers add. */
export const REASONS = [
  "gpu_idle",
  "applications_clocks_setting",
  "sw_power_cap",
  "hw_slowdown",
  "hw_thermal_slowdown",
  "hw_power_brake_slowdown",
  "sync_boost",
  "sw_thermal_slowdown",
  "display_clocks_setting",
  "unknown",
  "other",
] as const;
export type Reason = (typeof REASONS)[number];

/** The counters have shorter names for the same reasons. */
const COUNTERS: readonly (readonly [name: string, reason: Reason])[] = [
  ["sw_power_cap", "sw_power_cap"],
  ["sync_boost", "sync_boost"],
  ["sw_therm_slowdown", "sw_thermal_slowdown"],
  ["hw_therm_slowdown", "hw_thermal_slowdown"],
  ["hw_power_brake", "hw_power_brake_slowdown"],
];

export type Reasons = {
  /** driver 535 renamed throttle to event: the label set stays the same (nvidia_gpu_exporter#123) */
  readonly tag: "clocks_event_reasons" | "clocks_throttle_reasons";
  /** each reason once; one that the device does not know is absent */
  readonly states: readonly { readonly reason: Reason; readonly active: boolean }[];
};

const reasonOf = (tag: string): Reason => {
  const name = tag.replace(/^clocks_(?:event|throttle)_reason_/, "");
  return REASONS.find((reason) => reason === name) ?? "other";
};

/** The reasons that the driver knows, active or not; undefined where it prints none. */
export const readReasons = (gpu: Reader): Reasons | undefined => {
  for (const tag of ["clocks_event_reasons", "clocks_throttle_reasons"] as const) {
    const reasons = gpu.at(tag);
    if (reasons === undefined) continue;
    const states = new Map<Reason, boolean>();
    for (const name of reasons.names()) {
      const active = reasons.flag("Active", "Not Active", name);
      const reason = reasonOf(name);
      if (active !== undefined) states.set(reason, active || states.get(reason) === true);
    }
    return { tag, states: [...states].map(([reason, active]) => ({ reason, active })) };
  }
  return undefined;
};

export type ReasonSeconds = { readonly reason: Reason; readonly seconds: number };

/** How long each reason held, in seconds (driver 570 and later). */
export const readReasonSeconds = (gpu: Reader): readonly ReasonSeconds[] =>
  COUNTERS.flatMap(([name, reason]) => {
    const seconds = gpu.number("seconds", "clocks_event_reasons_counters", `clocks_event_reasons_counters_${name}`);
    return seconds === undefined ? [] : [{ reason, seconds }];
  });
