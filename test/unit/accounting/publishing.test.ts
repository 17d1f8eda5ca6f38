import { describe, expect, test } from "vitest";
import { readState } from "../../../lib/accounting/publishing/state.ts";
import { exitCode, runErrors } from "../../../lib/accounting/run.ts";
import type { Job } from "../../simulator/index.ts";
import {
  at,
  became,
  cluster,
  ended,
  GRID,
  HOST,
  HOUR,
  message,
  outcomes,
  records,
  SITE,
  tenant,
  texts,
  unitIn,
  World,
} from "./world.ts";

const SECOND = tenant("second");
const world = (jobs: readonly Job[] = []) => new World(cluster(jobs));
const JOB = ended("2025-02-03T12:00");

describe("The unit of publishing is U = (Site, SubmitHost, month)", () => {
  test("tenants are added up per APEL key into the records of U, with one sync record", async () => {
    const one = world([JOB, ended("2025-02-04T12:00", { in: "second" })]);
    const result = await one.run("2025-02-20", [GRID, SECOND]);
    expect(records(unitIn(result, "2025-02"))).toEqual([
      expect.objectContaining({ kind: "summary", numberOfJobs: 2, wallDuration: 2 * HOUR }),
      expect.objectContaining({ kind: "sync", numberOfJobs: 2 }),
    ]);
    expect(unitIn(result, "2025-02").tenants).toEqual(["grid", "second"]);
  });

  test("tenants of other VOs, infrastructures or benchmarks have rows of their own in the same file", async () => {
    const one = world([JOB, ended("2025-02-04T12:00", { in: "second" })]);
    const result = await one.run("2025-02-20", [GRID, { ...SECOND, vo: "atlas" }]);
    expect(texts(unitIn(result, "2025-02"))).toHaveLength(2);
    expect(records(unitIn(result, "2025-02")).map((each) => each.kind === "summary" && each.vo)).toEqual([
      "atlas",
      "ops",
      false,
    ]);
  });

  test("two submit hosts are two units with their own sync records", async () => {
    const one = world([JOB, ended("2025-02-04T12:00", { in: "second" })]);
    const result = await one.run("2025-02-20", [GRID, { ...SECOND, submitHost: "other" }]);
    expect(records(unitIn(result, "2025-02", { submitHost: "other" }))).toHaveLength(2);
    expect(one.shown("2025-02")).toMatchObject({ jobs: 2, syncJobs: 2 });
  });

  test("--tenant narrows counting, never publishing: the others' figures come from the ledger", async () => {
    const one = world([ended("2025-01-03T12:00"), ended("2025-01-04T12:00", { in: "second" })]);
    await one.run("2025-02-01T12:00", [GRID, SECOND]);
    const narrowed = await one.run("2025-02-02T12:00", [GRID, SECOND], { gap: "2025-01", only: ["grid"], force: true });
    expect(narrowed.tenants.map(({ count }) => count.asked.days)).toEqual([0, 0]);
    expect(outcomes(narrowed)).toEqual({ "2025-01": "published" });
    expect(one.shown("2025-01")).toMatchObject({ jobs: 2, syncJobs: 2 });
  });

  test("--tenant where another tenant's days are not in the ledger: ledger_incomplete, exit 3", async () => {
    const one = world([JOB]);
    const result = await one.run("2025-02-20", [GRID, SECOND], { only: ["grid"] });
    expect(outcomes(result)).toEqual({ "2025-01": "ledger_incomplete", "2025-02": "ledger_incomplete" });
    expect(message(unitIn(result, "2025-01"))).toMatch(/^second shares .* 31 of its days of 2025-01 /);
    expect(exitCode(runErrors(result))).toBe(3);
  });

  test("--tenant leaves units of none but other tenants alone", async () => {
    const one = world([JOB]);
    const result = await one.run("2025-02-20", [GRID, { ...SECOND, submitHost: "other" }], { only: ["grid"] });
    expect(outcomes(result)).toEqual({ "2025-01": "published", "2025-02": "published" });
    expect(result.tenants[1]!.count.asked.days).toBe(0);
  });
});

