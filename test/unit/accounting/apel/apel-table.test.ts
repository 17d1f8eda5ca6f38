import { expect, test } from "vitest";
import { type ApelRecord, zeroed } from "../../../../lib/accounting/apel/record.ts";
import type { MessageFormat } from "../../../../lib/accounting/model/tenant.ts";
import { writeMessages } from "../../../../lib/accounting/apel/write.ts";
import { ApelTable } from "../../../support/apel-table.ts";
import { INDIVIDUAL, NORMALISED, NOW, SUMMARY, SYNC } from "./arbitrary.ts";

function load(table: ApelTable, records: ApelRecord[], format: MessageFormat) {
  for (const { body } of writeMessages(records, format)) expect(table.load(body, NOW)).toEqual([]);
}
const totals = (table: ApelTable) => table.totals("2026-11").get("UNI-TEST");

test("a later message replaces, a smaller one too, and v0.4 replaces v0.2", () => {
  const table = new ApelTable();
  load(table, [SUMMARY, SYNC], "summary-0.2");
  expect(totals(table)).toEqual({ jobs: 3, coreSeconds: 7200, syncJobs: 3 });
  load(table, [{ ...SUMMARY, numberOfJobs: 1, wallDuration: 60 }], "summary-0.4");
  expect(totals(table)).toEqual({ jobs: 1, coreSeconds: 60, syncJobs: 3 });
});

test("another key counts double until the old one is zeroed", () => {
  const table = new ApelTable();
  const corrected = { ...SUMMARY, serviceLevel: { type: "hepscore23", value: 15 } as const };
  load(table, [SUMMARY], "summary-0.2");
  load(table, [corrected], "summary-0.2");
  expect(totals(table)?.jobs).toBe(6);
  load(table, [corrected, zeroed(SUMMARY)], "summary-0.2");
  expect(totals(table)).toEqual({ jobs: 3, coreSeconds: 7200, syncJobs: 0 });
});

test("kinds add up; Processors multiplies, 0 means core-seconds", () => {
  const table = new ApelTable();
  load(table, [SUMMARY, { ...NORMALISED, processors: 8, wallDuration: 10 }, INDIVIDUAL], "individual-0.4");
  expect(totals(table)).toEqual({ jobs: 7, coreSeconds: 7200 + 80 + 4 * 3600, syncJobs: 0 });
});

test("one bad record, and the whole message changes nothing", () => {
  const table = new ApelTable();
  const [message] = writeMessages([SUMMARY, { ...SUMMARY, vo: "cms" }], "summary-0.2");
  expect(table.load(message!.body.replace(/WallDuration: 7200(?=[^%]*%%\n$)/, "WallDuration: x"), NOW)).toHaveLength(1);
  expect(table.rows).toEqual([]);
});

test("a job without a service level is for Gratia only: APEL refuses it", () => {
  const { serviceLevel: _, ...bare } = INDIVIDUAL;
  const table = new ApelTable();
  expect(table.load(writeMessages([bare], "individual-0.3")[0]!.body, NOW)).toHaveLength(1);
  expect(table.rows).toEqual([]);
});
