import { XMLParser, XMLValidator } from "fast-xml-parser";
import { errorText } from "../../shared/errors.ts";
import { ParseError, withoutNoise } from "./common/parse.ts";

const ROOT = "nvidia_smi_log";

/** Characters before the log that are searched for the DTD's version. With `--dtd` a whole DTD follows the version. */
const LONGEST_PROLOG = 64 * 1024;

const parser = new XMLParser({
  ignoreAttributes: false,
  attributeNamePrefix: "@",
  parseTagValue: false,
  processEntities: false,
});

type NvidiaSmiDocument = {
  /** the outermost element as parsed, for `Reader` */
  readonly root: unknown;
  /** the DTD's version as printed ("v12") */
  readonly dtd: string | undefined;
  /** lists of processes that were dropped, as the name of a process in them looks like the log itself */
  readonly lostLists: number;
};

/**
 * Finds and parses the XML in what nvidia-smi printed. There may be warnings before and after it. The prolog with its DOCTYPE (with
 * `--dtd` a whole DTD) is not given to the XML parser, and entities are not expanded. The names of processes, and the lists of
 * possible clocks, which are most of the output, are cut out first.
 *
 * @throws {ParseError} when there is no complete, well-formed `<nvidia_smi_log>`
 */
export const readDocument = (stdout: string): NvidiaSmiDocument => {
  const start = stdout.indexOf(`<${ROOT}>`);
  const end = stdout.lastIndexOf(`</${ROOT}>`);
  if (start < 0) throw new ParseError(`nvidia-smi printed no XML: ${JSON.stringify(stdout.trim().slice(0, 200))}`);
  if (end < start) throw new ParseError(`the XML of nvidia-smi breaks off: ${JSON.stringify(stdout.slice(-80))}`);
  const whole = stdout.slice(start, end + ROOT.length + 3);
  const nameless = withoutNamesOfProcesses(whole, ROOT) ?? { xml: without(whole, "process_name"), lost: 0 };
  const xml = without(nameless.xml, "supported_clocks");
  let parsed: unknown;
  try {
    const verdict = XMLValidator.validate(xml);
    if (verdict !== true) throw new ParseError(`${verdict.err.msg} (line ${verdict.err.line} of the log)`);
    parsed = parser.parse(xml);
  } catch (cause) {
    // the XML parser throws plain errors (nesting too deep, forbidden names)
    throw new ParseError(`the XML of nvidia-smi is broken: ${errorText(cause)}`, { cause });
  }
  return {
    root: typeof parsed === "object" && parsed !== null && ROOT in parsed ? parsed[ROOT] : undefined,
    lostLists: nameless.lost,
    dtd: /nvsmi_device_(v\d{1,4})\.dtd/.exec(stdout.slice(0, Math.min(start, LONGEST_PROLOG)))?.[1],
  };
};

/** The text without the elements of this name. Found by position and in one pass: linear time whatever the content is. */
const without = (xml: string, name: string): string => {
  const [open, close] = [`<${name}>`, `</${name}>`];
  const kept: string[] = [];
  let from = 0;
  for (;;) {
    const start = xml.indexOf(open, from);
    const end = start < 0 ? -1 : xml.indexOf(close, start);
    if (end < 0) break;
    kept.push(xml.slice(from, start));
    from = end + close.length;
  }
  kept.push(xml.slice(from));
  return kept.join("");
};

/** A log without the names of processes, and how many process lists were dropped. */
type Nameless = { readonly xml: string; readonly lost: number };

/**
 * Removes the names of processes from nvidia-smi's log. A user chooses them, nvidia-smi may not escape them, and no metric needs
 * them. A name must not open or close an element, nor break the whole XML with an `&`.
 *
 * The driver writes each element on its own line, and indents each GPU like the first one, which comes before all names. Names are in
 * the list of processes only, so that of each GPU the lines before that list count, and the list itself. Undefined for a log without
 * such lines, which no driver writes.
 *
 * @param root the name of the outermost element, with which the text ends
 */
