import type { Reader } from "./nvidia-smi-reader.ts";

export const RECOVERY_ACTIONS = ["none", "reset", "reboot", "drain_p2p", "drain_and_reset", "other"] as const;
export type RecoveryAction = (typeof RECOVERY_ACTIONS)[number];

/** What the driver says is wrong with a GPU. */
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

/** One label for each action; undefined where the driver gives none. */
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

const readResetRequired = (gpu: Reader): boolean | undefined =>
  gpu.says("GPU requires reset") ? true : gpu.flag("Yes", "No", "gpu_reset_status", "reset_required");

/** Reads what is known about a GPU's health. Older drivers say `pending_blacklist` for `pending_retirement`. */
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
