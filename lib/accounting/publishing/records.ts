import { GridmeterError } from "../../shared/errors.ts";
import { apelKey } from "../apel/replace-keys.ts";
import type { NormalisedRecord, SummaryRecord } from "../apel/record.ts";
import type { UsageGroup } from "../counting/usage.ts";
import { type Tenant, type Unit, isIndividual, voOf } from "../model/tenant.ts";
import { yearAndMonth } from "../model/time.ts";

/** A row of one of APEL's two monthly tables. */
export type MonthlyRecord = SummaryRecord | NormalisedRecord;

/** A tenant's groups of one month. */
export type Contribution = { readonly tenant: Tenant; readonly groups: readonly UsageGroup[] };

/** Sums of one APEL key, still integers: rounding happens once, when the record is written. */
type Sum = {
  readonly tenant: Tenant;
  readonly vo: string;
  readonly processors: number;
  jobs: number;
  /** milli-core-seconds of tenants whose durations count cores already (core-seconds) */
  coreSeconds: number;
  /** milli-core-seconds of tenants whose durations APEL multiplies by Processors (wallclock) */
  wallclock: number;
  cpuMilliseconds: number;
  firstEnd: number;
  lastEnd: number;
};

/** Processors of a wallclock record: one record per max(1, ceil(cores)). */
function processorsOf(tenant: Tenant, milliCores: number): number {
  return tenant.model === "wallclock" ? Math.max(1, Math.ceil(milliCores / 1000)) : tenant.processors;
}

function keyOf(tenant: Tenant, vo: string, processors: number): string {
  const { infrastructureType, nodeCount, serviceLevel, format } = tenant;
  // Rows of two benchmark values must be multiplied before they are added, even where APEL's key does not distinguish them.
  return JSON.stringify([
    vo,
    infrastructureType,
    nodeCount,
    processors,
    serviceLevel?.type,
    serviceLevel?.value,
    format === "normalised-0.4",
  ]);
}

function addUp(contributions: readonly Contribution[]): readonly Sum[] {
  const sums = new Map<string, Sum>();
  for (const { tenant, groups } of contributions) {
    for (const group of groups) {
      const vo = voOf(group.vo, tenant);
      const processors = processorsOf(tenant, group.milliCores);
      const key = keyOf(tenant, vo, processors);
      const sum = sums.get(key) ?? {
        tenant,
        vo,
        processors,
        jobs: 0,
        coreSeconds: 0,
        wallclock: 0,
        cpuMilliseconds: 0,
        firstEnd: Infinity,
        lastEnd: 0,
      };
      sum.jobs += group.jobs;
      if (tenant.model === "wallclock") {
        sum.wallclock += group.milliCoreSeconds;
        sum.cpuMilliseconds += group.cpu?.milliseconds ?? 0;
      } else {
        sum.coreSeconds += group.milliCoreSeconds;
        sum.cpuMilliseconds += group.milliCoreSeconds;
      }
      sum.firstEnd = Math.min(sum.firstEnd, group.firstEnd);
      sum.lastEnd = Math.max(sum.lastEnd, group.lastEnd);
      sums.set(key, sum);
    }
  }
  return [...sums.values()];
}

/** Exact milliseconds of a record's WallDuration; wallclock is divided so that WallDuration x Processors = core-seconds. */
const wallMilliseconds = (sum: Sum): number => sum.coreSeconds + sum.wallclock / Math.max(1, sum.processors);

function common(unit: Unit, sum: Sum): Omit<SummaryRecord, "kind" | "serviceLevel"> {
  return {
    site: unit.site,
    submitHost: unit.submitHost,
    ...yearAndMonth(unit.month),
    vo: sum.vo,
    infrastructureType: sum.tenant.infrastructureType,
    wallDuration: Math.round(wallMilliseconds(sum) / 1000),
    cpuDuration: Math.round(sum.cpuMilliseconds / 1000),
    numberOfJobs: sum.jobs,
    processors: sum.processors,
    nodeCount: sum.tenant.nodeCount,
    earliestEndTime: sum.firstEnd,
    latestEndTime: sum.lastEnd,
  };
}

