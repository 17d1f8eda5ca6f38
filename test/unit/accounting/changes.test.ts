import { describe, expect, test } from "vitest";
import type { Job } from "../../simulator/index.ts";
import {
  at,
  became,
  cluster,
  ended,
  GRID,
  HOST,
  HOUR,
  job,
  message,
  outcomes,
  records,
  SITE,
  tenant,
  unitIn,
  World,
} from "./world.ts";

const SECOND = tenant("second");
const NEW = "new.example.org";
const world = (jobs: readonly Job[] = [ended("2025-02-03T12:00")]) => new World(cluster(jobs));
const single = (name: string, more: Parameters<typeof tenant>[1] = {}) =>
  tenant(name, { format: "individual-0.4", ...more });

describe("an old SubmitHost also gets a zero sync, in the same run, both or neither", () => {
  const moved = { ...GRID, submitHost: NEW };

  test("both: zeros for the old, figures for the new, the old first", async () => {
    const one = world();
    await one.run("2025-02-10", [GRID]);
    const result = await one.run("2025-02-11", [moved]);
    const [old, fresh] = result.months[1]!.units;
    expect([old!.unit.submitHost, fresh!.unit.submitHost]).toEqual([HOST, NEW]);
    expect(records(old!).map((each) => "numberOfJobs" in each && each.numberOfJobs)).toEqual([0, 0]);
    expect(one.shown("2025-02")).toMatchObject({ jobs: 1, coreSeconds: HOUR, syncJobs: 1 });
    // Afterwards the old unit has nothing more to say.
    expect(outcomes(await one.run("2025-02-12", [moved]))).toEqual({ "2025-01": "unchanged", "2025-02": "unchanged" });
  });

  test("neither: the new one would be lower", async () => {
    const one = world();
    await one.run("2025-02-10", [GRID]);
    const result = await one.run("2025-02-11", [{ ...moved, vo: "dteam" }]);
    expect(result.months[1]!.units.map(became).toSorted()).toEqual(["decrease_refused", "moved_tenant_refused"]);
    expect(one.shown("2025-02")).toMatchObject({ jobs: 1, syncJobs: 1 });
    expect(one.table.rows.filter((row) => row.kind === "sync" && row.submitHost === NEW && row.month === 2)).toEqual(
      [],
    );
  });

  test("neither: a tenant that shares the new one cannot be counted", async () => {
    const one = world();
    await one.run("2025-02-10", [GRID]);
    const result = await one.run("2025-02-11", [moved, tenant("gird", { submitHost: NEW })]);
    expect(result.months[1]!.units.map(became).toSorted()).toEqual(["moved_tenant_refused", "namespace_unknown"]);
    expect(one.shown("2025-02")).toMatchObject({ jobs: 1, syncJobs: 1 });
  });

  test("an old host that another tenant still uses keeps that tenant's figures", async () => {
    const one = world([ended("2025-02-03T12:00"), ended("2025-02-04T12:00", { in: "second" })]);
    await one.run("2025-02-10", [GRID, SECOND]);
    await one.run("2025-02-11", [moved, SECOND]);
    expect(one.shown("2025-02")).toMatchObject({ jobs: 2, coreSeconds: 2 * HOUR, syncJobs: 2 });
  });

  test("to another site", async () => {
    const one = world();
    await one.run("2025-02-10", [GRID]);
    await one.run("2025-02-11", [{ ...GRID, site: "OTHER" }]);
    expect(one.shown("2025-02")).toMatchObject({ jobs: 0, syncJobs: 0 });
    expect(one.shown("2025-02", "OTHER")).toMatchObject({ jobs: 1, syncJobs: 1 });
  });

  test("a tenant that moves and takes another name at once is known by its pods", async () => {
    const one = world();
    await one.run("2025-02-10", [GRID]);
    await one.run("2025-02-11", [tenant("farm", { submitHost: NEW, pods: { namespace: "grid" } })]);
    expect(one.shown("2025-02")).toMatchObject({ jobs: 1, syncJobs: 1 });
  });

  test("two tenants that swap their names are moved, not confused", async () => {
    const one = world([1, 2, 3].map((hour) => ended(`2025-02-03T0${hour}:00`)));
    await one.run("2025-02-10", [
      tenant("a", { pods: { namespace: "grid" } }),
      tenant("b", { pods: { namespace: "second" }, submitHost: NEW }),
    ]);
    const swapped = [
      tenant("a", { pods: { namespace: "second" } }),
      tenant("b", { pods: { namespace: "grid" }, submitHost: NEW }),
    ];
    await one.run("2025-02-11", swapped);
    expect(one.shown("2025-02")).toMatchObject({ jobs: 3, syncJobs: 3 });
  });

  test("a renamed tenant in its old place is no decrease", async () => {
    const one = world();
    await one.run("2025-02-10", [GRID]);
    const result = await one.run("2025-02-11", [tenant("farm", { pods: { namespace: "grid" } })]);
    expect(outcomes(result)["2025-02"]).toBe("unchanged");
  });

  test("an old host that holds a tenant nobody knows any more counts as going down", async () => {
    const one = world([ended("2025-02-03T12:00"), ended("2025-02-04T12:00", { in: "second" })]);
    await one.run("2025-02-10", [GRID, SECOND]);
    const result = await one.run("2025-02-11", [moved]);
    expect(result.months[1]!.units.map(became).toSorted()).toEqual(["decrease_refused", "moved_tenant_refused"]);
    expect(one.shown("2025-02")).toMatchObject({ jobs: 2, syncJobs: 2 });
    await one.run("2025-02-11", [moved], { allowDecrease: true });
    expect(one.shown("2025-02")).toMatchObject({ jobs: 1, syncJobs: 1 });
  });
});

