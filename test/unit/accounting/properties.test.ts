import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { MessageFormat, ServiceLevel, Tenant } from "../../../lib/accounting/model/tenant.ts";
import { unitOf } from "../../../lib/accounting/apel/record.ts";
import type { RunResult } from "../../../lib/accounting/run.ts";
import { monthOf } from "../../../lib/accounting/model/time.ts";
import { arbitraryCluster, MIXED, NONE, Random, truth, truthOfJobs } from "../../simulator/index.ts";
import type { Cluster } from "../../simulator/index.ts";
import type { Totals } from "../../support/apel-table.ts";
import { at, countedIn, cpuOf, DAY, figures, HOUR, outcomes, tenant, World } from "./world.ts";
import type { WorldRun } from "./world.ts";

const MONTHS = ["2025-01", "2025-02", "2025-03"];
const WHOLE = { gap: ["2025-01", "2025-03"] } as const;
const NAMESPACES = [MIXED, "second"];
const TENANTS = NAMESPACES.map((name) => tenant(name));
const VO = { voLabel: "label_example_org_vo" };

const clusters = (maxJobs = 24): fc.Arbitrary<Cluster> => arbitraryCluster({ maxJobs });

/** PROPERTY_FACTOR=20 looks twenty times as long; in the ordinary run all properties together take less than a minute. */
const runs = (count: number): number => count * Number(process.env["PROPERTY_FACTOR"] ?? 1);

/** All messages of a run with their units, in the order of publication. */
const published = (result: RunResult) =>
  result.months.flatMap(({ units }) => units.map(({ unit, status, messages }) => ({ unit, status, messages })));

function expected(cluster: Cluster, month: string, namespace: string) {
  const held = truth(cluster, month).get(namespace) ?? NONE;
  const { jobs, wallSeconds, milliCoreSeconds, firstEnd, lastEnd } = held;
  // A pod without an end is left out of the day on which it was last seen; one that runs on is not left out at all.
  const gone = truthOfJobs(cluster).filter(
    ({ job, verdict, lastSeen = 0 }) =>
      job.namespace === namespace && /^no_end:(?:evicted|deleted)$/.test(verdict) && monthOf(lastSeen) === month,
  );
  const leftOut = { ...held.leftOut, no_end: gone.length };
  return { jobs, wallSeconds, milliCoreSeconds, leftOut, ...(firstEnd === undefined ? {} : { firstEnd, lastEnd }) };
}

/** Each tenant's days of a run as they are counted, and what is warned of; of a month that was given up, why. */
const daysOf = (result: RunResult) =>
  result.months.flatMap(({ counted }) =>
    counted.map(({ tenant, period, days, warnings, error }) => ({
      tenant: tenant.name,
      month: period.month,
      ...(error === undefined ? { days, warnings } : { error }),
    })),
  );

/** What is warned of in a month, of all tenants. */
const warnings = (result: RunResult, month: string): string =>
  NAMESPACES.flatMap((name) => countedIn(result, month, name).warnings).join("\n");

/** Whether pods of the month succeeded and none of the finished ones counts, in truth. */
function isAllLeftOut(cluster: Cluster, month: string, namespace: string): boolean {
  const pods = truthOfJobs(cluster).filter(
    ({ job, end }) => job.namespace === namespace && end !== undefined && monthOf(end) === month,
  );
  const left = pods.filter(({ verdict }) => verdict !== "counted" && verdict !== "not_finished");
  return left.some(({ job }) => job.outcome === "Succeeded") && !pods.some(({ verdict }) => verdict === "counted");
}

describe("NumberOfJobs, durations, first and last end, and the sync record come from one and the same set of jobs", () => {
  test("which is that of the simulator's truth: every job is in exactly one month or left out for one reason", async () => {
    await fc.assert(
      fc.asyncProperty(clusters(), async (cluster) => {
        const world = new World(cluster);
        const result = await world.run(cluster.to, TENANTS, WHOLE);
        for (const month of MONTHS) {
          let jobs = 0;
          for (const namespace of NAMESPACES) {
            const wanted = expected(cluster, month, namespace);
            expect({ month, namespace, ...figures(countedIn(result, month, namespace)) }).toEqual({
              month,
              namespace,
              ...wanted,
            });
            jobs += wanted.jobs;
          }
          // A month of a week or more of which nothing counts is refused, unless the month before was such a month with jobs.
          const refused = NAMESPACES.some(
            (name) => countedIn(result, month, name).settled.size >= 7 && isAllLeftOut(cluster, month, name),
          );
          const became = outcomes(result)[month];
          if (became === "all_left_out") expect(refused).toBe(true);
          else if (refused) expect(warnings(result, month)).toContain("are left out, most of them for");
          else expect(became).toBe("published");
          const shown = became === "published" ? jobs : 0;
          expect({ month, ...world.shown(month) }).toMatchObject({ month, jobs: shown, syncJobs: shown });
        }
      }),
      { numRuns: runs(30) },
    );
  });

  test("with measured CPU use that of the truth (restarts added, no pod-level copies, init containers included)", async () => {
    await fc.assert(
      fc.asyncProperty(clusters(16), async (cluster) => {
        const result = await new World(cluster).run(
          cluster.to,
          TENANTS.map((one) => ({ ...one, model: "wallclock" })),
          WHOLE,
        );
        for (const month of MONTHS)
          for (const namespace of NAMESPACES) {
            const { cpuMs, jobsWithoutCpu } = truth(cluster, month).get(namespace) ?? NONE;
            expect({ month, namespace, ...cpuOf(countedIn(result, month, namespace)) }).toEqual({
              month,
              namespace,
              cpuMs,
              jobsWithoutCpu,
            });
          }
      }),
      { numRuns: runs(15) },
    );
  });
});

