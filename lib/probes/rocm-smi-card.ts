import type { GpuDevice } from "./gpu.ts";
import type { Section } from "./rocm-smi-json.ts";

/** Sensors of AMD's cards; `mem` is what ROCm 3 called the memory's. */
const SENSORS = { edge: "edge", junction: "junction", memory: "memory", mem: "memory" } as const;
export type Sensor = (typeof SENSORS)[keyof typeof SENSORS] | `hbm${number}`;

/** AMD's clocks under the names that NVIDIA's have, where they mean the same. */
const CLOCKS = { graphics: "sclk", memory: "mclk", soc: "socclk", fabric: "fclk" } as const;
export type ClockDomain = keyof typeof CLOCKS;
export const ROCM_CLOCK_DOMAINS = ["graphics", "memory", "soc", "fabric"] as const satisfies readonly ClockDomain[];

/** Transfers per second of each PCIe generation, in GT/s. */
const PCIE_SPEEDS = [2.5, 5, 8, 16, 32, 64];

const POWER_KEYS = [
  "average graphics package power (w)",
  "current socket graphics package power (w)",
  "average socket graphics package power (w)",
  "average socket power (w)",
  "current socket power (w)",
];

/** One card as rocm-smi saw it. Base units; undefined is "not read". `minorNumber` is N of /dev/dri/cardN. */
export type RocmCard = GpuDevice & {
  /** as printed, also `N/A` and hexadecimal ids */
  readonly series: string | undefined;
  readonly uniqueId: string | undefined;
  readonly pciBusId: string | undefined;
  /** share of time in which memory was read or written */
  readonly memoryUtilization: number | undefined;
  readonly temperatures: readonly { readonly sensor: Sensor; readonly celsius: number }[];
  /** the key and the text as printed; a second die has no power of its own (rocm_smi_lib#160) */
  readonly power: { readonly key: string; readonly text: string; readonly watts: number | undefined } | undefined;
  readonly powerLimit: number | undefined;
  readonly fanSpeed: number | undefined;
  readonly clocks: Readonly<Record<ClockDomain, number | undefined>>;
  readonly pcie: {
    readonly generation: number | undefined;
    readonly width: number | undefined;
    readonly replays: number | undefined;
  };
};

const hasNoValue = (text: string): boolean => text === "" || /^(?:n\/a|none|unsupported|not supported)/i.test(text);

/** Reads one card. `reject` is called for each value that is there but broken; `known` counts the keys understood. */
export const readCard = (
  section: Section,
  place: { readonly index: number; readonly number: number },
  reject: () => void,
): { readonly card: RocmCard; readonly known: number } => {
  let known = 0;
  const matched = (pattern: RegExp, key: string): readonly string[] => {
    const text = section.get(key)?.text;
    if (text === undefined) return [];
    known += 1;
    if (hasNoValue(text)) return [];
    const match = pattern.exec(text);
    if (match === null) reject();
    return match?.slice(1) ?? [];
  };
  const number = (...keys: string[]): number | undefined => {
    for (const key of keys) {
      const [digits] = matched(/^(\d{1,15}(?:\.\d{1,9})?)$/, key);
      if (digits !== undefined) return Number(digits);
    }
    return undefined;
  };
  const ratio = (...keys: string[]): number | undefined => {
    const percent = number(...keys);
    return percent === undefined ? undefined : percent / 100;
  };
  const share = (...keys: string[]): number | undefined => {
    const value = ratio(...keys);
    if (value === undefined || value <= 1) return value;
    reject();
    return undefined;
  };
  const text = (key: string): string | undefined => {
    const found = section.get(key)?.text;
    return hasNoValue(found ?? "") ? undefined : found;
  };
  const clock = (domain: ClockDomain): number | undefined => {
    const [mhz] = matched(/^\(?(\d{1,6}(?:\.\d{1,3})?)mhz\)?$/i, `${CLOCKS[domain]} clock speed`);
    return mhz === undefined ? undefined : Number(mhz) * 1_000_000;
  };
  const temperatures = (): RocmCard["temperatures"] => {
    const bySensor = new Map<Sensor, number>();
    for (const key of section.keys()) {
      const printed = /^temperature \(sensor (edge|junction|memory|mem|hbm \d)\) \(c\)$/.exec(key)?.[1];
      if (printed === undefined) continue;
      const [digits] = matched(/^(-?\d{1,4}(?:\.\d{1,9})?)$/, key);
      if (digits !== undefined) bySensor.set(sensorOf(printed), Number(digits));
    }
    return [...bySensor].map(([sensor, celsius]) => ({ sensor, celsius }));
  };
  const power = (): RocmCard["power"] => {
    const printed = POWER_KEYS.flatMap((key) => {
      const found = section.get(key);
      return found === undefined ? [] : [{ ...found, watts: number(key) }];
    });
    return printed.find(({ watts }) => watts !== undefined) ?? printed[0];
  };
  const [speed, lanes] = matched(/^\d{1,2} \((\d{1,3}(?:\.\d)?)gt\/s x(\d{1,2})\)/i, "pcie clock level");
  const generation = PCIE_SPEEDS.indexOf(Number(speed)) + 1;
  const uniqueId = section.get("unique id")?.text;

  const card: RocmCard = {
    index: place.index,
    minorNumber: place.number,
    uuid: text("unique id"),
    uniqueId,
    series: section.get("card series")?.text,
    pciBusId: text("pci bus"),
    utilization: share("gpu use (%)"),
    memoryUtilization: share("gpu memory read/write activity (%)", "gpu memory use (%)"),
    memoryUsedBytes: number("vram total used memory (b)"),
    memoryTotalBytes: number("vram total memory (b)"),
    temperatures: temperatures(),
    power: power(),
    powerLimit: number("max graphics package power (w)"),
    fanSpeed: ratio("fan speed (%)"),
    clocks: { graphics: clock("graphics"), memory: clock("memory"), soc: clock("soc"), fabric: clock("fabric") },
    pcie: {
      generation: generation === 0 ? undefined : generation,
      width: lanes === undefined ? undefined : Number(lanes),
      replays: number("pcie replay count"),
    },
    // rocm-smi lists processes for the node, not for each card
    processes: undefined,
  };
  return { card, known };
};

const sensorOf = (printed: string): Sensor => {
  switch (printed) {
    case "edge":
    case "junction":
    case "memory":
    case "mem":
      return SENSORS[printed];
    default:
      return `hbm${Number(printed.slice(-1))}`;
  }
};
