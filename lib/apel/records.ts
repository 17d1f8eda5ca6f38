/** Benchmarks APEL knows. `si2k` is HS06 x 250, and only si2k is divided by 250 by the server. */
export type BenchmarkType = "si2k" | "hepspec" | "hepscore23";

/** `value` has at most 3 decimals (APEL: ServiceLevel is DECIMAL(10,3)). */
export type ServiceLevel = { readonly type: BenchmarkType; readonly value: number };

export type MessageFormat = "summary-0.2" | "summary-0.4" | "normalised-0.4" | "individual-0.3" | "individual-0.4";

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