describe("A generation is reserved before a message is written; message keys are outgoing/<site>/<submit host>/<yyyy-mm>/<generation>-<kind>-<hash>", () => {
  test("safely encoded, and ascending", async () => {
    const one = world([JOB, ended("2025-02-10T12:00")]);
    const odd = tenant("grid", { submitHost: "host:6443/grid" });
    const first = unitIn(await one.run("2025-02-05", [odd]), "2025-02");
    const second = unitIn(await one.run("2025-02-11", [odd]), "2025-02");
    expect([first.generation, second.generation]).toEqual([1, 2]);
    expect(first.keys).toEqual([
      expect.stringMatching(/^outgoing\/UNI-TEST\/host=3A6443=2Fgrid\/2025-02\/0000000001-summary-[0-9a-f]{32}$/),
      expect.stringMatching(/^outgoing\/UNI-TEST\/host=3A6443=2Fgrid\/2025-02\/0000000001-sync-[0-9a-f]{32}$/),
    ]);
  });

  test("a damaged state is set aside; its generation is never used again, and rows that were published are still known", async () => {
    const one = world([JOB]);
    await one.run("2025-02-05", [GRID]);
    const key = `state/2025-02/${SITE}/${HOST}.json`;
    expect(await one.store.get(key)).toBeDefined();
    await one.store.put(key, "{");
    const result = await one.run("2025-02-06", [{ ...GRID, vo: "dteam" }]);
    expect(result.damaged.map((each) => each.key)).toContain(key);
    expect((await one.store.get(result.damaged[0]!.setAside))?.body).toBe("{");
    expect(unitIn(result, "2025-02")).toMatchObject({ status: "published", generation: 2 });
    // The row of the old VO is known from the message, and has its tombstone.
    expect(one.shown("2025-02")).toMatchObject({ jobs: 1, coreSeconds: HOUR });
  });

  test("a lost state too", async () => {
    const one = world([JOB]);
    await one.run("2025-02-05", [GRID]);
    await one.store.remove(`state/2025-02/${SITE}/${HOST}.json`);
    const result = await one.run("2025-02-06", [{ ...GRID, vo: "dteam" }]);
    expect(unitIn(result, "2025-02").generation).toBe(2);
    expect(one.shown("2025-02")).toMatchObject({ jobs: 1, coreSeconds: HOUR });
  });
});

