// The real command line over the real Prometheus into a queue that the real python-dirq reads, against a simulator that
// knows the truth. The counting itself, kind by kind and month by month, is tested at the library in right-values.test.ts.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ApelRecord, IndividualRecord } from "../../lib/accounting/apel/record.ts";
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
import { fromSource, gap, resultOf, leastSettings, recordsIn, runCli } from "../support/run-cli.ts";
import type { AccountResult, CliRun } from "../support/run-cli.ts";
import { serveSeries } from "../support/serve-series.ts";
import { scratchDirectory } from "../support/store-script.ts";

const MONTHS = ["2025-01", "2025-02", "2025-03"];
const NAMESPACES = [...KIND_NAMES.map(namespaceOf), MIXED];
// Two minutes between scrapes halve the import.
const cluster = kindsCluster({ scrapeInterval: 120 });
let server: PrometheusServer;
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;

beforeAll(async () => {
  scratch = await scratchDirectory();
  server = await serveSeries(simulate(cluster));
}, 300_000);

afterAll(async () => {
  await server.stop();
  await scratch.remove();
});

type Accounted = CliRun & { readonly result: AccountResult; readonly records: readonly ApelRecord[] };

/** `gridmeter account --mode gap` over the three months, as a child process, and what it put into the queue. */
async function account(name: string, env: Readonly<Record<string, string>>, ...more: string[]): Promise<Accounted> {
  const cwd = join(scratch.path, name);
  await mkdir(cwd, { recursive: true });
  const run = await runCli(["account", ...gap("2025-01", "2025-04"), "--json", ...more], {
    cwd,
    env: leastSettings(server.url, env),
    program: fromSource,
  });
  const records = await recordsIn(join(cwd, "gridmeter-data/outgoing"), Date.now() / 1000);
  return { ...run, result: resultOf(run), records };
}

/** The same with a tenants file: a tenant for every namespace, each with a submit host of its own. */
async function accountAll(name: string, namespaces: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const file = join(scratch.path, `${name}.json`);
  const tenants = namespaces.map((NAMESPACE) => ({ name: NAMESPACE, NAMESPACE, SUBMIT_HOST: `host/${NAMESPACE}` }));
  await writeFile(file, JSON.stringify({ tenants }));
  return account(name, { TENANTS_FILE: file, ...env });
}

const figuresOf = (namespace: string, month: string, options?: TruthOptions): Figures =>
  truth(cluster, month, options).get(namespace) ?? NONE;

/** The jobs that count in a month. */
function jobsOf(namespace: string, month: string, options: TruthOptions = {}): Required<JobTruth>[] {
  return truthOfJobs(cluster, options).filter((one): one is Required<JobTruth> => {
    const { job, verdict, end = 0 } = one;
    return (
      job.namespace === namespace && verdict === "counted" && end >= monthStart(month) && end < monthStart(month, 1)
    );
  });
}

/** Pods that were evicted or deleted before their end was scraped, of those last seen in the month. */
function withoutEnd(namespace: string, month: string): number {
  return truthOfJobs(cluster, { where: (job) => job.namespace === namespace }).filter(
    ({ verdict, lastSeen = 0 }) =>
      (verdict === "no_end:evicted" || verdict === "no_end:deleted") &&
      lastSeen >= monthStart(month) &&
      lastSeen < monthStart(month, 1),
  ).length;
}

const sum = <T>(items: readonly T[], value: (item: T) => number): number =>
  items.reduce((total, item) => total + value(item), 0);

/** The records of a submit host and month, without what all of them share. */
function published(records: readonly ApelRecord[], kind: ApelRecord["kind"], host: string, month: string): object[] {
  const [year, number] = month.split("-").map(Number);
  return records
    .filter((record) => record.kind === kind && record.submitHost === host)
    .filter((record) => record.kind !== "individual" && record.year === year && record.month === number)
    .map(({ kind: _kind, submitHost: _host, ...rest }) => rest);
}

const about = (month: string) => {
  const [year, number] = month.split("-").map(Number);
  return { site: "EXAMPLE-SITE", year, month: number };
};
const usage = { vo: "example.vo", infrastructureType: "grid", processors: 0, nodeCount: 0 };

/** The summary that core-seconds figures must become; none of a month without jobs. */
function summariesOf(figures: Figures, month: string): object[] {
  const { jobs, milliCoreSeconds, firstEnd, lastEnd } = figures;
  if (jobs === 0) return [];
  const seconds = Math.round(milliCoreSeconds / 1000);
  return [
    {
      ...about(month),
      ...usage,
      serviceLevel: { type: "si2k", value: 2500 },
      numberOfJobs: jobs,
      wallDuration: seconds,
      cpuDuration: seconds,
      earliestEndTime: firstEnd,
      latestEndTime: lastEnd,
    },
  ];
}

