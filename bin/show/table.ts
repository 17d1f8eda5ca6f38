import Table from "cli-table3";
import stringWidth from "string-width";
import { plainText } from "../../lib/shared/text.ts";

/** A text, or several lines of it. */
export type Cell = string | number | readonly string[];

export type TableOptions = {
  /** columns of the screen; default: those of the terminal, and as many as needed where stdout is none */
  readonly width?: number | undefined;
  /** columns that are aligned to the right */
  readonly right?: readonly boolean[];
  /** without lines between columns and rows */
  readonly plain?: boolean;
  /** columns that are never wider */
  readonly most?: readonly (number | null)[];
};

/** Characters of one line of a cell: more makes a table that no screen shows. */
const LONGEST = 1000;
/** A word that is longer than this may be broken anywhere, so that one long name does not take the whole width. */
const LONG_WORD = 24;

/** How wide stdout is, in columns; undefined where it is no terminal and COLUMNS does not say. */
export function screenWidth(): number | undefined {
  const said = Number(process.env["COLUMNS"]);
  if (process.stdout.isTTY && process.stdout.columns > 0) return process.stdout.columns;
  return Number.isSafeInteger(said) && said > 0 ? said : undefined;
}

/**
 * A table for people. Whatever a cell quotes, it stays in its cell. Where it is wider than the screen, words are wrapped; where that is
 * not enough, the lines between the columns go; where even that is not enough, each row becomes a list of its own.
 */
export function textTable(
  head: readonly string[],
  rows: readonly (readonly Cell[])[],
  { width = screenWidth() ?? Infinity, right = [], plain = false, most = [] }: TableOptions = {},
): string {
  const cells = rows.map((row) => row.map(linesOf));
  const all: readonly Wrapped[] = [head.map((name) => [name]), ...cells];
  const column = (index: number): readonly string[] => all.flatMap((row) => row[index] ?? []);
  const natural = head.map((_name, index) => Math.min(widest(column(index)), most[index] ?? Infinity));
  const least = head.map((_name, index) =>
    Math.min(widest(column(index).flatMap(wordsOf), LONG_WORD), natural[index] ?? 0),
  );
  const borders = 3 * head.length + 1;
  const spaces = 2 * (head.length - 1);
  const sum = least.reduce((total, each) => total + each, 0);
  if (sum + spaces > width) return asLists(head, cells, width);
  const isPlain = plain || sum + borders > width;
  const widths = shrunk(natural, least, width - (isPlain ? spaces : borders));
  const wrapped = all.map((row) => row.map((lines, index) => lines.flatMap((line) => wrap(line, widths[index] ?? 1))));
  return isPlain ? drawPlain(wrapped, right) : drawBordered(wrapped, right);
}

function linesOf(cell: Cell): readonly string[] {
  const lines = typeof cell === "object" ? cell : [String(cell)];
  return lines.map((line) => plainText(line, LONGEST));
}

const widest = (texts: readonly string[], most = Infinity): number =>
  texts.reduce((width, text) => Math.max(width, Math.min(most, stringWidth(text))), 1);

/** The parts of a text between which a line may break, blanks included: after blanks, after `_` and `/`, and before the next label of a name. */
const partsOf = (text: string): readonly string[] => text.split(/(?<=\s)(?=\S)|(?<=[_/])(?=[^_/\s])|(?<=\.)(?=\p{L})/u);
const wordsOf = (text: string): readonly string[] => partsOf(text).map((part) => part.trimEnd());

/** Makes columns narrower until all fit: first the one that has most to give, so that as few as can be are wrapped. */
function shrunk(natural: readonly number[], least: readonly number[], room: number): readonly number[] {
  const widths = [...natural];
  const spare = (index: number): number => (natural[index] ?? 0) - (least[index] ?? 0);
  let over = natural.reduce((sum, each) => sum + each, 0) - room;
  for (const index of [...natural.keys()].sort((a, b) => spare(b) - spare(a))) {
    const less = Math.max(0, Math.min(over, spare(index)));
    widths[index] = (natural[index] ?? 0) - less;
    over -= less;
  }
  return widths;
}

/** The text in lines of that width, columns; words that are longer are broken. */
export function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of partsOf(text)) {
    if (stringWidth(line + word.trimEnd()) <= width) {
      line += word;
      continue;
    }
    if (line.trimEnd() !== "") lines.push(line.trimEnd());
    line = "";
    for (const character of word) {
      if (stringWidth(line + character) > width && character.trim() !== "") {
        lines.push(line);
        line = "";
      }
      line += character;
    }
  }
  if (line.trimEnd() !== "" || lines.length === 0) lines.push(line.trimEnd());
  return lines;
}

type Wrapped = readonly (readonly string[])[];

function drawBordered(rows: readonly Wrapped[], right: readonly boolean[]): string {
  const [head = [], ...body] = rows.map((row) => row.map((lines) => lines.join("\n")));
  const colAligns = head.map((_name, index): "left" | "right" => (right[index] === true ? "right" : "left"));
  const table = new Table({ head, colAligns, style: { head: [], border: [] } });
  table.push(...body);
  return table.toString();
}

/** Two blanks between columns, and a line under the head. */
function drawPlain(rows: readonly Wrapped[], right: readonly boolean[]): string {
  const [head = []] = rows;
  const widths = head.map((_name, index) => widest(rows.flatMap((row) => row[index] ?? [])));
  const lines = rows.map((row) => {
    const height = row.reduce((most, cell) => Math.max(most, cell.length), 1);
    return Array.from({ length: height }, (_, at) => row.map((cell) => cell[at] ?? ""));
  });
  const rule = widths.map((width) => "─".repeat(width));
  const [top = [], ...body] = lines;
  return [...top, rule, ...body.flat()]
    .map((cells) =>
      cells
        .map((text, index) => padded(text, widths[index] ?? 0, right[index] === true))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function padded(text: string, width: number, right: boolean): string {
  const blanks = " ".repeat(Math.max(0, width - stringWidth(text)));
  return right ? blanks + text : text + blanks;
}

/** Each row as lines of `name  value`, with an empty line between rows. */
function asLists(head: readonly string[], rows: readonly Wrapped[], width: number): string {
  const names = widest(head);
  const list = (row: Wrapped): string =>
    head
      .flatMap((name, index) =>
        (row[index] ?? [])
          .flatMap((line) => wrap(line, Math.max(10, width - names - 2)))
          .map((line, at) => `${padded(at === 0 ? name : "", names, false)}  ${line}`.trimEnd()),
      )
      .join("\n");
  return rows.map(list).join("\n\n");
}
