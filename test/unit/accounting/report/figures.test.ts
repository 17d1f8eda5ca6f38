// The figures of a report are those of the ledger and of what was published, and every way of showing them has the same ones.
import { beforeAll, describe, expect, test } from "vitest";
import { Ledger } from "../../../../lib/accounting/counting/ledger.ts";
import { DEMO_TENANTS, demoLedger } from "../../../../lib/accounting/report/demo.ts";
import { type Report, makeReport } from "../../../../lib/accounting/report/figures.ts";
import { readReport, reportMonths } from "../../../../lib/accounting/report/read.ts";
import { TABLE_NAMES, csvOf, forPeople, shown, tableOf } from "../../../../lib/accounting/report/tables.ts";
import { readState, writeState } from "../../../../lib/accounting/publishing/state.ts";
import { MemoryStore, type ObjectStore } from "../../../../lib/accounting/store/store.ts";
import type { Tenant } from "../../../../lib/accounting/model/tenant.ts";
import { DAY, HOST, HOUR, SITE, World, at, bare, cluster, countedIn, ended, figures, tenant } from "../world.ts";

async function reportOf(tenants: readonly Tenant[], store: ObjectStore, now: string, from?: string): Promise<Report> {
  const time = at(now);
  const months = reportMonths(time, { from });
  return makeReport(
    await readReport(tenants, store, { now: time, months, keepAll: from !== undefined, damaged: fail }),
  );
}

const fail = (): never => {
  throw new Error("a stored object is damaged");
};

