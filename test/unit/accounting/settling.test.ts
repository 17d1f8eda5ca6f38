import { describe, expect, test } from "vitest";
import type { Sighting } from "../../../lib/accounting/model/monitoring.ts";
import type { Tenant } from "../../../lib/accounting/model/tenant.ts";
import type { Cluster, Job } from "../../simulator/index.ts";
import { MemoryMonitoring } from "../../support/memory-monitoring.ts";
import { changedMonitoring } from "../../support/stub-monitoring.ts";
import {
  at,
  cluster,
  countedIn,
  DAY,
  ended,
  figures,
  GRID,
  HOUR,
  job,
  ledgerDays,
  message,
  MINUTE,
  outcomes,
  tenant,
  unitIn,
  World,
} from "./world.ts";
import type { WorldRun } from "./world.ts";

const FEB = at("2025-02-01");
const world = (jobs: readonly Job[] = [], more: Partial<Cluster> = {}) => new World(cluster(jobs, more));
const jobsOf = (result: Awaited<ReturnType<World["run"]>>, month: string) => figures(countedIn(result, month)).jobs;

describe("Settled = kube-state-metrics was observed for SETTLE (default 6 h) after the day's end", () => {
  test.each([
    ["05:59", "2025-02-01"],
    ["06:05", "2025-02-02"],
  ])("at %s the last settled day is %s. Only settled days are stored", async (time, last) => {
    const one = world();
    await one.run(`2025-02-03T${time}`, [GRID]);
    expect((await ledgerDays(one, "2025-02")).at(-1)).toBe(last);
    expect(await ledgerDays(one, "2025-01")).toHaveLength(31);
  });

  test("SETTLE is the tenant's", async () => {
    const one = world();
    await one.run("2025-02-03T06:05", [tenant("grid", { settle: 7 * HOUR })]);
    expect((await ledgerDays(one, "2025-02")).at(-1)).toBe("2025-02-01");
  });

  test("An outage at midnight moves the moment, it does not lose the job", async () => {
    // Down from 23:50 to 09:00; the job ended at 23:58 and its pod is still there at 09:00.
    const outages = [{ from: FEB - 10 * MINUTE, to: FEB + 9 * HOUR, kind: "absent" }] as const;
    const one = world([job(FEB - HOUR, FEB - 2 * MINUTE, { lingers: 10 * HOUR })], { outages });
    const early = await one.run(FEB + 8 * HOUR, [GRID]);
    expect(await ledgerDays(one, "2025-01")).not.toContain("2025-01-31");
    expect(jobsOf(early, "2025-01")).toBe(0);
    const later = await one.run(FEB + 10 * HOUR, [GRID]);
    expect(jobsOf(later, "2025-01")).toBe(1);
    expect(await ledgerDays(one, "2025-01")).not.toContain("2025-01-31");
    await one.run(FEB + 3 * DAY, [GRID]);
    expect(await ledgerDays(one, "2025-01")).toContain("2025-01-31");
    expect(one.shown("2025-01")).toMatchObject({ jobs: 1, syncJobs: 1 });
  });

  test("What was not yet settled is counted afresh each run, and a settled day is not asked again", async () => {
    const one = world([ended("2025-02-03T10:00"), ended("2025-02-03T20:00")]);
    expect(jobsOf(await one.run("2025-02-03T12:00", [GRID]), "2025-02")).toBe(1);
    expect(jobsOf(await one.run("2025-02-03T23:00", [GRID]), "2025-02")).toBe(2);
    const next = await one.run("2025-02-04T23:00", [GRID]);
    // 31 days of January for the recount on the 4th, the 3rd and the 4th.
    expect(next.tenants[0]!.count.asked.days).toBe(33);
    expect((await one.run("2025-02-05T23:00", [GRID])).tenants[0]!.count.asked).toEqual({ days: 2, pieces: 1 });
    expect(jobsOf(next, "2025-02")).toBe(2);
  });
});

