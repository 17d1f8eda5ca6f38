import * as z from "zod";
import { splitPair, type Cell, type Cells } from "./docker-stats-row.ts";
import { parseJson } from "./json.ts";

const Item = z.record(z.string(), z.unknown());
type Item = z.infer<typeof Item>;

const Traffic = z.record(z.string(), z.object({ RxBytes: z.number(), TxBytes: z.number() }));

const cellOf = (item: Item, ...keys: readonly string[]): Cell => {
  const key = keys.find((name) => Object.hasOwn(item, name));
  const value = key === undefined ? undefined : item[key];
  if (typeof value === "string" || typeof value === "number") return value;
  // another type is broken, and must be counted as such; null is podman's way of saying nothing
  return value === undefined || value === null ? undefined : "broken";
};

const textOf = (item: Item, ...keys: readonly string[]): string | undefined => {
  const value = cellOf(item, ...keys);
  return typeof value === "number" ? String(value) : value;
};

/** podman has traffic by network interface, as one total, or as docker's pair. */
const traffic = (item: Item): readonly [Cell, Cell] => {
  if (item["Network"] === undefined || item["Network"] === null) {
    const pair = splitPair(cellOf(item, "NetIO", "net_io"));
    return [cellOf(item, "NetInput") ?? pair[0], cellOf(item, "NetOutput") ?? pair[1]];
  }
  const networks = Traffic.safeParse(item["Network"]);
  if (!networks.success) return ["broken", "broken"];
  const all = Object.values(networks.data);
  return [all.reduce((sum, { RxBytes }) => sum + RxBytes, 0), all.reduce((sum, { TxBytes }) => sum + TxBytes, 0)];
};

const cells = (item: Item): Cells => {
  const memory = cellOf(item, "MemUsage", "mem_usage");
  const [used, limit] = typeof memory === "string" ? splitPair(memory) : [memory, cellOf(item, "MemLimit")];
  const [received, sent] = traffic(item);
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

/**
 * The rows of docker's or podman's JSON: an object a line (`--format '{{json .}}'`), or one array (`podman stats --format
 * json`). Undefined stands for a row that is no JSON object.
 */
export const readStatsJson = (text: string): readonly (Cells | undefined)[] => {
  const array = text.trimStart().startsWith("[") ? parseJson(text) : undefined;
  const items = Array.isArray(array)
    ? array
    : text
        .split("\n")
        .filter((line) => line.trim() !== "")
        .map(parseJson);
  return items.map((item: unknown) => {
    const found = Item.safeParse(item);
    return found.success ? cells(found.data) : undefined;
  });
};