describe("Individual records: settled days only, each day once", () => {
  const jobs = [ended("2025-02-03T12:00"), ended("2025-02-04T12:00"), ended("2025-02-04T20:00")];
  const sent = (outcome: ReturnType<typeof unitIn>) =>
    records(outcome).filter((each) => each.kind === "individual").length;

  test("day by day, with a sync record of what was published so far", async () => {
    const one = world(jobs);
    const of = async (now: string) => {
      const unit = unitIn(await one.run(now, [single("grid")]), "2025-02");
      return [sent(unit), one.shown("2025-02").syncJobs];
    };
    expect(await of("2025-02-03T23:00")).toEqual([0, 0]);
    expect(await of("2025-02-04T05:00")).toEqual([0, 0]);
    expect(await of("2025-02-04T07:00")).toEqual([1, 1]);
    expect(await of("2025-02-04T23:00")).toEqual([0, 1]);
    expect(await of("2025-02-05T07:00")).toEqual([2, 3]);
    expect(await of("2025-02-15T07:00")).toEqual([0, 3]);
    expect(one.shown("2025-02")).toMatchObject({ jobs: 3, coreSeconds: 3 * HOUR, syncJobs: 3 });
  });

  test("also under another name; of another namespace the days are other days", async () => {
    const one = world([...jobs, ended("2025-02-03T12:00", { in: "second" })]);
    await one.run("2025-02-10", [single("grid")]);
    const renamed = await one.run("2025-02-11", [single("farm", { pods: { namespace: "grid" } })]);
    expect(sent(unitIn(renamed, "2025-02"))).toBe(0);
    const other = await one.run("2025-02-12", [single("farm", { pods: { namespace: "second" } })], {
      allowDecrease: true,
    });
    expect(sent(unitIn(other, "2025-02"))).toBe(1);
    expect(one.shown("2025-02").jobs).toBe(4);
  });

  test("LocalJobId = uid, MachineName = pod name, MemoryVirtual = memory request in KiB, MemoryReal = measured maximum if known", async () => {
    const end = at("2025-02-03T12:00");
    const known = job(end - HOUR, end, { pod: "worker-1", containers: [{ milliCores: 2500, memory: 4_194_304 }] });
    const unknown = job(end - HOUR, end + 60, { pod: "worker-2", containers: [{ milliCores: 500, measured: false }] });
    const one = world([known, unknown]);
    const rows = records(unitIn(await one.run("2025-02-10", [single("grid")]), "2025-02")).filter(
      (each) => each.kind === "individual",
    );
    const byPod = new Map(rows.map((row) => [row.machineName, row]));
    expect(byPod.get("worker-1")).toEqual({
      kind: "individual",
      site: SITE,
      submitHost: HOST,
      vo: "ops",
      infrastructureType: "grid",
      machineName: "worker-1",
      localJobId: known.uid,
      wallDuration: 2.5 * HOUR,
      cpuDuration: 2.5 * HOUR,
      processors: 0,
      nodeCount: 0,
      memoryVirtual: 4096,
      memoryReal: Math.ceil((4_194_304 * 0.8) / 1024),
      startTime: end - HOUR,
      endTime: end,
      serviceLevel: { type: "si2k", value: 2500 },
    });
    expect(byPod.get("worker-2")).not.toHaveProperty("memoryReal");
    expect(byPod.get("worker-2")).not.toHaveProperty("memoryVirtual");
  });

  test("v0.3 without a service level (only Gratia takes it) has no sync record", async () => {
    const { serviceLevel: _none, ...bare } = single("grid", { format: "individual-0.3" });
    const unit = unitIn(await world(jobs).runOnly("2025-02-10", [bare]), "2025-02");
    expect(records(unit).map(({ kind }) => kind)).toEqual(["individual", "individual", "individual"]);
  });
});

