import CliTable from "cli-table3";
import prettyBytes from "pretty-bytes";
import type { Comparison, Way } from "./compare.ts";

/** A table for the terminal and for results.md alike. The first column is text, the others are figures. */
export type Table = {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
};

export const seconds = (value: number): string => `${value.toFixed(value < 10 ? 2 : 1)} s`;
export const ratio = (value: number): string => `${value.toFixed(value < 10 ? 2 : 0)} x`;
export const bytes = (value: number): string => prettyBytes(value, { maximumFractionDigits: 1 });
export const count = (value: number): string => value.toLocaleString("en");
const millions = (value: number): string => `${(value / 1e6).toFixed(1)} M`;

const NOT_THERE = "-";

/** The ways to do one job, side by side. */
function comparisonTable(title: string, comparison: Comparison): Table {
  const { reference, ours, limit } = comparison;
  const row = (name: string, { middle, recording, figures }: Way): readonly string[] => [
    name,
    seconds(middle.seconds),
    ratio(reference.middle.seconds / middle.seconds),
    seconds(middle.querySeconds),
    ratio(reference.middle.querySeconds / middle.querySeconds),
    seconds(middle.cpuSeconds),
    count(middle.queries),
    recording === undefined ? NOT_THERE : millions(recording.samples),
    recording === undefined ? NOT_THERE : count(recording.peakSamples),
    recording === undefined ? NOT_THERE : bytes(recording.bytes),
    bytes(middle.sentBytes),
    bytes(middle.peakBytes),
    figures === undefined ? NOT_THERE : figures.map(({ jobs }) => count(jobs)).join(" + "),
  ];
  return {
    title,
    head: [
      "way",
      "wall",
      "faster",
      "query time",
      "less",
      "Prometheus CPU",
      "queries",
      "samples read",
      "peak samples",
      "answers",
      "on the wire",
      "peak RSS",
      "jobs",
    ],
    rows: [row("(a) reference", reference), row("(b) gridmeter", ours), row("(d) bare limit of (b)", limit)],
  };
}

export const coldTable = (hours: number, cold: Comparison): Table =>
  comparisonTable(`A month, nothing known before (cold), blocks of ${hours} h`, cold);

export const dailyTable = (hours: number, daily: Comparison): Table =>
  comparisonTable(`The daily run, at 06:00 on the 15th, blocks of ${hours} h`, daily);

/** The table for a terminal. */
export function forTerminal({ title, head, rows }: Table): string {
  const aligned = head.map((_, index): "left" | "right" => (index === 0 ? "left" : "right"));
  const table = new CliTable({ head: [...head], colAligns: aligned, style: { head: [], border: [] } });
  for (const row of rows) table.push([...row]);
  return `\n${title}\n${table.toString()}\n`;
}

/** The table as Markdown. */
export function forMarkdown({ title, head, rows }: Table): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  const rule = head.map((_, index) => (index === 0 ? "---" : "--:"));
  return `### ${title}\n\n${[line(head), line(rule), ...rows.map(line)].join("\n")}\n`;
}
