const MIB = 1024 * 1024;

type Unit = {
  readonly units: Readonly<Record<string, (value: number) => number>>;
  readonly min: number;
  readonly max: number;
};

const same = (value: number): number => value;
const scaled = (units: Unit["units"]): Unit => ({ units, min: 0, max: Number.MAX_SAFE_INTEGER });

/** What nvidia-smi puts behind numbers, and how it becomes a base unit. */
export const UNITS = {
  count: scaled({ "": same }),
  /** a share of time: 0 to 1 */
  share: { units: { "%": (value) => value / 100 }, min: 0, max: 100 },
  /** fans may turn faster than asked for: above 1 */
  percent: scaled({ "%": (value) => value / 100 }),
  bytes: scaled({
    B: same,
    KiB: (value) => value * 1024,
    MiB: (value) => value * MIB,
    GiB: (value) => value * 1024 * MIB,
  }),
  watts: scaled({ W: same, mW: (value) => value / 1000 }),
  celsius: { units: { C: same }, min: -273, max: 1000 },
  hertz: scaled({ MHz: (value) => value * 1_000_000 }),
  /** NVML documents PCIe throughput in KB/s */
  bytesPerSecond: scaled({
    "B/s": same,
    "KB/s": (value) => value * 1000,
    "MB/s": (value) => value * 1_000_000,
    "GB/s": (value) => value * 1_000_000_000,
  }),
  lanes: scaled({ x: same }),
  seconds: scaled({ us: (value) => value / 1_000_000, ms: (value) => value / 1000, s: same }),
} as const satisfies Record<string, Unit>;

export type UnitName = keyof typeof UNITS;

/** Texts that stand where a value would: the device has none, or the driver does not give it. Not a broken row. */
const NO_VALUE = new Set([
  "",
  "n/a",
  "none",
  "not supported",
  "not available",
  "not found",
  "requested functionality has been deprecated",
  "deprecated",
  "insufficient permissions",
  "gpu is lost",
  "gpu requires reset",
]);

/** `610.62 [Deprecated; will be removed in ...]` is 610.62 (driver 610); `[N/A]` is N/A (nvidia_gpu_exporter#68). */
export const plainText = (text: string): string => {
  const bracket = text.indexOf("[");
  if (bracket === 0 && text.endsWith("]")) return text.slice(1, -1).trim();
  return (bracket > 0 ? text.slice(0, bracket) : text).trim();
};

export const hasNoValue = (text: string): boolean => NO_VALUE.has(plainText(text).toLowerCase());

/** A number in base units, or undefined for anything else (`ERR!`, another unit, out of range). */
export const parseNumber = (text: string, unit: UnitName): number | undefined => {
  const match = /^([+-]?\d{1,15}(?:\.\d{1,9})?)\s{0,8}([A-Za-z%/]{0,8})$/.exec(plainText(text));
  const { units, min, max }: Unit = UNITS[unit];
  const value = Number(match?.[1]);
  const name = match?.[2];
  if (name === undefined || !Object.hasOwn(units, name) || value < min || value > max) return undefined;
  return units[name]?.(value);
};
