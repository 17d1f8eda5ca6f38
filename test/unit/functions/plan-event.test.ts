import { describe, expect, test } from "vitest";
import { periods } from "../../../lib/accounting/model/periods.ts";
import { GridmeterError } from "../../../lib/shared/errors.ts";
import { parsePlanEvent as parse } from "../../../functions/plan.ts";
import { eventFile } from "../../support/functions-world.ts";
import { at } from "../accounting/world.ts";

const NOW = at("2026-03-10T06:00");
const parsePlanEvent = (event: unknown, now = NOW) => parse(event, now);
const gap = (more: object = {}) => ({
  mode: "gap",
  start: "2025-01-01T00:00:00Z",
  end: "2025-02-01T00:00:00+01:00",
  ...more,
});

describe("the event of plan", () => {
  test("each file of events/ for plan is one", async () => {
    expect(parsePlanEvent(await eventFile("auto"))).toEqual({ request: { mode: "auto" }, flags: {}, dryRun: false });
    const request = { mode: "gap", start: at("2025-01-01"), end: at("2025-03-01") };
    expect(parsePlanEvent(await eventFile("gap"))).toEqual({ request, flags: {}, dryRun: false });
    expect(parsePlanEvent(await eventFile("gap-dry-run"))).toMatchObject({ dryRun: true });
    expect(parsePlanEvent(await eventFile("previous-month-dry-run"))).toEqual({
      request: { mode: "gap", start: at("2026-02-01"), end: at("2026-03-01") },
      flags: {},
      dryRun: true,
    });
  });

  test.each([
    ["previous-month", "2026-03-10T06:00", "2026-02-01", "2026-03-01"],
    ["previous-month", "2026-01-01T00:00", "2025-12-01", "2026-01-01"],
    ["previous-month", "2025-12-31T23:59:59", "2025-11-01", "2025-12-01"],
    ["current-month", "2026-03-10T06:00", "2026-03-01", "2026-04-01"],
    ["current-month", "2026-01-01T00:00", "2026-01-01", "2026-02-01"],
  ])("the period %s at %s is %s to %s, a month that a run takes", (period, now, start, end) => {
    const { request, flags } = parsePlanEvent({ mode: "gap", period, recount: true }, at(now));
    expect(request).toEqual({ mode: "gap", start: at(start), end: at(end) });
    expect(flags).toEqual({ recount: true });
    // In its very first second a month has no day yet, so there is nothing to count.
    expect(periods(request, at(now)).map(({ month }) => month)).toEqual(
      at(now) === at(start) ? [] : [start.slice(0, 7)],
    );
  });

  test("all that may stand in it", () => {
    const event = gap({
      tenant: "a",
      tenants: ["b"],
      recount: true,
      force: true,
      allowDecrease: true,
      allowIncomplete: true,
    });
    expect(parsePlanEvent(event)).toEqual({
      request: { mode: "gap", start: at("2025-01-01"), end: at("2025-01-31T23:00") },
      tenants: ["a", "b"],
      flags: { recount: true, force: true, allowDecrease: true, allowIncomplete: true },
      dryRun: false,
    });
    expect(parsePlanEvent({ mode: "auto", tenant: ["a", "b"], force: false })).toEqual({
      request: { mode: "auto" },
      tenants: ["a", "b"],
      flags: {},
      dryRun: false,
    });
  });

  test.each([
    [undefined, "config_invalid", ""],
    [null, "config_invalid", "null"],
    ["auto", "config_invalid", '"auto"'],
    [{}, "config_invalid", "at mode"],
    [{ mode: "all" }, "config_invalid", "at mode"],
    [{ mode: "auto", dryrun: true }, "config_invalid", "dryrun"],
    [{ mode: "auto", start: "2025-01-01T00:00:00Z" }, "config_invalid", "start"],
    [{ mode: "auto", force: "true" }, "config_invalid", "at force"],
    [{ mode: "auto", tenant: "" }, "config_invalid", "at tenant"],
    [{ mode: "gap" }, "period_invalid", "at start"],
    [gap({ end: undefined }), "period_invalid", "at end"],
    [gap({ start: "2025-01-01T00:00:00" }), "period_invalid", "has no time zone"],
    [gap({ start: "yesterday" }), "period_invalid", "ISO 8601"],
    [{ mode: "gap", period: "last-month" }, "period_invalid", "previous-month"],
    [gap({ period: "previous-month" }), "config_invalid", '"start", "end"'],
    [{ mode: "auto", period: "previous-month" }, "config_invalid", '"period"'],
    [{ mode: "gap", period: 1 }, "config_invalid", '"period"'],
    [gap({ start: "yesterday", tenants: [] }), "config_invalid", "at tenants"],
  ])("%o is refused with %s, and it says what to give", (event, code, text) => {
    expect(() => parsePlanEvent(event)).toThrow(GridmeterError);
    expect(() => parsePlanEvent(event)).toThrow(expect.objectContaining({ code }) as Error);
    expect(() => parsePlanEvent(event)).toThrow(text);
    expect(() => parsePlanEvent(event)).toThrow('Nothing was put on the queue. Give {"mode":"auto"} or');
  });
});
