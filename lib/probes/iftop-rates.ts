const POWERS: Readonly<Record<string, number>> = { "": 1, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40 };

/** How iftop printed a rate: with `-B` in bytes, else in bits. */
export type RateUnit = "bytes" | "bits";

export type Rate = { readonly bytes: number; readonly unit: RateUnit };

const RATE = /^(\d{1,15}(?:\.\d{1,9})?)([KMGT]?)([bB])$/;

/**
 * Reads `1.16MB` or `448b` (bits) as bytes. iftop's units are binary, 1024 apart, whatever they are called. Undefined for
 * anything else.
 */
export const parseRate = (text: string): Rate | undefined => {
  const [, digits, prefix = "", unit] = RATE.exec(text) ?? [];
  const power = POWERS[prefix];
  if (digits === undefined || power === undefined) return undefined;
  const value = Number(digits) * power;
  return unit === "b" ? { bytes: value / 8, unit: "bits" } : { bytes: value, unit: "bytes" };
};