describe("Gaps over 30 minutes: the day settles after 48 h, is marked, warned of, published", () => {
  const noon = at("2025-02-10T12:00");
  const down = (minutes: number) => ({ outages: [{ from: noon, to: noon + minutes * MINUTE, kind: "down" }] as const });

  test("a gap of 40 minutes", async () => {
    const one = world([ended(noon - HOUR)], down(40));
    const result = await one.run("2025-02-12T12:00", [GRID]);
    expect(await ledgerDays(one, "2025-02")).not.toContain("2025-02-10");
    expect(countedIn(result, "2025-02").days.find(({ day }) => day === "2025-02-10")?.gaps).toEqual([
      { from: noon, to: noon + 40 * MINUTE },
    ]);
    expect(countedIn(result, "2025-02").warnings).toEqual([
      expect.stringMatching(
        /^grid: monitoring was not seen in 2025-02 from 2025-02-10 12:00 to 2025-02-10 12:40 UTC \(0\.7 h\)/,
      ),
    ]);
    expect(outcomes(result)["2025-02"]).toBe("published");
    await one.run("2025-02-13T00:10", [GRID]);
    expect(await ledgerDays(one, "2025-02")).toContain("2025-02-10");
    expect(countedIn(await one.run("2025-02-20", [GRID]), "2025-02").warnings).toHaveLength(1);
  });

  test("a gap of 20 minutes is none", async () => {
    const one = world([], down(20));
    expect(countedIn(await one.run("2025-02-12T12:00", [GRID]), "2025-02").warnings).toEqual([]);
    expect(await ledgerDays(one, "2025-02")).toContain("2025-02-10");
  });

  test("a gap across midnight marks both days", async () => {
    const outages = [{ from: FEB - 20 * MINUTE, to: FEB + 20 * MINUTE, kind: "absent" }] as const;
    const result = await world([], { outages }).run("2025-02-12T12:00", [GRID]);
    expect(countedIn(result, "2025-01").warnings).toEqual([
      expect.stringContaining("from 2025-01-31 23:40 to 2025-02-01 00:00 UTC (0.3 h)"),
    ]);
    expect(countedIn(result, "2025-02").warnings).toEqual([
      expect.stringContaining("from 2025-02-01 00:00 to 2025-02-01 00:20 UTC (0.3 h)"),
    ]);
  });

  test("several gaps, one of them over midnight, are one line of their month", async () => {
    const outages = [
      { from: noon, to: noon + 40 * MINUTE, kind: "down" },
      { from: noon + 11 * HOUR, to: noon + 2 * DAY + HOUR, kind: "absent" },
    ] as const;
    const result = await world([ended(noon - HOUR)], { outages }).run("2025-02-20T12:00", [GRID], {
      allowIncomplete: true,
    });
    expect(countedIn(result, "2025-02").warnings).toEqual([
      expect.stringContaining(
        "from 2025-02-10 12:00 to 2025-02-10 12:40 UTC (0.7 h), 2025-02-10 23:00 to 2025-02-12 13:00 UTC (38 h), published without 1 whole day;",
      ),
    ]);
  });

  test("monitoring that is down right now is a gap of today", async () => {
    const outages = [{ from: noon, to: noon + DAY, kind: "down" }] as const;
    const result = await world([], { outages }).run(noon + 2 * HOUR, [GRID]);
    expect(countedIn(result, "2025-02").warnings).toEqual([
      expect.stringContaining("from 2025-02-10 12:00 to 2025-02-10 14:00 UTC (2 h)"),
    ]);
  });
});

