// The fields of each kind and version of message, and what their values must be: APEL's formats as tables.
import type { MessageFormat } from "../model/tenant.ts";

export type RecordKind = "summary" | "normalised" | "individual" | "sync";

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