describe("result and figures do not depend on pieces, tiles, order or retries", () => {
  test.each([
    ["core-seconds", "summary-0.2"],
    ["wallclock", "normalised-0.4"],
    ["wallclock", "individual-0.4"],
  ] as const)(
    "%s as %s: the same messages whichever way time is cut and in whichever order it is answered",
    async (model, format) => {
      const tenants = TENANTS.map((one) => tenant(one.name, { model, format, pods: VO }));
      await fc.assert(
        fc.asyncProperty(
          clusters(12),
          fc.constantFrom(HOUR, 5 * HOUR + 1, DAY, 3 * DAY),
          fc.constantFrom(6, 1000),
          fc.constantFrom("at once", "in pieces", "in invocations"),
          fc.nat(),
          async (cluster, maxWindow, maxRows, how, seed) => {
            const world = new World(cluster);
            const plain = await world.run(cluster.to, tenants, WHOLE);
            const other = new World(cluster, world.series);
            const options = { ...WHOLE, memory: { maxWindow, maxRows, shuffle: new Random(seed) } };
            // Not after each piece: one that is refused is asked again by the next invocation, which then gets no further.
            let asked = 0;
            const stop = () => how === "in invocations" && (asked += 1) % 3 === 0;
            const stoppable = { ...options, stop, run: "cut" };
            let cut = await other.run(cluster.to, tenants, how === "at once" ? options : stoppable);
            while (cut.interrupted) cut = await other.run(cluster.to, tenants, stoppable);
            expect(published(cut)).toEqual(published(plain));
            // What is left out of each day, too, and what its month is warned of.
            expect(daysOf(cut)).toEqual(daysOf(plain));
          },
        ),
        { numRuns: runs(6) },
      );
    },
  );
});

describe("the unit of the ledger is the day", () => {
  test("running auto daily over a fortnight across a month's end leaves APEL's table exactly as one run would", async () => {
    await fc.assert(
      fc.asyncProperty(
        clusters(16),
        fc.constantFrom<Partial<Tenant>>(
          {},
          { model: "wallclock" },
          { format: "normalised-0.4", pods: VO } as Partial<Tenant>,
          { format: "individual-0.4" },
        ),
        fc.integer({ min: 0, max: DAY - 1 }),
        async (cluster, more, hour) => {
          const tenants = NAMESPACES.map((name) => tenant(name, more));
          const daily = new World(cluster);
          const midnight = cluster.to - (cluster.to % DAY);
          const moments = [...Array(14).keys()].map((day) => midnight + (day - 13) * DAY + hour);
          for (const now of [...moments.filter((each) => each < cluster.to), cluster.to]) await daily.run(now, tenants);
          const once = new World(cluster, daily.series);
          const result = await once.run(cluster.to, tenants);
          // Too little CPU use is known of some random months, of some no VO, and no pod of some counts; what was published before it
          // came to that stays.
          const refused = new Set(["cpu_data_refused", "vo_label_missing", "all_left_out"]);
          const judged = Object.entries(outcomes(result)).filter(([, what]) => !refused.has(what));
          expect(judged.map(([, what]) => what)).toEqual(judged.map(() => "published"));
          // At the fortnight's beginning January was the previous month, and it is none of the one run's.
          const rows = ({ table }: World) =>
            table.rows
              .filter((row) => judged.some(([month]) => month === unitOf(row).month))
              .map((row) => JSON.stringify(row))
              .toSorted();
          expect(rows(daily)).toEqual(rows(once));
          expect(rows(once).length).toBeGreaterThanOrEqual(judged.length);
        },
      ),
      { numRuns: runs(6) },
    );
  });
});

/** One run of somebody who cannot make up his mind. Namespaces are counted by one tenant at most, as the settings demand. */
type Step = {
  readonly day: number;
  readonly tenants: readonly Tenant[];
  readonly options: WorldRun;
};

