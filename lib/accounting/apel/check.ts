import { Buffer } from "node:buffer";
import { DAY, endOfMonth, monthName, startOf } from "../model/time.ts";
import { parsedKey } from "./replace-keys.ts";
import { parseMessage } from "./parse.ts";
import type { ParsedRecord } from "./record.ts";
import type { RecordKind } from "./fields.ts";
import type { Field } from "./fields.ts";
import {
  type IntegerType,
  KNOWN_BENCHMARKS,
  type Problem,
  ProblemList,
  type Rule,
  benchmarkType,
  digits,
  fitsDecimal,
  integerLimit,
  quote,
  readDict,
  storedEntry,
} from "./values.ts";
import { isNull } from "../model/tenant.ts";

/** APEL: so many records a file. */
export const MAX_RECORDS = 500;

/** APEL: so many bytes a file; the broker's limit is 1 MB after signing and base64. */
export const MAX_BYTES = 500_000;

/** Something that is allowed, but that somebody should know. */
type Warning = { readonly line: number; readonly rule: "service-level-absent"; readonly reason: string };

export type Verdict = { readonly problems: readonly Problem[]; readonly warnings: readonly Warning[] };

/** The server REPLACEs: of two records with one key the first is lost without a word. */
function* duplicateProblems(records: readonly ParsedRecord[]): Generator<Problem> {
  const seen = new Map<string, number>();
  for (const record of records) {
    const key = parsedKey(record);
    const before = seen.get(key);
    if (before === undefined) {
      seen.set(key, record.line);
    } else {
      const reason = `the record has the same APEL key as that of line ${before} and would replace it: ${quote(key)}`;
      yield { line: record.line, rule: "record-duplicated", reason };
    }
  }
}

/**
 * Judges a message by every rule of the APEL server and of ssmsend (design/apel-messages.md). One problem and the
 * message must not be stored: the server would reject the whole of it and tell nobody. A warning does not stop it.
 * @param now epoch seconds; Infinity leaves out the rules about the future
 */
export function checkMessage(text: string, now: number): Verdict {
  const { problems, warnings } = readChecked(text, now);
  return { problems, warnings };
}

/** The verdict of `checkMessage`, and the records it is about: none of them is good where there is a problem. */
export function readChecked(
  text: string,
  now: number,
): Verdict & { readonly kind: RecordKind | undefined; readonly records: readonly ParsedRecord[] } {
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_BYTES) {
    const reason = `the message has ${bytes} bytes, more than ${MAX_BYTES}; split it, nothing else of it was checked`;
    return { problems: [{ line: 1, rule: "too-large", reason }], warnings: [], kind: undefined, records: [] };
  }
  const { kind, records, recordCount, problems: framing } = parseMessage(text, MAX_RECORDS);
  const problems = new ProblemList();
  if (recordCount > MAX_RECORDS) {
    const reason = `the message has ${recordCount} records, more than ${MAX_RECORDS}; split it, those beyond were not checked`;
    problems.add({ line: 1, rule: "too-many-records", reason });
  }
  problems.addAll(framing);
  for (const record of records) problems.addAll(recordProblems(record, now));
  problems.addAll(duplicateProblems(records));
  const warnings = records.filter(onlyForGratia).map(({ line }): Warning => {
    return {
      line,
      rule: "service-level-absent",
      reason: "a job without a service level: only Gratia takes it, APEL rejects it",
    };
  });
  return { problems: problems.list(), warnings, kind, records };
}

/** A field's integer, or undefined if it is absent, null or malformed (which is reported elsewhere). */
function integer(record: ParsedRecord, name: string): number | undefined {
  const number = digits(record.fields.get(name)?.value ?? "");
  return number === undefined ? undefined : Number(number);
}

function at(record: ParsedRecord, name: string, rule: Rule, reason: string): Problem {
  return { line: record.fields.get(name)?.line ?? record.line, rule, reason };
}