const withoutNamesOfProcesses = (xml: string, root: string): Nameless | undefined => {
  const lines = xml.slice(0, xml.lastIndexOf(`</${root}>`)).split("\n");
  const first = lines.findIndex((line) => line.includes("<gpu>") || line.includes("<gpu "));
  const own = lines[first] ?? "";
  const indent = own.slice(0, own.length - own.trimStart().length);
  if (first < 0 || lines.length < 2 || !/^<gpu[ >]/.test(own.trimStart())) return undefined;
  const starts = lines.flatMap((line, index) => {
    // a tool that reformats a log may indent the first GPU only
    const isDeep = line.startsWith(`${indent}<gpu`) || lines[index - 1] === `${indent}</gpu>`;
    return isDeep && /^<gpu[ >]/.test(line.trimStart()) ? [index] : [];
  });
  const gpus = starts.map((start, at) => linesOfGpu(lines.slice(start, starts[at + 1])));
  return {
    xml: [...lines.slice(0, first), ...gpus.flatMap((gpu) => gpu.lines), `</${root}>`].join("\n"),
    lost: gpus.filter(({ isLost }) => isLost).length,
  };
};

type GpuLines = { readonly lines: readonly string[]; readonly isLost: boolean };

/** The lines of one GPU that count: all before its process list, and that list without names. What follows the list is not read. */
const linesOfGpu = (lines: readonly string[]): GpuLines => {
  const start = lines.findIndex((line) => line.trimStart().startsWith("<processes"));
  if (start < 0) return { lines, isLost: false };
  const first = (lines[start] ?? "").trim();
  const end = lines.findLastIndex((line) => line.trim() === "</processes>");
  const list = first === "<processes>" && end > start ? withoutNames(lines.slice(start + 1, end)) : undefined;
  const isNone = first.length < 512 && NO_LIST.test(first);
  const own = list === undefined ? [isNone ? first : UNKNOWN] : [first, ...list, "</processes>"];
  return { lines: lines.slice(0, start).concat(own, "</gpu>"), isLost: list === undefined && !isNone };
};

/** In place of a process list that was dropped. */
const UNKNOWN = "<processes>N/A</processes>";

/** A process list that is no list: `N/A`, `None`, or empty. */
const NO_LIST = /^<processes(?: ?\/>|>[^<>]{0,256}<\/processes>)$/;

/** A line of nvidia-smi in a process list, except names. Its text has no angle bracket. */
const OWN_LINE =
  /^(?:<\/?process_info>|<(?:pid|type|used_memory|gpu_instance_id|compute_instance_id)>[^<>]{0,64}<\/[a-z_]{3,32}>)$/;

const OPEN = "<process_name>";

const CLOSE = "</process_name>";

/**
 * The lines of a process list without names. Undefined where the end of a name is not certain, because the name has line breaks and
 * tags in it. A name of one line may hold anything but the end tag of a name.
 */
const withoutNames = (lines: readonly string[]): readonly string[] | undefined => {
  const kept: string[] = [];
  let inName = false;
  for (const line of lines) {
    const text = line.trim();
    const start = inName ? 0 : text.indexOf(OPEN);
    if (start < 0) {
      if (text !== "" && !(text.length < 256 && OWN_LINE.test(text))) return undefined;
      kept.push(line);
      continue;
    }
    if (!inName && start > 0) return undefined;
    const from = inName ? 0 : OPEN.length;
    const end = text.indexOf(CLOSE, from);
    if (end >= 0 && end + CLOSE.length !== text.length) return undefined;
    if (end < 0 && text.includes("<", from)) return undefined;
    inName = end < 0;
  }
  return inName ? undefined : kept;
};

/** The number of broken rows and values; the readers of one document share it. */
export type Tally = { rejected: number };

type Path = readonly [string, ...string[]];

/**
 * Reads the values of one XML element. A path names the children from the element downwards, so that a MIG device's memory is never
 * taken for its GPU's. Of several elements with one name the first counts.
 */
export class Reader {
  readonly #element: unknown;
  readonly #tally: Tally;

  constructor(element: unknown, tally: Tally) {
    this.#element = element;
    this.#tally = tally;
  }

