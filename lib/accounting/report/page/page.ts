import { createHash } from "node:crypto";
import { htmlText } from "../../../shared/text.ts";
import { DAY, dayOf, endOfMonth, showTime, startOf } from "../../model/time.ts";
import type { Usage } from "../amounts.ts";
import type { Comparison } from "../published.ts";
import type { Report } from "../figures.ts";
import {
  type Column,
  type ReportTable,
  type TableName,
  type Value,
  oneDecimal,
  shown,
  tableOf,
  forPeople,
} from "../tables.ts";
import { type Axis as ChartAxis, type Legend, type Point, legendList, legendOf, stackedBars } from "./chart.ts";
import { SCRIPT } from "./script.ts";
import { STYLE } from "./style.ts";

const HASH = createHash("sha256").update(SCRIPT).digest("base64");
/** Nothing is loaded from anywhere, whatever a name in the ledger says. */
const POLICY = `default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-${HASH}'; base-uri 'none'; form-action 'none'`;

type Measure = "coreHours" | "jobs";
type Axis = Omit<ChartAxis, "total">;
type Series = { readonly legend: Legend; readonly name: (row: Row) => string };
type Row = Report["daily"][number] | Report["monthly"][number];

/**
 * The report as one HTML page that needs nothing else: charts are SVG, style and script are in it, and its policy forbids to load
 * anything. @param madeUp says that the figures are a demonstration
 */
