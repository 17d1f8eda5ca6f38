import { KNOWN_BENCHMARKS, benchmarkType, readDict } from "./benchmark.ts";
import type { Field } from "./layout.ts";
import { type IntegerType, digits, fitsDecimal, integerLimit } from "./numbers.ts";
import { type Problem, type Rule, quote } from "./problem.ts";
import { isNull } from "./text.ts";

/** A broken rule whose line is not yet known. */
export type Fault = Omit<Problem, "line">;

const LIMIT_RULE = { int32: "int32", int64: "int64", time: "time-limit" } satisfies Record<IntegerType, Rule>;

function integerFaults(name: string, value: string, type: IntegerType): Fault[] {
  const number = digits(value);
  if (number === undefined) {
    return [{ rule: "integer-digits", reason: `${name} ${quote(value)} is not an integer; APEL takes digits only` }];
  }
  const limit = integerLimit(type);
  if (number > limit) return [{ rule: LIMIT_RULE[type], reason: `${name} ${quote(value)} is larger than ${limit}` }];
  return [];
}

function decimalFaults(name: string, value: string): Fault[] {
  if (fitsDecimal(value)) return [];
  const reason = `${name} ${quote(value)} does not fit DECIMAL(10,3): at most 7 digits, a point and 3 decimals`;
  return [{ rule: "decimal", reason }];
}

function dictFaults(name: string, text: string, check: (value: string) => Fault[]): Fault[] {
  const reading = readDict(text);
  if (!("entries" in reading)) return [{ rule: reading.rule, reason: `${name}: ${reading.reason}` }];
  return [...reading.entries.values()].flatMap(check);
}

/** APEL: normalised durations are integers in a dict; the server cuts `50.7` to 50 without a word. */
function integerDictFaults(name: string, text: string): Fault[] {
  return dictFaults(name, text, (value) =>
    digits(value) === undefined
      ? [{ rule: "dict-integer", reason: `${name} ${quote(text)}: ${quote(value)} is not an integer in digits` }]
      : integerFaults(name, value, "int64"),
  );
}

/** The rules that a field's value breaks by itself. A null (absent, empty, `none`, `null`) breaks only "mandatory". */
export function valueFaults(name: string, field: Field, value: string | undefined): Fault[] {
  if (value === undefined || isNull(value)) {
    if (!field.mandatory) return [];
    const found = value === undefined ? "is missing" : `is null (${quote(value)})`;
    return [{ rule: "mandatory-missing", reason: `${name} ${found}; APEL needs a value` }];
  }
  switch (field.type) {
    case "text":
      if (value.length <= field.max) return [];
      return [
        {
          rule: "string-length",
          reason: `${name} ${quote(value)} has ${value.length} characters; APEL takes ${field.max}`,
        },
      ];
    case "int32":
    case "int64":
    case "time":
      return integerFaults(name, value, field.type);
    case "decimal":
      return decimalFaults(name, value);
    case "benchmark":
      if (benchmarkType(value) !== undefined) return [];
      return [
        { rule: "benchmark-unknown", reason: `${name} ${quote(value)} is unknown; APEL knows ${KNOWN_BENCHMARKS}` },
      ];
    case "decimal-dict":
      return dictFaults(name, value, (entry) => decimalFaults(name, entry));
    case "integer-dict":
      return integerDictFaults(name, value);
    case "ignored":
      return [];
  }
}
