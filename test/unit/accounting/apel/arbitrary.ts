import * as fc from "fast-check";
import { endOfMonth, monthName, startOf } from "../../../../lib/accounting/model/time.ts";
import type {
  ApelRecord,
  IndividualRecord,
  NormalisedRecord,
  SummaryRecord,
  SyncRecord,
} from "../../../../lib/accounting/apel/record.ts";
import type { ServiceLevel } from "../../../../lib/accounting/model/tenant.ts";

/** 2027-01-01, after every month generated here. */
export const NOW = Date.UTC(2027, 0, 1) / 1000;

const INT32 = 2 ** 31 - 1;

/** Any printable ASCII that APEL keeps as it is. */
export const text = (maxLength: number): fc.Arbitrary<string> =>
  fc
    .string({
      unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCodePoint(code)),
      minLength: 1,
      maxLength,
    })
    .filter((value) => value === value.trim() && !value.includes("%%") && !/^(none|null|)$/i.test(value));

const int32 = fc.integer({ min: 0, max: INT32 });
const int64 = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
const benchmark = fc.constantFrom("si2k", "hepspec", "hepscore23");

export const serviceLevel: fc.Arbitrary<ServiceLevel> = fc.record({
  type: benchmark,
  value: fc.integer({ min: 0, max: 9_999_999_999 }).map((thousandths) => thousandths / 1000),
});

const user = fc.record(
  {
    globalUserName: text(255),
    voGroup: text(255),
    voRole: text(255),
    vo: text(255),
    submitHost: text(255),
    site: text(255),
  },
  { requiredKeys: ["vo", "submitHost", "site"] },
);

const month = fc.record({ year: fc.integer({ min: 1970, max: 2026 }), month: fc.integer({ min: 1, max: 12 }) });

const monthly = fc
  .tuple(
    user,
    month,
    fc.record({
      infrastructureType: text(20),
      wallDuration: int64,
      cpuDuration: int64,
      numberOfJobs: int32,
      processors: int32,
      nodeCount: int32,
    }),
    fc.double({ min: 0, max: 1, noNaN: true }),
    fc.double({ min: 0, max: 1, noNaN: true }),
  )
  .map(([user, month, usage, a, b]) => {
    const name = monthName(month.year, month.month);
    const [start, end] = [startOf(name), endOfMonth(name)];
    const at = (part: number) => Math.round(start + part * (end - start));
    return { ...user, ...month, ...usage, earliestEndTime: at(Math.min(a, b)), latestEndTime: at(Math.max(a, b)) };
  });

export const summary: fc.Arbitrary<SummaryRecord> = fc
  .tuple(monthly, serviceLevel)
  .map(([usage, serviceLevel]) => ({ kind: "summary", ...usage, serviceLevel }));

export const normalised: fc.Arbitrary<NormalisedRecord> = fc
  .tuple(monthly, fc.record({ benchmark, normalisedWallDuration: int64, normalisedCpuDuration: int64 }))
  .map(([usage, durations]) => ({ kind: "normalised", ...usage, ...durations }));

export const individual: fc.Arbitrary<IndividualRecord> = fc
  .tuple(
    user,
    fc.record(
      {
        machineName: text(255),
        localJobId: text(255),
        infrastructureType: text(20),
        wallDuration: int32,
        cpuDuration: int32,
        memoryReal: int32,
        memoryVirtual: int32,
        processors: int32,
        nodeCount: int32,
        serviceLevel,
      },
      {
        requiredKeys: [
          "machineName",
          "localJobId",
          "infrastructureType",
          "wallDuration",
          "cpuDuration",
          "processors",
          "nodeCount",
        ],
      },
    ),
    fc.integer({ min: 0, max: NOW }),
    fc.integer({ min: 0, max: NOW }),
  )
  .map(([user, job, a, b]) => ({
    kind: "individual",
    ...user,
    ...job,
    startTime: Math.min(a, b),
    endTime: Math.max(a, b),
  }));

export const sync: fc.Arbitrary<SyncRecord> = fc
  .tuple(month, fc.record({ site: text(255), submitHost: text(255), numberOfJobs: int32 }))
  .map(([month, rest]) => ({ kind: "sync", ...month, ...rest }));

export const record: fc.Arbitrary<ApelRecord> = fc.oneof(summary, normalised, individual, sync);

/** A plain valid record of each kind, to change one thing of. */
export const SUMMARY: SummaryRecord = {
  kind: "summary",
  site: "UNI-TEST",
  year: 2026,
  month: 11,
  vo: "atlas",
  submitHost: "k8s.example.org",
  infrastructureType: "grid",
  wallDuration: 7200,
  cpuDuration: 7200,
  numberOfJobs: 3,
  processors: 0,
  nodeCount: 0,
  earliestEndTime: startOf("2026-11") + 10,
  latestEndTime: startOf("2026-11") + 4000,
  serviceLevel: { type: "si2k", value: 2975 },
};
const { kind: _kind, serviceLevel: _level, ...USAGE } = SUMMARY;
export const NORMALISED: NormalisedRecord = {
  kind: "normalised",
  ...USAGE,
  benchmark: "hepscore23",
  normalisedWallDuration: 50,
  normalisedCpuDuration: 40,
};
export const INDIVIDUAL: IndividualRecord = {
  kind: "individual",
  site: "UNI-TEST",
  vo: "atlas",
  submitHost: "k8s.example.org",
  machineName: "job-1-abcde",
  localJobId: "0b5c4f0e-8a4d-4f0e-9d0a-3f3b1f0c2a11",
  infrastructureType: "grid",
  wallDuration: 3600,
  cpuDuration: 3000,
  memoryVirtual: 2_097_152,
  processors: 4,
  nodeCount: 1,
  startTime: startOf("2026-11"),
  endTime: startOf("2026-11") + 3600,
  serviceLevel: { type: "hepscore23", value: 15.3 },
};
export const SYNC: SyncRecord = {
  kind: "sync",
  site: "UNI-TEST",
  submitHost: "k8s.example.org",
  numberOfJobs: 3,
  year: 2026,
  month: 11,
};
