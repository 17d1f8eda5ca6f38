import * as z from "zod";
import type { Metric } from "../../shared/exposition.ts";
import { parseJson } from "../../shared/text.ts";
import type { Output, Parsed } from "../command/types.ts";
import {
  type ContainerNames,
  containerKey,
  containerLabels,
  isContainerId,
  kubernetesNames,
} from "./common/container.ts";
import { dockerError, hasNoValue, parsePercent, parseSize } from "./common/docker.ts";
import { type NodeMetricName, nodeMetrics } from "./common/metric-families.ts";
import { JsonObject, ParseError, withoutNoise } from "./common/parse.ts";
import { type ProbeKind, limitsOf, singleProbe } from "./common/probe.ts";
import { type ProbeDefaults, USUAL_INTERVAL, missingTool } from "./common/settings.ts";

export type StatsReadings = { readonly stats: readonly DockerStatsRow[] };

export const DOCKER_STATS_DEFAULTS = {
  description: "CPU, memory, network and disk use of each container",
  interval: USUAL_INTERVAL,
  /** more than 10 s in 1 % of the runs of OpenPAI's exporter */
  timeout: 20,
  /** JSON, as names and labels may be any text */
  command: ["docker", "stats", "--no-stream", "--format", "{{json .}}"],
  maxBytes: 8 * 1024 * 1024,
  options: {},
} as const satisfies ProbeDefaults;

export const dockerStats: ProbeKind<StatsReadings> = {
  create: (settings) => {
    const { command = DOCKER_STATS_DEFAULTS.command } = settings;
    return singleProbe({
      name: "docker-stats",
      limits: limitsOf("docker-stats", settings, DOCKER_STATS_DEFAULTS),
      label: "docker stats",
      argv: () => Promise.resolve(command),
      parse: parseDockerStats,
      metrics: dockerStatsMetrics,
      readings: (stats) => Promise.resolve({ stats }),
      unavailable: () => missingTool([command[0]]),
    });
  },
  parseSaved: (output) => {
    const { value, rejected } = parseDockerStats(output);
    return { metrics: dockerStatsMetrics(value), parsed: value, rejected };
  },
};

/** One container of docker stats. A value that is missing is undefined. */
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
  /** false for a container that is starting, restarting or gone: its values are no measurement, and are not published */
  readonly measured: boolean;
};

/**
 * Reads docker stats and podman stats: JSON, a table in columns, or a table with commas. Containers are in the order of the output.
 * A value of `--` is undefined. Left out and counted are: a broken value, a row that cannot be read or names no container, and the
 * second row of a container.
 *
 * @throws {ParseError} when docker failed, or no row can be read at all
 */
export const parseDockerStats = (output: Output): Parsed<readonly DockerStatsRow[]> => {
  if (output.exitCode !== 0) throw dockerError("docker stats", output);
  const text = output.stdout.replaceAll(ESCAPES, "");
  const lines = text.split("\n").map((line) => line.trim());
  // without containers docker prints no JSON, or only the heading of a table
  if (lines.every((line) => line === "")) return { value: [], rejected: 0 };
  // a warning may come before the first row
  const json = lines.some((line) => line.startsWith("{") || line.startsWith("["));
  const rows = json ? readStatsJson(text) : readStatsTable(text);
  if (rows.length > 0 && rows.every((row) => row === undefined)) {
    throw new ParseError(`no row of docker stats can be read: ${JSON.stringify(text.trim().slice(0, 200))}`);
  }
  const tally = { rejected: 0 };
  const seen = new Map<string, DockerStatsRow>();
  for (const cells of rows) {
    const row = cells === undefined ? undefined : readRow(cells, tally);
    const key = row === undefined ? undefined : containerKey(row);
    if (cells === undefined || (key !== undefined && seen.has(key))) tally.rejected += 1;
    else if (row !== undefined && key !== undefined) seen.set(key, row);
  }
  return { value: [...seen.values()], rejected: tally.rejected };
};

/** docker prints terminal codes before each table, also into a pipe. */
const ESCAPES = new RegExp(`${String.fromCodePoint(27)}\\[[0-9;]{0,16}[A-Za-z]`, "g");

/** A cell as the tool printed it: docker prints texts, podman also numbers. */
type Cell = string | number | undefined;

