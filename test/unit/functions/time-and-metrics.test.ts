import { describe, expect, test } from "vitest";
import { groupPath } from "../../../lib/shared/pushgateway.ts";
import { type UnitFigures, pushedText, unitGrouping, unitMetrics } from "../../../lib/accounting/metrics.ts";
import { stopBefore } from "../../../functions/common/runtime.ts";
import { at } from "../accounting/world.ts";

const unit = (month: string) => ({ site: "S", submitHost: "h/ns", month });
const grouping = (month: string) => unitGrouping(unit(month), at("2025-03-01T06:00"));

describe("an invocation's time", () => {
  test("of 15 minutes five are kept, and no query gets more than half of that", () => {
    let left = 900_000;
    const { stop, querySeconds } = stopBefore(() => left);
    expect(querySeconds).toBe(150);
    expect(stop()).toBe(false);
    left = 300_000;
    expect(stop()).toBe(false);
    left = 299_999;
    expect(stop()).toBe(true);
  });

  test("of little time two fifths, and a query gets a second at least", () => {
    let left = 1000;
    const { stop, querySeconds } = stopBefore(() => left);
    expect(querySeconds).toBe(1);
    left = 399;
    expect(stop()).toBe(true);
  });
});

describe("the group on the Pushgateway", () => {
  test("does not grow with the months: current, previous, and all others together", () => {
    expect(["2025-03", "2025-02", "2025-01", "2019-07"].map((month) => grouping(month)["period"])).toEqual([
      "current",
      "previous",
      "older",
      "older",
    ]);
    expect(groupPath(grouping("2025-03"))).toBe(
      "/metrics/job/gridmeter_accounting/period/current/site/S/submit_host@base64/aC9ucw",
    );
  });
});

describe("the figures as metrics", () => {
  const figures: UnitFigures = {
    unit: unit("2025-02"),
    outcome: "done",
    counted: { jobs: 3, coreSeconds: 7200.5, gapSeconds: 3600, leftOut: { no_start: 1 }, daysAsked: 4 },
    messages: 2,
    duration: 1.5,
    at: 1000,
  };
  const values = async (more: Partial<UnitFigures>): Promise<string[]> =>
    (await pushedText(unitMetrics({ ...figures, ...more })))
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"));

  test("of a success", async () => {
    expect(await values({})).toEqual([
      "gridmeter_accounting_last_run_timestamp_seconds 1000",
      "gridmeter_accounting_last_success_timestamp_seconds 1000",
      `gridmeter_accounting_month_timestamp_seconds ${at("2025-02-01")}`,
      "gridmeter_accounting_duration_seconds 1.5",
      "gridmeter_accounting_refused 0",
      "gridmeter_accounting_failed 0",
      "gridmeter_accounting_jobs 3",
      "gridmeter_accounting_core_seconds 7200.5",
      "gridmeter_accounting_gap_seconds 3600",
      "gridmeter_accounting_messages 2",
      "gridmeter_accounting_days_asked 4",
      'gridmeter_accounting_left_out{reason="no_start"} 1',
    ]);
  });

  test.each([
    ["refused", 1, 0],
    ["failed", 0, 1],
    ["continued", 0, 0],
  ] as const)("of what was %s: no time of a success", async (outcome, refused, failed) => {
    const lines = await values({ outcome });
    expect(lines).toContain(`gridmeter_accounting_refused ${refused}`);
    expect(lines).toContain(`gridmeter_accounting_failed ${failed}`);
    expect(lines.join("\n")).not.toContain("last_success");
  });

  test("what was not counted is absent, never 0", async () => {
    const bare: UnitFigures = { unit: unit("2025-02"), outcome: "failed", messages: 0, duration: 1, at: 1000 };
    expect(await pushedText(unitMetrics(bare))).not.toMatch(/_jobs|_core_seconds|_gap_seconds|_days_asked|_left_out/);
  });
});
