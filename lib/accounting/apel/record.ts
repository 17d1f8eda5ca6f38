import type { ServiceLevel } from "../model/tenant.ts";
import type { Layout } from "./fields.ts";
import { monthName, monthOf, startOf } from "../model/time.ts";
import { type Problem, benchmarkDict, decimalText, digits } from "./values.ts";
import { type BenchmarkType, isNull } from "../model/tenant.ts";

/**
 * One record, taken apart but not judged. Of a key that is there twice the last value is kept, as the server does; keys that
 * the server does not know are left out, they are among the problems.
 */
export type ParsedRecord = {
  readonly line: number;
  readonly layout: Layout;
  readonly fields: ReadonlyMap<string, RawField>;
  /** what is wrong with its lines */
  readonly problems: readonly Problem[];
};
/** A value as it is in the message, without the spaces around it. `line` counts from 1. */
export type RawField = { readonly line: number; readonly value: string };

/** Parts of APEL's key that gridmeter does not fill itself; hand-written records may. Absent is APEL's null. */
type UserIdentity = {
  readonly globalUserName?: string;
  readonly voGroup?: string;
  readonly voRole?: string;
};

type MonthlyUsage = UserIdentity & {
  readonly site: string;
  readonly year: number;
  /** 1 to 12 */
  readonly month: number;
  readonly vo: string;
  readonly submitHost: string;
  readonly infrastructureType: string;
  /** seconds */
  readonly wallDuration: number;
  /** seconds */
  readonly cpuDuration: number;
  readonly numberOfJobs: number;
  /** APEL: NOT NULL; 0 is allowed */
  readonly processors: number;
  /** APEL: NOT NULL; 0 is allowed */
  readonly nodeCount: number;
  /** epoch seconds */
  readonly earliestEndTime: number;
  /** epoch seconds */
  readonly latestEndTime: number;
};

/** One row of APEL's Summaries table. */
export type SummaryRecord = MonthlyUsage & { readonly kind: "summary"; readonly serviceLevel: ServiceLevel };

/** One row of APEL's NormalisedSummaries table; its key holds the benchmark's name, but no value. */
export type NormalisedRecord = MonthlyUsage & {
  readonly kind: "normalised";
  readonly benchmark: BenchmarkType;
  /** benchmark-seconds, integer */
  readonly normalisedWallDuration: number;
  /** benchmark-seconds, integer */
  readonly normalisedCpuDuration: number;
};

/** One job. APEL keys it by (Site, LocalJobId, EndTime). */
export type IndividualRecord = UserIdentity & {
  readonly kind: "individual";
  readonly site: string;
  readonly vo: string;
  readonly submitHost: string;
  /** the pod's name */
  readonly machineName: string;
  /** the pod's uid */
  readonly localJobId: string;
  readonly infrastructureType: string;
  readonly wallDuration: number;
  readonly cpuDuration: number;
  /** KiB, measured maximum */
  readonly memoryReal?: number;
  /** KiB, memory request */
  readonly memoryVirtual?: number;
  readonly processors: number;
  readonly nodeCount: number;
  readonly startTime: number;
  readonly endTime: number;
  readonly serviceLevel?: ServiceLevel;
};

/** How many jobs a submit host has in a month; APEL keeps one per (Site, SubmitHost, Month, Year). */
export type SyncRecord = {
  readonly kind: "sync";
  readonly site: string;
  readonly submitHost: string;
  readonly numberOfJobs: number;
  readonly year: number;
  readonly month: number;
};

export type ApelRecord = SummaryRecord | NormalisedRecord | IndividualRecord | SyncRecord;

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
  const start = startOf(monthName(record.year, record.month));
  const empty = { wallDuration: 0, cpuDuration: 0, numberOfJobs: 0, earliestEndTime: start, latestEndTime: start };
  if (record.kind === "summary") return { ...record, ...empty };
  return { ...record, ...empty, normalisedWallDuration: 0, normalisedCpuDuration: 0 };
}

type Line = readonly [name: string, value: string | number];
type MaybeLine = readonly [name: string, value: string | number | undefined];

function serviceLevelLines(level: ServiceLevel | undefined, version: Layout["version"]): Line[] {
  if (level === undefined) return [];
  const value = decimalText(level.value);
  if (version === "0.4") return [["ServiceLevel", benchmarkDict(level.type, value)]];
  return [
    ["ServiceLevelType", level.type],
    ["ServiceLevel", value],
  ];
}

function userLines(record: SummaryRecord | NormalisedRecord | IndividualRecord): MaybeLine[] {
  return [
    ["GlobalUserName", record.globalUserName],
    ["VO", record.vo],
    ["VOGroup", record.voGroup],
    ["VORole", record.voRole],
    ["SubmitHost", record.submitHost],
  ];
}

function monthlyLines(
  record: SummaryRecord | NormalisedRecord,
  infrastructureKey: string,
  before: readonly Line[],
  after: readonly Line[],
): MaybeLine[] {
  return [
    ["Site", record.site],
    ["Month", record.month],
    ["Year", record.year],
    ...userLines(record),
    [infrastructureKey, record.infrastructureType],
    ...before,
    ["WallDuration", record.wallDuration],
    ["CpuDuration", record.cpuDuration],
    ...after,
    ["NumberOfJobs", record.numberOfJobs],
    ["Processors", record.processors],
    ["NodeCount", record.nodeCount],
    ["EarliestEndTime", record.earliestEndTime],
    ["LatestEndTime", record.latestEndTime],
  ];
}

function normalisedLines(record: NormalisedRecord): Line[] {
  return [
    ["NormalisedWallDuration", benchmarkDict(record.benchmark, String(record.normalisedWallDuration))],
    ["NormalisedCpuDuration", benchmarkDict(record.benchmark, String(record.normalisedCpuDuration))],
  ];
}

function individualLines(record: IndividualRecord, version: Layout["version"]): MaybeLine[] {
  return [
    ["Site", record.site],
    ...userLines(record),
    ["MachineName", record.machineName],
    ["LocalJobId", record.localJobId],
    ["InfrastructureType", record.infrastructureType],
    ["WallDuration", record.wallDuration],
    ["CpuDuration", record.cpuDuration],
    ["MemoryReal", record.memoryReal],
    ["MemoryVirtual", record.memoryVirtual],
    ["Processors", record.processors],
    ["NodeCount", record.nodeCount],
    ["StartTime", record.startTime],
    ["EndTime", record.endTime],
    ...serviceLevelLines(record.serviceLevel, version),
  ];
}

function lines(record: ApelRecord, version: Layout["version"]): readonly MaybeLine[] {
  switch (record.kind) {
    case "summary":
      return monthlyLines(record, "InfrastructureType", serviceLevelLines(record.serviceLevel, version), []);
    case "normalised":
      return monthlyLines(record, "Infrastructure", [], normalisedLines(record));
    case "individual":
      return individualLines(record, version);
    case "sync":
      return [
        ["Site", record.site],
        ["SubmitHost", record.submitHost],
        ["NumberOfJobs", record.numberOfJobs],
        ["Month", record.month],
        ["Year", record.year],
      ];
  }
}

/** The record's keys and values, in the order in which they are written (design/apel-messages.md). Nothing is judged here. */
export function toFields(record: ApelRecord, layout: Layout): ReadonlyMap<string, string> {
  const present = lines(record, layout.version).filter((line): line is Line => line[1] !== undefined);
  return new Map(present.map(([name, value]): [string, string] => [name, String(value)]));
}