describe("a report of a run's ledger", () => {
  const second = tenant("second", { vo: "biomed", serviceLevel: { type: "hepscore23", value: 20 } });
  const grid = tenant("grid");
  const jobs = [
    ended("2025-01-10T12:00"),
    ended("2025-01-10T18:00", { containers: [{ milliCores: 2500 }] }),
    ended("2025-02-03T12:00"),
    ended("2025-02-03T13:00", { in: "second", containers: [{ milliCores: 4000 }] }),
    bare("2025-02-04T12:00"),
    ended("2025-03-19T20:00"),
  ];
  const world = new World(
    cluster(jobs, { outages: [{ from: at("2025-02-10T22:00"), to: at("2025-02-11T02:00"), kind: "absent" }] }),
  );
  let report: Report;

  beforeAll(async () => {
    await world.run("2025-03-20T01:00", [grid, second], { gap: ["2025-01", "2025-03"] });
    report = await reportOf([grid, second], world.store, "2025-03-20T01:00");
  });

  test("months without anything before the first are not in it; asked for, they are", async () => {
    expect(report.months).toEqual(["2025-01", "2025-02", "2025-03"]);
    const asked = await reportOf([grid, second], world.store, "2025-03-20T01:00", "2024-12");
    expect(asked.months).toEqual(["2024-12", "2025-01", "2025-02", "2025-03"]);
    expect(asked.byMonth[0]).toMatchObject({ month: "2024-12", days: 0, daysOf: 62, jobs: 0, coreHours: 0 });
  });

  test("usage by tenant, VO, month and day; the day that has not settled is missing", () => {
    const usage = { wallHours: 1, cpuHours: null, efficiency: null, cpuKnown: null };
    expect(report.tenants).toEqual([
      {
        tenant: "grid",
        site: SITE,
        share: 52.9,
        ...usage,
        jobs: 3,
        coreHours: 4.5,
        wallHours: 3,
        hs06Hours: 45,
        hs23Hours: null,
      },
      { tenant: "second", site: SITE, share: 47.1, ...usage, jobs: 1, coreHours: 4, hs06Hours: null, hs23Hours: 80 },
    ]);
    expect(report.vos.map(({ vo, share }) => [vo, share])).toEqual([
      ["ops", 52.9],
      ["biomed", 47.1],
    ]);
    expect(report.daily.map(({ day, tenant, vo, jobs, coreHours }) => [day, tenant, vo, jobs, coreHours])).toEqual([
      ["2025-01-10", "grid", "ops", 2, 3.5],
      ["2025-02-03", "grid", "ops", 1, 1],
      ["2025-02-03", "second", "biomed", 1, 4],
    ]);
    expect(report.byMonth.map(({ month, days, daysOf, jobs }) => [month, days, daysOf, jobs])).toEqual([
      ["2025-01", 62, 62, 2],
      ["2025-02", 56, 56, 2],
      ["2025-03", 36, 40, 0],
    ]);
    expect(report.totals).toMatchObject({ jobs: 4, coreHours: 8.5, leftOut: 1, hs06Hours: 45, hs23Hours: 80 });
  });

  test("left out by reason, and gaps, of which the halves around midnight are one", () => {
    expect(report.leftOut).toEqual([{ month: "2025-02", tenant: "grid", reason: "no_cpu_request", pods: 1 }]);
    expect(report.gaps.map(({ tenant, hours }) => [tenant, hours])).toEqual([
      ["grid", 4],
      ["second", 4],
    ]);
  });

  test("counted against published: equal where all has settled, open days where more was published", () => {
    expect(report.published.map(({ month, tenant, comparison }) => [month, tenant, comparison])).toEqual([
      ["2025-01", "grid", "equal"],
      ["2025-02", "grid", "equal"],
      ["2025-02", "second", "equal"],
      ["2025-03", "grid", "open days"],
    ]);
    expect(report.published.at(-1)).toMatchObject({ countedJobs: 0, publishedJobs: 1, publishedCoreHours: 1 });
    expect(report.units.map(({ month, generation, syncJobs, pins }) => [month, generation, syncJobs, pins])).toEqual([
      ["2025-01", 1, 2, 0],
      ["2025-02", 1, 2, 0],
      ["2025-03", 1, 1, 0],
    ]);
  });

  test("a month that is whole in the ledger and was published with more, less, or not at all", async () => {
    const store = new MemoryStore();
    for (const key of await world.store.list("")) await store.put(key, (await world.store.get(key))!.body);
    const month = async (unitMonth: string, change: number | null): Promise<void> => {
      const unit = { site: SITE, submitHost: HOST, month: unitMonth };
      const { state, version } = (await readState(store, unit, fail))!;
      if (change === null) return store.remove(`state/${unitMonth}/${SITE}/${HOST}.json`);
      const { published } = state!;
      const changed = published!.figures.map((figure) => ({ ...figure, jobs: figure.jobs + change }));
      await writeState(store, { ...state!, published: { ...published!, figures: changed } }, version);
    };
    await month("2025-01", 1);
    await month("2025-02", -1);
    await month("2025-03", null);
    const { published } = await reportOf([grid, second], store, "2025-03-20T01:00");
    expect(published.map(({ month, tenant, comparison }) => [month, tenant, comparison])).toEqual([
      ["2025-01", "grid", "published more"],
      ["2025-02", "grid", "published less"],
      ["2025-02", "second", "published less"],
    ]);
  });

  test("a tenant that is not configured any more is named, and what was published of it stays in sight", async () => {
    const { notes, published, tenants } = await reportOf([grid], world.store, "2025-03-20T01:00");
    expect(tenants.map(({ tenant }) => tenant)).toEqual(["grid"]);
    expect(notes.join(" ")).toContain("not configured, and their usage is not shown: second");
    expect(published.find(({ tenant }) => tenant === "second")).toMatchObject({
      month: "2025-02",
      publishedJobs: 1,
      comparison: "other settings",
    });
  });

  test("the ledger of other settings is not in it", async () => {
    const moved = tenant("grid", { pods: { namespace: "elsewhere" } });
    const { totals } = await reportOf([moved], world.store, "2025-03-20T01:00");
    expect(totals.jobs).toBe(0);
  });
});

test("efficiency is that of the jobs of which CPU use is known, and says of how much that is", async () => {
  const one = tenant("grid", { model: "wallclock", serviceLevel: { type: "hepspec", value: 10 } });
  const store = new MemoryStore();
  const group = { vo: null, milliCores: 1000, jobs: 4, wallSeconds: 4 * HOUR, milliCoreSeconds: 4000 * HOUR };
  const cpu = { milliseconds: 1500 * HOUR, jobs: 3, milliCoreSeconds: 3000 * HOUR };
  const leftOut = { no_cpu_request: 0, negative_duration: 0, no_start: 0, not_finished: 0, no_end: 0 };
  await new Ledger(store, one, fail).write({
    day: "2025-02-03",
    groups: [{ ...group, cpu, firstEnd: at("2025-02-03"), lastEnd: at("2025-02-03") + DAY - 1 }],
    leftOut,
    succeededLeftOut: 0,
    gaps: [],
    cpuAsked: true,
  });
  const { totals } = await reportOf([one], store, "2025-02-20");
  expect(totals).toMatchObject({
    coreHours: 4,
    cpuHours: 1.5,
    efficiency: 50,
    cpuKnown: 75,
    hs06Hours: 40,
    hs23Hours: null,
  });
});

