import * as z from "zod";
import type { Output } from "../agent/types.ts";
import { ParseError } from "./parse-error.ts";

const Section = z.record(z.string(), z.unknown());

/** A card or the system, keys in lower case and without a trailing colon: ROCm 3 to 6 differ in both. */
export type Section = ReadonlyMap<string, { readonly key: string; readonly text: string }>;

export type RocmDocument = {
  /** by N of `cardN`, ascending; undefined where a card is no object */
  readonly cards: readonly { readonly number: number; readonly section: Section | undefined }[];
  readonly system: Section | undefined;
};

const asJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/** The JSON may follow warnings (amdsmi#168), even ones with braces: it is tried from the start, then from each line's. */
const findJson = (stdout: string): z.infer<typeof Section> | undefined => {
  const end = stdout.lastIndexOf("}") + 1;
  let start = stdout.indexOf("{");
  for (let tries = 0; tries < 5 && start >= 0 && start < end; tries += 1) {
    const found = Section.safeParse(asJson(stdout.slice(start, end)));
    if (found.success) return found.data;
    const line = stdout.indexOf("\n{", start);
    start = line < 0 ? -1 : line + 1;
  }
  return undefined;
};

/** A key that was printed several times comes as an array: it has a value where all of them agree, else it is broken. */
const textOf = (value: unknown): string | undefined => {
  if (Array.isArray(value)) {
    const texts = new Set(value.map((item: unknown) => (Array.isArray(item) ? undefined : textOf(item))));
    const [only] = texts;
    return texts.size === 1 ? only : undefined;
  }
  if (typeof value === "number") return String(value);
  return typeof value === "string" ? value.trim() : undefined;
};

const readSection = (value: unknown): Section | undefined => {
  const found = Section.safeParse(value);
  if (!found.success) return undefined;
  return new Map(
    Object.entries(found.data).flatMap(([key, item]) => {
      const text = textOf(item) ?? (item === null ? "" : JSON.stringify(item));
      return [[key.trim().replace(/:$/, "").toLowerCase(), { key, text }] as const];
    }),
  );
};

/**
 * Finds the JSON in what rocm-smi printed.
 *
 * @throws {ParseError} when it failed, or printed no JSON object with cards (rocm-build#4374: `WARNING: No JSON data`)
 */
export const readRocmDocument = (output: Output): RocmDocument => {
  const printed = JSON.stringify((output.stdout.trim() || output.stderr.trim()).slice(0, 200));
  if (output.exitCode !== 0) throw new ParseError(`rocm-smi exited with ${output.exitCode} and printed ${printed}`);
  const json = findJson(output.stdout);
  if (json === undefined) throw new ParseError(`rocm-smi printed no JSON object: ${printed}`);
  const cards = Object.entries(json).flatMap(([key, value]) => {
    const number = /^card(\d{1,4})$/.exec(key)?.[1];
    return number === undefined ? [] : [{ number: Number(number), section: readSection(value) }];
  });
  if (cards.length === 0) throw new ParseError(`the JSON of rocm-smi has no card: ${printed}`);
  return { cards: cards.sort((a, b) => a.number - b.number), system: readSection(json["system"]) };
};