describe("Guard: jobs or core-seconds per (tenant, VO, month) lower than last published: U is refused (exit 3)", () => {
  test("and says by how much and what could be the cause; --allow-decrease publishes", async () => {
    const one = world([JOB, ended("2025-02-04T12:00")]);
    await one.run("2025-02-10", [GRID]);
    // A namespace that exists, and in which there are no jobs.
    const mistaken = tenant("grid", { pods: { namespace: "second" } });
    const result = await one.run("2025-02-12", [mistaken]);
    expect(outcomes(result)["2025-02"]).toBe("decrease_refused");
    expect(message(unitIn(result, "2025-02"))).toMatch(
      /tenant grid, VO ops: 0 jobs \(published 2\), 0 core-seconds \(published 7200\).*retention.*--allow-decrease/,
    );
    expect(exitCode(runErrors(result))).toBe(3);
    expect(one.shown("2025-02")).toMatchObject({ jobs: 2, syncJobs: 2 });
    const allowed = await one.run("2025-02-12", [mistaken], { allowDecrease: true });
    expect(records(unitIn(allowed, "2025-02"))).toEqual([
      expect.objectContaining({ kind: "summary", numberOfJobs: 0, wallDuration: 0, earliestEndTime: at("2025-02-01") }),
      expect.objectContaining({ kind: "sync", numberOfJobs: 0 }),
    ]);
    expect(outcomes(await one.run("2025-02-12", [mistaken]))["2025-02"]).toBe("unchanged");
  });

  test("per tenant: another tenant's growth does not hide it", async () => {
    const one = world([JOB, ...[5, 6, 7].map((day) => ended(`2025-02-0${day}T12:00`, { in: "second" }))]);
    await one.run("2025-02-04", [GRID, SECOND]);
    const result = await one.run("2025-02-10", [SECOND]);
    expect(outcomes(result)["2025-02"]).toBe("decrease_refused");
    expect(one.shown("2025-02").jobs).toBe(1);
    await one.run("2025-02-10", [SECOND], { allowDecrease: true });
    expect(one.shown("2025-02")).toMatchObject({ jobs: 3, syncJobs: 3 });
  });

  test("per VO: jobs that moved to another VO are a decrease of the first", async () => {
    const one = world([ended("2025-02-03T12:00", { labels: { "example.org/vo": "atlas" } })]);
    await one.run("2025-02-10", [GRID]);
    const split = tenant("grid", { pods: { voLabel: "label_example_org_vo" } });
    expect(outcomes(await one.run("2025-02-11", [split]))["2025-02"]).toBe("decrease_refused");
    await one.run("2025-02-11", [split], { allowDecrease: true });
    expect(one.shown("2025-02")).toMatchObject({ jobs: 1, coreSeconds: HOUR, syncJobs: 1 });
  });

  test("core-seconds alone: a lower DEFAULT_CORES", async () => {
    const one = world([ended("2025-02-03T12:00", { containers: [{}] })]);
    await one.run("2025-02-10", [tenant("grid", { defaultMilliCores: 2000 })]);
    const lower = await one.run("2025-02-11", [tenant("grid", { defaultMilliCores: 1000 })]);
    expect(message(unitIn(lower, "2025-02"))).toContain("1 jobs (published 1), 3600 core-seconds (published 7200)");
    expect(outcomes(await one.run("2025-02-11", [tenant("grid", { defaultMilliCores: 2500 })]))["2025-02"]).toBe(
      "published",
    );
  });

  test("Independent of model and format", async () => {
    const one = world([JOB, ended("2025-02-04T12:00")]);
    await one.run("2025-02-10", [GRID, SECOND]);
    for (const more of [
      { model: "wallclock" },
      { format: "normalised-0.4" },
      { serviceLevel: { type: "hepspec", value: 12 } },
    ] as const) {
      expect(outcomes(await one.run("2025-02-11", [{ ...SECOND, ...more }]))["2025-02"]).toBe("decrease_refused");
      expect(
        outcomes(
          await one.run("2025-02-11", [
            { ...GRID, ...more },
            { ...SECOND, ...more },
          ]),
        )["2025-02"],
      ).toBe("published");
    }
  });

  test("a refused unit does not keep other units and months back", async () => {
    const one = world([ended("2025-01-03T12:00", { in: "second" }), JOB]);
    await one.run("2025-02-10", [GRID, { ...SECOND, submitHost: "other" }]);
    const result = await one.run("2025-02-11", [
      { ...GRID, vo: "dteam" },
      { ...SECOND, submitHost: "other", nodeCount: 1 },
    ]);
    expect(became(unitIn(result, "2025-02", { submitHost: HOST }))).toBe("decrease_refused");
    expect(became(unitIn(result, "2025-01", { submitHost: "other" }))).toBe("published");
  });
});

