const INT32_MAX = 2n ** 31n - 1n;
const INT64_MAX = 2n ** 63n - 1n;

/** The last second of the year 9999, where the server's DATETIME ends. */
const TIME_MAX = 253_402_300_799n;

export type IntegerType = "int32" | "int64" | "time";

const LIMITS = { int32: INT32_MAX, int64: INT64_MAX, time: TIME_MAX } satisfies Record<IntegerType, bigint>;

/** The largest value of an integer field. */
export function integerLimit(type: IntegerType): bigint {
  return LIMITS[type];
}

/** No number of a record is longer, leading zeros included; to read one of a million digits takes minutes. */
export const LONGEST_NUMBER = 255;

/** An integer in plain digits, or undefined. APEL: digits only; `3600.0`, `1e5` and signs are refused. */
export function digits(value: string): bigint | undefined {
  return value.length <= LONGEST_NUMBER && /^[0-9]+$/.test(value) ? BigInt(value) : undefined;
}

/** A decimal in plain digits, with or without a fraction, or undefined. */
export function decimal(value: string): number | undefined {
  return value.length <= LONGEST_NUMBER && /^[0-9]+(?:\.[0-9]+)?$/.test(value) ? Number(value) : undefined;
}

/** APEL: ServiceLevel is DECIMAL(10,3): seven digits before the point and at most three behind it. */
export function fitsDecimal(value: string): boolean {
  return value.length <= LONGEST_NUMBER && /^0*[0-9]{1,7}(?:\.[0-9]{1,3})?$/.test(value);
}

/** A service level as it is written and as it keys a row: rounded to 3 decimals, no trailing zeros (2975, 15.3). */
export function decimalText(value: number): string {
  return String(Number(value.toFixed(3)));
}
