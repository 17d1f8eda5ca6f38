import { DateTime } from "luxon";
import parseDuration from "parse-duration";
import { z } from "zod";

/** Settings as texts, by name. Empty means "not set". */
export type Raw = Readonly<Record<string, string | undefined>>;

/** The text without blanks around it; undefined where there is nothing else. */
export function filled(text: string | undefined): string | undefined {
  const trimmed = text?.trim() ?? "";
  return trimmed === "" ? undefined : trimmed;
}

/** The settings that have a value. */
export function filledOnly(raw: Raw): Record<string, string> {
  return Object.fromEntries(
    Object.entries(raw).flatMap(([name, text]) => {
      const value = filled(text);
      return value === undefined ? [] : [[name, value] as const];
    }),
  );
}

// As Python's environs reads booleans, which is what KAPEL does (marshmallow: truthy and falsy), in any case.
const YES = ["true", "t", "yes", "y", "on", "1"];
const NO = ["false", "f", "no", "n", "off", "0"];

/** A value as it is written; empty for a list or a mapping, of which String() would make a text that looks like a value. */
function written(value: unknown): string {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? `${value}` : "";
}

export function boolean(value: unknown): Parsed<boolean> {
  const lower = written(value).toLowerCase();
  if (YES.includes(lower)) return good(true);
  if (NO.includes(lower)) return good(false);
  return bad("is neither true nor false. Write True or False (yes/no, on/off, 1/0 are taken too)");
}

/** One of the given words, exactly. */
export function oneOf<const T extends string>(...words: readonly T[]): (value: unknown) => Parsed<T> {
  return (value) => {
    const word = words.find((candidate) => candidate === value);
    return word === undefined
      ? bad(`is not one of ${words.join(", ")}${didYouMean(String(value), words)}`)
      : good(word);
  };
}

export function wholeNumber(least: number, most: number): (value: unknown) => Parsed<number> {
  return (value) => {
    const number = Number(value);
    return /^[+-]?\d+$/.test(written(value)) && number >= least && number <= most
      ? good(number)
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

/** A number and a unit. */
const PART = /\d{1,15}(?:\.\d{1,15})?\s{0,16}(?:ms|s|m|h|d|w)\s{0,16}/y;
const LONGEST_DURATION = 64;

/** Whether a text is a number, or such parts and nothing else: parse-duration alone reads past what it does not know. */
function isDuration(text: string): boolean {
  if (text === "" || text.length > LONGEST_DURATION) return false;
  if (/^\d{1,15}(?:\.\d{1,15})?$/.test(text)) return true;
  PART.lastIndex = 0;
  while (PART.lastIndex < text.length) if (!PART.test(text)) return false;
  return true;
}

/** A duration (`1800s`, `1h30m`, `500ms`) or a number of seconds, as seconds, in the range, both ends included. */
export function duration(least: number, most: number): (value: unknown) => Parsed<number> {
  return (value) => {
    const text = String(value).trim();
    const isWritten = typeof value === "string" || typeof value === "number";
    const seconds = isWritten && isDuration(text) ? parseDuration(text, "s") : null;
    if (seconds === null) return bad("is not a duration. Write for example 30s, 500ms, 1h30m or a number of seconds");
    return seconds >= least && seconds <= most
      ? good(seconds)
      : bad(`is not a duration from ${shownDuration(least)} to ${shownDuration(most)}`);
  };
}

function shownDuration(seconds: number): string {
  if (seconds < 1) return `${seconds * 1000}ms`;
  const [length, unit] = (
    [
      [86_400, "d"],
      [3600, "h"],
      [60, "m"],
    ] as const
  ).find(([each]) => seconds % each === 0) ?? [1, "s"];
  return `${seconds / length}${unit}`;
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