describe("Tombstones: a key published before and absent now is sent as zeros in the same file as the new rows", () => {
  test.each([
    ["the benchmark's value", { serviceLevel: { type: "si2k", value: 3000 } }, {}],
    ["the benchmark", { serviceLevel: { type: "hepscore23", value: 12.5 } }, {}],
    ["NodeCount", { nodeCount: 4 }, {}],
    ["the infrastructure type", { infrastructureType: "local" }, {}],
    ["the VO", { vo: "dteam" }, { allowDecrease: true }],
    ["the Processors group", { model: "wallclock" }, {}],
  ] as const)("%s", async (_what, more, options) => {
    const one = world([JOB]);
    await one.run("2025-02-10", [GRID]);
    const result = unitIn(await one.run("2025-02-11", [{ ...GRID, ...more }], options), "2025-02");
    expect(became(result)).toBe("published");
    // One summary file with both rows, and the sync record.
    expect(texts(result)).toHaveLength(2);
    expect(records(result).map((each) => "numberOfJobs" in each && each.numberOfJobs)).toEqual([0, 1, 1]);
    expect(one.shown("2025-02")).toMatchObject({ jobs: 1, syncJobs: 1, coreSeconds: HOUR });
    // The tombstone goes with every later publication too, since only the newest file may be sent at all.
    const again = unitIn(await one.run("2025-02-12", [{ ...GRID, ...more }], { ...options, force: true }), "2025-02");
    expect(records(again)).toEqual(records(result));
  });

  test.each([
    ["summary-0.2", "normalised-0.4"],
    ["normalised-0.4", "summary-0.4"],
    ["summary-0.4", "individual-0.4"],
    ["normalised-0.4", "individual-0.3"],
  ] as const)("the format: from %s to %s", async (before, after) => {
    const one = world([JOB]);
    await one.run("2025-02-10", [{ ...GRID, format: before }]);
    await one.run("2025-02-11", [{ ...GRID, format: after }]);
    expect(one.shown("2025-02")).toMatchObject({ jobs: 1, syncJobs: 1, coreSeconds: HOUR });
  });

  test("summary-0.2 and summary-0.4 are one table: nothing to bury", async () => {
    const one = world([JOB]);
    await one.run("2025-02-10", [GRID]);
    const result = unitIn(await one.run("2025-02-11", [{ ...GRID, format: "summary-0.4" }]), "2025-02");
    expect(records(result).map((each) => "numberOfJobs" in each && each.numberOfJobs)).toEqual([1, 1]);
  });

  test("a normalised benchmark correction replaces in place", async () => {
    const one = world([JOB]);
    const format = "normalised-0.4";
    await one.run("2025-02-10", [{ ...GRID, format }]);
    const serviceLevel = { type: "si2k", value: 3000 } as const;
    const result = unitIn(await one.run("2025-02-11", [{ ...GRID, format, serviceLevel }]), "2025-02");
    expect(records(result)[0]).toMatchObject({ kind: "normalised", normalisedWallDuration: 3000 * HOUR });
    expect(one.table.rows.filter((row) => row.kind === "normalised" && row.month === 2)).toHaveLength(1);
  });
});

describe("Only for months republished in this run; closed months are never zeroed by a change of configuration", () => {
  test("auto leaves an older month alone, gap mode names it", async () => {
    const one = world([ended("2025-01-03T12:00"), JOB, ended("2025-03-02T12:00")]);
    for (const now of ["2025-02-10", "2025-03-10"]) await one.run(now, [GRID]);
    const before = one.table.rows.filter((row) => row.kind === "summary" && row.month === 1);
    const changed = { ...GRID, submitHost: "new", serviceLevel: { type: "si2k", value: 3000 } } as const;
    await one.run("2025-03-11", [changed]);
    expect(one.table.rows.filter((row) => row.kind === "summary" && row.month === 1)).toEqual(before);
    expect(one.shown("2025-01")).toMatchObject({ jobs: 1, syncJobs: 1 });
    await one.run("2025-03-11", [changed], { gap: "2025-01" });
    expect(one.shown("2025-01")).toMatchObject({ jobs: 1, syncJobs: 1 });
    expect(one.table.rows.filter((row) => row.kind === "summary" && row.month === 1 && row.numberOfJobs > 0)).toEqual([
      expect.objectContaining({ submitHost: "new" }),
    ]);
  });

  test("a tenant that is gone with its whole unit leaves what it published", async () => {
    const one = world([JOB, ended("2025-02-04T12:00", { in: "second" })]);
    await one.run("2025-02-10", [GRID, { ...SECOND, submitHost: "other" }]);
    const result = await one.run("2025-02-11", [GRID]);
    expect(outcomes(result)).toEqual({ "2025-01": "unchanged", "2025-02": "unchanged" });
    expect(one.shown("2025-02")).toMatchObject({ jobs: 2, syncJobs: 2 });
  });
});

