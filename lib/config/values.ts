import { DateTime } from "luxon";
import { bad, good, type Parsed } from "./parsed.ts";
import { didYouMean } from "./suggest.ts";

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
