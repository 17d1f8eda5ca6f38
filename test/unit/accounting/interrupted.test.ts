import { describe, expect, test } from "vitest";
import type { ObjectStore } from "../../../lib/accounting/store/store.ts";
import type { Tenant } from "../../../lib/accounting/model/tenant.ts";
import { readStates } from "../../../lib/accounting/publishing/state.ts";
import { parseOutgoingKey } from "../../../lib/accounting/delivery/outgoing.ts";
import type { Job, Series } from "../../simulator/index.ts";
import { simulate } from "../../simulator/index.ts";
import { MemoryMonitoring } from "../../support/memory-monitoring.ts";
import {
  at,
  became,
  cluster,
  countedIn,
  ended,
  figures,
  HOUR,
  outcomes,
  tenant,
  texts,
  unitIn,
  World,
} from "./world.ts";
import type { WorldRun } from "./world.ts";

// Few days, so that a run has few calls to the store between which it can be killed.
const since = "2025-01-30";
const GRID = tenant("grid", { since });
const SECOND = tenant("second", { since, submitHost: "other" });
const JOBS = [ended("2025-01-30T12:00"), ended("2025-02-01T12:00"), ended("2025-02-02T12:00", { in: "second" })];

const few = (jobs: readonly Job[]) => cluster(jobs, { from: at("2025-01-29"), to: at("2025-02-08") });

/** A store that comes in between: `before` is called with the number of each call, counted from 1. */
function watched(store: ObjectStore, before: (call: number, what: string) => void | Promise<void>): ObjectStore {
  let calls = 0;
  const then = async <T>(what: string, next: () => Promise<T>): Promise<T> => {
    calls += 1;
    await before(calls, what);
    return next();
  };
  return {
    get: (key) => then(`get ${key}`, () => store.get(key)),
    put: (key, body, condition) => then(`put ${key}`, () => store.put(key, body, condition)),
    list: (prefix) => then(`list ${prefix}`, () => store.list(prefix)),
    remove: (key) => then(`remove ${key}`, () => store.remove(key)),
  };
}

class Killed extends Error {}

/** Runs until the store's call `last`, from which on nothing more gets through; false if it came to its end before. */
async function killedAt(
  world: World,
  last: number,
  now: string,
  tenants: readonly Tenant[],
  options: WorldRun = {},
): Promise<boolean> {
  let dead = false;
  const store = watched(world.store, (call) => {
    dead ||= call >= last;
    if (dead) throw new Killed();
  });
  await world.runOnly(now, tenants, { ...options, store }).catch((error: unknown) => {
    if (!(error instanceof Killed)) throw error;
  });
  return dead;
}

/** Every state of the store's units and their messages: generations are distinct, and nothing is left half done. */
async function generations(world: World): Promise<number[]> {
  const found = (await world.store.list("outgoing/")).map((key) => parseOutgoingKey(key)!);
  const units = new Map<string, Set<number>>();
  for (const { unit, generation } of found) {
    const key = JSON.stringify(unit);
    units.set(key, (units.get(key) ?? new Set()).add(generation));
  }
  return [...units.values()].map((each) => Math.max(...each));
}