test("the figures are those that a run counted, whatever the jobs", async () => {
  const world = new World(
    cluster(
      Array.from({ length: 40 }, (_, i) =>
        ended(at("2025-02-01") + i * 15 * HOUR, { containers: [{ milliCores: 100 + 37 * i }] }),
      ),
    ),
  );
  const result = await world.run("2025-03-20", [tenant("grid")], { gap: "2025-02" });
  const { jobs, milliCoreSeconds } = figures(countedIn(result, "2025-02"));
  const { totals, daily } = await reportOf([tenant("grid")], world.store, "2025-03-20");
  expect(totals).toMatchObject({ jobs, coreHours: Math.round(milliCoreSeconds / (100 * HOUR)) / 10 });
  expect(daily.reduce((sum, row) => sum + row.jobs, 0)).toBe(jobs);
});

describe("the tables", () => {
  let report: Report;

  beforeAll(async () => {
    report = await reportOf(DEMO_TENANTS, await demoLedger(at("2026-10-20T09:00")), "2026-10-20T09:00");
  });

  test.each(TABLE_NAMES)("%s: CSV, page and terminal have the same figures, rounded the same way", (name) => {
    const table = tableOf(report, name);
    expect(table.rows.length).toBeGreaterThan(0);
    const [head = "", ...lines] = csvOf(table).trimEnd().split("\r\n");
    expect(head.split(",")).toEqual(table.columns.map((column) => column.name));
    const forEyes = table.rows.map((row) => row.map((value, index) => shown(value, table.columns[index]!.kind)));
    const asCsv = forEyes.map((row) =>
      row
        .map((text, index) => {
          const { kind } = table.columns[index]!;
          if (kind === "text") return text;
          if (kind === "time") return `${text.replace(" ", "T")}Z`;
          return text === "-" ? "" : text.replaceAll(",", "").replace(" %", "");
        })
        .join(","),
    );
    expect(lines).toEqual(asCsv);
  });

  test("for people a site that all rows have is named once, and the newest month is first", () => {
    const { about, columns, rows } = forPeople(tableOf(report, "units"));
    expect(about).toContain("All of MADE-UP-SITE, k8s.example.org:6443/demo.");
    expect(columns.map(({ name }) => name)).not.toContain("site");
    expect(rows.map(([month]) => month)).toEqual(report.months.toReversed());
  });

  test("CSV: a name that a spreadsheet would take for a formula or for two columns stays a text", async () => {
    const odd = tenant("grid", { vo: '=1+1,"x"' });
    const world = new World(cluster([ended("2025-02-03T12:00")]));
    await world.run("2025-03-20", [odd], { gap: "2025-02" });
    const { months } = await reportOf([odd], world.store, "2025-03-20");
    expect(months).toEqual(["2025-02", "2025-03"]);
    const csv = csvOf(tableOf(await reportOf([odd], world.store, "2025-03-20"), "vos"));
    expect(csv.split("\r\n")[1]).toMatch(/^"'=1\+1,""x""",100\.0,1,1\.0,/);
  });
});

test("the demo's ledger is the same whenever it is made, and fills every table", async () => {
  const now = at("2026-10-20T09:00");
  const [one, other] = [await demoLedger(now), await demoLedger(now)];
  for (const key of await one.list("")) expect((await other.get(key))?.body).toBe((await one.get(key))?.body);
  // On the first day of a month, too, nothing of which has settled.
  for (const early of ["2026-11-01T00:00:10", "2026-11-01T08:00"]) {
    const { months, byMonth } = await reportOf(DEMO_TENANTS, await demoLedger(at(early)), early);
    expect(months.at(-1)).toBe("2026-11");
    expect(byMonth.at(-1)?.jobs).toBe(0);
  }
});