describe("Seen means pods were seen", () => {
  /** A run whose monitoring was seen otherwise than the series say. */
  const seeing = (change: (seen: Sighting) => Sighting, now = "2025-02-20") => {
    const one = world([ended("2025-02-03T12:00")]);
    const monitoring = ({ selection }: Tenant) => {
      const memory = new MemoryMonitoring(one.series, selection);
      return changedMonitoring(memory, { seen: async (window) => change(await memory.seen(window)) });
    };
    return one.run(now, [GRID], { monitoring });
  };
  const stretch = (from: string, to: string) => ({ from: at(from), to: at(to) });

  test("over a day of `up` without any pod counts as days without jobs, with a warning in each of its months", async () => {
    const upOnly = [stretch("2025-01-30T12:00", "2025-02-02T12:00"), stretch("2025-02-10", "2025-02-11")];
    const result = await seeing((seen) => ({ ...seen, upOnly }));
    expect(outcomes(result)).toEqual({ "2025-01": "published", "2025-02": "published" });
    const text = "grid: kube-state-metrics was up but showed no pod of any namespace from";
    expect(["2025-01", "2025-02"].map((month) => countedIn(result, month).warnings)).toEqual([
      [expect.stringContaining(`${text} 2025-01-30 12:00 to 2025-02-01 00:00 UTC (36 h);`)],
      [expect.stringContaining(`${text} 2025-02-01 00:00 to 2025-02-02 12:00 UTC (36 h);`)],
    ]);
  });

  test("pods of single nodes that were missing for days are a gap, and make no day unseen", async () => {
    const partly = [stretch("2025-02-09T12:00", "2025-02-12T12:00")];
    const result = await seeing((seen) => ({ ...seen, partly }));
    expect(outcomes(result)["2025-02"]).toBe("published");
    const { warnings, days } = countedIn(result, "2025-02");
    expect(warnings).toEqual([
      expect.stringContaining("from 2025-02-09 12:00 to 2025-02-12 12:00 UTC (3 days); jobs that"),
    ]);
    expect(days.flatMap(({ day, gaps }) => (gaps.length > 0 ? [day] : []))).toEqual([
      "2025-02-09",
      "2025-02-10",
      "2025-02-11",
      "2025-02-12",
    ]);
    // Days with a gap settle after 48 hours.
    const early = await seeing((seen) => ({ ...seen, partly }), "2025-02-14T23:00");
    expect([...countedIn(early, "2025-02").settled].at(-1)).toBe("2025-02-13");
    expect(countedIn(early, "2025-02").settled.has("2025-02-12")).toBe(false);
  });

  test("days on which Prometheus has data but no pod are unseen", async () => {
    const silent = stretch("2025-02-09", "2025-02-11");
    const without = (seen: Sighting): Sighting => ({
      ...seen,
      cells: seen.cells.filter((cell) => cell <= silent.from || cell > silent.to),
      silent: [silent],
    });
    expect(outcomes(await seeing(without))).toEqual({ "2025-01": "published", "2025-02": "monitoring_not_seen" });
  });
});

describe("A whole day unseen: the month is refused (exit 3), other months go on", () => {
  const outages = [{ from: at("2025-01-14T22:00"), to: at("2025-01-17T02:00"), kind: "absent" }] as const;

  test("with the days, and what to do", async () => {
    const one = world([ended("2025-01-10T12:00"), ended("2025-02-02T12:00")], { outages });
    const result = await one.run("2025-02-10", [GRID]);
    expect(outcomes(result)).toEqual({ "2025-01": "monitoring_not_seen", "2025-02": "published" });
    expect(unitIn(result, "2025-01").error).toMatchObject({ exit: 3 });
    expect(message(unitIn(result, "2025-01"))).toMatch(
      /no pod was seen on whole days of 2025-01: 2025-01-15 to 2025-01-16 \(2 days\);.*ACCOUNTING_SINCE.*--allow-incomplete/,
    );
    expect(one.shown("2025-01")).toMatchObject({ jobs: 0, syncJobs: 0 });
    expect(one.shown("2025-02")).toMatchObject({ jobs: 1, syncJobs: 1 });
  });

  test("--allow-incomplete publishes what there is, says so, and never stores an unseen day", async () => {
    const one = world([ended("2025-01-10T12:00")], { outages });
    const result = await one.run("2025-02-10", [GRID], { allowIncomplete: true });
    expect(outcomes(result)["2025-01"]).toBe("published");
    expect(countedIn(result, "2025-01").warnings).toEqual([
      "grid: monitoring was not seen in 2025-01 from 2025-01-14 22:00 to 2025-01-17 02:00 UTC (2 days), published without 2 whole days; " +
        "jobs that were deleted meanwhile are missing.",
    ]);
    expect(await ledgerDays(one, "2025-01")).toHaveLength(29);
    expect(one.shown("2025-01").jobs).toBe(1);
    expect(outcomes(await one.run("2025-02-11", [GRID]))["2025-01"]).toBe("monitoring_not_seen");
  });

  test("ACCOUNTING_SINCE for a cluster that is younger: earlier days are not asked for", async () => {
    const from = at("2025-01-18T03:00");
    const one = world([ended("2025-01-20T12:00")], { from });
    expect(outcomes(await one.run("2025-02-10", [GRID]))["2025-01"]).toBe("monitoring_not_seen");
    const since = tenant("grid", { since: "2025-01-18" });
    expect(outcomes(await one.run("2025-02-10", [since]))["2025-01"]).toBe("published");
    expect(one.shown("2025-01").jobs).toBe(1);
  });

  test("a month before ACCOUNTING_SINCE is empty: nothing is published of it", async () => {
    const result = await world([], { from: FEB }).run("2025-02-10", [tenant("grid", { since: "2025-02-01" })]);
    expect(outcomes(result)).toEqual({ "2025-01": "empty", "2025-02": "published" });
  });

  test("no sign of monitoring since the month began is refused, but in its first hour not yet judged", async () => {
    const off = { outages: [{ from: FEB - HOUR, to: FEB + DAY, kind: "absent" }] as const };
    expect(outcomes(await world([], off).run(FEB + 50 * MINUTE, [GRID]))["2025-02"]).toBe("empty");
    expect(outcomes(await world([], off).run(FEB + 3 * HOUR, [GRID]))["2025-02"]).toBe("monitoring_not_seen");
  });

  test("The same holds for the first run after moving from KAPEL: days neither in Prometheus nor in the ledger", async () => {
    const result = await world().run("2025-02-20", [GRID], { memory: { forgetBefore: at("2025-02-05T10:00") } });
    expect(outcomes(result)).toEqual({ "2025-01": "monitoring_not_seen", "2025-02": "monitoring_not_seen" });
  });
});

