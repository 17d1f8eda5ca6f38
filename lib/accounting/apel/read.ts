import { GridmeterError } from "../../shared/errors.ts";
import type { ServiceLevel } from "../model/tenant.ts";
import { monthName, startOf } from "../model/time.ts";
import { readChecked } from "./check.ts";
import type { ApelRecord, IndividualRecord, NormalisedRecord, ParsedRecord, SummaryRecord } from "./record.ts";
import { benchmarkType, decimal, digits, problemText, quote, storedEntry } from "./values.ts";
import { isNull } from "../model/tenant.ts";

/** Typed access to the fields of one record. */
class Reader {
  readonly #record: ParsedRecord;

  constructor(record: ParsedRecord) {
    this.#record = record;
  }

  optional(name: string): string | undefined {
    const value = this.#record.fields.get(name)?.value;
    return isNull(value) ? undefined : value;
  }

  /** The server stores a null text as the word None. */
  text(name: string): string {
    return this.optional(name) ?? "None";
  }

  optionalInteger(name: string): number | undefined {
    const value = this.optional(name);
    return value === undefined ? undefined : this.#exact(name, value, digits(value));
  }

  integer(name: string): number {
    return this.optionalInteger(name) ?? this.#fail(name, "");
  }

  dict(name: string): { type: ServiceLevel["type"]; value: number } {
    const text = this.optional(name) ?? "";
    const entry = storedEntry(text);
    if (entry === undefined) return this.#fail(name, text);
    return { type: entry.type, value: this.#exact(name, entry.value, decimal(entry.value)) };
  }

  serviceLevel(): ServiceLevel | undefined {
    const value = this.optional("ServiceLevel");
    if (value === undefined) return undefined;
    if (this.#record.layout.version === "0.4") return this.dict("ServiceLevel");
    const [type, number] = [benchmarkType(this.text("ServiceLevelType")), decimal(value)];
    if (type === undefined || number === undefined) return this.#fail("ServiceLevel", value);
    return { type, value: number };
  }

  #exact(name: string, text: string, value: bigint | number | undefined): number {
    const number = Number(value);
    return value === undefined || number > Number.MAX_SAFE_INTEGER ? this.#fail(name, text) : number;
  }

  #fail(name: string, value: string): never {
    const line = this.#record.fields.get(name)?.line ?? this.#record.line;
    throw new GridmeterError(
      "message_invalid",
      `line ${line}: ${name} ${quote(value)} cannot be read exactly; nothing was done with the record, correct the message`,
    );
  }
}

function user(read: Reader) {
  const [globalUserName, voGroup, voRole] = ["GlobalUserName", "VOGroup", "VORole"].map((name) => read.optional(name));
  return {
    ...(globalUserName === undefined ? {} : { globalUserName }),
    ...(voGroup === undefined ? {} : { voGroup }),
    ...(voRole === undefined ? {} : { voRole }),
    site: read.text("Site"),
    vo: read.text("VO"),
    submitHost: read.text("SubmitHost"),
  };
}

function monthly(read: Reader) {
  const [year, month] = [read.integer("Year"), read.integer("Month")];
  const start = startOf(monthName(year, month));
  return {
    ...user(read),
    year,
    month,
    wallDuration: read.integer("WallDuration"),
    cpuDuration: read.integer("CpuDuration"),
    numberOfJobs: read.integer("NumberOfJobs"),
    processors: read.integer("Processors"),
    nodeCount: read.integer("NodeCount"),
    earliestEndTime: read.optionalInteger("EarliestEndTime") ?? read.optionalInteger("LatestEndTime") ?? start,
    latestEndTime: read.optionalInteger("LatestEndTime") ?? read.optionalInteger("EarliestEndTime") ?? start,
  };
}

function summary(read: Reader): SummaryRecord {
  const serviceLevel = read.serviceLevel() ?? read.dict("ServiceLevel");
  return { kind: "summary", ...monthly(read), infrastructureType: read.text("InfrastructureType"), serviceLevel };
}

function normalised(read: Reader): NormalisedRecord {
  const [wall, cpu] = [read.dict("NormalisedWallDuration"), read.dict("NormalisedCpuDuration")];
  return {
    kind: "normalised",
    ...monthly(read),
    infrastructureType: read.text("Infrastructure"),
    benchmark: wall.type,
    normalisedWallDuration: wall.value,
    normalisedCpuDuration: cpu.value,
  };
}

function individual(read: Reader): IndividualRecord {
  const [memoryReal, memoryVirtual] = [read.optionalInteger("MemoryReal"), read.optionalInteger("MemoryVirtual")];
  const serviceLevel = read.serviceLevel();
  return {
    kind: "individual",
    ...user(read),
    machineName: read.text("MachineName"),
    localJobId: read.text("LocalJobId"),
    infrastructureType: read.text("InfrastructureType"),
    wallDuration: read.integer("WallDuration"),
    cpuDuration: read.integer("CpuDuration"),
    ...(memoryReal === undefined ? {} : { memoryReal }),
    ...(memoryVirtual === undefined ? {} : { memoryVirtual }),
    processors: read.optionalInteger("Processors") ?? 0,
    nodeCount: read.optionalInteger("NodeCount") ?? 0,
    startTime: read.integer("StartTime"),
    endTime: read.integer("EndTime"),
    ...(serviceLevel === undefined ? {} : { serviceLevel }),
  };
}

/**
 * The typed record of a parsed one that passed the check. Null texts become "None", null Processors and NodeCount of a
 * job 0, as the server stores them; missing first and last ends become each other or the month's start. Fields of no
 * account (Queue, FQAN, LocalUserId, InfrastructureDescription) are left behind.
 * @throws GridmeterError `message_invalid` for a value that cannot be read, or an integer above 2^53
 */
export function fromFields(record: ParsedRecord): ApelRecord {
  const read = new Reader(record);
  switch (record.layout.kind) {
    case "summary":
      return summary(read);
    case "normalised":
      return normalised(read);
    case "individual":
      return individual(read);
    case "sync":
      return {
        kind: "sync",
        site: read.text("Site"),
        submitHost: read.text("SubmitHost"),
        numberOfJobs: read.integer("NumberOfJobs"),
        year: read.integer("Year"),
        month: read.integer("Month"),
      };
  }
}

/**
 * The typed records of a whole message.
 * @param now epoch seconds, for the check
 * @throws GridmeterError `message_invalid` if the message does not pass `checkMessage`
 */
export function readMessage(text: string, now: number): ApelRecord[] {
  const { problems, records } = readChecked(text, now);
  if (problems.length > 0) {
    throw new GridmeterError("message_invalid", `the APEL message was refused, correct it: ${problemText(problems)}`);
  }
  return records.map(fromFields);
}
