import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Ledger } from "../../lib/accounting/counting/ledger.ts";
import { type Damage } from "../../lib/accounting/store/json.ts";
import { type UnitState, readState, readStates, writeState } from "../../lib/accounting/publishing/state.ts";
import type { Tenant } from "../../lib/accounting/model/tenant.ts";
import type { DayUsage } from "../../lib/accounting/counting/usage.ts";
import type { ObjectStore } from "../../lib/accounting/store/store.ts";
import { NOW, unit } from "./dirq-messages.ts";
import { scratchDirectory } from "./store-script.ts";

const tenant = (name: string, more: Partial<Tenant> = {}): Tenant => ({
  name,
  selection: { namespace: name, matchers: [], labelPrefix: "" },
  site: unit.site,
  submitHost: unit.submitHost,
  vo: "atlas",
  infrastructureType: "grid",
  nodeCount: 0,
  processors: 0,
  model: "core-seconds",
  format: "summary-0.2",
  settle: 21_600,
  ...more,
});
const GRID = tenant("grid");

function usage(day: string, jobs = 1): DayUsage {
  const end = Date.parse(`${day}T12:00:00Z`) / 1000;
  const size = { milliCores: 1500, jobs, wallSeconds: 3600 * jobs, milliCoreSeconds: 5_400_000 * jobs };
  return {
    day,
    groups: [
      { vo: null, ...size, firstEnd: end, lastEnd: end + 60 },
      { vo: "é", ...size, cpu: { milliseconds: 7, jobs: 1, milliCoreSeconds: 5 }, firstEnd: end, lastEnd: end },
    ],
    leftOut: { no_cpu_request: 1, negative_duration: 0, no_start: 2, not_finished: 3, no_end: 4 },
    succeededLeftOut: 5,
    gaps: [{ from: end, to: end + 1800 }],
    cpuAsked: true,
  };
}
/** What is read of a month that has these days. */
const kept = (...days: readonly DayUsage[]): Awaited<ReturnType<Ledger["read"]>> => ({
  days: new Map(days.map((each) => [each.day, each])),
  older: new Set(),
});
const january = Array.from({ length: 31 }, (_, index) => `2025-01-${String(index + 1).padStart(2, "0")}`);