describe("Retention: once Prometheus has lost the first days of a month", () => {
  const jobs = [ended("2025-01-03T12:00"), ended("2025-01-20T12:00"), ended("2025-02-02T12:00")];
  const lost = { forgetBefore: at("2025-01-19T05:00") };

  test("auto neither publishes less nor fails the other months", async () => {
    const one = world(jobs);
    await one.run("2025-01-25", [GRID]);
    const result = await one.run("2025-02-03", [GRID], { memory: lost });
    expect(outcomes(result)).toEqual({ "2025-01": "published", "2025-02": "published" });
    expect([one.shown("2025-01").jobs, one.shown("2025-02").jobs]).toEqual([2, 1]);
  });

  test("a recount that sees less never replaces a settled day", async () => {
    const one = world(jobs);
    await one.run("2025-02-01T12:00", [GRID]);
    // Of the 20th Prometheus has only the evening left.
    const memory = { forgetBefore: at("2025-01-20T18:00") };
    for (const options of [{}, { recount: true }, { recount: true, allowIncomplete: true }]) {
      const result = await one.run("2025-02-05", [GRID], { memory, ...options });
      expect(jobsOf(result, "2025-01")).toBe(2);
      expect(one.shown("2025-01")).toMatchObject({ jobs: 2, syncJobs: 2 });
    }
    expect(jobsOf(await one.run("2025-02-06", [GRID]), "2025-01")).toBe(2);
  });

  test("nor when the model changes, and CPU use is asked for", async () => {
    const one = world(jobs);
    await one.run("2025-02-01T12:00", [GRID]);
    const wallclock = tenant("grid", { model: "wallclock" });
    const memory = { forgetBefore: at("2025-01-20T18:00") };
    // What is left says nothing of the CPU use of the job of the 20th, so the month is refused, not lowered.
    expect(outcomes(await one.run("2025-02-02", [wallclock], { memory }))["2025-01"]).toBe("cpu_data_refused");
    expect(jobsOf(await one.run("2025-02-02", [GRID], { memory }), "2025-01")).toBe(2);
    expect(one.shown("2025-01").jobs).toBe(2);
  });
});