describe("Everything may be repeated or killed at any point", () => {
  const format = "individual-0.4";
  test.each([
    ["a first run", undefined, [GRID, SECOND]],
    ["a change of benchmark", [GRID, SECOND], [{ ...GRID, serviceLevel: { type: "hepspec", value: 10 } }, SECOND]],
    ["a change of submit host", [GRID, SECOND], [{ ...GRID, submitHost: "moved" }, SECOND]],
    [
      "a change of format",
      [GRID, SECOND],
      [
        { ...GRID, format: "normalised-0.4" },
        { ...SECOND, format: "normalised-0.4" },
      ],
    ],
    [
      "to single jobs",
      [GRID, SECOND],
      [
        { ...GRID, format },
        { ...SECOND, format },
      ],
    ],
    [
      "single jobs",
      undefined,
      [
        { ...GRID, format },
        { ...SECOND, format },
      ],
    ],
  ] as [string, Tenant[] | undefined, Tenant[]][])(
    "%s, killed before each call to the store, then run again: APEL's table is right, nothing lost",
    async (_what, before, after) => {
      const series = simulate(few(JOBS));
      let kills = 0;
      for (let call = 1, dead = true; dead; call += 1) {
        const world = new World(few(JOBS), series);
        if (before !== undefined) await world.runOnly("2025-02-03T12:00", before);
        await world.deliver("2025-02-03T12:00");
        dead = await killedAt(world, call, "2025-02-04T12:00", after);
        kills += dead ? 1 : 0;
        await world.deliver("2025-02-04T12:00");
        for (const month of ["2025-01", "2025-02"]) {
          const { jobs, syncJobs } = world.shown(month);
          const truth = month === "2025-01" ? 1 : 2;
          expect(Math.max(jobs, syncJobs)).toBeLessThanOrEqual(truth);
        }
        const again = await world.runOnly("2025-02-05T12:00", after);
        expect(again.damaged).toEqual([]);
        await world.deliver("2025-02-05T12:00");
        expect(world.shown("2025-01")).toEqual({ jobs: 1, coreSeconds: HOUR, syncJobs: 1 });
        expect(world.shown("2025-02")).toEqual({ jobs: 2, coreSeconds: 2 * HOUR, syncJobs: 2 });
        for (const { state } of await readStates(world.store, "2025-02", () => undefined))
          expect(state.pending).toBeUndefined();
        // A generation is never used twice, and the run after the next has nothing to add.
        const afterwards = await generations(world);
        await world.runOnly("2025-02-05T18:00", after);
        expect(await generations(world)).toEqual(afterwards);
      }
      expect(kills).toBeGreaterThan(20);
    },
  );

  test("a store that fails once fails what it was about and nothing else", async () => {
    const world = new World(few(JOBS));
    const store = watched(world.store, (_call, what) => {
      if (what.startsWith("put outgoing/UNI-TEST/other/2025-02/")) throw new Error("disk full");
    });
    const result = await world.run("2025-02-05T12:00", [GRID, SECOND], { store });
    expect(result.months[1]!.units.map(became)).toEqual(["published", "unexpected: disk full"]);
    expect(
      became(unitIn(await world.run("2025-02-05T12:00", [GRID, SECOND]), "2025-02", { submitHost: "other" })),
    ).toBe("published");
    expect(world.shown("2025-02")).toMatchObject({ jobs: 2, syncJobs: 2 });
  });
});

describe("two runs at once: one wins, the figures are right, the generations distinct", () => {
  const more = [...JOBS, ended("2025-02-03T12:00")];

  test.each(["other", "k8s.example.org"])(
    "interleaved at every call to the store (second tenant under %s)",
    async (submitHost) => {
      const tenants = [GRID, { ...SECOND, submitHost }];
      const series = simulate(few(more));
      let calls = Infinity;
      for (let between = 1; between <= calls; between += 1) {
        const world = new World(few(more), series);
        await world.runOnly("2025-02-03T06:00", tenants);
        calls = 0;
        let other: ReturnType<World["runOnly"]> | undefined;
        // The other run goes from beginning to end between two calls of this one.
        const store = watched(world.store, async (call) => {
          calls = call;
          if (call === between) await (other = world.runOnly("2025-02-05T12:00", tenants));
        });
        const mine = await world.runOnly("2025-02-05T12:00", tenants, { store });
        const theirs = await other!;
        for (const result of [mine, theirs])
          for (const unit of result.months.flatMap(({ units }) => units))
            expect(["published", "unchanged"]).toContain(became(unit));
        await world.deliver("2025-02-05T12:00");
        expect(world.shown("2025-02")).toEqual({ jobs: 3, coreSeconds: 3 * HOUR, syncJobs: 3 });
        const used = [mine, theirs].flatMap(({ months }) =>
          months.flatMap(({ units }) =>
            units.flatMap(({ unit, generation }) =>
              generation === undefined ? [] : [JSON.stringify([unit, generation])],
            ),
          ),
        );
        expect(new Set(used).size).toBe(used.length);
      }
    },
  );

  test("a run that saw less and comes second is refused, not published over the first", async () => {
    const world = new World(few(more));
    let other: ReturnType<World["runOnly"]> | undefined;
    const store = watched(world.store, async (_call, what) => {
      // After this run has counted, before it reserves: the other one, which sees a job more, goes first.
      if (what.startsWith("put state/2025-02/") && other === undefined)
        await (other = world.runOnly("2025-02-03T18:00", [GRID]));
    });
    const slow = await world.runOnly("2025-02-03T11:00", [GRID], { store });
    expect(outcomes(await other!)["2025-02"]).toBe("published");
    expect(outcomes(slow)["2025-02"]).toBe("decrease_refused");
    await world.deliver("2025-02-03T18:00");
    expect(world.shown("2025-02").jobs).toBe(2);
  });

  test("a state that never holds still: store_conflict, nothing written", async () => {
    const world = new World(few(more));
    const quick = world.store;
    let turn = 0;
    const store = watched(quick, async (_call, what) => {
      if (!what.startsWith("put state/2025-02/")) return;
      const key = what.slice("put ".length);
      turn += 1;
      const unit = { site: GRID.site, submitHost: GRID.submitHost, month: "2025-02" };
      await quick.put(key, JSON.stringify({ unit, generation: turn, pins: [], known: [] }));
    });
    const result = await world.runOnly("2025-02-05T12:00", [GRID], { store });
    expect(outcomes(result)).toEqual({ "2025-01": "published", "2025-02": "store_conflict" });
    expect(await world.store.list("outgoing/UNI-TEST/k8s.example.org/2025-02/")).toEqual([]);
  });
});

