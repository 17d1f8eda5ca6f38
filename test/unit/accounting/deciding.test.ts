import { describe, expect, test } from "vitest";
import { type Want, decide, priorRecords } from "../../../lib/accounting/publishing/decide.ts";
import { isOpen } from "../../../lib/accounting/model/periods.ts";
import { guard, unitKey } from "../../../lib/accounting/publishing/guards.ts";
import { openState, publish } from "../../../lib/accounting/publishing/publish.ts";
import { monthlyRecords } from "../../../lib/accounting/publishing/records.ts";
import {
  type Figure,
  type Publication,
  type UnitState,
  readState,
  sourceOf,
  stateKey,
  writeState,
} from "../../../lib/accounting/publishing/state.ts";
import { listGenerations } from "../../../lib/accounting/delivery/outgoing.ts";
import { MemoryStore } from "../../../lib/accounting/store/store.ts";
import { at, GRID, HOST, SITE, tenant } from "./world.ts";

const NOW = at("2025-02-10");
const UNIT = { site: SITE, submitHost: HOST, month: "2025-02" };
const OPTIONS = { now: NOW, force: false, allowDecrease: false, open: true };

function want(jobs: number, one = GRID): Want {
  const end = at("2025-02-03");
  const group = {
    vo: null,
    milliCores: 1000,
    jobs,
    wallSeconds: 60 * jobs,
    milliCoreSeconds: 60_000 * jobs,
    firstEnd: end,
    lastEnd: end,
  };
  return {
    unit: UNIT,
    format: one.format,
    records: monthlyRecords(UNIT, jobs === 0 ? [] : [{ tenant: one, groups: [group] }]),
    figures: [figure(jobs)],
    sync: jobs,
    individual: { records: [], days: {} },
  };
}
const figure = (jobs: number, one = GRID): Figure => ({
  tenant: one.name,
  source: sourceOf(one),
  vo: one.vo,
  jobs,
  milliCoreSeconds: 60_000 * jobs,
});

function publication(wanted: Want, state?: UnitState): Publication {
  const decision = decide(wanted, state, [], OPTIONS);
  if (decision.action !== "publish") throw new Error(decision.action);
  return { ...decision.publication, generation: 1 };
}
const state = (more: Partial<UnitState> = {}): UnitState => ({
  unit: UNIT,
  generation: 1,
  pins: [],
  known: [],
  ...more,
});

describe("deciding about a unit", () => {
  test("new, unchanged, changed", () => {
    expect(decide(want(1), undefined, [], OPTIONS)).toMatchObject({ action: "publish", why: "new" });
    const published = publication(want(1));
    expect(decide(want(1), state({ published }), [], OPTIONS)).toEqual({ action: "unchanged" });
    expect(decide(want(2), state({ published }), [], OPTIONS)).toMatchObject({ action: "publish", why: "changed" });
  });

  test("a run that was killed after it reserved: the next one publishes anew, whatever became of its messages", () => {
    const [published, pending] = [publication(want(1)), publication(want(2))];
    expect(decide(want(1), state({ published, pending }), [], OPTIONS)).toMatchObject({ action: "publish" });
    expect(decide(want(2), state({ pending }), [], OPTIONS)).toMatchObject({ action: "publish", why: "new" });
  });

  test("rows that a killed run may have written get their tombstones too, and so do those of pins and of lifted pins", () => {
    const of = (vo: string) => want(1, { ...GRID, vo });
    const held = state({
      published: publication(of("a")),
      pending: publication(of("b")),
      known: [...of("c").records],
      pins: [{ records: [...of("d").records], sync: null, hash: "h", at: NOW }],
    });
    expect(priorRecords(held)).toHaveLength(4);
    const decision = decide(of("e"), held, [], { ...OPTIONS, force: true });
    const rows = decision.action === "publish" ? decision.publication.records : [];
    expect(rows.map(({ vo, numberOfJobs }) => `${vo} ${numberOfJobs}`).toSorted()).toEqual([
      "a 0",
      "b 0",
      "c 0",
      "d 0",
      "e 1",
    ]);
    // One file holds them all.
    expect(decision.action === "publish" && [...decision.checked.messages].map(({ kind }) => kind)).toEqual([
      "summary",
      "sync",
    ]);
  });

  test("pins refuse before anything else; a decrease refuses unless allowed", () => {
    const pins = [{ records: [], sync: 1, hash: "h", at: NOW }];
    const decreases = [{ tenant: "grid", vo: "ops", was: figure(2), now: figure(1) }];
    const code = (held: UnitState, options = {}) => {
      const decision = decide(want(1), held, decreases, { ...OPTIONS, ...options });
      return decision.action === "refuse" ? decision.error.code : decision.action;
    };
    expect(code(state({ pins }))).toBe("pinned_refused");
    expect(code(state({ pins }), { force: true })).toBe("decrease_refused");
    expect(code(state())).toBe("decrease_refused");
    expect(code(state(), { allowDecrease: true })).toBe("publish");
  });

  test("the previous and the current month are open", () => {
    expect(["2024-12", "2025-01", "2025-02", "2025-03"].filter((month) => isOpen(month, NOW))).toEqual([
      "2025-01",
      "2025-02",
    ]);
  });
});

