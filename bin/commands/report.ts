import { rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { randomUUID } from "node:crypto";
import { isMonth, monthOf } from "../../lib/accounting/model/time.ts";
import { openLedger } from "../../lib/accounting/ports.ts";
import { DEMO_TENANTS, demoLedger } from "../../lib/accounting/report/demo.ts";
import { type Report, makeReport } from "../../lib/accounting/report/figures.ts";
import { pageOf } from "../../lib/accounting/report/page/page.ts";
import { readReport, reportMonths } from "../../lib/accounting/report/read.ts";
import { TABLE_NAMES, type TableName, csvOf, tableOf } from "../../lib/accounting/report/tables.ts";
import { oneOf } from "../../lib/shared/config-values.ts";
import { GridmeterError } from "../../lib/shared/errors.ts";
import { storeError } from "../../lib/shared/fs.ts";
import { jsonPieces, writeOut } from "../show/json.ts";
import { reportText } from "../show/report.ts";
import { settingsOf } from "./account.ts";
import { nowInSeconds, say, warn } from "./options.ts";

export type ReportOptions = {
  readonly envFile?: string | undefined;
  readonly ledger?: string | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly csv?: string | true | undefined;
  readonly html?: string | undefined;
  readonly demo?: boolean | undefined;
  readonly json?: boolean | undefined;
};

const usage = (text: string): GridmeterError => new GridmeterError("usage", `${text} Nothing was written.`);

/** `gridmeter report`: what the ledger has of the months, and what was published of it. Asks Prometheus nothing. Gives the exit code. */
export async function report(options: ReportOptions): Promise<number> {
  const { csv, html, json = false, demo = false } = options;
  if (json && csv !== undefined) throw usage("--json and --csv both want stdout. Give one of them.");
  const table = csv === undefined ? undefined : tableName(csv);
  const found = await readFigures(options, demo);
  if (html !== undefined) await writePage(html, pageOf(found, demo));
  if (json) {
    await writeOut(jsonPieces({ madeUp: demo, ...found }));
    process.stdout.write("\n");
  } else if (table !== undefined) await writeOut([csvOf(tableOf(found, table))]);
  else if (html === undefined) process.stdout.write(reportText(found, demo));
  return 0;
}

/** `--csv` alone is the table by month, tenant and VO. */
function tableName(csv: string | true): TableName {
  if (csv === true) return "monthly";
  const parsed = oneOf(...TABLE_NAMES)(csv);
  if (parsed.ok) return parsed.value;
  throw usage(`--csv ${JSON.stringify(csv)} ${parsed.problem}.`);
}

async function readFigures(options: ReportOptions, demo: boolean): Promise<Report> {
  const now = nowInSeconds();
  const months = monthsOf(options, now);
  const keepAll = options.from !== undefined;
  if (demo) {
    const store = await demoLedger(now);
    return makeReport(await readReport(DEMO_TENANTS, store, { now, months, keepAll, damaged: () => undefined }));
  }
  const settings = settingsOf(options);
  const { store, remembers } = await openLedger(settings.ledger, true, process.env, warn);
  if (!remembers)
    throw usage("--ledger none: without a ledger there is nothing to report. Name the one that account keeps.");
  const input = await readReport(
    settings.tenants.map(({ tenant }) => tenant),
    store,
    { now, months, keepAll, damaged: ({ key, what }) => warn(`${key} is damaged (${what}) and is not in the report.`) },
  );
  const days = input.ledger.reduce((sum, { days }) => sum + days.length, 0);
  if (days === 0)
    warn(
      `the ledger ${settings.ledger} has no day of these months that was counted with these settings. ` +
        "See that --ledger and the settings are those of gridmeter account.",
    );
  return makeReport(input);
}

function monthsOf({ from, to }: ReportOptions, now: number): readonly string[] {
  for (const [name, month] of Object.entries({ "--from": from, "--to": to })) {
    if (month !== undefined && !isMonth(month))
      throw usage(`${name} ${JSON.stringify(month)} is no month, such as 2026-10.`);
  }
  const months = reportMonths(now, { from, to });
  if (months.length === 0)
    throw usage(
      `The months from ${from ?? ""} to ${to ?? monthOf(now)} end before they begin. Give --to after --from.`,
    );
  return months;
}

/** Writes the page as a whole or not at all: who has it open never gets a half of it. */
async function writePage(file: string, page: string): Promise<void> {
  const unfinished = join(dirname(file), `.gridmeter-report-${randomUUID()}`);
  try {
    await writeFile(unfinished, page);
    await rename(unfinished, file);
  } catch (thrown) {
    await rm(unfinished, { force: true }).catch(() => undefined);
    throw storeError(thrown, "write", file);
  }
  say(`the report is in ${file}`);
}
