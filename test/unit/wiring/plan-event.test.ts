import { describe, expect, test } from "vitest";
import { GridmeterError } from "../../../lib/errors.ts";
import { parsePlanEvent } from "../../../lib/wiring/lambda-plan-event.ts";
import { eventFile } from "../../support/functions-world.ts";
import { at } from "../accounting/world.ts";

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
    [gap({ start: "yesterday", tenants: [] }), "config_invalid", "at tenants"],
  ])("%o is refused with %s, and it says what to give", (event, code, text) => {
    expect(() => parsePlanEvent(event)).toThrow(GridmeterError);
    expect(() => parsePlanEvent(event)).toThrow(expect.objectContaining({ code }) as Error);
    expect(() => parsePlanEvent(event)).toThrow(text);
    expect(() => parsePlanEvent(event)).toThrow('Nothing was put on the queue. Give {"mode":"auto"} or');
  });
});
