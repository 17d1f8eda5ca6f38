import type { GpuDevice } from "./gpu.ts";
import type { CardReader } from "./rocm-smi-reader.ts";

export type Sensor = "edge" | "junction" | "memory" | `hbm${number}`;

/** AMD's clocks under the names that NVIDIA's have, where they mean the same. */
const CLOCKS = { graphics: "sclk", memory: "mclk", soc: "socclk", fabric: "fclk" } as const;
type ClockDomain = keyof typeof CLOCKS;
export const ROCM_CLOCK_DOMAINS = ["graphics", "memory", "soc", "fabric"] as const satisfies readonly ClockDomain[];

/** What each PCIe generation transfers, in GT/s. */
const PCIE_SPEEDS = [2.5, 5, 8, 16, 32, 64];

/** ROCm 6 says `Current Socket` for cards that give no average (rocm_smi_lib#149). */
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
  /** as printed, also `N/A`; the dies of one card share it */
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
  readonly pcie: Readonly<Record<"generation" | "width" | "replays", number | undefined>>;
};

/** `mem` is what ROCm 3 called the sensor of the memory. */
const sensorOf = (key: string): Sensor | undefined => {
  const printed = /^temperature \(sensor (edge|junction|memory|mem|hbm \d)\) \(c\)$/.exec(key)?.[1];
  switch (printed) {
    case undefined:
    case "edge":
    case "junction":
    case "memory":
      return printed;
    case "mem":
      return "memory";
    default:
      return `hbm${Number(printed.slice(-1))}`;
  }
};

const readTemperatures = (reader: CardReader): RocmCard["temperatures"] => {
  const bySensor = new Map<Sensor, number>();
  for (const key of reader.keys()) {
    const sensor = sensorOf(key);
    if (sensor === undefined) continue;
    const [digits] = reader.match(/^(-?\d{1,4}(?:\.\d{1,9})?)$/, key);
    if (digits !== undefined) bySensor.set(sensor, Number(digits));
  }
  return [...bySensor].map(([sensor, celsius]) => ({ sensor, celsius }));
};

const readPower = (reader: CardReader): RocmCard["power"] => {
  const printed = POWER_KEYS.flatMap((key) => {
    const found = reader.printed(key);
    return found === undefined ? [] : [{ ...found, watts: reader.number(key) }];
  });
  return printed.find(({ watts }) => watts !== undefined) ?? printed[0];
};

/** Clocks come as `(1402Mhz)` and, from ROCm 3, as `1402Mhz`. */
const readClock = (reader: CardReader, domain: ClockDomain): number | undefined => {
  const [mhz] = reader.match(/^\(?(\d{1,6}(?:\.\d{1,3})?)mhz\)?$/i, `${CLOCKS[domain]} clock speed`);
  return mhz === undefined ? undefined : Number(mhz) * 1_000_000;
};

/** `1 (16.0GT/s x16)` is generation 4 on 16 lanes. */
const readPcie = (reader: CardReader): RocmCard["pcie"] => {
  const [speed, lanes] = reader.match(/^\d{1,2} \((\d{1,3}(?:\.\d)?)gt\/s x(\d{1,2})\)/i, "pcie clock level");
  const generation = PCIE_SPEEDS.indexOf(Number(speed)) + 1;
  return {
    generation: generation === 0 ? undefined : generation,
    width: lanes === undefined ? undefined : Number(lanes),
    replays: reader.number("pcie replay count"),
  };
};

/** Reads one card; `index` is its place among the cards, `number` the N of `cardN`. */
export const readCard = (reader: CardReader, index: number, number: number): RocmCard => ({
  index,
  minorNumber: number,
  uuid: reader.name("unique id"),
  uniqueId: reader.printed("unique id")?.text,
  series: reader.printed("card series")?.text,
  pciBusId: reader.name("pci bus"),
  utilization: reader.share("gpu use (%)"),
  memoryUtilization: reader.share("gpu memory read/write activity (%)", "gpu memory use (%)"),
  memoryUsedBytes: reader.number("vram total used memory (b)"),
  memoryTotalBytes: reader.number("vram total memory (b)"),
  temperatures: readTemperatures(reader),
  power: readPower(reader),
  powerLimit: reader.number("max graphics package power (w)"),
  fanSpeed: reader.ratio("fan speed (%)"),
  clocks: {
    graphics: readClock(reader, "graphics"),
    memory: readClock(reader, "memory"),
    soc: readClock(reader, "soc"),
    fabric: readClock(reader, "fabric"),
  },
  pcie: readPcie(reader),
  // rocm-smi lists processes for the node, not for each card
  processes: undefined,
});
