import { type BenchmarkType, isNull } from "../model/tenant.ts";

/** Where Python's splitlines, and so the APEL server, breaks a line. */
const LINE_BREAKS = new Set([0x0a, 0x0b, 0x0c, 0x0d, 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029]);

/** Nearly all texts, and quickly recognised: a month of single jobs has a hundred million characters. */
const PRINTABLE = /^[ -~]*$/;

type OddCharacter = {
  readonly rule: Rule & ("line-break" | "control-character" | "not-ascii");
  readonly reason: string;
};

/** The first character that may not be inside a line of a message, or undefined. APEL and ssmsend: ASCII only. */
export function oddCharacter(text: string): OddCharacter | undefined {
  if (PRINTABLE.test(text)) return undefined;
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    if (code >= 0x20 && code < 0x7f) continue;
    const name = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    if (LINE_BREAKS.has(code)) return { rule: "line-break", reason: `a line break (${name}) is inside a line` };
    if (code < 0x20 || code === 0x7f) return { rule: "control-character", reason: `a control character (${name})` };
    if (code > 0x7f) return { rule: "not-ascii", reason: `the character ${quote(char)} (${name}) is not ASCII` };
  }
  return undefined;
}

/** Why a text cannot be the value of a line, whatever the field: the receiving side would read something else. */
export function textProblem(name: string, value: string, maxLength = 255): string | undefined {
  const odd = oddCharacter(value);
  if (odd !== undefined) return `${name} ${quote(value)}: ${odd.reason}; APEL takes printable ASCII in one line`;
  if (value.includes("%%")) return `${name} ${quote(value)} holds "%%", which ends a record; write it without`;
  if (value.length > maxLength) {
    return `${name} ${quote(value)} has ${value.length} characters; APEL takes at most ${maxLength}`;
  }
  if (value !== value.trim()) return `${name} ${quote(value)} begins or ends with a space, which APEL drops; remove it`;
  return undefined;
}

/**
 * Why a configured string (site, VO, host, infrastructure type) may not be in a message, or undefined if it may.
 * @param maxLength in characters; APEL: 255, InfrastructureType 20
 */
export function valueProblem(name: string, value: string, maxLength = 255): string | undefined {
  if (isNull(value.trim())) return `${name} ${quote(value)} reads as null at APEL; give it a name`;
  return textProblem(name, value, maxLength);
}

const INT32_MAX = 2n ** 31n - 1n;
const INT64_MAX = 2n ** 63n - 1n;

/** The last second of the year 9999, where the server's DATETIME ends. */
const TIME_MAX = 253_402_300_799n;

export type IntegerType = "int32" | "int64" | "time";

const LIMITS = { int32: INT32_MAX, int64: INT64_MAX, time: TIME_MAX } satisfies Record<IntegerType, bigint>;

/** The largest value of an integer field. */
export function integerLimit(type: IntegerType): bigint {
  return LIMITS[type];
}

/** No number of a record is longer, leading zeros included; to read one of a million digits takes minutes. */
const LONGEST_NUMBER = 255;

/** An integer in plain digits, or undefined. APEL: digits only; `3600.0`, `1e5` and signs are refused. */
export function digits(value: string): bigint | undefined {
  return value.length <= LONGEST_NUMBER && /^[0-9]+$/.test(value) ? BigInt(value) : undefined;
}

/** A decimal in plain digits, with or without a fraction, or undefined. */
export function decimal(value: string): number | undefined {
  return value.length <= LONGEST_NUMBER && /^[0-9]+(?:\.[0-9]+)?$/.test(value) ? Number(value) : undefined;
}

/** APEL: ServiceLevel is DECIMAL(10,3): seven digits before the point and at most three behind it. */
export function fitsDecimal(value: string): boolean {
  return value.length <= LONGEST_NUMBER && /^0*[0-9]{1,7}(?:\.[0-9]{1,3})?$/.test(value);
}

/** A service level as it is written and as it keys a row: rounded to 3 decimals, no trailing zeros (2975, 15.3). */
export function decimalText(value: number): string {
  return String(Number(value.toFixed(3)));
}

/** The server takes the first of these that a dict holds. */
const PREFERENCE: readonly BenchmarkType[] = ["hepscore23", "hepspec", "si2k"];

/** How the name of a benchmark is spelled in a v0.4 dict; the server reads it in any case of letters. */
const SPELLING = { hepscore23: "HEPscore23", hepspec: "hepspec", si2k: "si2k" } satisfies Record<BenchmarkType, string>;

/** A benchmark's name, in any case of letters, or undefined if APEL does not know it. */
export function benchmarkType(name: string): BenchmarkType | undefined {
  return PREFERENCE.find((known) => known === name.toLowerCase());
}

/** The benchmarks APEL knows, for messages to people. */
export const KNOWN_BENCHMARKS = PREFERENCE.join(", ");

/** One v0.4 dict as APEL takes it: unquoted key, one entry, no trailing comma. */
export function benchmarkDict(type: BenchmarkType, value: string): string {
  return `{${SPELLING[type]}: ${value}}`;
}

