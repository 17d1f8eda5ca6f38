import { parseJson } from "../../shared/text.ts";
import type { Output } from "../command/types.ts";
import type { GpuDevice } from "./common/gpu.ts";
import { JsonObject, ParseError, withoutNoise } from "./common/parse.ts";

type RocmDocument = {
  /** by N of `cardN`, ascending; undefined where a card is no object */
  readonly cards: readonly { readonly number: number; readonly section: Section | undefined }[];
  readonly system: Section | undefined;
};

/** A card or the system, keys in lower case and without a trailing colon: ROCm 3 to 6 differ in both. */
type Section = ReadonlyMap<string, { readonly key: string; readonly text: string }>;

/**
 * Finds the JSON in what rocm-smi printed, whatever its exit code: with a lost GPU it prints the others and fails.
 *
 * @throws {ParseError} when it printed no JSON object with cards (rocm-build#4374: `WARNING: No JSON data`)
 */
export const readRocmDocument = (output: Output): RocmDocument => {
  const printed = JSON.stringify((output.stdout.trim() || output.stderr.trim()).slice(0, 200));
  const failed = output.exitCode === 0 ? "" : ` and exited with ${output.exitCode}`;
  const json = findJson(output.stdout);
  if (json === undefined) throw new ParseError(`rocm-smi printed no JSON object${failed}: ${printed}`);
  const cards = Object.entries(json).flatMap(([key, value]) => {
    const number = /^card(\d{1,4})$/.exec(key)?.[1];
    return number === undefined ? [] : [{ number: Number(number), section: readSection(value) }];
  });
  if (cards.length === 0) throw new ParseError(`the JSON of rocm-smi has no card${failed}: ${printed}`);
  return { cards: cards.sort((a, b) => a.number - b.number), system: readSection(json["system"]) };
};

/** Warnings may come before the JSON (amdsmi#168), even with braces: it is tried at the first brace, then at lines that begin with one. */
const findJson = (stdout: string): JsonObject | undefined => {
  const end = stdout.lastIndexOf("}") + 1;
  let start = stdout.indexOf("{");
  for (let attempts = 0; attempts < 5 && start >= 0 && start < end; attempts += 1) {
    const found = JsonObject.safeParse(parseJson(stdout.slice(start, end)));
    if (found.success) return found.data;
    const line = stdout.indexOf("\n{", start);
    start = line < 0 ? -1 : line + 1;
  }
  return undefined;
};

const readSection = (value: unknown): Section | undefined => {
  const found = JsonObject.safeParse(value);
  if (!found.success) return undefined;
  return new Map(
    Object.entries(found.data).flatMap(([key, item]) => {
      const text = textOf(item) ?? (item === null ? "" : JSON.stringify(item));
      return [[key.trim().replace(/:$/, "").toLowerCase(), { key, text }] as const];
    }),
  );
};

/** A key that was printed several times is an array: it has a value if all of them are equal, else it is broken. */
const textOf = (value: unknown): string | undefined => {
  if (Array.isArray(value)) {
    const texts = new Set(value.map((item: unknown) => (Array.isArray(item) ? undefined : textOf(item))));
    const [only] = texts;
    return texts.size === 1 ? only : undefined;
  }
  if (typeof value === "number") return String(value);
  return typeof value === "string" ? value.trim() : undefined;
};

/** The output of `rocm-smi --json`. `gpus` are in the order of their card numbers. */
export type RocmSmi = {
  readonly gpus: readonly RocmCard[];
  /** cards, readable or not */
  readonly cardCount: number;
  readonly driverVersion: string | undefined;
  /** undefined where rocm-smi lists none, which does not mean that there are none */
  readonly processes: readonly RocmProcess[] | undefined;
  /** the section `system` as printed */
  readonly system: Readonly<Record<string, string>> | undefined;
};

/** A process that holds an AMD GPU of the node; rocm-smi does not print which. */
type RocmProcess = { readonly pid: number; readonly usedBytes: number | undefined };

/** The processes that a `system` section names. */
export const readRocmProcesses = (system: Section): readonly RocmProcess[] | undefined => {
  const processes = [...system].flatMap(([key, { text }]) => [...modernProcess(key, text), ...oldProcesses(key, text)]);
  return processes.length === 0 ? undefined : processes;
};

/** `"PID104225": "name, GPUs, VRAM used, SDMA used, CU occupancy"`; a name may contain commas. */
const modernProcess = (key: string, text: string): RocmProcess[] => {
  const digits = /^pid(\d{1,10})$/.exec(key)?.[1];
  if (digits === undefined) return [];
  const used = /^\d{1,15}$/.exec(text.split(", ").at(-3) ?? "")?.[0];
  return [{ pid: Number(digits), usedBytes: used === undefined ? undefined : Number(used) }];
};

/** ROCm 3 lists the ids alone, under one key. */
const oldProcesses = (key: string, text: string): RocmProcess[] =>
  key === "pids for kfd processes"
    ? (text.slice(0, 64 * 1024).match(/\b\d{1,10}\b/g) ?? []).map((digits) => ({
        pid: Number(digits),
        usedBytes: undefined,
      }))
    : [];

/** One card of rocm-smi, in base units; undefined is "not read". `minorNumber` is N of /dev/dri/cardN. */
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

