import { makeReport } from "../../lib/accounting/report/figures.ts";
import { pageOf } from "../../lib/accounting/report/page/page.ts";
import { readReport, reportMonths } from "../../lib/accounting/report/read.ts";
import type { LoadedSettings } from "../../lib/accounting/settings/load.ts";
import type { Environment } from "../../lib/accounting/store/aws.ts";
import type { ObjectStore } from "../../lib/accounting/store/store.ts";
import { boolean } from "../../lib/shared/config-values.ts";
import { GridmeterError, errorText } from "../../lib/shared/errors.ts";
import { logger, variable, warnDamaged } from "./runtime.ts";

/** Where the page lies in the bucket, which nobody but its owner may read. */
export const REPORT_KEY = "report/index.html";
/** With less time left no page is made, milliseconds: the unit is done, and must not be done again for its page. */
const TIME_FOR_PAGE = 60_000;

/** Whether GRIDMETER_REPORT asks for the page; not set is no. @throws GridmeterError `config_invalid` */
export function wantsReport(env: Environment): boolean {
  const text = variable(env, "GRIDMETER_REPORT");
  if (text === undefined) return false;
  const parsed = boolean(text);
  if (parsed.ok) return parsed.value;
  throw new GridmeterError(
    "config_invalid",
    `GRIDMETER_REPORT=${JSON.stringify(text)} ${parsed.problem}. Nothing was published.`,
  );
}

/** Makes the report of the last months from the ledger, and puts its page into the bucket. Never throws: the accounting matters more. */
export async function writeReport(
  { tenants }: Pick<LoadedSettings, "tenants">,
  store: ObjectStore,
  remaining: () => number,
): Promise<void> {
  if (remaining() < TIME_FOR_PAGE) {
    logger.warn(`${REPORT_KEY} was not written: too little time was left. The next unit writes it.`);
    return;
  }
  try {
    const now = Math.floor(Date.now() / 1000);
    const configured = tenants.map(({ tenant }) => tenant);
    const months = reportMonths(now);
    const input = await readReport(configured, store, { now, months, keepAll: false, damaged: warnDamaged });
    await store.put(REPORT_KEY, pageOf(makeReport(input), false));
  } catch (error) {
    logger.warn(`${REPORT_KEY} was not written: ${errorText(error)}`);
  }
}
