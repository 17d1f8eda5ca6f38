import { showTime } from "../model/time.ts";
import type { Report } from "./figures.ts";

/** How a column's values are written: hours and percentages with one decimal, times as UTC. */
type Kind = "text" | "count" | "hours" | "percent" | "time";
export type Column = { readonly name: string; readonly title: string; readonly kind: Kind };
export type Value = string | number | null;

/** A table of a report, the same for terminal, page, CSV and JSON. A row has a value a column; null is not known. */
export type ReportTable = {
  readonly name: TableName;
  readonly title: string;
  /** what a reader must know of it; may be empty */
  readonly about: string;
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly Value[])[];
};

const column = (name: string, title: string, kind: Kind): Column => ({ name, title, kind });

const DAY = column("day", "day", "text");
const MONTH = column("month", "month", "text");
const TENANT = column("tenant", "tenant", "text");
const VO = column("vo", "VO", "text");
const SITE = column("site", "site", "text");
const HOST = column("submitHost", "submit host", "text");
const SHARE = column("share", "share", "percent");
const USAGE: readonly Column[] = [
  column("jobs", "jobs", "count"),
  column("coreHours", "core hours", "hours"),
  column("wallHours", "wall hours", "hours"),
  column("cpuHours", "CPU hours", "hours"),
  column("efficiency", "efficiency", "percent"),
  column("cpuKnown", "CPU known", "percent"),
  column("hs06Hours", "HS06 hours", "hours"),
  column("hs23Hours", "HEPscore23 hours", "hours"),
];

/** Table names in the order in which they are shown, with the part of the report that each is made of. */
const TABLES = {
  tenants: {
    title: "By tenant",
    about: "Share of the core hours. Efficiency: CPU hours of the core hours of the jobs of which CPU use is known.",
    columns: [TENANT, SITE, SHARE, ...USAGE],
  },
  vos: { title: "By VO", about: "", columns: [VO, SHARE, ...USAGE] },
  byMonth: {
    title: "By month",
    about: "Days in the ledger, of all days of all tenants that have begun.",
    columns: [MONTH, column("days", "days", "count"), column("daysOf", "of", "count"), ...USAGE],
  },
  monthly: { title: "By month, tenant and VO", about: "", columns: [MONTH, TENANT, VO, ...USAGE] },
  byDay: {
    title: "By day",
    about: "The UTC day in which a job ended; days without jobs are not in it.",
    columns: [DAY, ...USAGE],
  },
  daily: {
    title: "By day, tenant and VO",
    about: "The UTC day in which a job ended.",
    columns: [DAY, TENANT, VO, ...USAGE],
  },
  leftOut: {
    title: "Left out",
    about: "Pods that do not count, by reason.",
    columns: [MONTH, TENANT, column("reason", "reason", "text"), column("pods", "pods", "count")],
  },
  gaps: {
    title: "Gaps of the monitoring",
    about:
      "Times at which kube-state-metrics was not seen for half an hour or longer. Jobs that were deleted meanwhile are missing.",
    columns: [
      TENANT,
      column("from", "from (UTC)", "time"),
      column("to", "to (UTC)", "time"),
      column("hours", "hours", "hours"),
    ],
  },
  published: {
    title: "Counted against published",
    about:
      "What the ledger has now, and what was last published. Open days were published before they settled; published less follows with the next run.",
    columns: [
      MONTH,
      SITE,
      HOST,
      TENANT,
      VO,
      column("countedJobs", "jobs counted", "count"),
      column("publishedJobs", "jobs published", "count"),
      column("countedCoreHours", "core hours counted", "hours"),
      column("publishedCoreHours", "core hours published", "hours"),
      column("comparison", "comparison", "text"),
    ],
  },
  units: {
    title: "Publications",
    about:
      "Each publication of a month has a generation. Records are the rows that APEL holds because of the last one.",
    columns: [
      MONTH,
      SITE,
      HOST,
      column("generation", "generation", "count"),
      column("publishedGeneration", "published", "count"),
      column("publishedAt", "published at (UTC)", "time"),
      column("records", "records", "count"),
      column("syncJobs", "jobs of the sync record", "count"),
      column("pins", "pins", "count"),
    ],
  },
} as const satisfies Record<string, Omit<ReportTable, "name" | "rows">>;