function serviceLevelOf(tenant: Tenant): NonNullable<Tenant["serviceLevel"]> {
  if (tenant.serviceLevel !== undefined) return tenant.serviceLevel;
  throw new GridmeterError(
    "config_invalid",
    `${tenant.name}: a ${tenant.format} record needs a service level. Nothing was published. Set BENCHMARK_VALUE.`,
  );
}

type NormalisedSums = {
  readonly plain: Sum;
  readonly record: NormalisedRecord;
  readonly wall: number;
  readonly cpu: number;
};

/** Rows of APEL's NormalisedSummaries: sums multiplied by each tenant's benchmark, added up per key, rounded once. */
function normalised(unit: Unit, sums: readonly Sum[]): readonly NormalisedRecord[] {
  const rows = new Map<string, NormalisedSums>();
  for (const sum of sums) {
    const { type, value } = serviceLevelOf(sum.tenant);
    const row = (plain: Sum): NormalisedRecord => ({
      ...common(unit, plain),
      kind: "normalised",
      benchmark: type,
      normalisedWallDuration: 0,
      normalisedCpuDuration: 0,
    });
    const key = apelKey(row(sum));
    const held = rows.get(key);
    const plain = held === undefined ? sum : addSums(held.plain, sum);
    const wall = (wallMilliseconds(sum) * value) / 1000 + (held?.wall ?? 0);
    const cpu = (sum.cpuMilliseconds * value) / 1000 + (held?.cpu ?? 0);
    rows.set(key, { plain, record: row(plain), wall, cpu });
  }
  return [...rows.values()].map(({ record, wall, cpu }) => ({
    ...record,
    normalisedWallDuration: Math.round(wall),
    normalisedCpuDuration: Math.round(cpu),
  }));
}

/** Rows of APEL's Summaries: sums added up per key, rounded once. APEL would keep only the last of two rows of one key. */
function summaries(unit: Unit, sums: readonly Sum[]): readonly SummaryRecord[] {
  const row = (sum: Sum): SummaryRecord => ({
    ...common(unit, sum),
    kind: "summary",
    serviceLevel: serviceLevelOf(sum.tenant),
  });
  const rows = new Map<string, Sum>();
  for (const sum of sums) {
    const key = apelKey(row(sum));
    const held = rows.get(key);
    rows.set(key, held === undefined ? sum : addSums(held, sum));
  }
  return [...rows.values()].map(row);
}

/** Two sums of one APEL key. */
function addSums(a: Sum, b: Sum): Sum {
  return {
    ...a,
    jobs: a.jobs + b.jobs,
    coreSeconds: a.coreSeconds + b.coreSeconds,
    wallclock: a.wallclock + b.wallclock,
    cpuMilliseconds: a.cpuMilliseconds + b.cpuMilliseconds,
    firstEnd: Math.min(a.firstEnd, b.firstEnd),
    lastEnd: Math.max(a.lastEnd, b.lastEnd),
  };
}

/**
 * The monthly records of a unit: the tenants' usage added up per APEL key (accounting-rules: keys and the sync record span
 * tenants), integers until here, rounded once. Tenants with an individual format contribute none.
 * @throws config_invalid if a benchmark is missing
 */
export function monthlyRecords(unit: Unit, contributions: readonly Contribution[]): readonly MonthlyRecord[] {
  const sums = addUp(contributions.filter(({ tenant }) => !isIndividual(tenant)));
  const asNormalised = sums.filter((sum) => sum.tenant.format === "normalised-0.4");
  const asSummary = sums.filter((sum) => sum.tenant.format !== "normalised-0.4");
  return [...summaries(unit, asSummary), ...normalised(unit, asNormalised)];
}