describe("The previous month is counted once more in full on the 4th (late statuses), then left alone", () => {
  // The container ended on the 31st; a native sidecar kept the pod from finishing until the 2nd.
  const late = job(FEB - 5 * HOUR, FEB - HOUR, {
    sidecars: [{ name: "fuse", to: FEB + DAY + HOUR }],
    lingers: 6 * DAY,
  });

  test("once, and a late status is found", async () => {
    const one = world([late]);
    for (const now of ["2025-02-01T12:00", "2025-02-02T12:00", "2025-02-03T12:00"]) await one.run(now, [GRID]);
    expect(one.shown("2025-01").jobs).toBe(0);
    const fourth = await one.run("2025-02-04T12:00", [GRID]);
    expect(fourth.tenants[0]!.count.asked.days).toBe(33);
    expect(one.shown("2025-01")).toMatchObject({ jobs: 1, syncJobs: 1 });
    for (const now of ["2025-02-04T18:00", "2025-02-05T12:00"])
      expect((await one.run(now, [GRID])).tenants[0]!.count.asked.days).toBeLessThanOrEqual(2);
  });

  test("a run that missed the 4th does it later; one that failed does it again", async () => {
    const one = world([late]);
    await one.run("2025-02-03T12:00", [GRID]);
    const broken = await one.run("2025-02-06T12:00", [GRID], {
      monitoring: ({ selection }) =>
        changedMonitoring(new MemoryMonitoring(one.series, selection), {
          facts: () => Promise.reject(new Error("broken")),
          namespaces: () => Promise.reject(new Error("broken")),
          voLabelSeen: () => Promise.reject(new Error("broken")),
        }),
    });
    expect(outcomes(broken)["2025-01"]).toBe("unexpected: broken");
    expect(one.shown("2025-01").jobs).toBe(0);
    await one.run("2025-02-07T12:00", [GRID]);
    expect(one.shown("2025-01").jobs).toBe(1);
  });

  test("gap mode does not do it by itself; --recount does", async () => {
    const one = world([late]);
    await one.run("2025-02-03T12:00", [GRID]);
    await one.run("2025-02-05T12:00", [GRID], { gap: "2025-01" });
    expect(one.shown("2025-01").jobs).toBe(0);
    await one.run("2025-02-05T12:00", [GRID], { gap: "2025-01", recount: true });
    expect(one.shown("2025-01").jobs).toBe(1);
  });
});

describe("The ledger's unit is the day, per tenant; another fingerprint: the day is asked again", () => {
  const asked = async (
    first: Parameters<typeof tenant>[1],
    second: Parameters<typeof tenant>[1],
    options: WorldRun = {},
  ) => {
    const one = world([ended("2025-02-03T12:00", { labels: { "example.org/vo": "atlas" } })]);
    await one.run("2025-02-10", [tenant("grid", first)]);
    const result = await one.run("2025-02-10", [tenant("grid", second)], options);
    return result.tenants[0]!.count.asked.days;
  };
  const day = 1; // the 9th, not yet settled at midnight

  test.each([
    ["DEFAULT_CORES", { defaultMilliCores: 1000 }],
    ["the VO rule", { pods: { voLabel: "label_example_org_vo" } }],
    ["PROMETHEUS_LABELS", { pods: { matchers: ['job="kube-state-metrics"'] } }],
    ["the namespace", { pods: { namespace: "second" } }],
    ["the Prometheus server", { server: "http://other:9090" }],
  ])("after a change of %s all days are asked again", async (_what, more) => {
    expect(await asked({}, more)).toBe(31 + 9);
  });

  test.each([
    ["the benchmark", { serviceLevel: { type: "hepscore23", value: 10 } as const }],
    ["the site", { submitHost: "other" }],
    ["the VO's name", { vo: "dteam" }],
    ["SETTLE", { settle: 7 * HOUR }],
    ["the format", { format: "normalised-0.4" } as const],
  ])("after a change of %s none but the unsettled are", async (_what, more) => {
    expect(await asked({}, more)).toBe(day);
  });

  test("for wallclock the days without CPU use are asked again, once", async () => {
    expect(await asked({}, { model: "wallclock" })).toBe(40);
    expect(await asked({ model: "wallclock" }, { model: "wallclock" })).toBe(day);
    expect(await asked({ model: "wallclock" }, {})).toBe(day);
  });

  test("a damaged ledger day is set aside and recounted, said so", async () => {
    const one = world([ended("2025-02-03T12:00")]);
    await one.run("2025-02-10", [GRID]);
    const bodies = ['{"fingerprint"', "{}", '{"fingerprint":"x","usage":{"day":"2025-02-03","groups":[{"jobs":-1}]}}'];
    for (const body of bodies) {
      await one.store.put("ledger/grid/2025-02/2025-02-03.json", body);
      const result = await one.run("2025-02-10", [GRID]);
      expect(result.damaged).toEqual([expect.objectContaining({ key: "ledger/grid/2025-02/2025-02-03.json" })]);
      expect((await one.store.get(result.damaged[0]!.setAside))?.body).toBe(body);
      expect(result.tenants[0]!.count.asked.days).toBe(2);
      expect(jobsOf(result, "2025-02")).toBe(1);
      expect((await one.run("2025-02-10", [GRID])).damaged).toEqual([]);
    }
  });
});
