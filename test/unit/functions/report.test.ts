import { afterEach, describe, expect, test, vi } from "vitest";
import { REPORT_KEY, wantsReport, writeReport } from "../../../functions/common/report.ts";
import { logger } from "../../../functions/common/runtime.ts";
import { DEMO_TENANTS, demoLedger } from "../../../lib/accounting/report/demo.ts";
import { loadSettings } from "../../../lib/accounting/settings/load.ts";
import { GridmeterError } from "../../../lib/shared/errors.ts";
import { leastSettings } from "../../support/run-cli.ts";

const { connection } = loadSettings({ env: leastSettings("http://127.0.0.1:9") }).tenants[0]!;
const settings = { tenants: DEMO_TENANTS.map((tenant) => ({ tenant, connection })) };
const now = (): number => Math.floor(Date.now() / 1000);
const A_MINUTE = () => 60_000;

afterEach(() => void vi.restoreAllMocks());

test("the page of the ledger goes into the bucket, over the one before", async () => {
  const store = await demoLedger(now());
  await store.put(REPORT_KEY, "the one before");
  const before = await store.list("");
  await writeReport(settings, store, A_MINUTE);
  const page = (await store.get(REPORT_KEY))?.body;
  expect(page).toContain("<title>Accounting report of MADE-UP-SITE</title>");
  expect(page).toContain("shared: biomed");
  expect(await store.list("")).toEqual(before);
});

describe("the accounting goes on", () => {
  test("without time for the page", async () => {
    const warn = vi.spyOn(logger, "warn").mockReturnValue();
    const store = await demoLedger(now());
    await writeReport(settings, store, () => 59_999);
    expect(await store.get(REPORT_KEY)).toBeUndefined();
    expect(JSON.stringify(warn.mock.calls)).toContain("report/index.html was not written: too little time was left");
  });

  test("where the bucket refuses the page", async () => {
    const warn = vi.spyOn(logger, "warn").mockReturnValue();
    const store = await demoLedger(now());
    vi.spyOn(store, "put").mockRejectedValue(new GridmeterError("store_failed", "Access denied."));
    await writeReport(settings, store, A_MINUTE);
    expect(JSON.stringify(warn.mock.calls)).toContain("report/index.html was not written: Access denied.");
  });
});

test.each([
  [undefined, false],
  ["", false],
  ["False", false],
  ["True", true],
  ["1", true],
])("GRIDMETER_REPORT=%s: %s", (value, wanted) => {
  expect(wantsReport({ GRIDMETER_REPORT: value })).toBe(wanted);
});

test("GRIDMETER_REPORT that is neither is refused before anything is counted", () => {
  expect(() => wantsReport({ GRIDMETER_REPORT: "perhaps" })).toThrow(
    /GRIDMETER_REPORT="perhaps" is neither true nor false/,
  );
});
