import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RunResult, runAccounting } from "../../lib/accounting/run.ts";
import type { Tenant } from "../../lib/accounting/model/tenant.ts";
import { MemoryStore } from "../../lib/accounting/store/store.ts";
import { DAY, dayOf } from "../../lib/accounting/model/time.ts";
import { LEFT_OUT, type LeftOut } from "../../lib/accounting/counting/usage.ts";
import { readMessage } from "../../lib/accounting/apel/read.ts";
import type { ApelRecord, SummaryRecord } from "../../lib/accounting/apel/record.ts";
import { createClient } from "../../lib/accounting/prometheus/client.ts";
import { createMonitoring } from "../../lib/accounting/prometheus/monitoring.ts";
import {
  isAllLeftOut,
  KIND_NAMES,
  kindsCluster,
  MIXED,
  monthStart,
  namespaceOf,
  NONE,
  simulate,
  truth,
  truthOfJobs,
} from "../simulator/index.ts";
import type { Figures, JobTruth, TruthOptions } from "../simulator/index.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { serveSeries } from "../support/serve-series.ts";

const MONTHS = ["2025-01", "2025-02", "2025-03", "2025-04"];
const NAMESPACES = [...KIND_NAMES.map(namespaceOf), MIXED];
const cluster = kindsCluster();
let server: PrometheusServer;

beforeAll(async () => {
  server = await serveSeries(simulate(cluster));
}, 300_000);

afterAll(() => server.stop());

/** A tenant of its own site and submit host, so that every record and sync message is of one namespace. */
function tenant(namespace: string, more: Partial<Tenant> = {}): Tenant {
  return {
    name: namespace,
    selection: { namespace, matchers: [], labelPrefix: "" },
    site: "SITE",
    submitHost: namespace,
    vo: "ops",
    infrastructureType: "grid",
    nodeCount: 0,
    processors: 0,
    model: "core-seconds",
    format: "summary-0.2",
    serviceLevel: { type: "si2k", value: 2500 },
    settle: 6 * 3600,
    ...more,
  };
}

type Run = { readonly result: RunResult; readonly records: ReadonlyMap<string, readonly ApelRecord[]> };

/** One run over the four months against the real Prometheus; the records that stand in its messages by `<submit host> <month>`. */
async function account(tenants: readonly Tenant[]): Promise<Run> {
  const store = new MemoryStore();
  const client = createClient({ url: server.url, timeoutSeconds: 120, concurrency: 2 });
  const result = await runAccounting(
    tenants,
    { store, monitoring: ({ selection }) => createMonitoring(client, selection) },
    {
      now: cluster.to,
      request: { mode: "gap", start: cluster.from, end: cluster.to },
      recount: false,
      force: false,
      allowDecrease: false,
      allowIncomplete: false,
    },
  );
  const records = new Map<string, ApelRecord[]>();
  for (const key of await store.list("outgoing/")) {
    const body = (await store.get(key))?.body ?? "";
    for (const record of readMessage(body, cluster.to)) {
      const month = record.kind === "individual" ? "" : `${record.year}-${String(record.month).padStart(2, "0")}`;
      const held = records.get(`${record.submitHost} ${month}`) ?? [];
      records.set(`${record.submitHost} ${month}`, [...held, record]);
    }
  }
  return { result, records };
}

function summaries(run: Run, namespace: string, month: string): readonly SummaryRecord[] {
  const all = run.records.get(`${namespace} ${month}`) ?? [];
  return all
    .filter((record) => record.kind === "summary")
    .toSorted((a, b) => a.processors - b.processors || (a.vo < b.vo ? -1 : 1));
}

function synced(run: Run, namespace: string, month: string): readonly number[] {
  const all = run.records.get(`${namespace} ${month}`) ?? [];
  return all.filter((record) => record.kind === "sync").map((record) => record.numberOfJobs);
}

/** What APEL must get of core-seconds figures: no summary of a month without jobs (the sync record says 0). */
function coreSeconds(figures: Figures, vo: string): object[] {
  if (figures.jobs === 0) return [];
  const seconds = Math.round(figures.milliCoreSeconds / 1000);
  return [
    {
      vo,
      numberOfJobs: figures.jobs,
      wallDuration: seconds,
      cpuDuration: seconds,
      processors: 0,
      earliestEndTime: figures.firstEnd,
      latestEndTime: figures.lastEnd,
    },
  ];
}

