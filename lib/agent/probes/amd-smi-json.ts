import { parseJson } from "../../shared/text.ts";
import { JsonObject, withoutNoise } from "./common/parse.ts";

/** How many places in an output are tried as the beginning of the JSON. */
const MOST_STARTS = 5;

/**
 * The GPUs in what amd-smi printed, by their numbers: an array (ROCm 6) or an object with `gpu_data` (ROCm 7). Warnings may come
 * before the JSON and after it, even with brackets. Undefined where there is no such JSON.
 */
export const findAmdDocument = (stdout: string): ReadonlyMap<number, JsonObject> | undefined => {
  const end = Math.max(stdout.lastIndexOf("]"), stdout.lastIndexOf("}")) + 1;
  let start = stdout.search(/[[{]/);
  for (let starts = 0; starts < MOST_STARTS && start >= 0 && start < end; starts += 1) {
    const gpus = gpusIn(parseJson(stdout.slice(start, end)));
    if (gpus !== undefined) return gpus;
    const lines = [stdout.indexOf("\n[", start), stdout.indexOf("\n{", start)].filter((line) => line >= 0);
    start = lines.length === 0 ? -1 : Math.min(...lines) + 1;
  }
  return undefined;
};

const gpusIn = (json: unknown): ReadonlyMap<number, JsonObject> | undefined => {
  const data = JsonObject.safeParse(json);
  const list: unknown = data.success ? (data.data["gpu_data"] ?? [json]) : json;
  if (!Array.isArray(list)) return undefined;
  const gpus = list.flatMap((item: unknown): [number, JsonObject][] => {
    const gpu = JsonObject.safeParse(item);
    const number = gpu.success ? Number(gpu.data["gpu"]) : Number.NaN;
    return gpu.success && gpu.data["gpu"] !== null && Number.isSafeInteger(number) && number >= 0
      ? [[number, gpu.data]]
      : [];
  });
  return gpus.length === 0 ? undefined : new Map(gpus);
};

/** What each PCIe generation transfers, in GT/s. */
const PCIE_SPEEDS = [2.5, 5, 8, 16, 32, 64];

/** amd-smi's MB are 1024 x 1024 bytes. */
const MIB = 1024 * 1024;

type Unit = "count" | "percent" | "watts" | "celsius" | "bytes" | "hertz" | "transfers";

/** What units are printed, and what they are in base units; "" is a plain number. */
const UNITS: Readonly<Record<Unit, Readonly<Record<string, number>>>> = {
  count: { "": 1 },
  percent: { "%": 0.01, "": 0.01 },
  watts: { W: 1, mW: 0.001, uW: 0.000_001, "": 1 },
  celsius: { C: 1, "°C": 1, "": 1 },
  bytes: { B: 1, KB: 1024, MB: MIB, GB: 1024 * MIB, "": MIB },
  hertz: { MHz: 1_000_000, GHz: 1_000_000_000, "": 1_000_000 },
  transfers: { "GT/s": 1, "MT/s": 0.001, "": 1 },
};

const TEXT = /^(-?\d{1,15}(?:\.\d{1,100})?(?:e-?\d{1,3})?)\s?([A-Za-z%°/]{0,8})$/;
const hasNoValue = (text: string): boolean =>
  /^(?:|\[?n\/a\b.{0,100}|na|none|unsupported|not (?:supported|available)\b.{0,100})$/i.test(text);

/** Reads the values of one GPU, and counts the known ones and the broken ones. A path names sections, with dots. */
export class AmdValues {
  readonly #gpu: JsonObject;
  #known = 0;
  #rejected = 0;

  constructor(gpu: JsonObject) {
    this.#gpu = gpu;
  }

  /** How many values were read whose key is there, `N/A` included. */
  get known(): number {
    return this.#known;
  }

  /** How many values are broken: neither readable nor `N/A`. */
  get rejected(): number {
    return this.#rejected;
  }

  /** The first of the paths that has a text. */
  text(...paths: readonly string[]): string | undefined {
    for (const path of paths) {
      const value = this.#at(path);
      const text = typeof value === "string" || typeof value === "number" ? String(value).trim() : "";
      if (!hasNoValue(text)) return text;
    }
    return undefined;
  }

  /** The first of the paths that has a number, in base units; below 0 only degrees may be. */
  number(unit: Unit, ...paths: readonly string[]): number | undefined {
    for (const path of paths) {
      const value = this.#number(unit, path);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  /** Percent as a ratio of 0 or more: fans may turn faster than asked for. */
  ratio(...paths: readonly string[]): number | undefined {
    return this.number("percent", ...paths);
  }

  /** Percent as a ratio from 0 to 1; more is broken. */
  share(...paths: readonly string[]): number | undefined {
    const ratio = this.ratio(...paths);
    if (ratio === undefined || ratio <= 1) return ratio;
    this.#rejected += 1;
    return undefined;
  }

  pcieGeneration(...paths: readonly string[]): number | undefined {
    const speed = this.number("transfers", ...paths);
    const generation = speed === undefined ? 0 : PCIE_SPEEDS.indexOf(speed) + 1;
    return generation === 0 ? undefined : generation;
  }

  #number(unit: Unit, path: string): number | undefined {
    const value = this.#at(path);
    if (value === undefined) return undefined;
    this.#known += 1;
    const pair = JsonObject.safeParse(value);
    const text = pair.success ? withUnit(pair.data) : textOf(value);
    if (text !== undefined && hasNoValue(text)) return undefined;
    const [, digits, name = ""] = TEXT.exec(text ?? "") ?? [];
    const factor = Object.entries(UNITS[unit]).find(([known]) => known.toLowerCase() === name.toLowerCase())?.[1];
    const number = Number(digits);
    if (digits === undefined || factor === undefined || (number < 0 && unit !== "celsius")) {
      this.#rejected += 1;
      return undefined;
    }
    return withoutNoise(number * factor);
  }

  #at(path: string): unknown {
    let value: unknown = this.#gpu;
    for (const key of path.split(".")) {
      const section = JsonObject.safeParse(value);
      // A whole section may be N/A.
      if (typeof value === "string" && hasNoValue(value)) return value;
      if (!section.success || !Object.hasOwn(section.data, key)) return undefined;
      value = section.data[key];
    }
    return value;
  }
}

/** `{"value": 158, "unit": "W"}` as one text; undefined where it is something else. */
const withUnit = ({ value, unit }: JsonObject): string | undefined => {
  const text = textOf(value);
  if (text === undefined || hasNoValue(text)) return text;
  return typeof unit === "string" ? `${text} ${unit.trim()}`.trim() : text;
};

const textOf = (value: unknown): string | undefined => {
  if (value === null) return "";
  return typeof value === "number" || typeof value === "string" ? String(value).trim() : undefined;
};
