import { storedEntry } from "./benchmark.ts";
import { type Fault, valueFaults } from "./check-value.ts";
import { monthEnd, monthName, monthStart } from "./month.ts";
import { digits } from "./numbers.ts";
import type { ParsedRecord } from "./parse.ts";
import type { Problem, Rule } from "./problem.ts";
import { isNull } from "./text.ts";

const DAY = 86_400;

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
  const [start, end] = [monthStart(year, month), monthEnd(year, month)];
  const name = monthName(year, month);
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