/** APEL: a month is 1 to 12 and not in the future; the ends lie in it, the next month's first second included. */
function monthProblems(record: ParsedRecord, now: number): Problem[] {
  const [year, month] = [integer(record, "Year"), integer(record, "Month")];
  if (year === undefined || month === undefined) return [];
  if (month < 1 || month > 12) return [at(record, "Month", "month-range", `Month ${month} is not 1 to 12`)];
  if (year < 1 || year > 9998) return [at(record, "Year", "month-range", `Year ${year} is no year of our time`)];
  const name = monthName(year, month);
  const [start, end] = [startOf(name), endOfMonth(name)];
  const problems: Problem[] = [];
  if (start > now) problems.push(at(record, "Month", "month-in-future", `the month ${name} has not begun`));
  for (const key of ["EarliestEndTime", "LatestEndTime"]) {
    const time = integer(record, key);
    if (time !== undefined && (time < start || time > end)) {
      problems.push(at(record, key, "end-time-outside-month", `${key} ${time} is not in ${name} (${start} to ${end})`));
    }
  }
  const [earliest, latest] = [integer(record, "EarliestEndTime"), integer(record, "LatestEndTime")];
  if (earliest !== undefined && latest !== undefined && earliest > latest) {
    const reason = `EarliestEndTime ${earliest} is later than LatestEndTime ${latest}`;
    problems.push(at(record, "EarliestEndTime", "end-time-order", reason));
  }
  return problems;
}

/** The server takes one benchmark for both durations of a normalised record. */
function mixtureProblems(record: ParsedRecord): Problem[] {
  const [wall, cpu] = ["NormalisedWallDuration", "NormalisedCpuDuration"].map((name) =>
    storedEntry(record.fields.get(name)?.value ?? ""),
  );
  if (wall === undefined || cpu === undefined || wall.type === cpu.type) return [];
  const reason = `the wall duration is in ${wall.type}, the CPU duration in ${cpu.type}; both must be the same`;
  return [at(record, "NormalisedCpuDuration", "benchmark-mixture", reason)];
}

function jobTimeProblems(record: ParsedRecord, now: number): Problem[] {
  const [start, end] = [integer(record, "StartTime"), integer(record, "EndTime")];
  if (end === undefined) return [];
  const problems: Problem[] = [];
  if (start !== undefined && end < start) {
    problems.push(at(record, "EndTime", "end-before-start", `EndTime ${end} is before StartTime ${start}`));
  }
  if (end > now + 2 * DAY) {
    problems.push(at(record, "EndTime", "end-in-future", `EndTime ${end} is more than two days ahead of now (${now})`));
  }
  return problems;
}

function serviceLevelProblems(record: ParsedRecord): Problem[] {
  const has = (name: string) => !isNull(record.fields.get(name)?.value);
  if (record.layout.version === "0.4") {
    if (has("ServiceLevel")) return [];
    const reason = "an individual v0.4 record without ServiceLevel stops APEL's central loader";
    return [at(record, "ServiceLevel", "service-level-missing", reason)];
  }
  if (has("ServiceLevel") === has("ServiceLevelType")) return [];
  const reason = "ServiceLevel and ServiceLevelType go together: write both or neither";
  return [at(record, has("ServiceLevel") ? "ServiceLevel" : "ServiceLevelType", "service-level-half", reason)];
}

function togetherProblems(record: ParsedRecord, now: number): Problem[] {
  switch (record.layout.kind) {
    case "summary":
    case "sync":
      return monthProblems(record, now);
    case "normalised":
      return [...monthProblems(record, now), ...mixtureProblems(record)];
    case "individual":
      return [...jobTimeProblems(record, now), ...serviceLevelProblems(record)];
  }
}

/** The rules that a record's values break, each by itself and together. @param now epoch seconds */
export function recordProblems(record: ParsedRecord, now: number): Problem[] {
  const single = [...record.layout.fields].flatMap(([name, field]) =>
    valueFaults(name, field, record.fields.get(name)?.value).map((fault: Fault) =>
      at(record, name, fault.rule, fault.reason),
    ),
  );
  return [...single, ...togetherProblems(record, now)];
}

/** Whether this is an individual v0.3 record without a service level: always rejected by APEL, accepted by Gratia. */
export function onlyForGratia(record: ParsedRecord): boolean {
  return (
    record.layout.kind === "individual" &&
    record.layout.version === "0.3" &&
    isNull(record.fields.get("ServiceLevel")?.value)
  );
}

/** A broken rule whose line is not yet known. */
type Fault = Omit<Problem, "line">;

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
function valueFaults(name: string, field: Field, value: string | undefined): Fault[] {
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
