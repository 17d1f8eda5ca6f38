import { existsSync, readFileSync } from "node:fs";
import type { Output } from "../../lib/agent/command/types.ts";

/** Real outputs with what they mean, which are not part of the project. */
const folder = new URL("../../../shared/samples/", import.meta.url);

export const haveSamples = existsSync(folder);

export const readSample = (file: string): string => readFileSync(new URL(file, folder), "utf8");

/** The files of expected.json whose name matches, with what is expected of each. */
export const expectedOf = <T>(pattern: RegExp): [file: string, expected: T][] => {
  const all = JSON.parse(readSample("expected.json")) as Record<string, T>;
  return Object.entries(all).filter(([file]) => pattern.test(file));
};

export const printed = (stdout: string, exitCode = 0, stderr = ""): Output => ({ stdout, stderr, exitCode });

/** Absent is null in expected.json. */
export const orNull = <T>(value: T | undefined): T | null => value ?? null;

export const rounded = (value: number | undefined, factor = 1, digits = 2): number | null =>
  value === undefined ? null : Number((value * factor).toFixed(digits));