describe("every kind of job as a tenant of its own, and all of them mixed", () => {
  let all: Accounted;
  beforeAll(async () => {
    all = await accountAll("all", NAMESPACES);
  }, 240_000);

  test("the run is done, and all that it says is on stderr", () => {
    const refused = MONTHS.flatMap((month) =>
      NAMESPACES.filter((namespace) => isAllLeftOut(figuresOf(namespace, month))),
    );
    expect(refused).toHaveLength(9);
    const codes = all.result.months.flatMap(({ units }) => units.flatMap(({ error }) => error?.code ?? []));
    expect(codes).toEqual(refused.map(() => "all_left_out"));
    expect(all).toMatchObject({ code: 3, signal: null });
    const lines = all.stderr.split("\n").filter((line) => line.includes("mixed: monitoring was not seen"));
    // One line a month, of an outage over midnight as one stretch.
    expect(lines.map((line) => line.replace(/^.* (?=mixed)/, ""))).toEqual([
      "mixed: monitoring was not seen in 2025-01 from 2025-01-05 00:00 to 2025-01-05 00:50 UTC (0.8 h); jobs that were deleted meanwhile are missing.",
      "mixed: monitoring was not seen in 2025-02 from 2025-02-28 21:00 to 2025-03-01 00:00 UTC (3 h); jobs that were deleted meanwhile are missing.",
      "mixed: monitoring was not seen in 2025-03 from 2025-03-01 00:00 to 2025-03-01 02:00 UTC (2 h); jobs that were deleted meanwhile are missing.",
    ]);
  });

  test.each(NAMESPACES)("%s: one exact summary and sync record a month in the queue", (namespace) => {
    for (const month of MONTHS) {
      const figures = figuresOf(namespace, month);
      const host = `host/${namespace}`;
      expect(published(all.records, "summary", host, month)).toEqual(summariesOf(figures, month));
      const sync = isAllLeftOut(figures) ? [] : [{ ...about(month), numberOfJobs: figures.jobs }];
      expect(published(all.records, "sync", host, month)).toEqual(sync);
    }
  });

  test.each(NAMESPACES)("%s: --json has the figures, and what was left out by reason", (namespace) => {
    for (const { month, tenants, units } of all.result.months) {
      const figures = figuresOf(namespace, month);
      expect(tenants.find(({ tenant }) => tenant === namespace)).toMatchObject({
        jobs: figures.jobs,
        coreHours: figures.milliCoreSeconds / 3_600_000,
        wallHours: figures.wallSeconds / 3600,
        firstEnd: figures.firstEnd ?? null,
        lastEnd: figures.lastEnd ?? null,
        leftOut: { ...figures.leftOut, no_end: withoutEnd(namespace, month) },
        error: isAllLeftOut(figures) ? expect.objectContaining({ code: "all_left_out" }) : null,
      });
      expect(units.find(({ tenants: of }) => of.includes(namespace))).toMatchObject(
        isAllLeftOut(figures) ? { status: "refused" } : { status: "published", why: "new" },
      );
    }
  });

  test("the kinds are not all empty", () => {
    expect(sum(MONTHS, (month) => figuresOf(MIXED, month).jobs)).toBeGreaterThan(100);
    expect(figuresOf(MIXED, "2025-02").leftOut).toMatchObject({ no_cpu_request: 2, negative_duration: 1, no_start: 1 });
    expect(withoutEnd(MIXED, "2025-02")).toBeGreaterThan(0);
  });
});

test("one tenant by KAPEL's environment variables alone: the same messages", async () => {
  const env = { PUBLISHING_MODE: "gap", QUERY_START: "2025-01-10 00:00:00+00:00", QUERY_END: "2025-03-02T00:00:00Z" };
  const cwd = join(scratch.path, "kapel");
  await mkdir(cwd);
  const run = await runCli(["account"], {
    cwd,
    env: leastSettings(server.url, { ...env, OUTPUT_PATH: "./kapel-queue", BENCHMARK_TYPE: "hepspec", NODECOUNT: "7" }),
  });
  expect(run.code).toBe(0);
  // Gap mode widens to whole months.
  expect(run.stdout.match(/2025-\d\d(?= │)/g)).toEqual(MONTHS);
  const records = await recordsIn(join(cwd, "kapel-queue"), Date.now() / 1000);
  for (const month of MONTHS) {
    const figures = figuresOf(MIXED, month);
    expect(published(records, "summary", "k8s.example.org:6443/mixed", month)).toEqual(
      summariesOf(figures, month).map((one) => ({
        ...one,
        nodeCount: 7,
        serviceLevel: { type: "hepspec", value: 10 },
      })),
    );
    expect(run.stdout).toContain(`│ ${month} │ mixed  │ ${figures.jobs} `);
  }
  expect(records).toHaveLength(6);
});