describe("the guard, per (tenant, VO), over all units of the month", () => {
  const MOVED = { ...GRID, submitHost: "moved" };
  const current = (one: typeof GRID) => ({ site: one.site, submitHost: one.submitHost, month: "2025-02" });
  const holding = (figures: readonly Figure[], more: Partial<UnitState> = {}) =>
    state({ published: { ...publication(want(1)), figures: [...figures] }, ...more });
  const counted = (one: typeof GRID, jobs: number | undefined) => ({
    tenant: one,
    figures: jobs === undefined ? undefined : [figure(jobs, one)],
  });

  test("equal or higher is fine, lower jobs or core-seconds are not", () => {
    const decreases = (was: Figure, now: Figure) =>
      guard([holding([was])], [{ tenant: GRID, figures: [now] }], current).decreases.get(unitKey(UNIT));
    expect(decreases(figure(2), figure(2))).toBeUndefined();
    expect(decreases(figure(2), figure(3))).toBeUndefined();
    expect(decreases(figure(2), figure(1))).toHaveLength(1);
    expect(decreases(figure(2), { ...figure(3), milliCoreSeconds: 1 })).toHaveLength(1);
    expect(decreases(figure(2), { ...figure(1), milliCoreSeconds: 1e9 })).toHaveLength(1);
    expect(decreases(figure(0), { ...figure(5), vo: "other" })).toBeUndefined();
  });

  test("what was reserved counts as published: it may have been written", () => {
    const held = holding([figure(1)], { pending: { ...publication(want(3)), figures: [figure(3)] } });
    expect(guard([held], [counted(GRID, 2)], current).decreases.get(unitKey(UNIT))).toHaveLength(1);
  });

  test("a tenant that could not be counted is not judged", () => {
    expect(guard([holding([figure(2)])], [counted(GRID, undefined)], current).decreases.size).toBe(0);
  });

  test("a tenant that moved has not gone down; what it left is to be zeroed, also after a kill between reserving and writing", () => {
    const zeros = { ...publication(want(0)), figures: [] };
    for (const held of [
      holding([figure(2)]),
      holding([figure(2)], { pending: zeros }),
      holding([], { pending: { ...zeros, figures: [figure(2)] } }),
    ]) {
      const report = guard([held], [counted(MOVED, 2)], current);
      expect(report.decreases.size).toBe(0);
      expect(report.left).toEqual([UNIT]);
      expect(report.moves).toEqual([{ tenant: "grid", from: UNIT, to: { ...UNIT, submitHost: "moved" } }]);
    }
    expect(guard([holding([])], [counted(MOVED, 2)], current)).toMatchObject({ left: [], moves: [] });
  });

  test("units of no configured tenant are another configuration's", () => {
    const stranger = tenant("stranger", { pods: { namespace: "elsewhere" } });
    const report = guard([holding([figure(2)])], [counted({ ...stranger, submitHost: "x" }, 1)], current);
    expect(report).toMatchObject({ left: [], moves: [] });
    expect(report.decreases.size).toBe(0);
  });
});

describe("reserving, writing, confirming", () => {
  const decision = () => {
    const made = decide(want(1), undefined, [], OPTIONS);
    if (made.action !== "publish") throw new Error(made.action);
    return made;
  };

  test("the state says what was published, under which generation", async () => {
    const store = new MemoryStore();
    const stores = { store, outbox: store };
    const held = await openState(stores, UNIT, NOW, () => undefined);
    expect(held).toEqual({ state: { unit: UNIT, generation: 0, pins: [], known: [] }, version: undefined });
    expect(await publish(stores, decision(), held)).toMatchObject({ generation: 1 });
    const after = await readState(store, UNIT, () => undefined);
    expect(after?.state).toMatchObject({ generation: 1, published: { generation: 1, at: NOW, sync: 1 } });
    expect(after?.state).not.toHaveProperty("pending");
    // Who comes with the same state again has been overtaken.
    expect(await publish(stores, decision(), held)).toBeUndefined();
    expect([...(await listGenerations(store, UNIT)).keys()]).toEqual([1]);
  });

  test("a state of its own key for every unit, safely encoded; compare-and-set", async () => {
    expect(stateKey({ ...UNIT, submitHost: "a/b" })).toBe("state/2025-02/UNI-TEST/a=2Fb.json");
    const store = new MemoryStore();
    expect(await writeState(store, state(), undefined)).toBe("stored");
    expect(await writeState(store, state(), undefined)).toBe("conflict");
    const held = await readState(store, UNIT, () => undefined);
    expect(await writeState(store, state({ generation: 2 }), held!.version)).toBe("stored");
    expect(await writeState(store, state({ generation: 3 }), held!.version)).toBe("conflict");
  });
});