export type TableName = keyof typeof TABLES;
const isTableName = (name: string): name is TableName => name in TABLES;
export const TABLE_NAMES: readonly TableName[] = Object.keys(TABLES).filter(isTableName);

/** Columns that say nothing where no row has a value in them. */
const OPTIONAL = new Set(["cpuHours", "efficiency", "cpuKnown", "hs06Hours", "hs23Hours"]);

/** One table of a report, with all columns. */
export function tableOf(report: Report, name: TableName): ReportTable {
  const { title, about, columns } = TABLES[name];
  const rows = report[name].map((row) => {
    const values: ReadonlyMap<string, Value> = new Map(Object.entries(row));
    return columns.map((each) => values.get(each.name) ?? null);
  });
  return { name, title, about, columns, rows };
}

/**
 * The table for people: without columns in which nothing is known; without site and submit host where all rows have the same, which are
 * named above it instead; and the newest month first.
 */
export function forPeople(table: ReportTable): ReportTable {
  const { columns, rows } = table;
  const valuesOf = (index: number): ReadonlySet<Value> => new Set(rows.map((row) => row[index] ?? null));
  const common: string[] = [];
  const kept = columns.map(({ name }, index) => {
    const values = valuesOf(index);
    if (OPTIONAL.has(name)) return [...values].some((value) => value !== null);
    if ((name !== "site" && name !== "submitHost") || values.size !== 1) return true;
    common.push(...[...values].map(String));
    return false;
  });
  const ordered = columns[0]?.name === "month" ? newestFirst(rows) : rows;
  return {
    ...table,
    about: [...(common.length === 0 ? [] : [`All of ${common.join(", ")}.`]), table.about].join(" ").trim(),
    columns: columns.filter((_column, index) => kept[index]),
    rows: ordered.map((row) => row.filter((_value, index) => kept[index])),
  };
}

const newestFirst = (rows: ReportTable["rows"]): ReportTable["rows"] =>
  rows.toSorted(([a], [b]) => String(b).localeCompare(String(a), "en"));

/** A value for people: `1,234.5`, `12.3 %`, `2026-10-01 10:38:10`; a dash where it is not known. */
export function shown(value: Value, kind: Kind): string {
  if (value === null) return "-";
  if (typeof value === "string") return value;
  switch (kind) {
    case "text":
      return String(value);
    case "count":
      return value.toLocaleString("en");
    case "hours":
      return oneDecimal(value);
    case "percent":
      return `${oneDecimal(value)} %`;
    case "time":
      return showTime(value).replace(" UTC", "");
  }
}

/** `1,234.5` */
export const oneDecimal = (value: number): string =>
  value.toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** The table as CSV (RFC 4180): a header of the columns' names, decimals with a point, times as ISO 8601, nothing where it is not known. */
export function csvOf({ columns, rows }: ReportTable): string {
  const lines = [
    columns.map(({ name }) => name),
    ...rows.map((row) => row.map((value, index) => cell(value, columns[index]?.kind ?? "text"))),
  ];
  return lines.map((line) => `${line.map(quoted).join(",")}\r\n`).join("");
}

function cell(value: Value, kind: Kind): string {
  if (value === null) return "";
  if (typeof value === "string") return /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  switch (kind) {
    case "text":
    case "count":
      return String(value);
    case "hours":
    case "percent":
      return value.toFixed(1);
    case "time":
      return showTime(value).replace(" UTC", "Z").replace(" ", "T");
  }
}

/** Names that others gave come from pods' labels: a spreadsheet must not take one for a formula (`cell`), nor a comma for a column. */
const quoted = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
