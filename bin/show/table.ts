import Table from "cli-table3";
import { plainText } from "../../lib/shared/text.ts";

/** A text, or several lines of it. */
export type Cell = string | number | readonly string[];

/** Characters of one line of a cell: more makes a table that no screen shows. */
const LONGEST = 1000;

/** A table for people. Whatever a cell quotes, it stays in its cell. @param widths columns that are wrapped at a width */
export function textTable(
  head: readonly string[],
  rows: readonly (readonly Cell[])[],
  widths?: readonly (number | null)[],
): string {
  const table = new Table({
    head: [...head],
    ...(widths === undefined ? {} : { colWidths: [...widths], wordWrap: true }),
    style: { head: [], border: [] },
  });
  for (const row of rows) table.push(row.map(plainCell));
  return table.toString();
}

function plainCell(cell: Cell): string {
  const lines = typeof cell === "object" ? cell : [String(cell)];
  return lines.map((line) => plainText(line, LONGEST)).join("\n");
}
