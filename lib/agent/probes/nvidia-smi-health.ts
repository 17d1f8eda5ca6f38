import type { Reader } from "./nvidia-smi-log.ts";

/** The faults of a GPU that the driver reports. */
export type Health = {
  readonly lost: boolean;
  readonly resetRequired: boolean | undefined;
  /** as printed: `None`, `Reset`, ..., `N/A` */
  readonly recoveryAction: string | undefined;
  readonly eccEnabled: boolean | undefined;
  readonly sramThresholdExceeded: boolean | undefined;
  readonly channelRepairPending: boolean | undefined;
  readonly tpcRepairPending: boolean | undefined;
  readonly retiredSingleBit: number | undefined;
  readonly retiredDoubleBit: number | undefined;
  readonly retirementPending: boolean | undefined;
  readonly remappedCorrected: number | undefined;
  readonly remappedUncorrected: number | undefined;
  readonly remapPending: boolean | undefined;
  readonly remapFailed: boolean | undefined;
  readonly fabricHealthy: boolean | undefined;
};

/** Reads a GPU's health. Older drivers print `pending_blacklist` for `pending_retirement`. */
export const readHealth = (gpu: Reader): Health => ({
  lost: gpu.says("GPU is lost"),
  resetRequired: readResetRequired(gpu),
  recoveryAction: gpu.text("gpu_recovery_action"),
  eccEnabled: gpu.flag("Enabled", "Disabled", "ecc_mode", "current_ecc"),
  sramThresholdExceeded: gpu.flag("Yes", "No", "ecc_errors", "aggregate", "sram_threshold_exceeded"),
  channelRepairPending: gpu.flag("Yes", "No", "ecc_errors", "channel_repair_pending"),
  tpcRepairPending: gpu.flag("Yes", "No", "ecc_errors", "tpc_repair_pending"),
  retiredSingleBit: gpu.integer("retired_pages", "multiple_single_bit_retirement", "retired_count"),
  retiredDoubleBit: gpu.integer("retired_pages", "double_bit_retirement", "retired_count"),
  retirementPending:
    gpu.flag("Yes", "No", "retired_pages", "pending_retirement") ??
    gpu.flag("Yes", "No", "retired_pages", "pending_blacklist"),
  remappedCorrected: gpu.integer("remapped_rows", "remapped_row_corr"),
  remappedUncorrected: gpu.integer("remapped_rows", "remapped_row_unc"),
  remapPending: gpu.flag("Yes", "No", "remapped_rows", "remapped_row_pending"),
  remapFailed: gpu.flag("Yes", "No", "remapped_rows", "remapped_row_failure"),
  fabricHealthy: gpu.choice(
    (summary) => (summary === "Healthy" ? true : /^(?:Unhealthy|Limited Capacity)$/.test(summary) ? false : undefined),
    "fabric",
    "health",
    "summary",
  ),
});

const readResetRequired = (gpu: Reader): boolean | undefined =>
  gpu.says("GPU requires reset") ? true : gpu.flag("Yes", "No", "gpu_reset_status", "reset_required");

export const RECOVERY_ACTIONS = ["none", "reset", "reboot", "drain_p2p", "drain_and_reset", "other"] as const;

type RecoveryAction = (typeof RECOVERY_ACTIONS)[number];

/** The label of an action that the driver advises; undefined where it gives none. */
export const recoveryActionLabel = (printed: string | undefined): RecoveryAction | undefined => {
  switch (printed?.toLowerCase().replace(/^(?:gpu|node) /, "")) {
    case undefined:
    case "":
    case "n/a":
    case "gpu is lost":
      return undefined;
    case "none":
      return "none";
    case "reset":
      return "reset";
    case "reboot":
      return "reboot";
    case "drain p2p":
      return "drain_p2p";
    case "drain and reset":
      return "drain_and_reset";
    default:
      return "other";
  }
};

export type Power = {
  readonly draw: number | undefined;
  /** the path of the value, for people */
  readonly source: string | undefined;
  readonly limit: number | undefined;
  readonly module: number | undefined;
};

/** Reads the power in watts. */
export const readPower = (gpu: Reader): Power => {
  const draw = firstOf(gpu, DRAW);
  return {
    draw: draw?.value,
    source: draw?.source,
    limit: firstOf(gpu, LIMIT)?.value,
    module: firstOf(gpu, MODULE)?.value,
  };
};

const firstOf = (gpu: Reader, paths: readonly (readonly [string, string])[]) => {
  for (const path of paths) {
    const value = gpu.number("watts", ...path);
    if (value !== undefined) return { value, source: path.join("/") };
  }
  return undefined;
};

