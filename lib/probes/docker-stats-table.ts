import { splitPair, type Cells } from "./docker-stats-row.ts";
import { ParseError } from "./parse-error.ts";

type Column = "id" | "name" | "cpu" | "memory" | "memoryPercent" | "net" | "block" | "pids";

/** The headings of docker 1.x to 28 and of podman. */
const COLUMNS: Readonly<Record<string, Column>> = {
  CONTAINER: "id",
  "CONTAINER ID": "id",
  ID: "id",
  NAME: "name",
  NAMES: "name",
  "CPU %": "cpu",
  "MEM USAGE / LIMIT": "memory",
  "MEM %": "memoryPercent",
  "NET I/O": "net",
  "NET IO": "net",
  "BLOCK I/O": "block",
  "BLOCK IO": "block",
  PIDS: "pids",
};

const columnOf = (heading: string): Column | undefined => {
  const known = heading.trim().toUpperCase();
  return Object.hasOwn(COLUMNS, known) ? COLUMNS[known] : undefined;
};

/** A longer line is no row: a dozen cells, and the longest of them a container's name. */
const LONGEST_LINE = 4096;

const splitLine = (line: string, commas: boolean): string[] =>
  commas ? line.split(",").map((cell) => cell.trim()) : line.trim().split(/ {2,}/);

/** docker 17 leaves `{{.Name}}` out of the heading of a custom table, so that a row has one cell more. */
const withName = (columns: readonly (Column | undefined)[], cells: number): readonly (Column | undefined)[] =>
  cells === columns.length + 1 && columns[0] === "id" && !columns.includes("name")
    ? ["id", "name", ...columns.slice(1)]
    : columns;

const readLine = (columns: readonly (Column | undefined)[], line: string, commas: boolean): Cells | undefined => {
  const cells = splitLine(line, commas);
  const named = withName(columns, cells.length);
  // a name cannot have a comma or two spaces: a row of another length is broken, and nobody knows where
  if (cells.length !== named.length) return undefined;
  const cell = (column: Column): string | undefined => {
    const index = named.indexOf(column);
    return index < 0 ? undefined : cells[index];
  };
  const [memoryUsed, memoryLimit] = splitPair(cell("memory"));
  const [received, sent] = splitPair(cell("net"));
  const [read, written] = splitPair(cell("block"));
  return {
    id: cell("id") ?? "",
    name: cell("name"),
    cpuPercent: cell("cpu"),
    memoryUsed,
    memoryLimit,
    memoryPercent: cell("memoryPercent"),
    received,
    sent,
    read,
    written,
    processes: cell("pids"),
  };
};

/**
 * The rows of docker's table, in columns or with commas (`--format "table {{.ID}},{{.Name}},..."`). Columns are found by their
 * headings, whatever their order. Undefined stands for a row with too few or too many cells.
 *
 * @throws {ParseError} when there is no heading with a container and a value
 */
export const readStatsTable = (text: string): readonly (Cells | undefined)[] => {
  const [heading = "", ...lines] = text
    .split("\n")
    .map((line) => line.slice(0, LONGEST_LINE))
    .filter((line) => line.trim() !== "");
  const commas = heading.includes(",");
  const columns = splitLine(heading, commas).map(columnOf);
  if (!columns.includes("id") || columns.filter((column) => column !== undefined).length < 2) {
    throw new ParseError(`docker stats printed neither JSON nor a table: ${JSON.stringify(heading.slice(0, 200))}`);
  }
  return lines.map((line) => readLine(columns, line, commas));
};