  /** All children of this name. */
  all(name: string): Reader[] {
    return childrenOf(this.#element, name).map((child) => new Reader(child, this.#tally));
  }

  /** The element at the path; undefined where there is none. */
  at(...path: Path): Reader | undefined {
    let element = this.#element;
    for (const name of path) {
      const [first] = childrenOf(element, name);
      if (first === undefined) return undefined;
      element = first;
    }
    return new Reader(element, this.#tally);
  }

  /** Names of the children, in the order of the document. */
  names(): string[] {
    return isRecord(this.#element) ? Object.keys(this.#element).filter((name) => name !== "#text") : [];
  }

  /** Whether the element has children or attributes, and not only text. */
  isNested(): boolean {
    return isRecord(this.#element);
  }

  /** The text as printed, `N/A` and the like included; undefined where the element is missing. */
  text(...path: Path): string | undefined {
    const found = this.at(...path);
    return found === undefined ? undefined : found.ownText();
  }

  /** The element's own text. */
  ownText(): string {
    return textOf(this.#element);
  }

  /** A text; undefined for `N/A` and the like. */
  name(...path: Path): string | undefined {
    const text = this.text(...path);
    return text === undefined || hasNoValue(text) ? undefined : text;
  }

  /** A number in base units; undefined for `N/A` and the like; for any other text undefined, and counted as broken. */
  number(unit: UnitName, ...path: Path): number | undefined {
    return this.#value(path, (text) => parseNumber(text, unit));
  }

  /** A whole number of 0 or more, as for indexes and process ids. */
  integer(...path: Path): number | undefined {
    return this.#value(path, (text) => {
      const value = parseNumber(text, "count");
      return Number.isSafeInteger(value) ? value : undefined;
    });
  }

  /** True for `yes`, false for `no`, undefined for anything else. */
  flag(yes: string, no: string, ...path: Path): boolean | undefined {
    return this.#value(path, (text) => (text === yes ? true : text === no ? false : undefined));
  }

  /** Any other closed set of texts. */
  choice<T>(parse: (text: string) => T | undefined, ...path: Path): T | undefined {
    return this.#value(path, parse);
  }

  /** Whether any text in the element, however deep, is this one. */
  says(text: string): boolean {
    const pending: unknown[] = [this.#element];
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      if (typeof next === "string" && next.trim() === text) return true;
      // one at a time: a spread of a million elements overflows the stack
      if (Array.isArray(next)) for (const item of next) pending.push(item);
      else if (isRecord(next)) for (const item of Object.values(next)) pending.push(item);
    }
    return false;
  }

  /** Counts this element as broken. */
  reject(): void {
    this.#tally.rejected += 1;
  }

  #value<T>(path: Path, parse: (text: string) => T | undefined): T | undefined {
    const text = this.text(...path);
    if (text === undefined || hasNoValue(text)) return undefined;
    const value = parse(text);
    if (value === undefined) this.reject();
    return value;
  }
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const childrenOf = (element: unknown, name: string): readonly unknown[] => {
  if (!isRecord(element) || !Object.hasOwn(element, name)) return [];
  const found = element[name];
  return Array.isArray(found) ? found : [found];
};

const textOf = (element: unknown): string => {
  const text = isRecord(element) ? element["#text"] : element;
  return typeof text === "string" ? text.trim() : "";
};

/** Texts in place of a value that the device does not have or the driver does not give. They are not counted as broken. */
const NO_VALUE = new Set([
  "",
  "n/a",
  "none",
  "not found",
  "requested functionality has been deprecated",
  "deprecated",
  "insufficient permissions",
  "gpu is lost",
  "gpu requires reset",
]);

const hasNoValue = (text: string): boolean => {
  const plain = plainText(text).toLowerCase();
  // also `Not available in WDDM driver model`
  return NO_VALUE.has(plain) || /^not (?:available|supported|applicable)\b/.test(plain);
};

/** `610.62 [Deprecated; will be removed in ...]` is 610.62 (driver 610); `[N/A]` is N/A (nvidia_gpu_exporter#68). */
export const plainText = (text: string): string => {
  const bracket = text.indexOf("[");
  if (bracket === 0 && text.endsWith("]")) return text.slice(1, -1).trim();
  return (bracket > 0 ? text.slice(0, bracket) : text).trim();
};

/** A number in base units, or undefined for anything else (`ERR!`, another unit, out of range). */
export const parseNumber = (text: string, unit: UnitName): number | undefined => {
  const match = /^([+-]?\d{1,15}(?:\.\d{1,100})?)\s{0,8}([A-Za-z%/]{0,8})$/.exec(plainText(text));
  const { units, min, max }: Unit = UNITS[unit];
  const value = Number(match?.[1]);
  const name = match?.[2];
  if (name === undefined || !Object.hasOwn(units, name) || value < min || value > max) return undefined;
  const scale = units[name];
  return scale === undefined ? undefined : withoutNoise(scale(value));
};

type UnitName = keyof typeof UNITS;

type Unit = {
  readonly units: Readonly<Record<string, (value: number) => number>>;
  readonly min: number;
  readonly max: number;
};

const MIB = 1024 * 1024;

const same = (value: number): number => value;

const scaled = (units: Unit["units"]): Unit => ({ units, min: 0, max: Number.MAX_SAFE_INTEGER });

/** The units that nvidia-smi prints after numbers, with their conversion to base units. */
const UNITS = {
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