describe("Unchanged records are not sent again, except once a week and on the 6th for open months, and with --force", () => {
  const status = async (first: string, second: string, options = {}) => {
    const one = world([ended("2025-01-03T12:00"), JOB]);
    await one.run(first, [GRID]);
    const unit = unitIn(await one.run(second, [GRID], options), "2025-02");
    return unit.why ?? unit.status;
  };

  test.each([
    ["2025-02-10T12:00", "2025-02-10T13:00", "unchanged"],
    ["2025-02-10T12:00", "2025-02-17T11:59", "unchanged"],
    ["2025-02-10T12:00", "2025-02-17T12:00", "again"],
    ["2025-02-05T12:00", "2025-02-05T23:00", "unchanged"],
    ["2025-02-05T12:00", "2025-02-06T00:10", "again"],
    ["2025-02-06T00:10", "2025-02-06T12:00", "unchanged"],
    ["2025-03-02T12:00", "2025-03-03T12:00", "unchanged"],
    ["2025-03-05T12:00", "2025-03-06T12:00", "again"],
  ])("published at %s, run at %s: %s", async (first, second, expected) => {
    expect(await status(first, second)).toBe(expected);
  });

  test("--force", async () => {
    expect(await status("2025-02-10T12:00", "2025-02-10T13:00", { force: true })).toBe("again");
  });

  test("a closed month is not: gap mode over it after a month", async () => {
    expect(await status("2025-02-10T12:00", "2025-03-20T12:00", { gap: "2025-02" })).toBe("unchanged");
  });

  test("a sent-again publication is the same content under a new generation", async () => {
    const one = world([JOB]);
    const first = unitIn(await one.run("2025-02-10", [GRID]), "2025-02");
    const again = unitIn(await one.run("2025-02-18", [GRID]), "2025-02");
    expect(texts(again)).toEqual(texts(first));
    expect([first.generation, again.generation]).toEqual([1, 2]);
  });
});

describe("Gap mode widens to whole months (the current one up to now)", () => {
  test("a gap inside one month publishes the whole of it", async () => {
    const one = world([JOB, ended("2025-02-20T12:00")]);
    const result = await one.run("2025-03-10", [GRID], { gap: ["2025-02-10", "2025-02-11"] });
    expect(result.months.map(({ period }) => period.month)).toEqual(["2025-02"]);
    expect(one.shown("2025-02")).toMatchObject({ jobs: 2, syncJobs: 2 });
  });
});

describe("Pins: automatic runs refuse a pinned unit unless --force is given", () => {
  test("both ways", async () => {
    const one = world([JOB]);
    await one.run("2025-02-10", [GRID]);
    const unit = { site: SITE, submitHost: HOST, month: "2025-02" };
    const held = await readState(one.store, unit, () => undefined);
    const pin = { records: held!.state!.published!.records, sync: 1, hash: "x", at: at("2025-02-11") };
    await one.store.put(`state/2025-02/${SITE}/${HOST}.json`, JSON.stringify({ ...held!.state, pins: [pin] }));
    const result = await one.run("2025-02-12", [GRID]);
    expect(outcomes(result)).toEqual({ "2025-01": "unchanged", "2025-02": "pinned_refused" });
    expect(unitIn(result, "2025-02").error).toMatchObject({ exit: 3 });
    expect(outcomes(await one.run("2025-02-12", [GRID], { force: true }))["2025-02"]).toBe("published");
  });
});

describe("exit codes", () => {
  test("0 done; otherwise that of the gravest error: 1 unexpected, then 4, 3, 2", async () => {
    const one = world([JOB]);
    expect(exitCode(runErrors(await one.run("2025-02-10", [GRID])))).toBe(0);
    expect(exitCode([new Error("?")])).toBe(1);
    const refused = await one.run("2025-02-11", [{ ...GRID, vo: "dteam" }]);
    const unknown = await world([]).run("2025-02-11", [tenant("gird")]);
    expect(exitCode(runErrors(refused))).toBe(3);
    expect(exitCode(runErrors(unknown))).toBe(2);
    expect(exitCode([...runErrors(unknown), ...runErrors(refused)])).toBe(3);
    expect(exitCode([...runErrors(refused), new Error("?")])).toBe(1);
  });

  test("a period in the future or the wrong way round", async () => {
    await expect(world().run("2025-02-10", [GRID], { gap: "2025-03" })).rejects.toMatchObject({
      code: "period_invalid",
      exit: 2,
    });
    await expect(world().run("2025-02-10", [GRID], { gap: ["2025-02-09", "2025-02-01"] })).rejects.toMatchObject({
      code: "period_invalid",
    });
  });
});
