import type { Reader } from "./nvidia-smi-reader.ts";

/**
 * The three ways in which drivers print memory errors: by bits until Volta; by memory since Turing; since driver 550 with the
 * uncorrected SRAM errors split by how they were found.
 */
export type EccStyle = "single_double" | "sram_dram" | "sram_split";

export type EccErrors = {
  readonly style: EccStyle;
  readonly corrected: number | undefined;
  readonly uncorrected: number | undefined;
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

const styleOf = (errors: Reader): EccStyle | undefined => {
  const names = new Set(errors.names());
  if (names.has("sram_uncorrectable_parity") || names.has("sram_uncorrectable_secded")) return "sram_split";
  if (
    ["sram_correctable", "sram_uncorrectable", "dram_correctable", "dram_uncorrectable"].some((name) => names.has(name))
  )
    return "sram_dram";
  return names.has("single_bit") || names.has("double_bit") ? "single_double" : undefined;
};

/** A part that the device does not have (`N/A`) adds nothing; one that is there but could not be read spoils the sum. */
const sum = (errors: Reader, paths: readonly Path[]): number | undefined => {
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

/** Memory errors of one scope; undefined where the output has none of the known layouts. */
export const readEcc = (gpu: Reader, scope: "volatile" | "aggregate"): EccErrors | undefined => {
  const errors = gpu.at("ecc_errors", scope);
  const style = errors === undefined ? undefined : styleOf(errors);
  if (errors === undefined || style === undefined) return undefined;
  const parts = PARTS[style];
  return { style, corrected: sum(errors, parts.corrected), uncorrected: sum(errors, parts.uncorrected) };
};