/** Everything that counting relies on in a ledger, and publishing in its states. Ledgers in every store pass it. */
export function ledgerContract(
  name: string,
  open: (folder: string) => Promise<{ readonly one: ObjectStore; readonly two: ObjectStore }>,
): void {
  describe(`a ledger in ${name} keeps the ledger's contract`, () => {
    let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
    let one: ObjectStore;
    let two: ObjectStore;
    let damages: Damage[];
    beforeEach(async () => {
      scratch = await scratchDirectory();
      damages = [];
      ({ one, two } = await open(scratch.path));
    });
    afterEach(() => scratch.remove());
    const ledger = (store = one, of = GRID) => new Ledger(store, of, (damage) => damages.push(damage));

    test("an empty one knows no day and was not recounted", async () => {
      expect(await ledger().read("2025-01")).toEqual(kept());
      expect(await ledger().wasRecounted("2025-01")).toBe(false);
    });

    test("all days of a month come back as they were written, for another process too, and no other month's", async () => {
      await Promise.all(january.map((day, index) => ledger().write(usage(day, index + 1))));
      await ledger().write(usage("2025-02-01"));
      const expected = new Map(january.map((day, index) => [day, usage(day, index + 1)]));
      expect(await ledger(two).read("2025-01")).toEqual({ days: expected, older: new Set() });
      expect([...(await ledger(two).read("2025-02")).days.keys()]).toEqual(["2025-02-01"]);
      expect(await ledger(two).read("2024-12")).toEqual(kept());
    });

    test("a day that is written again is the later one", async () => {
      await ledger().write(usage("2025-01-03", 1));
      await ledger(two).write(usage("2025-01-03", 2));
      expect(await ledger().read("2025-01")).toEqual(kept(usage("2025-01-03", 2)));
    });

    test("tenants never meet, however they are called", async () => {
      const names = ["grid", "grid/a", "grid2", "../grid", ".grid", "Grid", "gri=d", "größe", "a b", ""];
      for (const [index, each] of names.entries())
        await ledger(one, tenant(each)).write(usage("2025-01-03", index + 1));
      for (const [index, each] of names.entries()) {
        const read = await ledger(two, tenant(each)).read("2025-01");
        expect([each, read]).toEqual([each, kept(usage("2025-01-03", index + 1))]);
      }
    });

    test("a day of another fingerprint is asked again; what decides no count leaves it valid", async () => {
      await ledger().write(usage("2025-01-03"));
      await ledger().markRecounted("2025-01", NOW);
      const others = [
        { server: "https://other" },
        { defaultMilliCores: 1000 },
        { selection: { ...GRID.selection, matchers: ['cluster="b"'] } },
        { selection: { ...GRID.selection, voLabel: "label_vo" } },
        { selection: { ...GRID.selection, labelPrefix: "exported_" } },
      ];
      for (const more of others) {
        const changed = ledger(two, { ...GRID, ...more });
        expect([await changed.read("2025-01"), await changed.wasRecounted("2025-01")]).toEqual([kept(), false]);
      }
      const same = ledger(two, { ...GRID, vo: "cms", submitHost: "x", processors: 8, format: "summary-0.4" });
      expect([(await same.read("2025-01")).days.size, await same.wasRecounted("2025-01")]).toEqual([1, true]);
    });

    test("the recount of a month is remembered, by month, and is no day", async () => {
      await ledger().markRecounted("2025-01", NOW);
      await ledger(two).markRecounted("2025-01", NOW + 1);
      expect(await ledger(two).wasRecounted("2025-01")).toBe(true);
      expect(await ledger(two).wasRecounted("2025-02")).toBe(false);
      expect(await ledger(two).read("2025-01")).toEqual(kept());
    });

    test.each(["", "{", "[]", '{"fingerprint":"x"}', "null"])(
      "a day that is damaged (%j) is set aside as it is and reported; the others are read",
      async (body) => {
        await ledger().write(usage("2025-01-03"));
        await ledger().write(usage("2025-01-04"));
        const [key = ""] = await two.list("ledger/");
        await two.put(key, body);
        expect([...(await ledger().read("2025-01")).days.keys()]).toEqual(["2025-01-04"]);
        expect(damages).toEqual([expect.objectContaining({ key })]);
        expect((await two.get(damages[0]!.setAside))?.body).toBe(body);
        // Found again before it is written anew, it is the same object aside.
        await ledger(two).read("2025-01");
        expect(await two.list("damaged/")).toEqual([damages[0]!.setAside]);
        await ledger().write(usage("2025-01-03"));
        expect((await ledger(two).read("2025-01")).days.size).toBe(2);
      },
    );

    const state = (generation: number, of = unit): UnitState => ({ unit: of, generation, pins: [], known: [] });
    const read = (store: ObjectStore) => readState(store, unit, (damage) => damages.push(damage));

    test("of two runs that begin with a unit's state one writes it, and of two that change it", async () => {
      const first = await Promise.all([writeState(one, state(1), undefined), writeState(two, state(2), undefined)]);
      expect(first.toSorted()).toEqual(["conflict", "stored"]);
      const version = (await read(one))!.version;
      expect(await writeState(one, state(3), version)).toBe("stored");
      expect(await writeState(two, state(4), version)).toBe("conflict");
      expect((await read(two))?.state).toEqual(state(3));
    });

    test("the states of a month are those of its units, without damaged ones", async () => {
      const units = ["a/b", "a b", "größe"].map((submitHost) => ({ ...unit, submitHost }));
      for (const [index, each] of units.entries()) await writeState(one, state(index + 1, each), undefined);
      await writeState(one, state(9, { ...unit, month: "2025-02" }), undefined);
      await two.put((await two.list("state/2025-01/"))[0]!, "damaged");
      const states = await readStates(two, "2025-01", (damage) => damages.push(damage));
      expect(states).toHaveLength(2);
      expect(damages).toHaveLength(1);
    });
  });
}