/**
 * Where drivers print the power draw, best first: up to 530 in `power_readings`; 535 renamed it (netdata#15755); 545 split it into
 * average and instant, of which the average may be N/A on a card that has the instant one.
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

/** The power of a superchip's module, with its CPU. It is never taken for the GPU's own. */
const MODULE = [
  ["module_power_readings", "average_power_draw"],
  ["module_power_readings", "instant_power_draw"],
  ["module_power_readings", "power_draw"],
] as const;

/** The reasons of NVML for lower clocks, a closed set; `other` is any that a later driver adds. */
const REASONS = [
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

type Reason = (typeof REASONS)[number];

export type Reasons = {
  /** driver 535 renamed throttle to event; the metric is the same (nvidia_gpu_exporter#123) */
  readonly tag: "clocks_event_reasons" | "clocks_throttle_reasons";
  /** each reason once, without those that the device does not have */
  readonly states: readonly { readonly reason: Reason; readonly active: boolean }[];
};

/** The reasons that the driver prints, active or not; undefined where it prints none. */
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

const reasonOf = (tag: string): Reason => {
  const name = tag.replace(/^clocks_(?:event|throttle)_reason_/, "");
  return REASONS.find((reason) => reason === name) ?? "other";
};

export type ReasonSeconds = { readonly reason: Reason; readonly seconds: number };

/** The counters' names of the same reasons. */
const COUNTERS: readonly (readonly [name: string, reason: Reason])[] = [
  ["sw_power_cap", "sw_power_cap"],
  ["sync_boost", "sync_boost"],
  ["sw_therm_slowdown", "sw_thermal_slowdown"],
  ["hw_therm_slowdown", "hw_thermal_slowdown"],
  ["hw_power_brake", "hw_power_brake_slowdown"],
];

/** For how long each reason was active, in seconds (driver 570 and later). */
export const readReasonSeconds = (gpu: Reader): readonly ReasonSeconds[] =>
  COUNTERS.flatMap(([name, reason]) => {
    const seconds = gpu.number("seconds", "clocks_event_reasons_counters", `clocks_event_reasons_counters_${name}`);
    return seconds === undefined ? [] : [{ reason, seconds }];
  });

export type EccErrors = {
  readonly style: EccStyle;
  readonly corrected: number | undefined;
  readonly uncorrected: number | undefined;
};

/**
 * The three layouts of memory errors: by bits until Volta; by memory since Turing; and since driver 550 with the uncorrected SRAM
 * errors split by the way they were detected.
 */
type EccStyle = "single_double" | "sram_dram" | "sram_split";

/** The memory errors of one scope; undefined where the log has none of the three layouts. */
export const readEcc = (gpu: Reader, scope: "volatile" | "aggregate"): EccErrors | undefined => {
  const errors = gpu.at("ecc_errors", scope);
  const style = errors === undefined ? undefined : styleOf(errors);
  if (errors === undefined || style === undefined) return undefined;
  const parts = PARTS[style];
  return { style, corrected: sumOf(errors, parts.corrected), uncorrected: sumOf(errors, parts.uncorrected) };
};

const styleOf = (errors: Reader): EccStyle | undefined => {
  const names = new Set(errors.names());
  if (names.has("sram_uncorrectable_parity") || names.has("sram_uncorrectable_secded")) return "sram_split";
  if (
    ["sram_correctable", "sram_uncorrectable", "dram_correctable", "dram_uncorrectable"].some((name) => names.has(name))
  )
    return "sram_dram";
  return names.has("single_bit") || names.has("double_bit") ? "single_double" : undefined;
};

type Path = readonly [string, ...string[]];

const PARTS: Readonly<
  Record<EccStyle, { readonly corrected: readonly Path[]; readonly uncorrected: readonly Path[] }>
> = {
  single_double: { corrected: [["single_bit", "total"]], uncorrected: [["double_bit", "total"]] },
  sram_dram: {
    corrected: [["sram_correctable"], ["dram_correctable"]],
    uncorrected: [["sram_uncorrectable"], ["dram_uncorrectable"]],
  },
  sram_split: {
    corrected: [["sram_correctable"], ["dram_correctable"]],
    uncorrected: [["sram_uncorrectable_parity"], ["sram_uncorrectable_secded"], ["dram_uncorrectable"]],
  },
};

/** A part that the device does not have (`N/A`) adds nothing; a part that is broken makes the sum undefined. */
const sumOf = (errors: Reader, paths: readonly Path[]): number | undefined => {
  let total: number | undefined;
  for (const path of paths) {
    const text = errors.text(...path);
    if (text === undefined || text === "N/A") continue;
    const part = errors.integer(...path);
    if (part === undefined) return undefined;
    total = (total ?? 0) + part;
  }
  return total;
};