const SUBMIT_HOSTS = ["one.example.org", "two.example.org"];
const SITES = ["UNI-TEST", "UNI-TEST", "UNI-TEST", "OTHER-TEST"];
const FORMATS: readonly MessageFormat[] = [
  "summary-0.2",
  "summary-0.4",
  "normalised-0.4",
  "summary-0.2",
  "individual-0.3",
  "individual-0.4",
];
const DEFAULT_CORES = 2000;

const step: fc.Arbitrary<Step> = fc
  .record({
    day: fc.integer({ min: 0, max: 3 }),
    format: fc.constantFrom(...FORMATS),
    site: fc.constantFrom(...SITES),
    swapped: fc.boolean(),
    parts: fc.tuple(...NAMESPACES.map(() => part())),
    options: fc.record({
      allowDecrease: fc.boolean(),
      force: fc.boolean(),
      recount: fc.boolean(),
      allowIncomplete: fc.boolean(),
      gap: fc.constantFrom(undefined, undefined, "2025-02", ["2025-01", "2025-02"] as const),
      only: fc.constantFrom(undefined, undefined, undefined, ["a"]),
      forgetBefore: fc.constantFrom(undefined, undefined, at("2025-02-10T05:00")),
    }),
  })
  .map(({ day, format, site, swapped, parts, options: { gap, only, forgetBefore, ...rest } }) => ({
    day,
    tenants: parts.flatMap(({ absent, voLabel, ...more }, index): Tenant[] => {
      const namespace = NAMESPACES[index]!;
      const names = swapped ? ["b", "a"] : ["a", "b"];
      if (absent) return [];
      return [tenant(names[index]!, { ...more, format, site, pods: { namespace, ...(voLabel ? VO : {}) } })];
    }),
    options: {
      ...rest,
      ...(gap === undefined ? {} : { gap }),
      ...(only === undefined ? {} : { only }),
      ...(forgetBefore === undefined ? {} : { memory: { forgetBefore } }),
    },
  }));

function part() {
  return fc.record(
    {
      absent: fc.constantFrom(false, false, false, true),
      voLabel: fc.boolean(),
      submitHost: fc.constantFrom(...SUBMIT_HOSTS),
      vo: fc.constantFrom("ops", "dteam"),
      model: fc.constantFrom<Tenant["model"]>("core-seconds", "wallclock"),
      nodeCount: fc.constantFrom(0, 1),
      serviceLevel: fc.constantFrom<ServiceLevel>({ type: "si2k", value: 2500 }, { type: "hepscore23", value: 15.3 }),
      defaultMilliCores: fc.constant(DEFAULT_CORES),
    },
    { requiredKeys: ["absent", "voLabel", "submitHost", "vo", "model", "nodeCount", "serviceLevel"] },
  );
}

describe("changing model, format, benchmark, tenants or VO rules between runs", () => {
  test("never makes APEL's table hold more jobs or core-seconds of a month than exist in truth", async () => {
    await fc.assert(
      fc.asyncProperty(clusters(10), fc.array(step, { minLength: 2, maxLength: 5 }), async (cluster, steps) => {
        const world = new World(cluster);
        const most = new Map(MONTHS.map((month) => [month, sums(cluster, month)]));
        let now = cluster.to - 10 * DAY;
        for (const { day, tenants, options } of steps) {
          now = Math.min(cluster.to, now + day * DAY);
          if (tenants.length > 0) await world.run(now, tenants, options);
          for (const month of MONTHS) {
            const shown = inAll(world, month);
            const { jobs, coreSeconds } = most.get(month)!;
            expect({
              month,
              tooMany: Math.max(0, shown.jobs - jobs),
              ofSync: Math.max(0, shown.syncJobs - jobs),
            }).toEqual({ month, tooMany: 0, ofSync: 0 });
            expect({ month, tooMuch: Math.max(0, shown.coreSeconds - shown.rounding - coreSeconds) }).toEqual({
              month,
              tooMuch: 0,
            });
          }
        }
      }),
      { numRuns: runs(100) },
    );
  });
});

/** All jobs that can be counted by any of the configurations. */
function sums(cluster: Cluster, month: string) {
  const all = [...truth(cluster, month, { defaultMilliCores: DEFAULT_CORES })].filter(([name]) =>
    NAMESPACES.includes(name),
  );
  return {
    jobs: all.reduce((sum, [, each]) => sum + each.jobs, 0),
    coreSeconds: all.reduce((sum, [, each]) => sum + each.milliCoreSeconds, 0) / 1000,
  };
}

/** What APEL shows of all sites; each row's duration is rounded once, then multiplied by its processors. */
function inAll(world: World, month: string) {
  const rounding = world.table.rows.reduce(
    (sum, row) => (row.kind === "sync" ? sum : sum + Math.max(1, row.processors) / 2),
    0,
  );
  const totals = [...world.table.totals(month).values()];
  const sum = (what: keyof Totals): number => totals.reduce((all, each) => all + each[what], 0);
  return { jobs: sum("jobs"), coreSeconds: sum("coreSeconds"), syncJobs: sum("syncJobs"), rounding };
}