type DictReading =
  | { readonly entries: ReadonlyMap<BenchmarkType, string> }
  | { readonly rule: Rule & ("dict-syntax" | "benchmark-unknown"); readonly reason: string };

/**
 * A v0.4 dict such as `{HEPscore23: 15.3, hepspec: 12}`. Stricter than the server, which does without braces, ignores
 * unknown names beside a known one and lets the last of two spellings of a name win.
 */
export function readDict(text: string): DictReading {
  const entries = new Map<BenchmarkType, string>();
  const example = `write it like ${benchmarkDict("hepscore23", "15.3")}`;
  const inner = /^\{([^{}]*)\}$/.exec(text)?.[1];
  if (inner === undefined) return { rule: "dict-syntax", reason: `${quote(text)} is not in braces; ${example}` };
  for (const entry of inner.split(",")) {
    const [, name, value] = /^\s*([A-Za-z0-9_-]+)\s*:\s*([^\s:]+)\s*$/.exec(entry) ?? [];
    if (name === undefined || value === undefined) {
      return { rule: "dict-syntax", reason: `${quote(entry)} in ${quote(text)} is not "name: value"; ${example}` };
    }
    const type = benchmarkType(name);
    if (type === undefined) {
      return {
        rule: "benchmark-unknown",
        reason: `the benchmark ${quote(name)} is unknown; APEL knows ${KNOWN_BENCHMARKS}`,
      };
    }
    if (entries.has(type)) return { rule: "dict-syntax", reason: `${quote(name)} occurs twice in ${quote(text)}` };
    entries.set(type, value);
  }
  return { entries };
}

/** The entry of a v0.4 dict that the server stores, or undefined if the dict is malformed. */
export function storedEntry(text: string): { readonly type: BenchmarkType; readonly value: string } | undefined {
  const reading = readDict(text);
  if (!("entries" in reading)) return undefined;
  for (const type of PREFERENCE) {
    const value = reading.entries.get(type);
    if (value !== undefined) return { type, value };
  }
  return undefined;
}

/** What a message can get wrong, one name per rule of the APEL server (or of gridmeter, where the server loses data). */
export type Rule =
  | "empty-message"
  | "too-large"
  | "too-many-records"
  | "line-length"
  | "no-records"
  | "header-unknown"
  | "header-normalised-trap"
  | "not-ascii"
  | "control-character"
  | "line-break"
  | "separator-in-value"
  | "record-not-ended"
  | "blank-line"
  | "no-colon"
  | "key-unknown"
  | "key-duplicated"
  | "record-duplicated"
  | "mandatory-missing"
  | "integer-digits"
  | "int32"
  | "int64"
  | "time-limit"
  | "string-length"
  | "decimal"
  | "dict-syntax"
  | "dict-integer"
  | "benchmark-unknown"
  | "benchmark-mixture"
  | "month-range"
  | "month-in-future"
  | "end-time-outside-month"
  | "end-time-order"
  | "end-before-start"
  | "end-in-future"
  | "service-level-missing"
  | "service-level-half"
  | "service-level-type-line"
  | "more-problems";

/** One rule that a message breaks. `line` counts from 1; `reason` quotes the bad value and says what is accepted. */
export type Problem = {
  readonly line: number;
  readonly rule: Rule;
  readonly reason: string;
  /** of `more-problems`, which ends a long list: how many were found beyond those that are listed */
  readonly more?: number;
};

/** So many problems are listed. A text of 500 kB may hold a million, and nobody reads them. */
export const MOST_PROBLEMS = 50;

/** Problems as they are found: the first ones, and how many there are. */
export class ProblemList {
  readonly #first: Problem[] = [];
  #more = 0;
  #lastLine = 1;

  add(problem: Problem): void {
    this.#lastLine = problem.line;
    if (this.#first.length < MOST_PROBLEMS) this.#first.push(problem);
    else this.#more += problem.more ?? 1;
  }

  addAll(problems: Iterable<Problem>): void {
    for (const problem of problems) this.add(problem);
  }

  /** Those that are listed, by line; the last one says how many more there are. */
  list(): readonly Problem[] {
    const listed = this.#first.toSorted((a, b) => a.line - b.line);
    if (this.#more === 0) return listed;
    const reason = `${this.#more} more problems were found and are not listed`;
    return [...listed, { line: this.#lastLine, rule: "more-problems", reason, more: this.#more }];
  }
}

/** A value as it is in messages to people: quoted, odd characters escaped, cut where it is long. */
export function quote(value: string): string {
  const long = 80;
  return JSON.stringify(value.length > long ? `${value.slice(0, long)}...` : value);
}

/** Problems as one text, at most the first few. */
export function problemText(problems: readonly Problem[]): string {
  const shown = 5;
  const lines = problems.slice(0, shown).map(({ line, rule, reason }) => `line ${line}: ${reason} (${rule})`);
  const others = problems.slice(shown).reduce((sum, { more = 1 }) => sum + more, 0);
  return [...lines, ...(others > 0 ? [`and ${others} more`] : [])].join("; ");
}