const figuresOf = (namespace: string, month: string, options?: TruthOptions): Figures =>
  truth(cluster, month, options).get(namespace) ?? NONE;

/** Whether pods of a whole month succeeded and none of them counts: that is refused (accounting-rules: A month of 7 settled days). */
function areAllLeftOut(namespace: string, month: string): boolean {
  return monthStart(month, 1) <= cluster.to && isAllLeftOut(figuresOf(namespace, month));
}

/** What must be left out on a day, of pods without an end those that were last seen on it. */
function leftOutOn(namespace: string, day: string): Record<LeftOut, number> {
  const counts = { no_cpu_request: 0, negative_duration: 0, no_start: 0, not_finished: 0, no_end: 0 };
  for (const { verdict, end, lastSeen } of truthOfJobs(cluster, { where: (job) => job.namespace === namespace })) {
    if (dayOf(end ?? lastSeen ?? 0) !== day) continue;
    if (verdict === "no_end:evicted" || verdict === "no_end:deleted") counts.no_end += 1;
    const reason = LEFT_OUT.find((one) => one === verdict);
    if (reason !== undefined) counts[reason] += 1;
  }
  return counts;
}

/** The rows of the wallclock model, worked out job by job: one per Processors. */
function wallclock(namespace: string, month: string): object[] {
  const byProcessors = new Map<number, JobTruth[]>();
  for (const one of truthOfJobs(cluster, { where: (job) => job.namespace === namespace })) {
    const { verdict, end = 0, milliCores = 0 } = one;
    if (verdict !== "counted" || end < monthStart(month) || end >= monthStart(month, 1)) continue;
    const processors = Math.max(1, Math.ceil(milliCores / 1000));
    byProcessors.set(processors, [...(byProcessors.get(processors) ?? []), one]);
  }
  const sum = (jobs: readonly JobTruth[], value: (one: JobTruth) => number): number =>
    jobs.reduce((total, one) => total + value(one), 0);
  return [...byProcessors]
    .sort(([a], [b]) => a - b)
    .map(([processors, jobs]) => ({
      vo: "ops",
      numberOfJobs: jobs.length,
      wallDuration: Math.round(
        sum(jobs, ({ start = 0, end = 0, milliCores = 0 }) => (end - start) * milliCores) / processors / 1000,
      ),
      cpuDuration: Math.round(sum(jobs, ({ cpuMs = 0 }) => cpuMs) / 1000),
      processors,
      earliestEndTime: Math.min(...jobs.map(({ end = 0 }) => end)),
      latestEndTime: Math.max(...jobs.map(({ end = 0 }) => end)),
    }));
}

describe("core-seconds, summary records", () => {
  let run: Run;
  beforeAll(async () => {
    run = await account(NAMESPACES.map((namespace) => tenant(namespace)));
  }, 300_000);

  test.each(NAMESPACES)("%s: jobs, durations, first and last end and the sync record are exact", (namespace) => {
    for (const month of MONTHS) {
      const figures = figuresOf(namespace, month);
      const expected = coreSeconds(figures, "ops");
      const records = summaries(run, namespace, month);
      expect({ month, records }).toEqual({ month, records: expected.map((one) => expect.objectContaining(one)) });
      expect(synced(run, namespace, month)).toEqual(areAllLeftOut(namespace, month) ? [] : [figures.jobs]);
    }
  });

  test("a month of which every pod that succeeded is left out is refused, and only such a one", () => {
    const refused = run.result.months.flatMap(({ period, units }) =>
      units.filter(({ error }) => error !== undefined).map(({ unit, error }) => ({ month: period.month, unit, error })),
    );
    expect(refused.map(({ month, unit }) => `${unit.submitHost} ${month}`).sort()).toEqual(
      MONTHS.flatMap((month) =>
        NAMESPACES.filter((namespace) => areAllLeftOut(namespace, month)).map((name) => `${name} ${month}`),
      ).sort(),
    );
    expect(refused).toHaveLength(9);
    for (const { error } of refused) expect(error).toMatchObject({ code: "all_left_out", exit: 3 });
  });

  test.each(NAMESPACES)("%s: what is left out is counted by reason", (namespace) => {
    for (const { period, counted } of run.result.months) {
      const held = counted.find((one) => one.tenant.name === namespace);
      const days: string[] = [];
      for (let day = period.from; day < period.to; day += DAY) days.push(dayOf(day));
      expect(held?.days.map(({ day }) => day)).toEqual(days);
      for (const day of days) {
        const found = held?.days.find((one) => one.day === day)?.leftOut;
        expect({ day, leftOut: found }).toEqual({ day, leftOut: leftOutOn(namespace, day) });
      }
    }
  });

  test("some pods are left out for each reason", () => {
    const all = run.result.months.flatMap(({ counted }) => counted.flatMap(({ days }) => days));
    for (const reason of LEFT_OUT) expect(all.some((day) => day.leftOut[reason] > 0)).toBe(true);
  });

  test("every job that counted is in one month only", () => {
    const published = MONTHS.flatMap((month) => summaries(run, MIXED, month)).reduce(
      (sum, record) => sum + record.numberOfJobs,
      0,
    );
    const counted = truthOfJobs(cluster, { where: (job) => job.namespace === MIXED }).filter(
      (one) => one.verdict === "counted",
    );
    expect(published).toBe(counted.length);
    expect(published).toBeGreaterThan(100);
  });
});

