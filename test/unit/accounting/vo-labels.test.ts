import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decide } from "../../../lib/accounting/publishing/decide.ts";
import { guard } from "../../../lib/accounting/publishing/guards.ts";
import { individualRecord } from "../../../lib/accounting/publishing/jobs.ts";
import { figuresOf } from "../../../lib/accounting/publishing/publish.ts";
import { monthlyRecords } from "../../../lib/accounting/publishing/records.ts";
import { type UnitState, sourceOf } from "../../../lib/accounting/publishing/state.ts";
import { type UsageGroup, toDays } from "../../../lib/accounting/counting/usage.ts";
import { checkMessage } from "../../../lib/accounting/apel/check.ts";
import { apelKey } from "../../../lib/accounting/apel/replace-keys.ts";
import { writeMessages } from "../../../lib/accounting/apel/write.ts";
import { apelText } from "../../../lib/accounting/settings/formats.ts";
import { at, GRID, HOST, SITE, tenant } from "./world.ts";

const UNIT = { site: SITE, submitHost: HOST, month: "2025-02" };
const END = at("2025-02-03T12:00");
const NOW = at("2025-03-02T12:00");
const NOTHING = ["", " ", "\t ", "none", "None", "NONE", "null", "Null", "nULL", " none ", "null "];

const group = (vo: string | null, jobs = 1): UsageGroup => ({
  vo,
  milliCores: 1000,
  jobs,
  wallSeconds: 100 * jobs,
  milliCoreSeconds: 100_000 * jobs,
  firstEnd: END,
  lastEnd: END,
});
const pod = (vo: string | undefined) => ({
  uid: "u",
  pod: "p",
  start: END - 100,
  end: END,
  milliCores: 1000,
  succeeded: true,
  vo,
});
const label = fc.oneof(
  fc.constantFrom(...NOTHING),
  fc.constantFrom("atlas", "cms", " cms", "lhcb ", "nonesuch", "nullify", GRID.vo),
);

test.each(NOTHING)("the label %j is no label: VO_NAME counts", (text) => {
  const [day] = toDays([pod(text)], ["2025-02-03"], { defaultMilliCores: undefined, gapsOf: () => [] });
  expect(day).toMatchObject({ usage: { groups: [{ vo: null }] }, jobs: [{ vo: null }] });
  expect(monthlyRecords(UNIT, [{ tenant: GRID, groups: [group(text)] }])).toMatchObject([{ vo: GRID.vo }]);
  const job = { uid: "u", pod: "p", vo: text, start: END - 100, end: END, milliCores: 1000 };
  expect(individualRecord(GRID, job)).toMatchObject({ vo: GRID.vo });
});

test.each(NOTHING)("as a site, submit host, VO or infrastructure type, %j is refused", (text) => {
  expect(apelText(255)(text)).toMatchObject({ ok: false });
});

describe("rows of one APEL key are added up, never dropped", () => {
  test.each(["summary-0.2", "summary-0.4", "normalised-0.4"] as const)("%s, whatever the labels", (format) => {
    const one = tenant("grid", { format });
    fc.assert(
      fc.property(
        fc.array(fc.tuple(label, fc.integer({ min: 1, max: 9 })), { minLength: 1, maxLength: 12 }),
        (labels) => {
          const groups = labels.map(([vo, jobs]) => group(vo, jobs));
          const records = monthlyRecords(UNIT, [
            { tenant: one, groups },
            { tenant: { ...one, name: "other" }, groups },
          ]);
          expect(new Set(records.map(apelKey)).size).toBe(records.length);
          const all = 2 * labels.reduce((sum, [, jobs]) => sum + jobs, 0);
          expect(records.reduce((sum, record) => sum + record.numberOfJobs, 0)).toBe(all);
          expect(records.reduce((sum, record) => sum + record.wallDuration, 0)).toBe(100 * all);
          for (const { body } of writeMessages(records, format)) expect(checkMessage(body, NOW).problems).toEqual([]);
        },
      ),
    );
  });
});

describe("a month that was published with such a label before", () => {
  const figures = ["none", GRID.vo].map((vo) => ({
    tenant: GRID.name,
    source: sourceOf(GRID),
    vo,
    jobs: 5,
    milliCoreSeconds: 500_000,
  }));
  const before = monthlyRecords(UNIT, [{ tenant: GRID, groups: [group(null, 5)] }]);
  const records = [...before, ...before.map((record) => ({ ...record, vo: "none" }))];
  const published = { generation: 1, at: NOW - 1, hash: "", records, sync: 10, figures, individual: {} };
  const state: UnitState = { unit: UNIT, generation: 1, pins: [], known: [], published };

  test("has not gone down, and its row without a VO is zeroed", () => {
    const now = { tenant: GRID.name, source: sourceOf(GRID), vo: GRID.vo, jobs: 10, milliCoreSeconds: 1_000_000 };
    expect(guard([state], [{ tenant: GRID, figures: [now] }], () => UNIT).decreases.size).toBe(0);
    const less = { ...now, jobs: 4 };
    expect(guard([state], [{ tenant: GRID, figures: [less] }], () => UNIT).decreases.size).toBe(1);
    const want = {
      unit: UNIT,
      format: "summary-0.2",
      records: monthlyRecords(UNIT, [{ tenant: GRID, groups: [group("NULL", 5), group(null, 5)] }]),
      figures: [now],
      sync: 10,
      individual: { records: [], days: {} },
    } as const;
    const decision = decide(want, state, [], { now: NOW, force: false, allowDecrease: false, open: true });
    const rows = decision.action === "publish" ? decision.publication.records : [];
    expect(rows.map(({ vo, numberOfJobs }) => [vo, numberOfJobs])).toEqual([
      [GRID.vo, 10],
      ["none", 0],
    ]);
  });

  test("the figures of the guard are VO_NAME's too", () => {
    const days = [{ groups: [group("none", 2), group(null, 3)] }];
    expect(figuresOf({ tenant: GRID, days } as never)).toMatchObject([{ vo: GRID.vo, jobs: 5 }]);
  });
});
