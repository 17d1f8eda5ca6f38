import { type Rule, quote } from "./problem.ts";
import type { BenchmarkType } from "./records.ts";

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

export type DictReading =
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
    if (entries.has(type)) return { rule: "dict-syntax", reason: `${quote(name)} stands twice in ${quote(text)}` };
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