/** A row before it is read. `id` is undefined where the tool prints none, and empty where it printed an empty one. */
type Cells = {
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

type Tally = { rejected: number };

/**
 * Reads a row; undefined, and counted, if it names no container (linuxfabrik#776: an ephemeral one); undefined alone for one that is
 * gone, whose id is `--`. A broken value is undefined and counted. For a container that is starting or restarting the daemon sends
 * only zeros, with a memory limit of 0 (moby#28026): that is no measurement.
 */
const readRow = (cells: Cells, tally: Tally): DockerStatsRow | undefined => {
  const name = nameOf(cells.name);
  const id = cells.id?.trim();
  if (id !== undefined && id !== "" && hasNoValue(id)) return undefined;
  if (id === undefined ? name === undefined : !isContainerId(id)) {
    tally.rejected += 1;
    return undefined;
  }
  const read = readerOf(tally);
  const values = {
    cpu: read(cells.cpuPercent, parsePercent, 100),
    memoryUsedBytes: read(cells.memoryUsed, parseSize, 1),
    memoryLimitBytes: read(cells.memoryLimit, parseSize, 1),
    memoryUsage: read(cells.memoryPercent, parsePercent, 100),
    receivedBytes: read(cells.received, parseSize, 1),
    sentBytes: read(cells.sent, parseSize, 1),
    readBytes: read(cells.read, parseSize, 1),
    writtenBytes: read(cells.written, parseSize, 1),
    processes: read(cells.processes, parseCount, 1),
  };
  const names = { id, name: name ?? id, ...kubernetesNames(name ?? "") };
  const known = Object.values(values).filter((value) => value !== undefined);
  const isEmpty = values.memoryLimitBytes === 0 && known.every((value) => value === 0);
  if (known.length === 0 || isEmpty) return { ...names, ...values, measured: false };
  return { ...names, ...withoutUnread(values), measured: true };
};

type Values = Omit<DockerStatsRow, keyof ContainerNames | "measured">;

/** Where a container has no limit, podman may print the largest number that fits. */
const NO_LIMIT = 2 ** 60;

/**
 * Removes the zeros that nobody measured: a running container has a process and uses memory, so that 0 of them says that the node does
 * not account for it (no memory controller; rootless docker or podman without delegated controllers). Where that is so of both, the
 * CPU and the disks were not read either; the network is counted elsewhere and stays (openwrt/packages#26618).
 */
const withoutUnread = (values: Values): Values => {
  const { memoryUsedBytes: used, memoryLimitBytes: limit, processes } = values;
  const isAccounted = (used ?? 0) > 0 || (processes ?? 0) > 0 || ![used, limit, processes].includes(0);
  const measured = (value: number | undefined) => (value === 0 && !isAccounted ? undefined : value);
  const hasLimit = limit !== undefined && limit > 0 && limit < NO_LIMIT;
  return {
    ...values,
    cpu: measured(values.cpu),
    memoryUsedBytes: used === 0 ? undefined : used,
    memoryLimitBytes: hasLimit ? limit : undefined,
    memoryUsage: used === 0 || (limit !== undefined && !hasLimit) ? undefined : values.memoryUsage,
    readBytes: measured(values.readBytes),
    writtenBytes: measured(values.writtenBytes),
    processes: processes === 0 ? undefined : processes,
  };
};

/** Reads cells; a broken one is undefined, and counted in the tally. */
const readerOf =
  (tally: Tally) =>
  (cell: Cell, parse: (text: string) => number | undefined, divisor: number): number | undefined => {
    if (cell === undefined || (typeof cell === "string" && hasNoValue(cell))) return undefined;
    const value = typeof cell === "string" ? parse(cell) : withoutNoise(cell / divisor);
    if (value !== undefined && Number.isFinite(value) && value >= 0) return value;
    tally.rejected += 1;
    return undefined;
  };

const parseCount = (text: string): number | undefined => {
  const count = /^\d{1,15}$/.test(text.trim()) ? Number(text) : undefined;
  return count !== undefined && Number.isSafeInteger(count) ? count : undefined;
};

/** The container's name; docker prints `--` for one that went away. */
const nameOf = (name: string | undefined): string | undefined =>
  name === undefined || hasNoValue(name) ? undefined : name.trim();

/** Splits `58.4MB / 1.1GB`; a lone `--` means that both are missing. */
const splitPair = (cell: Cell): readonly [Cell, Cell] => {
  if (typeof cell !== "string" || hasNoValue(cell)) return [undefined, undefined];
  const [first, second, ...rest] = cell.split("/");
  // a cell that is no pair is broken as a whole, although one half of it might be read
  return second === undefined || rest.length > 0 ? [BROKEN, BROKEN] : [first, second];
};

/** docker on Windows prints the memory in use alone. */
const splitMemory = (cell: Cell): readonly [Cell, Cell] =>
  typeof cell === "string" && !cell.includes("/") ? [cell, undefined] : splitPair(cell);

/** In place of a cell that cannot be read. */
const BROKEN = "broken";

/**
 * The rows of docker's or podman's JSON: an object a line (`--format '{{json .}}'`), or one array (`podman stats --format
 * json`). A row is undefined if it is no JSON object.
 */
const readStatsJson = (text: string): readonly (Cells | undefined)[] => {
  const array = text.trimStart().startsWith("[") ? parseJson(text) : undefined;
  const items = Array.isArray(array)
    ? array
    : text
        .split("\n")
        .filter((line) => line.trim() !== "")
        .map(parseJson);
  return items.map((item: unknown) => {
    const found = JsonObject.safeParse(item);
    return found.success ? cellsOf(found.data) : undefined;
  });
};

const cellsOf = (item: JsonObject): Cells => {
  const memory = cellOf(item, "MemUsage", "mem_usage");
  const [used, limit] = typeof memory === "string" ? splitMemory(memory) : [memory, cellOf(item, "MemLimit")];
  const [received, sent] = trafficOf(item);
  const [read, written] = splitPair(cellOf(item, "BlockIO", "block_io"));
  return {
    id: textOf(item, "ID", "ContainerID", "id", "Container"),
    name: textOf(item, "Name", "name"),
    // CPUPerc is docker's, the others are podman's; all are percent
    cpuPercent: cellOf(item, "CPUPerc", "CPU", "cpu_percent"),
    memoryUsed: used,
    memoryLimit: limit,
    memoryPercent: cellOf(item, "MemPerc", "mem_percent"),
    received,
    sent,
    read: cellOf(item, "BlockInput") ?? read,
    written: cellOf(item, "BlockOutput") ?? written,
    processes: cellOf(item, "PIDs", "pids"),
  };
};

const cellOf = (item: JsonObject, ...keys: readonly string[]): Cell => {
  const key = keys.find((name) => Object.hasOwn(item, name));
  const value = key === undefined ? undefined : item[key];
  if (typeof value === "string" || typeof value === "number") return value;
  // a value of another type is broken and must be counted; podman prints null for no value
  return value === undefined || value === null ? undefined : BROKEN;
};

const textOf = (item: JsonObject, ...keys: readonly string[]): string | undefined => {
  const value = cellOf(item, ...keys);
  return typeof value === "number" ? String(value) : value;
};

const Traffic = z.record(z.string(), z.object({ RxBytes: z.number(), TxBytes: z.number() }));

/** podman prints traffic by network interface, as one total, or as docker's pair. */
const trafficOf = (item: JsonObject): readonly [Cell, Cell] => {
  if (item["Network"] === undefined || item["Network"] === null) {
    const pair = splitPair(cellOf(item, "NetIO", "net_io"));
    return [cellOf(item, "NetInput") ?? pair[0], cellOf(item, "NetOutput") ?? pair[1]];
  }
  const networks = Traffic.safeParse(item["Network"]);
  if (!networks.success) return [BROKEN, BROKEN];
  const all = Object.values(networks.data);
  // A container on the host's network has none of its own: nothing was counted.
  if (all.length === 0) return [undefined, undefined];
  return [all.reduce((sum, { RxBytes }) => sum + RxBytes, 0), all.reduce((sum, { TxBytes }) => sum + TxBytes, 0)];
};

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

/** A line is cut here. A row has a dozen cells, and the longest is a container's name. */
const LONGEST_LINE = 4096;

/**
 * The rows of docker's table, in columns or with commas (`--format "table {{.ID}},{{.Name}},..."`). Columns are found by their
 * headings, whatever their order. A row is undefined if it has too few or too many cells.
 *
 * @throws {ParseError} when there is no heading with a container and a value
 */
const readStatsTable = (text: string): readonly (Cells | undefined)[] => {
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

const columnOf = (heading: string): Column | undefined => {
  const known = heading.trim().toUpperCase();
  return Object.hasOwn(COLUMNS, known) ? COLUMNS[known] : undefined;
};

const readLine = (columns: readonly (Column | undefined)[], line: string, commas: boolean): Cells | undefined => {
  const cells = splitLine(line, commas);
  const named = withName(columns, cells.length);
  // a name has no comma and no two spaces: a row of another length is broken at an unknown cell
  if (cells.length !== named.length) return undefined;
  const cell = (column: Column): string | undefined => {
    const index = named.indexOf(column);
    return index < 0 ? undefined : cells[index];
  };
  const [memoryUsed, memoryLimit] = splitMemory(cell("memory"));
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

const splitLine = (line: string, commas: boolean): string[] =>
  commas ? line.split(",").map((cell) => cell.trim()) : line.trim().split(/ {2,}/);

/** docker 17 leaves `{{.Name}}` out of the heading of a custom table, so that its rows have one cell more. */
const withName = (columns: readonly (Column | undefined)[], cells: number): readonly (Column | undefined)[] =>
  cells === columns.length + 1 && columns[0] === "id" && !columns.includes("name")
    ? ["id", "name", ...columns.slice(1)]
    : columns;

/** The metrics of the containers that were measured. */
export const dockerStatsMetrics = (rows: readonly DockerStatsRow[]): Metric[] =>
  nodeMetrics(
    rows
      .filter(({ measured }) => measured)
      .flatMap((row) => {
        const labels = containerLabels(row);
        const sample = (metric: NodeMetricName, value: number | undefined) => ({ metric, labels, value });
        return [
          sample("gridmeter_container_cpu_usage_ratio", row.cpu),
          sample("gridmeter_container_memory_used_bytes", row.memoryUsedBytes),
          sample("gridmeter_container_memory_limit_bytes", row.memoryLimitBytes),
          sample("gridmeter_container_memory_usage_ratio", row.memoryUsage),
          sample("gridmeter_container_network_receive_bytes_total", row.receivedBytes),
          sample("gridmeter_container_network_transmit_bytes_total", row.sentBytes),
          sample("gridmeter_container_block_read_bytes_total", row.readBytes),
          sample("gridmeter_container_block_write_bytes_total", row.writtenBytes),
          sample("gridmeter_container_processes", row.processes),
        ];
      }),
  );
