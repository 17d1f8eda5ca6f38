import { showTime } from "../../lib/accounting/model/time.ts";
import type { Report } from "../../lib/accounting/report/figures.ts";
import { type ReportTable, type TableName, shown, tableOf, forPeople } from "../../lib/accounting/report/tables.ts";
import { plainText } from "../../lib/shared/text.ts";
import { screenWidth, textTable, wrap } from "./table.ts";

/** What a terminal shows of a report; `--csv`, `--json` and `--html` have all tables and columns. */
const SHOWN: readonly TableName[] = ["tenants", "vos", "byMonth", "leftOut", "gaps", "published", "units"];

/** The report on a terminal, as wide as that is; colour only where stdout is one. */
export function reportText(report: Report, madeUp: boolean, width = screenWidth()): string {
  const prose = (text: string): readonly string[] => wrap(plainText(text), width ?? Infinity);
  const { months, totals, sites, now, notes } = report;
  const period = `${months.at(0) ?? ""} to ${months.at(-1) ?? ""}`;
  const lines = [
    ...(madeUp ? [styled("yellow", "Demonstration: every figure is made up.")] : []),
    ...prose(`Accounting report of ${sites.join(", ")}, ${period}, as of ${showTime(now)}`).map(heading),
    ...prose(totalsLine(totals)),
    ...notes.flatMap(prose),
    ...SHOWN.flatMap((name) => sectionOf(forPeople(tableOf(report, name)), width)),
  ];
  return `${lines.join("\n")}\n`;
}

function totalsLine({
  jobs,
  coreHours,
  hs06Hours,
  hs23Hours,
  efficiency,
  leftOut,
  gapHours,
}: Report["totals"]): string {
  const parts = [
    `${shown(jobs, "count")} jobs`,
    `${shown(coreHours, "hours")} core hours`,
    ...(hs06Hours === null ? [] : [`${shown(hs06Hours, "hours")} HS06 hours`]),
    ...(hs23Hours === null ? [] : [`${shown(hs23Hours, "hours")} HEPscore23 hours`]),
    ...(efficiency === null ? [] : [`CPU efficiency ${shown(efficiency, "percent")}`]),
    `${shown(leftOut, "count")} pods left out`,
    `${shown(gapHours, "hours")} hours of gaps`,
  ];
  return parts.join(", ");
}

function sectionOf(table: ReportTable, width: number | undefined): readonly string[] {
  if (table.rows.length === 0) return ["", `${heading(table.title)}: none`];
  const { table: short, about } = shortened(table);
  const lines = about === "" ? [] : wrap(plainText(about), width ?? Infinity);
  return ["", heading(table.title), ...lines, ...(short.rows.length === 0 ? [] : [tableText(short, width)])];
}

/** What a screen has no room for: hours that follow from others, and months of which all that was counted is published. */
function shortened(table: ReportTable): { readonly table: ReportTable; readonly about: string } {
  const at = table.columns.findIndex(({ name }) => name === "comparison");
  const rows = at < 0 ? table.rows : table.rows.filter((row) => row[at] !== "equal");
  const equal = table.rows.length - rows.length;
  const kept = table.columns.map(({ name }) => name !== "wallHours" && name !== "cpuHours");
  const about =
    equal === 0 ? table.about : `${table.about} ${equal} of ${table.rows.length} rows are equal and not shown.`;
  return {
    about,
    table: {
      ...table,
      columns: table.columns.filter((_column, index) => kept[index]),
      rows: rows.map((row) => row.filter((_value, index) => kept[index])),
    },
  };
}

/** One table of the report, figures at the right. */
export function tableText({ columns, rows }: ReportTable, width: number | undefined): string {
  return textTable(
    columns.map(({ title }) => title),
    rows.map((row) => row.map((value, index) => shown(value, columns[index]?.kind ?? "text"))),
    {
      width,
      plain: true,
      right: columns.map(({ kind }) => kind === "count" || kind === "hours" || kind === "percent"),
    },
  );
}

const CODES = { bold: ["\u001B[1m", "\u001B[22m"], yellow: ["\u001B[33m", "\u001B[39m"] } as const;

/** Colour where stdout is a terminal whose user has not refused it (NO_COLOR). */
function styled(style: keyof typeof CODES, text: string): string {
  const [on, off] = CODES[style];
  return process.stdout.isTTY && (process.env["NO_COLOR"] ?? "") === "" ? on + text + off : text;
}

const heading = (text: string): string => styled("bold", text);
