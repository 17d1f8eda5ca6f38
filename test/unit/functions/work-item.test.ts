import { describe, expect, test } from "vitest";
import { MemoryStore } from "../../../lib/accounting/store/store.ts";
import { tiedTenants } from "../../../lib/accounting/publishing/guards.ts";
import { type UnitState, sourceOf, writeState } from "../../../lib/accounting/publishing/state.ts";
import { type WorkItem, parseWorkItem, requestOf } from "../../../functions/common/work-item.ts";
import { unitsOf } from "../../../functions/plan.ts";
import { at, tenant } from "../accounting/world.ts";

const ITEM: WorkItem = { v: 1, site: "S", submitHost: "h:6443/ns", month: "2025-01", mode: "gap" };

describe("a work item", () => {
  test.each([
    ITEM,
    { ...ITEM, mode: "auto" },
    { ...ITEM, recount: true, force: true, allowDecrease: true, allowIncomplete: true },
    { ...ITEM, run: { id: "059f36b4", now: 1_764_486_000 } },
  ] as WorkItem[])("is read as it was written: %o", (item) => {
    expect(parseWorkItem(JSON.stringify(item))).toEqual({ ok: true, item });
  });

  test.each([
    ["", "not JSON"],
    ["null", "no work item"],
    ["[]", "no work item"],
    [JSON.stringify({ ...ITEM, v: 2 }), "→ at v"],
    [JSON.stringify({ ...ITEM, site: "" }), "→ at site"],
    [JSON.stringify({ ...ITEM, month: "2025-13" }), "→ at month"],
    [JSON.stringify({ ...ITEM, month: "2025-1" }), "→ at month"],
    [JSON.stringify({ ...ITEM, mode: "all" }), "→ at mode"],
    [JSON.stringify({ ...ITEM, force: "yes" }), "→ at force"],
    [JSON.stringify({ ...ITEM, run: { id: "x" } }), "→ at run.now"],
    [JSON.stringify({ ...ITEM, tenant: "a" }), "tenant"],
  ])("%s is none, and it says why", (text, problem) => {
    const parsed = parseWorkItem(text);
    expect(parsed.ok).toBe(false);
    expect(parsed.ok ? "" : parsed.problem).toContain(problem);
  });

  test("gap covers the whole month, also one that has only begun; auto the previous and the current month alone", () => {
    const now = at("2025-03-01T00:10");
    expect(requestOf(ITEM, now)).toEqual({ mode: "gap", start: at("2025-01-01"), end: at("2025-02-01") });
    expect(requestOf({ ...ITEM, mode: "auto", month: "2025-02" }, now)).toEqual({ mode: "auto", month: "2025-02" });
    expect(requestOf({ ...ITEM, mode: "auto", month: "2025-03" }, now)).toEqual({ mode: "auto", month: "2025-03" });
    expect(requestOf({ ...ITEM, mode: "auto" }, now)).toBeUndefined();
    expect(requestOf({ ...ITEM, mode: "auto", month: "2025-04" }, now)).toBeUndefined();
  });
});

describe("the units of a request", () => {
  const tenants = [tenant("a"), tenant("b"), tenant("c", { submitHost: "other" }), tenant("d", { site: "ELSEWHERE" })];

  test("each (site, submit host, month) once, though tenants share it; months ascending", () => {
    const units = unitsOf(tenants, { mode: "auto" }, at("2025-03-05"));
    expect(units.map(({ site, submitHost, month }) => `${month} ${site} ${submitHost}`)).toEqual(
      ["2025-02", "2025-03"].flatMap((month) => [
        `${month} UNI-TEST k8s.example.org`,
        `${month} UNI-TEST other`,
        `${month} ELSEWHERE k8s.example.org`,
      ]),
    );
  });

  test("a gap widens to whole months; one in the future is refused", () => {
    const gap = { mode: "gap", start: at("2024-12-31T23:59:59"), end: at("2025-01-01T00:00:01") } as const;
    expect(unitsOf(tenants.slice(0, 1), gap, at("2025-03-05")).map(({ month }) => month)).toEqual([
      "2024-12",
      "2025-01",
    ]);
    expect(() =>
      unitsOf(tenants, { mode: "gap", start: at("2025-03-01"), end: at("2025-05-01") }, at("2025-03-05")),
    ).toThrow("future");
  });
});

describe("tenants that must be counted for a unit", () => {
  const month = "2025-01";
  const published = (submitHost: string, ...tenants: ReturnType<typeof tenant>[]): UnitState => ({
    unit: { site: "UNI-TEST", submitHost, month },
    generation: 1,
    pins: [],
    known: [],
    published: {
      generation: 1,
      at: 1,
      hash: "x",
      records: [],
      sync: 1,
      individual: {},
      figures: tenants.map((one) => ({
        tenant: one.name,
        source: sourceOf(one),
        vo: "ops",
        jobs: 1,
        milliCoreSeconds: 1,
      })),
    },
  });
  async function tied(submitHost: string, tenants: ReturnType<typeof tenant>[], states: readonly UnitState[]) {
    const store = new MemoryStore();
    for (const state of states) await writeState(store, state, undefined);
    return tiedTenants({ site: "UNI-TEST", submitHost, month }, tenants, store, () => undefined);
  }
  const [a, b, c, d] = [
    tenant("a", { submitHost: "one" }),
    tenant("b", { submitHost: "one" }),
    tenant("c", { submitHost: "two" }),
    tenant("d", { submitHost: "three" }),
  ];

  test("its own where nobody moved, or nothing was published yet", async () => {
    expect(await tied("one", [a, b, c], [])).toEqual(["a", "b"]);
    expect(await tied("one", [a, b, c], [published("one", a, b), published("two", c)])).toEqual(["a", "b"]);
    expect(await tied("two", [a, b, c], [published("one", a, b)])).toEqual(["c"]);
  });

  test("those of the unit from which one came, seen from either side, and on along a chain of moves", async () => {
    const moved = [published("one", a, b, c)];
    expect(await tied("two", [a, b, c, d], moved)).toEqual(["a", "b", "c"]);
    expect(await tied("one", [a, b, c, d], moved)).toEqual(["a", "b", "c"]);
    expect(await tied("three", [a, b, c, d], moved)).toEqual(["d"]);
    expect(await tied("one", [a, b, c, d], [...moved, published("two", d)])).toEqual(["a", "b", "c", "d"]);
  });
});