describe("wallclock, with the CPU time that cAdvisor measured", () => {
  let run: Run;
  beforeAll(async () => {
    run = await account(NAMESPACES.map((namespace) => tenant(namespace, { model: "wallclock" })));
  }, 300_000);

  test.each(NAMESPACES)("%s: one exact row per Processors, or refused where the CPU time is unknown", (namespace) => {
    for (const month of MONTHS) {
      const { milliCoreSecondsWithoutCpu, milliCoreSeconds, jobs } = figuresOf(namespace, month);
      const refused = milliCoreSecondsWithoutCpu > milliCoreSeconds * 0.1;
      const expected = refused ? [] : wallclock(namespace, month);
      const records = summaries(run, namespace, month);
      expect({ month, records }).toEqual({ month, records: expected.map((one) => expect.objectContaining(one)) });
      const code = refused ? "cpu_data_refused" : areAllLeftOut(namespace, month) ? "all_left_out" : undefined;
      expect(synced(run, namespace, month)).toEqual(code === undefined ? [jobs] : []);
      const unit = run.result.months
        .find((one) => one.period.month === month)
        ?.units.find((one) => one.unit.submitHost === namespace);
      expect(unit?.error).toEqual(code === undefined ? undefined : expect.objectContaining({ code, exit: 3 }));
    }
  });

  test("the kind without CPU data is refused in every month that has its jobs", () => {
    const refused = run.result.months.filter((month) =>
      month.units.some((unit) => unit.unit.submitHost === namespaceOf("no-cpu-data") && unit.status === "refused"),
    );
    expect(refused.map((month) => month.period.month)).toEqual(MONTHS);
  });
});

test("DEFAULT_CORES: pods without a CPU request count with it", async () => {
  const defaultMilliCores = 1500;
  const namespaces = [namespaceOf("no-cpu-request"), namespaceOf("plain"), MIXED];
  const run = await account(namespaces.map((namespace) => tenant(namespace, { defaultMilliCores })));
  for (const namespace of namespaces) {
    for (const month of MONTHS) {
      const expected = coreSeconds(figuresOf(namespace, month, { defaultMilliCores }), "ops");
      expect(summaries(run, namespace, month)).toEqual(expected.map((one) => expect.objectContaining(one)));
    }
  }
  expect(figuresOf(namespaceOf("no-cpu-request"), "2025-01", { defaultMilliCores }).jobs).toBeGreaterThan(0);
}, 120_000);

test("a VO label splits one namespace, and pods without it are the tenant's own VO", async () => {
  const voLabel = "label_example_org_vo";
  const run = await account([
    tenant(MIXED, { selection: { namespace: MIXED, matchers: [], labelPrefix: "", voLabel } }),
  ]);
  for (const month of MONTHS) {
    const expected = ["atlas", "cms", "ops"].flatMap((vo) => {
      const where: TruthOptions["where"] = (job) => (job.labels["example.org/vo"] ?? "ops") === vo;
      return coreSeconds(figuresOf(MIXED, month, { where }), vo);
    });
    expect(expected).toHaveLength(3);
    expect(summaries(run, MIXED, month)).toEqual(expected.map((one) => expect.objectContaining(one)));
    expect(synced(run, MIXED, month)).toEqual([figuresOf(MIXED, month).jobs]);
  }
}, 120_000);
