import { isContainerId, kubernetesNames, type ContainerNames } from "./container.ts";
import { hasNoValue, parsePercent, parseSize } from "./sizes.ts";

/** One container in docker stats. What is not known is undefined. */
export type DockerStatsRow = ContainerNames & {
  /** 1 is one core */
  readonly cpu: number | undefined;
  readonly memoryUsedBytes: number | undefined;
  readonly memoryLimitBytes: number | undefined;
  /** 0 to 1 */
  readonly memoryUsage: number | undefined;
  readonly receivedBytes: number | undefined;
  readonly sentBytes: number | undefined;
  readonly readBytes: number | undefined;
  readonly writtenBytes: number | undefined;
  readonly processes: number | undefined;
  /** false for a container that is starting, restarting or gone: what the row says is no measurement, and is not published */
  readonly measured: boolean;
};

/** A cell as the tool printed it: docker prints texts, podman also numbers. */
export type Cell = string | number | undefined;

/** A row before it is read. `id` is undefined where the tool prints none, and empty where it printed an empty one. */
export type Cells = {
  readonly id: string | undefined;
  readonly name: string | undefined;
  readonly cpuPercent: Cell;
  readonly memoryUsed: Cell;
  readonly memoryLimit: Cell;
  readonly memoryPercent: Cell;
  readonly received: Cell;
  readonly sent: Cell;
  readonly read: Cell;
  readonly written: Cell;
  readonly processes: Cell;
};

export type Tally = { rejected: number };

/** Splits `58.4MB / 1.1GB`; a lone `--` stands for both. */
export const splitPair = (cell: Cell): readonly [Cell, Cell] => {
  if (typeof cell !== "string" || hasNoValue(cell)) return [undefined, undefined];
  const [first, second, ...rest] = cell.split("/");
  // a cell that is no pair is broken twice, rather than half right
  return second === undefined || rest.length > 0 ? [cell, cell] : [first, second];
};

const reader =
  (tally: Tally) =>
  (cell: Cell, parse: (text: string) => number | undefined, divisor: number): number | undefined => {
    if (cell === undefined || (typeof cell === "string" && hasNoValue(cell))) return undefined;
    const value = typeof cell === "string" ? parse(cell) : cell / divisor;
    if (value !== undefined && Number.isFinite(value) && value >= 0) return value;
    tally.rejected += 1;
    return undefined;
  };

const parseCount = (text: string): number | undefined => {
  const count = /^\d{1,15}$/.test(text.trim()) ? Number(text) : undefined;
  return count !== undefined && Number.isSafeInteger(count) ? count : undefined;
};

/** A name that says which container it is: docker prints `--` for one that went away meanwhile. */
const nameOf = (name: string | undefined): string | undefined =>
  name === undefined || hasNoValue(name) ? undefined : name.trim();

/**
 * Reads a row; undefined, and counted, if it does not say which container it is about (linuxfabrik#776: an ephemeral one). A
 * broken value is undefined and counted. All zeros with a limit of 0 are what the daemon sends for a container that is
 * starting or restarting (moby#28026): no measurement. A limit of 0 alone means that memory is not accounted on this node.
 */
export const readRow = (cells: Cells, tally: Tally): DockerStatsRow | undefined => {
  const name = nameOf(cells.name);
  const id = cells.id?.trim();
  if (id === undefined ? name === undefined : !isContainerId(id)) {
    tally.rejected += 1;
    return undefined;
  }
  const read = reader(tally);
  const limit = read(cells.memoryLimit, parseSize, 1);
  const values = {
    cpu: read(cells.cpuPercent, parsePercent, 100),
    memoryUsedBytes: read(cells.memoryUsed, parseSize, 1),
    memoryLimitBytes: limit,
    memoryUsage: read(cells.memoryPercent, parsePercent, 100),
    receivedBytes: read(cells.received, parseSize, 1),
    sentBytes: read(cells.sent, parseSize, 1),
    readBytes: read(cells.read, parseSize, 1),
    writtenBytes: read(cells.written, parseSize, 1),
    processes: read(cells.processes, parseCount, 1),
  };
  const known = Object.values(values).filter((value) => value !== undefined);
  const allZero = known.every((value) => value === 0);
  const measured = known.length > 0 && !(allZero && limit === 0);
  const names = { id, name: name ?? id, ...kubernetesNames(name ?? "") };
  if (measured && limit === 0) {
    return {
      ...names,
      ...values,
      memoryUsedBytes: undefined,
      memoryLimitBytes: undefined,
      memoryUsage: undefined,
      measured,
    };
  }
  return { ...names, ...values, measured };
};
