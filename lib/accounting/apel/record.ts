import type { MessageFormat, ServiceLevel } from "../model/tenant.ts";
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
export type RecordKind = ApelRecord["kind"];

/** What the value of a field must be. `max` is in characters. */
type FieldType =
  | { readonly type: "text"; readonly max: number }
  | { readonly type: "int32" | "int64" | "time" | "decimal" | "benchmark" | "decimal-dict" | "integer-dict" }
  /** accepted and thrown away by the server */
  | { readonly type: "ignored" };

export type Field = FieldType & { readonly mandatory: boolean };

/** One version of one kind of message: its header line and the keys its records may have. */
export type Layout = {
  readonly kind: RecordKind;
  readonly version: "0.1" | "0.2" | "0.3" | "0.4";
  readonly header: string;
  readonly fields: ReadonlyMap<string, Field>;
};

const text = (max = 255): FieldType => ({ type: "text", max });
const int32: FieldType = { type: "int32" };
const int64: FieldType = { type: "int64" };
const time: FieldType = { type: "time" };
const ignored: FieldType = { type: "ignored" };

function fields(mandatory: Readonly<Record<string, FieldType>>, optional: Readonly<Record<string, FieldType>>) {
  return new Map<string, Field>([
    ...Object.entries(mandatory).map(([name, field]): [string, Field] => [name, { ...field, mandatory: true }]),
    ...Object.entries(optional).map(([name, field]): [string, Field] => [name, { ...field, mandatory: false }]),
  ]);
}

const user = { GlobalUserName: text(), VO: text(), VOGroup: text(), VORole: text(), SubmitHost: text() };

/** APEL: NodeCount and Processors are NOT NULL in the tables of summaries, so they are mandatory whatever the format says. */
const monthly = {
  Site: text(),
  Month: int32,
  Year: int32,
  WallDuration: int64,
  CpuDuration: int64,
  NumberOfJobs: int32,
  NodeCount: int32,
  Processors: int32,
};
const ends = { EarliestEndTime: time, LatestEndTime: time, UpdateTime: ignored };
/** In summaries the description came with APEL 2.5.0. An older server rejects it: gridmeter writes none, people may. */
const infrastructure = { InfrastructureType: text(20), InfrastructureDescription: text(100) };

/** APEL: an individual record's durations and memory pass through signed 32-bit parameters. */
const job = {
  Site: text(),
  LocalJobId: text(),
  WallDuration: int32,
  CpuDuration: int32,
  StartTime: time,
  EndTime: time,
};
const jobExtras = {
  ...user,
  MachineName: text(),
  Queue: text(100),
  LocalUserId: text(),
  FQAN: text(),
  Processors: int32,
  NodeCount: int32,
  ...infrastructure,
  MemoryReal: int32,
  MemoryVirtual: int32,
  SubmitHostType: ignored,
  UpdateTime: ignored,
};

const slType: FieldType = { type: "benchmark" };
const slValue: FieldType = { type: "decimal" };
const slDict: FieldType = { type: "decimal-dict" };
const normalised: FieldType = { type: "integer-dict" };

const SUMMARY_02: Layout = {
  kind: "summary",
  version: "0.2",
  header: "APEL-summary-job-message: v0.2",
  fields: fields(
    { ...monthly, ServiceLevelType: slType, ServiceLevel: slValue },
    { ...user, ...ends, ...infrastructure },
  ),
};
const SUMMARY_04: Layout = {
  kind: "summary",
  version: "0.4",
  header: "APEL-summary-job-message: v0.4",
  fields: fields({ ...monthly, ServiceLevel: slDict }, { ...user, ...ends, ...infrastructure }),
};
const NORMALISED_04: Layout = {
  kind: "normalised",
  version: "0.4",
  header: "APEL-normalised-summary-message: v0.4",
  fields: fields(
    { ...monthly, NormalisedWallDuration: normalised, NormalisedCpuDuration: normalised },
    { ...user, ...ends, Infrastructure: text(20) },
  ),
};
const INDIVIDUAL_03: Layout = {
  kind: "individual",
  version: "0.3",
  header: "APEL-individual-job-message: v0.3",
  fields: fields(job, { ...jobExtras, ServiceLevelType: slType, ServiceLevel: slValue }),
};
/** APEL reads the older headers as v0.3. None is written, but older programs' files hold them. */
const INDIVIDUAL_01: Layout = { ...INDIVIDUAL_03, header: "APEL-individual-job-message: v0.1" };
const INDIVIDUAL_02: Layout = { ...INDIVIDUAL_03, header: "APEL-individual-job-message: v0.2" };
const INDIVIDUAL_04: Layout = {
  kind: "individual",
  version: "0.4",
  header: "APEL-individual-job-message: v0.4",
  fields: fields(job, { ...jobExtras, ServiceLevel: slDict }),
};
const SYNC_01: Layout = {
  kind: "sync",
  version: "0.1",
  header: "APEL-sync-message: v0.1",
  fields: fields({ Site: text(), NumberOfJobs: int32, Month: int32, Year: int32 }, { SubmitHost: text() }),
};

/** Every message that gridmeter writes or passes on. */
export const LAYOUTS: readonly Layout[] = [
  SUMMARY_02,
  SUMMARY_04,
  NORMALISED_04,
  INDIVIDUAL_01,
  INDIVIDUAL_02,
  INDIVIDUAL_03,
  INDIVIDUAL_04,
  SYNC_01,
];

/**
 * The layout in which records of a kind are written under a configured format. A kind that the format is not about
 * (tombstones after a change of format) is written in the version that every server reads.
 */
export function layoutFor(kind: RecordKind, format: MessageFormat): Layout {
  switch (kind) {
    case "summary":
      return format === "summary-0.4" ? SUMMARY_04 : SUMMARY_02;
    case "normalised":
      return NORMALISED_04;
    case "individual":
      return format === "individual-0.4" ? INDIVIDUAL_04 : INDIVIDUAL_03;
    case "sync":
      return SYNC_01;
  }
}

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
