import { describe, expect, test } from "vitest";
import { Ledger } from "../../../lib/accounting/counting/ledger.ts";
import type { Sighting } from "../../../lib/accounting/model/monitoring.ts";
import type { Tenant } from "../../../lib/accounting/model/tenant.ts";
import { MemoryMonitoring } from "../../support/memory-monitoring.ts";
import { changedMonitoring } from "../../support/stub-monitoring.ts";
import { at, cluster, countedIn, DAY, ended, GRID, ledgerDays, message, outcomes, unitIn, World } from "./world.ts";

const JAN = { gap: "2025-01" } as const;
const JOBS = ["2025-01-03T12:00", "2025-01-03T13:00", "2025-01-10T12:00", "2025-01-20T12:00"].map((end) => ended(end));

/** Fingerprints of version 0.1: of GRID, and of GRID with one default core. */
const OLDER = { grid: "7524230468fdc6d9e418ca57d742cc93", withDefaultCores: "13f5cb9c5510149818809ec6079b7f5a" };

type Entry = {
  fingerprint: string;
  usage: { day: string; groups: { jobs: number }[]; leftOut: Record<string, number> };
};

/** A world whose ledger version 0.1 has written; `change` may change a day. */
async function aged(change: (entry: Entry) => void = () => undefined): Promise<World> {
  const world = new World(cluster(JOBS));
  await world.run("2025-02-10", [GRID], JAN);
  for (const key of await world.store.list("ledger/")) {
    const entry = JSON.parse((await world.store.get(key))!.body) as Entry;
    entry.fingerprint = OLDER.grid;
    const { not_finished: _run, no_end: _end, ...leftOut } = entry.usage.leftOut;
    const { succeededLeftOut: _left, ...usage } = { succeededLeftOut: 0, ...entry.usage, leftOut };
    const older = { ...entry, usage };
    change(older);
    await world.store.put(key, JSON.stringify(older));
  }
  return world;
}

/** Days in the ledger that were counted under the rules of now. */
async function current(world: World): Promise<string[]> {
  const { days, older } = await new Ledger(world.store, GRID, () => undefined).read("2025-01");
  return [...days.keys()].filter((day) => !older.has(day)).toSorted();
}

describe("A day in the ledger that was counted under older rules", () => {
  test("is that of version 0.1, whose days lacked two reasons", async () => {
    const world = await aged();
    const { days, older } = await new Ledger(world.store, GRID, () => undefined).read("2025-01");
    expect([days.size, older.size]).toEqual([31, 31]);
    expect(days.get("2025-01-03")).toMatchObject({
      groups: [{ jobs: 2 }],
      leftOut: { no_cpu_request: 0, negative_duration: 0, no_start: 0, not_finished: 0, no_end: 0 },
      succeededLeftOut: 0,
    });
  });

  test("is asked again where Prometheus still has it, once", async () => {
    const world = await aged(({ usage }) => {
      if (usage.day === "2025-01-03") usage.groups[0]!.jobs = 1;
    });
    const result = await world.run("2025-02-10", [GRID], JAN);
    expect(result.tenants[0]!.count.asked).toEqual({ days: 31, pieces: 1 });
    expect(countedIn(result, "2025-01").warnings).toEqual([]);
    expect(world.shown("2025-01")).toMatchObject({ jobs: 4, syncJobs: 4 });
    expect(await current(world)).toHaveLength(31);
    expect((await world.run("2025-02-11", [GRID], JAN)).tenants[0]!.count.asked.days).toBe(0);
  });

  test("else it stays, and the run says so; no day is stored as if it were counted again", async () => {
    const world = await aged();
    const memory = { forgetBefore: at("2025-01-15T05:00") };
    for (const options of [{}, { allowIncomplete: true }, { recount: true }]) {
      const result = await world.run("2025-02-10", [GRID], { ...JAN, memory, ...options });
      expect(outcomes(result)).toEqual({ "2025-01": "unchanged" });
      expect(countedIn(result, "2025-01").warnings).toContainEqual(
        expect.stringMatching(
          /^grid: 2025-01-01 to 2025-01-14 \(14 days\) were counted under the rules of an older version, and Prometheus does not have them any more; their figures stay\.$/,
        ),
      );
      expect(world.shown("2025-01")).toMatchObject({ jobs: 4, syncJobs: 4 });
      expect((await current(world))[0]).toBe("2025-01-15");
      expect(await ledgerDays(world, "2025-01")).toHaveLength(31);
    }
  });

  test("of which Prometheus has lost a part stays where that part has fewer jobs", async () => {
    const world = await aged();
    const memory = { forgetBefore: at("2025-01-10T18:00") };
    const result = await world.run("2025-02-10", [GRID], { ...JAN, memory });
    expect(outcomes(result)).toEqual({ "2025-01": "unchanged" });
    expect(countedIn(result, "2025-01").warnings).toContainEqual(
      expect.stringContaining("2025-01-01 to 2025-01-10 (10 days)"),
    );
    expect(world.shown("2025-01").jobs).toBe(4);
    expect((await current(world))[0]).toBe("2025-01-11");
  });

  test("of other settings is never used", async () => {
    const world = await aged((entry) => {
      entry.fingerprint = OLDER.withDefaultCores;
    });
    const memory = { forgetBefore: at("2025-01-15T05:00") };
    expect(outcomes(await world.run("2025-02-10", [GRID], { ...JAN, memory }))).toEqual({
      "2025-01": "monitoring_not_seen",
    });
  });

  test("is not used where Prometheus has the day, but no pod on it: older rules took `up` for a sign", async () => {
    const silent = { from: at("2025-01-10"), to: at("2025-01-12") };
    const watching = (stretches: Pick<Sighting, "silent">) => (one: Tenant) => {
      const real = new MemoryMonitoring([], one.selection);
      const memory = new MemoryMonitoring(cells.series, one.selection);
      return changedMonitoring(real, {
        seen: async (window) => {
          const seen = await memory.seen(window);
          return { ...seen, ...stretches, cells: seen.cells.filter((cell) => cell <= silent.from || cell > silent.to) };
        },
        facts: (fact, window, take, only) => memory.facts(fact, window, take, only),
      });
    };
    const cells = new World(cluster(JOBS));
    const refused = await (
      await aged()
    ).run("2025-02-10", [GRID], { ...JAN, monitoring: watching({ silent: [silent] }) });
    expect(outcomes(refused)).toEqual({ "2025-01": "monitoring_not_seen" });
    expect(message(unitIn(refused, "2025-01"))).toContain("whole days of 2025-01: 2025-01-10 to 2025-01-11 (2 days)");
    // Without data of these days at all they stay.
    const kept = await (await aged()).run("2025-02-10", [GRID], { ...JAN, monitoring: watching({ silent: [] }) });
    expect(outcomes(kept)).toEqual({ "2025-01": "unchanged" });
    expect(countedIn(kept, "2025-01").warnings).toContainEqual(
      expect.stringContaining("2025-01-10 to 2025-01-11 (2 days) were counted"),
    );
  });

  test("makes the recount of its month due again", async () => {
    const world = await aged();
    await world.run("2025-02-05", [GRID]);
    expect((await world.run(at("2025-02-05") + DAY, [GRID])).tenants[0]!.count.asked.days).toBeLessThanOrEqual(2);
  });
});