describe("a run that is stopped goes on in the next invocation", () => {
  const WHOLE = tenant("grid");
  const jobs: Job[] = [...Array(20).keys()].map((day) => ended(at("2025-01-02T12:00") + day * 86_400));

  test.each([WHOLE, { ...WHOLE, format: "individual-0.4" as const }])(
    "piece by piece, and what is published is what one run would: $format",
    async (one) => {
      const whole = new World(cluster(jobs));
      const expected = await whole.runOnly("2025-02-10", [one]);
      const world = new World(cluster(jobs), whole.series);
      let result = await world.runOnly("2025-02-10", [one], { stop: () => true, run: "night" });
      let invocations = 1;
      for (; result.interrupted && invocations < 20; invocations += 1) {
        expect(result.months.flatMap(({ units }) => units)).toEqual([]);
        expect(result.tenants[0]!.count.asked.pieces).toBe(1);
        result = await world.runOnly("2025-02-10", [one], { stop: () => true, run: "night" });
      }
      expect(invocations).toBe(11);
      const messages = ({ months }: typeof result) => months.flatMap(({ units }) => units.map(texts));
      expect(messages(result)).toEqual(messages(expected));
      expect(await world.store.list("scratch/")).toEqual([]);
    },
  );

  test("without a name for the run, settled days are kept all the same and nothing is published", async () => {
    const world = new World(cluster(jobs));
    const result = await world.runOnly("2025-02-10", [WHOLE], { stop: () => true });
    expect(result.interrupted).toBe(true);
    expect(await world.store.list("outgoing/")).toEqual([]);
    expect((await world.store.list("ledger/grid/2025-01/2025-")).length).toBeGreaterThan(0);
  });

  const continued = async (series: readonly Series[], forgetBefore: number | undefined, base: World, now: string) => {
    const monitoring = (one: Tenant) =>
      new MemoryMonitoring(series, one.selection, forgetBefore === undefined ? {} : { forgetBefore });
    // Everything is counted; then the invocation is killed before it publishes.
    const store = watched(base.store, (_call, what) => {
      if (what.startsWith("list state/")) throw new Killed();
    });
    const options = { monitoring, run: "night", recount: true };
    await expect(base.runOnly(now, [WHOLE], { ...options, store })).rejects.toThrow(Killed);
    return base.runOnly(now, [WHOLE], options);
  };

  test("a recount that sees less never replaces a settled day, in a continued run neither", async () => {
    const world = new World(cluster(jobs));
    await world.runOnly("2025-02-01T12:00", [WHOLE]);
    const result = await continued(world.series, at("2025-01-10T18:00"), world, "2025-02-03T12:00");
    expect(figures(countedIn(result, "2025-01")).jobs).toBe(20);
  });

  test("no sign of monitoring since the month began is refused, in a continued run too", async () => {
    const from = at("2025-02-01");
    const world = new World(cluster(jobs, { outages: [{ from: from - HOUR, to: from + 9 * HOUR, kind: "absent" }] }));
    const result = await continued(world.series, undefined, world, "2025-02-01T06:00");
    expect(outcomes(result)["2025-02"]).toBe("monitoring_not_seen");
  });
});
