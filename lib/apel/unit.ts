import { monthOf } from "../accounting/time.ts";
import { monthName, monthStart } from "./month.ts";
import { digits } from "./numbers.ts";
import type { ParsedRecord } from "./parse.ts";
import { isNull } from "./text.ts";
import type { ApelRecord, NormalisedRecord, SummaryRecord, SyncRecord } from "./records.ts";

/**
 * The unit of publishing to which a record belongs. Individual records belong to the UTC month of their EndTime.
 * @returns month as yyyy-mm
 */
export function unitOf(record: ApelRecord): { site: string; submitHost: string; month: string } {
  const month = record.kind === "individual" ? monthOf(record.endTime) : monthName(record.year, record.month);
  return { site: record.site, submitHost: record.submitHost, month };
}

/** The same of a parsed record that passed the check, without reading it as a whole: a null text is the word None at APEL. */
export function parsedUnit({ layout, fields }: ParsedRecord): ReturnType<typeof unitOf> {
  const text = (name: string): string => {
    const value = fields.get(name)?.value;
    return value === undefined || isNull(value) ? "None" : value;
  };
  const number = (name: string): number => Number(digits(fields.get(name)?.value ?? "") ?? 0);
  const month = layout.kind === "individual" ? monthOf(number("EndTime")) : monthName(number("Year"), number("Month"));
  return { site: text("Site"), submitHost: text("SubmitHost"), month };
}

/**
 * A tombstone: the record with the same APEL key and nothing in it, to replace a row whose key went away. Earliest and
 * latest end are the month's start, since APEL wants both inside the month.
 */
export function zeroed(record: SummaryRecord): SummaryRecord;
export function zeroed(record: NormalisedRecord): NormalisedRecord;
export function zeroed(record: SyncRecord): SyncRecord;
export function zeroed(
  record: SummaryRecord | NormalisedRecord | SyncRecord,
): SummaryRecord | NormalisedRecord | SyncRecord;
export function zeroed(record: SummaryRecord | NormalisedRecord | SyncRecord) {
  if (record.kind === "sync") return { ...record, numberOfJobs: 0 };
  const start = monthStart(record.year, record.month);
  const empty = { wallDuration: 0, cpuDuration: 0, numberOfJobs: 0, earliestEndTime: start, latestEndTime: start };
  if (record.kind === "summary") return { ...record, ...empty };
  return { ...record, ...empty, normalisedWallDuration: 0, normalisedCpuDuration: 0 };
}
