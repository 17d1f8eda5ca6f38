import { benchmarkDict } from "./benchmark.ts";
import type { Layout } from "./layout.ts";
import { decimalText } from "./numbers.ts";
import type { ApelRecord, IndividualRecord, NormalisedRecord, ServiceLevel, SummaryRecord } from "./records.ts";

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