describe("single jobs cannot be taken back, so a month that has some does not become a summary", () => {
  test.each([
    ["in the same unit", {}],
    ["under another submit host", { submitHost: NEW }],
    ["under another site", { site: "OTHER" }],
    ["under another name and host", { name: "farm", submitHost: NEW }],
  ])("%s: format_refused, exit 3", async (_where, more) => {
    const one = world();
    await one.run("2025-02-10", [single("grid")]);
    const before = one.table.rows.length;
    const result = await one.run("2025-02-11", [{ ...GRID, ...more }], { allowDecrease: true, force: true });
    const codes = result.months[1]!.units.map(became);
    expect(codes).toContain("format_refused");
    expect(codes).not.toContain("published");
    expect(one.table.rows.filter((row) => row.kind === "summary" && row.month === 2)).toEqual([]);
    expect(one.table.rows.length).toBeGreaterThanOrEqual(before);
    // The next month may have another format.
    expect(outcomes(await one.run("2025-03-15", [GRID], { gap: "2025-03" }))).toEqual({ "2025-03": "published" });
  });

  test("another submit host is fine: it is no part of a job's key; another site is not", async () => {
    const one = world();
    await one.run("2025-02-10", [single("grid")]);
    await one.run("2025-02-11", [single("grid", { submitHost: NEW })]);
    expect(one.shown("2025-02")).toMatchObject({ jobs: 1, syncJobs: 1 });
    const result = await one.run("2025-02-12", [single("grid", { site: "OTHER" })]);
    expect(new Set(result.months[1]!.units.map(became))).toEqual(new Set(["moved_tenant_refused"]));
    expect(one.shown("2025-02")).toMatchObject({ jobs: 1, syncJobs: 1 });
    expect(one.shown("2025-02", "OTHER")).toMatchObject({ jobs: 0, syncJobs: 0 });
  });

  test("a day without jobs binds nobody", async () => {
    const one = world([ended("2025-02-12T12:00")]);
    await one.run("2025-02-10", [single("grid")]);
    expect(outcomes(await one.run("2025-02-14", [GRID]))["2025-02"]).toBe("published");
    expect(one.shown("2025-02")).toMatchObject({ jobs: 1, syncJobs: 1 });
  });
});

describe("from summaries to single jobs", () => {
  const jobs = [ended("2025-02-03T12:00"), ended("2025-02-12T12:00")];

  test("the days of the ledger are asked again for their jobs; the summary's rows are zeroed", async () => {
    const one = world(jobs);
    await one.run("2025-02-14", [GRID]);
    await one.run("2025-02-15", [single("grid")]);
    expect(one.shown("2025-02")).toMatchObject({ jobs: 2, coreSeconds: 2 * HOUR, syncJobs: 2 });
  });

  test.each([
    ["a whole day", "2025-02-04T05:00"],
    ["a part of a day", "2025-02-03T18:00"],
  ])(
    "when retention has taken %s with single jobs not yet published, the month is refused: it would go down unseen",
    async (_what, lost) => {
      const one = world(jobs);
      await one.run("2025-02-14", [GRID]);
      const memory = { forgetBefore: at(lost) };
      const result = await one.run("2025-02-15", [single("grid")], { memory });
      expect(outcomes(result)["2025-02"]).toBe("monitoring_not_seen");
      expect(message(unitIn(result, "2025-02"))).toMatch(/2025-02-03/);
      expect(one.shown("2025-02")).toMatchObject({ jobs: 2, syncJobs: 2 });
      expect(
        outcomes(await one.run("2025-02-15", [single("grid")], { memory, allowIncomplete: true }))["2025-02"],
      ).toBe("published");
      expect(one.shown("2025-02")).toMatchObject({ jobs: 1, syncJobs: 1 });
    },
  );
});