/** Reads one card; `index` is its position among the cards, `number` the N of `cardN`. */
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

type Sensor = "edge" | "junction" | "memory" | `hbm${number}`;

const readTemperatures = (reader: CardReader): RocmCard["temperatures"] => {
  const bySensor = new Map<Sensor, number>();
  for (const key of reader.keys()) {
    const sensor = sensorOf(key);
    if (sensor === undefined) continue;
    const [digits] = reader.match(/^(-?\d{1,4}(?:\.\d{1,100})?)$/, key);
    if (digits !== undefined) bySensor.set(sensor, Number(digits));
  }
  return [...bySensor].map(([sensor, celsius]) => ({ sensor, celsius }));
};

/** ROCm 3 prints `mem` for the sensor of the memory. */
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

/** ROCm 6 prints `Current Socket` for cards that have no average (rocm_smi_lib#149). */
const POWER_KEYS = [
  "average graphics package power (w)",
  "current socket graphics package power (w)",
  "average socket graphics package power (w)",
  "average socket power (w)",
  "current socket power (w)",
];

const readPower = (reader: CardReader): RocmCard["power"] => {
  const printed = POWER_KEYS.flatMap((key) => {
    const found = reader.printed(key);
    return found === undefined ? [] : [{ ...found, watts: reader.number(key) }];
  });
  return printed.find(({ watts }) => watts !== undefined) ?? printed[0];
};

/** AMD's clocks by the names of NVIDIA's that mean the same. */
const CLOCKS = { graphics: "sclk", memory: "mclk", soc: "socclk", fabric: "fclk" } as const;

type ClockDomain = keyof typeof CLOCKS;

export const ROCM_CLOCK_DOMAINS = ["graphics", "memory", "soc", "fabric"] as const satisfies readonly ClockDomain[];

/** Clocks are printed as `(1402Mhz)`, and by ROCm 3 as `1402Mhz`. */
const readClock = (reader: CardReader, domain: ClockDomain): number | undefined => {
  const [mhz] = reader.match(/^\(?(\d{1,6}(?:\.\d{1,100})?)mhz\)?$/i, `${CLOCKS[domain]} clock speed`);
  return mhz === undefined ? undefined : withoutNoise(Number(mhz) * 1_000_000);
};

/** What each PCIe generation transfers, in GT/s. */
const PCIE_SPEEDS = [2.5, 5, 8, 16, 32, 64];

/** `1 (16.0GT/s x16)` is generation 4 on 16 lanes. */
const readPcie = (reader: CardReader): RocmCard["pcie"] => {
  const [speed, lanes] = reader.match(/^\d{1,2} \((\d{1,3}(?:\.\d{1,9})?)gt\/s x(\d{1,2})\)/i, "pcie clock level");
  const generation = PCIE_SPEEDS.indexOf(Number(speed)) + 1;
  return {
    generation: generation === 0 ? undefined : generation,
    width: lanes === undefined ? undefined : Number(lanes),
    replays: reader.number("pcie replay count"),
  };
};

/** Reads the values of one card, and counts the known keys and the broken values. Keys are in lower case. */
export class CardReader {
  readonly #section: Section;
  #known = 0;
  #rejected = 0;

  constructor(section: Section) {
    this.#section = section;
  }

  /** How many values were read whose key is there. */
  get known(): number {
    return this.#known;
  }

  /** How many values are broken: neither readable nor `N/A`. */
  get rejected(): number {
    return this.#rejected;
  }

  keys(): string[] {
    return [...this.#section.keys()];
  }

  /** Key and text as printed, `N/A` and the like included. */
  printed(key: string): { readonly key: string; readonly text: string } | undefined {
    return this.#section.get(key);
  }

  /** A text; undefined for `N/A` and the like. */
  name(key: string): string | undefined {
    const text = this.printed(key)?.text ?? "";
    return hasNoValue(text) ? undefined : text;
  }

  /** The groups that the pattern finds in a value; none where the value is missing, `N/A` or broken. */
  match(pattern: RegExp, key: string): readonly string[] {
    const text = this.printed(key)?.text;
    if (text === undefined) return [];
    this.#known += 1;
    if (hasNoValue(text)) return [];
    const match = pattern.exec(text);
    if (match === null) this.#rejected += 1;
    return match?.slice(1) ?? [];
  }

  /** The first of the keys that holds a number of 0 or more. */
  number(...keys: readonly string[]): number | undefined {
    for (const key of keys) {
      const [digits] = this.match(/^(\d{1,15}(?:\.\d{1,100})?)$/, key);
      if (digits !== undefined) return Number(digits);
    }
    return undefined;
  }

  /** Percent as a ratio of 0 or more. */
  ratio(...keys: readonly string[]): number | undefined {
    const percent = this.number(...keys);
    return percent === undefined ? undefined : withoutNoise(percent / 100);
  }

  /** Percent as a ratio from 0 to 1; more is broken. */
  share(...keys: readonly string[]): number | undefined {
    const ratio = this.ratio(...keys);
    if (ratio === undefined || ratio <= 1) return ratio;
    this.#rejected += 1;
    return undefined;
  }
}

const hasNoValue = (text: string): boolean =>
  text === "" || /^(?:n\/a|none|unsupported|not (?:supported|available))/i.test(text);
