const FACTORS: Readonly<Record<string, number>> = {
  B: 1,
  kB: 1e3,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  PB: 1e15,
  EB: 1e18,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
  PiB: 2 ** 50,
  EiB: 2 ** 60,
};

/** No number is longer. */
const LONGEST = 128;
const short = (text: string): string => (text.length > LONGEST ? "" : text.trim());

const NUMBER = String.raw`\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?`;
const SIZE = new RegExp(`^(${NUMBER}) ?([A-Za-z]{1,3})$`);
const PERCENT = new RegExp(`^(${NUMBER}) ?%$`);

const finite = (value: number): number | undefined => (Number.isFinite(value) ? value : undefined);

/** Whether docker or podman says that there is no value: `--` for a container that went away, `N/A`, or nothing. */
export const hasNoValue = (text: string): boolean => ["", "--", "-", "N/A", "n/a"].includes(text.trim());

/**
 * Reads a size as docker prints it, in bytes: SI units for traffic (`1.77MB` is 1,770,000), binary ones for memory (`1.5GiB`).
 * docker prints 999,999 B as `1e+03kB`, which is 1,000,000 (docker/go-units#44). Undefined for anything else.
 */
export const parseSize = (text: string): number | undefined => {
  const [, digits, unit] = SIZE.exec(short(text)) ?? [];
  const factor = unit !== undefined && Object.hasOwn(FACTORS, unit) ? FACTORS[unit] : undefined;
  return digits === undefined || factor === undefined ? undefined : finite(Number(digits) * factor);
};

/** Reads `204.20%` as the ratio 2.042; undefined for anything else. */
export const parsePercent = (text: string): number | undefined => {
  const [, digits] = PERCENT.exec(short(text)) ?? [];
  return digits === undefined ? undefined : finite(Number(digits) / 100);
};