test("tenants of one submit host are added up per APEL key, and share one sync record", async () => {
  const file = join(scratch.path, "shared.yaml");
  const kinds = [namespaceOf("plain"), namespaceOf("millicores"), namespaceOf("failed")] as const;
  const lines = kinds.map(
    (name, index) => `  - {name: ${name}, NAMESPACE: ${name}, VO_NAME: ${index < 2 ? "a" : "b"}}`,
  );
  await writeFile(file, `tenants:\n${lines.join("\n")}\n`);
  const { code, records } = await account("shared", { TENANTS_FILE: file, SUBMIT_HOST: "one" });
  expect(code).toBe(0);
  for (const month of MONTHS) {
    const [plain, millicores, failed] = kinds.map((name) => figuresOf(name, month));
    const seconds = Math.round((plain!.milliCoreSeconds + millicores!.milliCoreSeconds) / 1000);
    expect(published(records, "summary", "one", month)).toMatchObject([
      { vo: "a", numberOfJobs: plain!.jobs + millicores!.jobs, wallDuration: seconds, cpuDuration: seconds },
      { vo: "b", numberOfJobs: failed!.jobs, wallDuration: Math.round(failed!.milliCoreSeconds / 1000) },
    ]);
    const jobs = plain!.jobs + millicores!.jobs + failed!.jobs;
    expect(published(records, "sync", "one", month)).toEqual([{ ...about(month), numberOfJobs: jobs }]);
  }
}, 60_000);

test("DEFAULT_CORES counts the pods without a CPU request with it", async () => {
  const { code, records, result } = await account("default-cores", { DEFAULT_CORES: "0.5" });
  expect(code).toBe(0);
  for (const [index, month] of MONTHS.entries()) {
    const figures = figuresOf(MIXED, month, { defaultMilliCores: 500 });
    expect(figures.jobs).toBe(figuresOf(MIXED, month).jobs + 2);
    expect(published(records, "summary", "k8s.example.org:6443/mixed", month)).toEqual(summariesOf(figures, month));
    expect(result.months[index]?.tenants[0]?.leftOut.no_cpu_request).toBe(0);
  }
}, 60_000);

test("wallclock: a record per Processors with the CPU time that cAdvisor measured (summary-0.4)", async () => {
  const namespaces = [
    MIXED,
    ...(["millicores", "restarted", "native-sidecar", "no-cpu-data"] as const).map(namespaceOf),
  ];
  const env = { ACCOUNTING_MODEL: "wallclock", MESSAGE_FORMAT: "summary-0.4", BENCHMARK_TYPE: "hepscore23" };
  const { code, records, result, stderr } = await accountAll("wallclock", namespaces, env);
  for (const namespace of namespaces.slice(0, -1)) {
    for (const month of MONTHS) {
      const all = jobsOf(namespace, month).map((job) => ({
        job,
        cores: Math.max(1, Math.ceil(job.milliCores / 1000)),
      }));
      const expected = [...new Set(all.map(({ cores }) => cores))].map((processors) => {
        const jobs = all.filter(({ cores }) => cores === processors).map(({ job }) => job);
        return {
          ...about(month),
          ...usage,
          processors,
          serviceLevel: { type: "hepscore23", value: 10 },
          numberOfJobs: jobs.length,
          wallDuration: Math.round(
            sum(jobs, ({ start, end, milliCores }) => (end - start) * milliCores) / processors / 1000,
          ),
          cpuDuration: Math.round(sum(jobs, ({ cpuMs }) => cpuMs ?? 0) / 1000),
          earliestEndTime: Math.min(...jobs.map(({ end }) => end)),
          latestEndTime: Math.max(...jobs.map(({ end }) => end)),
        };
      });
      const found = published(records, "summary", `host/${namespace}`, month);
      expect(found).toHaveLength(expected.length);
      expect(found).toEqual(expect.arrayContaining(expected));
      expect(published(records, "sync", `host/${namespace}`, month)).toEqual([
        { ...about(month), numberOfJobs: figuresOf(namespace, month).jobs },
      ]);
    }
  }
  // The kind without CPU data is refused and named; nothing of it is in the queue.
  expect(code).toBe(3);
  const refused = result.months.flatMap(({ units }) => units.filter(({ status }) => status !== "published"));
  expect(refused.map(({ submitHost, error }) => [submitHost, error?.code])).toEqual(
    MONTHS.map(() => ["host/kind-no-cpu-data", "cpu_data_refused"]),
  );
  expect(records.filter(({ submitHost }) => submitHost === "host/kind-no-cpu-data")).toEqual([]);
  expect(stderr).toContain("ACCOUNTING_MODEL=core-seconds");
}, 60_000);

