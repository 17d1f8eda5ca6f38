import { DateTime } from "luxon";
import { z } from "zod";

/** Settings as texts, by name. Empty means "not set". */
export type Raw = Readonly<Record<string, string | undefined>>;

// As Python's environs reads booleans, which is what KAPEL does (marshmallow: truthy and falsy), in any case.
const YES = ["true", "t", "yes", "y", "on", "1"];
const NO = ["false", "f", "no", "n", "off", "0"];

export function boolean(text: string): Parsed<boolean> {
  const lower = text.toLowerCase();
  if (YES.includes(lower)) return good(true);
  if (NO.includes(lower)) return good(false);
  return bad("is neither true nor false. Write True or False (yes/no, on/off, 1/0 are taken too)");
}

/** One of the given words, exactly. */
export function oneOf<const T extends string>(...words: readonly T[]): (text: string) => Parsed<T> {
  return (text) => {
    const word = words.find((candidate) => candidate === text);
    return word === undefined ? bad(`is not one of ${words.join(", ")}${didYouMean(text, words)}`) : good(word);
  };
}

export function wholeNumber(least: number, most: number): (text: string) => Parsed<number> {
  return (text) => {
    const value = Number(text);
    return /^[+-]?\d+$/.test(text) && value >= least && value <= most
      ? good(value)
      : bad(`is not a whole number from ${least} to ${most}`);
  };
}

/** A finite decimal number in the range, both ends included. */
export function decimal(least: number, most: number): (text: string) => Parsed<number> {
  return (text) => {
    const value = Number(text);
    return /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i.test(text) && value >= least && value <= most
      ? good(value)
      : bad(`is not a number from ${least} to ${most}`);
  };
}

/** The number rounded half up to 3 decimals; the shift goes through the decimal text, so no float noise is left. */
export function threeDecimals(value: number): number {
  const [digits, exponent = "0"] = String(value).split("e");
  return Number(`${Math.round(Number(`${digits}e${Number(exponent) + 3}`))}e-3`);
}

/** Cores, at most 3 decimals, as milli-cores. */
export function milliCores(text: string): Parsed<number> {
  const cores = decimal(0.001, 100_000)(text);
  if (!cores.ok) return bad("is not a number of cores from 0.001 to 100000");
  if (threeDecimals(cores.value) !== cores.value) return bad("is finer than a milli-core. Write at most 3 decimals");
  return good(Math.round(cores.value * 1000));
}

// Prometheus documents these units, each at most once and in this order; a year is always 365 days there.
const UNITS = { y: 31_536_000, w: 604_800, d: 86_400, h: 3600, m: 60, s: 1, ms: 0.001 };
const DURATION =
  /^(?:(?<y>\d+)y)?(?:(?<w>\d+)w)?(?:(?<d>\d+)d)?(?:(?<h>\d+)h)?(?:(?<m>\d+)m)?(?:(?<s>\d+)s)?(?:(?<ms>\d+)ms)?$/;

/** A duration in Prometheus's format (`1800s`, `1h30m`) or in bare seconds, as seconds, in the range. */
export function duration(least: string, most: string): (text: string) => Parsed<number> {
  return (text) => {
    const value = seconds(text);
    if (value === undefined) return bad("is not a duration in Prometheus's format, such as 1800s, 6h or 1h30m");
    const low = seconds(least) ?? 0;
    const high = seconds(most) ?? Number.POSITIVE_INFINITY;
    return value >= low && value <= high ? good(value) : bad(`is not a duration from ${least} to ${most}`);
  };
}

function seconds(text: string): number | undefined {
  if (/^\d+$/.test(text)) return Number(text);
  const groups = text === "" ? undefined : DURATION.exec(text)?.groups;
  if (groups === undefined) return undefined;
  return Object.entries(UNITS).reduce((sum, [unit, length]) => sum + Number(groups[unit] ?? 0) * length, 0);
}

/** A UTC day, `yyyy-mm-dd`. */
export function utcDay(text: string): Parsed<string> {
  return /^\d{4}-\d\d-\d\d$/.test(text) && DateTime.fromISO(text, { zone: "utc" }).isValid
    ? good(text)
    : bad("is not a day of the calendar written yyyy-mm-dd (the day begins at 00:00 UTC)");
}

/** What came of reading a text: its value, or what is wrong with it and what to write instead. */
export type Parsed<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly problem: string };

export function good<T>(value: T): Parsed<T> {
  return { ok: true, value };
}

export function bad(problem: string): { readonly ok: false; readonly problem: string } {
  return { ok: false, problem };
}

/** A parser as a zod schema, so that the table of settings carries types and texts alike. */
export function parsedBy<T>(parse: (text: string) => Parsed<T>) {
  return z.string().transform((text, context): T => {
    const parsed = parse(text);
    if (parsed.ok) return parsed.value;
    context.addIssue({ code: "custom", message: parsed.problem });
    return z.NEVER;
  });
}

function bare(text: string): string {
  return text.toUpperCase().replaceAll(/[^A-Z0-9]/g, "");
}

/** How many letters must be put in, taken out, changed, or swapped with the next one. */
function distance(left: string, right: string): number {
  let before: readonly number[] = [];
  let row: readonly number[] = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (const [i, letter] of left.split("").entries()) {
    const next = [i + 1];
    for (const [j, other] of right.split("").entries()) {
      const replaced = (row[j] ?? 0) + (letter === other ? 0 : 1);
      const isSwap = i > 0 && j > 0 && letter === right[j - 1] && left[i - 1] === other;
      const swapped = isSwap ? (before[j - 1] ?? 0) + 1 : replaced;
      next.push(Math.min(replaced, swapped, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    [before, row] = [row, next];
  }
  return row.at(-1) ?? 0;
}

/** `; did you mean X?` when one of the names is close to what was written (case and punctuation apart), else "". */
export function didYouMean(written: string, names: readonly string[]): string {
  const target = bare(written).slice(0, 60);
  const ranked = names
    .map((name) => ({ name, far: distance(target, bare(name)) }))
    .sort((left, right) => left.far - right.far);
  const [best] = ranked;
  return best !== undefined && best.far <= Math.max(1, Math.floor(best.name.length / 3))
    ? `; did you mean ${best.name}?`
    : "";
}

const wordsOf = (name: string): readonly string[] => name.toUpperCase().match(/[A-Z0-9]+/g) ?? [];

/** Slips of the pen that leave a word recognisable. VM is no misspelt VO, and JOB is none either. */
const slips = (word: string): number => (word.length < 4 ? 0 : word.length < 8 ? 1 : 2);

function isMisspelt(written: string, name: string): boolean {
  const [words, known] = [wordsOf(written), wordsOf(name)];
  const whole = known.join("");
  if (distance(words.join(""), whole) <= (whole.length < 8 ? 0 : 1)) return true;
  return (
    words.length === known.length && known.every((word, index) => distance(words[index] ?? "", word) <= slips(word))
  );
}

/**
 * The name that was surely meant, or undefined. Stricter than `didYouMean`, since what is misspelt is refused: each word
 * must be nearly right, or the whole but for where the words part. NODE_NAME is no SITE_NAME, POD_NAMESPACE no NAMESPACE.
 */
export function misspelt(written: string, names: readonly string[]): string | undefined {
  return written.length > 60 ? undefined : names.find((name) => isMisspelt(written, name));
}