export function pageOf(report: Report, madeUp: boolean): string {
  const title = `Accounting report${report.sites.length === 0 ? "" : ` of ${report.sites.join(", ")}`}`;
  const name = seriesName(report);
  const series = { name, legend: legendOf(pointsOf(report.monthly, name, "coreHours")) };
  const tables = (...names: readonly TableName[]): string =>
    names.map((each) => section(tableOf(report, each))).join("");
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="referrer" content="no-referrer"><title>${htmlText(title)}</title>
<style>${STYLE}</style></head><body><main>
${madeUp ? '<p class="demo">Demonstration: every figure on this page is made up.</p>' : ""}<h1>${htmlText(title)}</h1>
<p>${htmlText(periodOf(report))}</p>
${tiles(report)}
${report.notes.map((note) => `<p>${htmlText(note)}</p>`).join("\n")}
<section id="series"><h2>Core hours and jobs by month</h2>${legendList(series.legend)}<div class="pair monthly">${monthCharts(report, series)}</div></section>
<section><h2>Core hours and jobs by day</h2>${dayCharts(report, series)}</section>
${tables("tenants", "vos", "byMonth", "published", "units", "leftOut", "gaps")}
${closed(tableOf(report, "monthly"))}
<p>Hours and percentages are rounded to one decimal. Made by gridmeter from its ledger at ${htmlText(showTime(report.now))}.</p>
</main><script>${SCRIPT}</script></body></html>
`;
}

function periodOf({ months, now }: Report): string {
  const [first, last] = [months.at(0) ?? "", months.at(-1) ?? ""];
  return `${first === last ? first : `${first} to ${last}`}, as of ${showTime(now)}`;
}

/** Series are VOs where there is one tenant, tenants where each has one VO of its own, else both. */
function seriesName({ tenants, vos, monthly }: Report): (row: Row) => string {
  const pairs = new Set(monthly.map(({ tenant, vo }) => JSON.stringify([tenant, vo])));
  if (tenants.length <= 1) return ({ vo }) => vo;
  if (pairs.size === tenants.length || vos.length <= 1) return ({ tenant }) => tenant;
  return ({ tenant, vo }) => (tenant === vo ? tenant : `${tenant}: ${vo}`);
}

function pointsOf(rows: readonly Row[], name: (row: Row) => string, measure: Measure): readonly Point[] {
  return rows.map((row) => ({ at: "day" in row ? row.day : row.month, series: name(row), value: row[measure] }));
}

/** A chart of core hours and one of jobs. @param rows the parts @param totals the total at each place */
function pair(
  rows: readonly Row[],
  totals: ReadonlyMap<string, Usage>,
  title: string,
  axis: Axis,
  { legend, name }: Series,
): string {
  const chart = (heading: string, unit: "core hours" | "jobs", measure: Measure): string => {
    const points = pointsOf(rows, name, measure);
    const total = (place: string): number => totals.get(place)?.[measure] ?? 0;
    return stackedBars(heading + title, unit, points, legend, { ...axis, total });
  };
  return chart("Core hours", "core hours", "coreHours") + chart("Jobs", "jobs", "jobs");
}

function monthCharts({ months, monthly, byMonth }: Report, series: Series): string {
  const axis: Axis = {
    places: months,
    label: (month, index) => [month.slice(5), index === 0 || month.endsWith("-01") ? month.slice(0, 4) : ""],
  };
  return pair(monthly, new Map(byMonth.map((row) => [row.month, row])), "", axis, series);
}

/** The daily charts of each month; the script shows one, and without it all are shown. */
function dayCharts(report: Report, series: Series): string {
  const months = report.months.filter((month) => report.byDay.some(({ day }) => day.startsWith(month)));
  if (months.length === 0) return '<p class="none">No day with a job is in the ledger.</p>';
  const newest = months.toReversed();
  const options = newest.map((month) => `<option>${month}</option>`).join("");
  const totals = new Map(report.byDay.map((row) => [row.day, row]));
  const table = tableOf(report, "daily");
  const charts = newest.map((month) => {
    const rows = report.daily.filter(({ day }) => day.startsWith(month));
    const axis: Axis = { places: daysOf(month), label: (day) => [day.slice(8).replace(/^0/, ""), ""] };
    const own = {
      ...table,
      title: `Figures of ${month} by day`,
      rows: table.rows.filter(([day]) => String(day).startsWith(month)),
    };
    return `<div data-month="${month}"><div class="pair daily">${pair(rows, totals, `, ${month}`, axis, series)}</div>${details(own)}</div>`;
  });
  return `<label hidden>Month <select id="month">${options}</select></label>${legendList(series.legend)}${charts.join("")}`;
}

function daysOf(month: string): readonly string[] {
  const length = (endOfMonth(month) - startOf(month)) / DAY;
  return Array.from({ length }, (_, index) => dayOf(startOf(month) + index * DAY));
}

function tiles({ totals }: Report): string {
  const { jobs, coreHours, hs06Hours, hs23Hours, efficiency, cpuKnown, leftOut, gapHours } = totals;
  const known = cpuKnown === null || cpuKnown === 100 ? "" : ` (known of ${oneDecimal(cpuKnown)} %)`;
  const each: readonly (readonly [name: string, value: string] | undefined)[] = [
    ["Jobs", shown(jobs, "count")],
    ["Core hours", shown(coreHours, "hours")],
    hs06Hours === null ? undefined : ["HS06 hours", shown(hs06Hours, "hours")],
    hs23Hours === null ? undefined : ["HEPscore23 hours", shown(hs23Hours, "hours")],
    efficiency === null ? undefined : [`CPU efficiency${known}`, shown(efficiency, "percent")],
    ["Pods left out", shown(leftOut, "count")],
    ["Hours of gaps, all tenants", shown(gapHours, "hours")],
  ];
  const tile = ([name, value]: readonly [string, string]): string =>
    `<div><span>${htmlText(name)}</span><b>${htmlText(value)}</b></div>`;
  return `<div class="tiles">${each
    .filter((one) => one !== undefined)
    .map(tile)
    .join("")}</div>`;
}

function section(all: ReportTable): string {
  const table = forPeople(all);
  const about = table.about === "" ? "" : `<p>${htmlText(table.about)}</p>`;
  return `<section id="${table.name}"><h2>${htmlText(table.title)}</h2>${about}${htmlTable(table)}</section>\n`;
}

const closed = (table: ReportTable): string => `<section id="${table.name}">${details(table)}</section>`;

const details = (table: ReportTable): string =>
  `<details><summary>${htmlText(table.title)}</summary>${htmlTable(forPeople(table))}</details>`;

function htmlTable(table: ReportTable): string {
  const { columns, rows, title } = table;
  if (rows.length === 0) return '<p class="none">None.</p>';
  const head = columns.map(
    (each) => `<th scope="col"${isNumber(each) ? ' class="n"' : ""}>${htmlText(each.title)}</th>`,
  );
  const body = rows.map((row) => `<tr>${row.map((value, index) => cell(value, columns[index])).join("")}</tr>`);
  return `<div class="scroll" tabindex="0" role="region" aria-label="${htmlText(title)}"><table><thead><tr>${head.join("")}</tr></thead><tbody>${body.join("\n")}</tbody></table></div>`;
}

const isNumber = ({ kind }: Column): boolean => kind === "count" || kind === "hours" || kind === "percent";

/** What a reader should see first: whether the ledger and what was published agree. */
const TONES: Readonly<Record<Comparison, string>> = {
  equal: "good",
  "open days": "",
  "not published": "warn",
  "published less": "warn",
  "published more": "bad",
  "other settings": "warn",
};
const isComparison = (text: string): text is Comparison => text in TONES;

function cell(value: Value, column: Column | undefined): string {
  if (column === undefined) return "";
  const text = htmlText(shown(value, column.kind));
  if (column.name === "share" && typeof value === "number")
    return `<td class="n share" style="--p:${value / 100}">${text}</td>`;
  if (column.name === "comparison" && typeof value === "string" && isComparison(value))
    return `<td class="${TONES[value]}">${text}</td>`;
  if (isNumber(column)) return `<td class="n">${text}</td>`;
  return column.kind === "text" && text.length > 16 ? `<td class="w">${text}</td>` : `<td>${text}</td>`;
}