test("normalised-0.4: durations multiplied by the benchmark, no service level", async () => {
  const env = { MESSAGE_FORMAT: "normalised-0.4", BENCHMARK_TYPE: "hepscore23", BENCHMARK_VALUE: "11.9" };
  const { code, records } = await account("normalised", env);
  expect(code).toBe(0);
  for (const month of MONTHS) {
    const { jobs, milliCoreSeconds, firstEnd, lastEnd } = figuresOf(MIXED, month);
    const seconds = Math.round(milliCoreSeconds / 1000);
    const normalised = Math.round((milliCoreSeconds * 11.9) / 1000);
    expect(published(records, "normalised", "k8s.example.org:6443/mixed", month)).toEqual([
      {
        ...about(month),
        ...usage,
        benchmark: "hepscore23",
        numberOfJobs: jobs,
        wallDuration: seconds,
        cpuDuration: seconds,
        normalisedWallDuration: normalised,
        normalisedCpuDuration: normalised,
        earliestEndTime: firstEnd,
        latestEndTime: lastEnd,
      },
    ]);
  }
  expect(records.filter(({ kind }) => kind !== "normalised")).toHaveLength(3);
}, 60_000);

describe.each(["individual-0.3", "individual-0.4"])("%s", (format) => {
  test("a record for each job that counts, keyed by its uid, and the sync record", async () => {
    const env = { MESSAGE_FORMAT: format, ACCOUNTING_MODEL: "core-seconds", PROCESSORS: "2" };
    const { code, records } = await account(format, env);
    expect(code).toBe(0);
    // KAPEL: in individual mode PROCESSORS stands in for a missing CPU request.
    const jobs = MONTHS.flatMap((month) => jobsOf(MIXED, month, { defaultMilliCores: 2000 }));
    const singles = records.filter((record): record is IndividualRecord => record.kind === "individual");
    const expected = jobs.map(({ job, start, end, milliCores, memoryRequest }) => {
      const seconds = Math.round(((end - start) * milliCores) / 1000);
      return {
        localJobId: job.uid,
        machineName: job.pod,
        startTime: start,
        endTime: end,
        wallDuration: seconds,
        cpuDuration: seconds,
        processors: 2,
        vo: "example.vo",
        serviceLevel: { type: "si2k", value: 2500 },
        ...(memoryRequest === undefined ? {} : { memoryVirtual: Math.ceil(memoryRequest / 1024) }),
      };
    });
    const byId = (a: { localJobId: string }, b: { localJobId: string }) => (a.localJobId < b.localJobId ? -1 : 1);
    expect(singles).toHaveLength(jobs.length);
    expect(singles.toSorted(byId)).toMatchObject(expected.toSorted(byId));
    for (const month of MONTHS) {
      const { jobs: count } = figuresOf(MIXED, month, { defaultMilliCores: 2000 });
      expect(published(records, "sync", "k8s.example.org:6443/mixed", month)).toEqual([
        { ...about(month), numberOfJobs: count },
      ]);
    }
  }, 60_000);

  test("each day is published once: a second run sends nothing", async () => {
    const env = { MESSAGE_FORMAT: format, ACCOUNTING_MODEL: "core-seconds", PROCESSORS: "2" };
    const before = await recordsIn(join(scratch.path, format, "gridmeter-data/outgoing"), Date.now() / 1000);
    const { code, records, result } = await account(format, env);
    expect(code).toBe(0);
    expect(result.months.flatMap(({ units }) => units.map(({ status }) => status))).toEqual(
      MONTHS.map(() => "unchanged"),
    );
    expect(records).toEqual(before);
  }, 60_000);
});

test("SUMMARIZE_RECORDS=False: KAPEL's single jobs with their plain wall clock", async () => {
  const { records } = await account("kapel-single", {
    SUMMARIZE_RECORDS: "False",
    NAMESPACE: namespaceOf("moved-node"),
  });
  const singles = records.filter((record) => record.kind === "individual");
  const jobs = MONTHS.flatMap((month) => jobsOf(namespaceOf("moved-node"), month));
  expect(new Map(singles.map(({ localJobId, wallDuration }) => [localJobId, wallDuration]))).toEqual(
    new Map(jobs.map(({ job, start, end }) => [job.uid, end - start])),
  );
  expect(jobs.length).toBeGreaterThan(5);
}, 60_000);
