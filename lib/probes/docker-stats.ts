import type { Command, Metric, Output, Parsed } from "../agent/types.ts";
import { containerKey, containerLabels } from "./container.ts";
import { dockerError } from "./docker-daemon-failure.ts";
import { readStatsJson } from "./docker-stats-json.ts";
import { readRow, type DockerStatsRow } from "./docker-stats-row.ts";
import { readStatsTable } from "./docker-stats-table.ts";
import { nodeMetrics, type NodeMetricName } from "./node-metrics.ts";
import { ParseError } from "./parse-error.ts";

export type { DockerStatsRow } from "./docker-stats-row.ts";

/** JSON, as names and labels may hold anything. It took more than 10 s for 1 % of the predecessor's runs. */
export const DOCKER_STATS_COMMAND: Command = {
  argv: ["docker", "stats", "--no-stream", "--format", "{{json .}}"],
  timeout: 20,
  maxBytes: 8 * 1024 * 1024,
};

/** docker clears the terminal before each table, also where there is none. */
const ESCAPES = new RegExp(`${String.fromCodePoint(27)}\\[[0-9;]{0,16}[A-Za-z]`, "g");

/**
 * Reads docker stats and podman stats: JSON, a table in columns, or a table with commas. Containers in the order in which
 * they were printed. A value of `--` is undefined; a broken value, a row that cannot be read or does not say which container
 * it is about, and the second row of a container are left out and counted.
 *
 * @throws {ParseError} when docker failed, or no row can be read at all
 */
export const parseDockerStats = (output: Output): Parsed<readonly DockerStatsRow[]> => {
  if (output.exitCode !== 0) throw dockerError("docker stats", output);
  const text = output.stdout.replaceAll(ESCAPES, "");
  const lines = text.split("\n").map((line) => line.trim());
  // without containers, docker prints nothing as JSON, and only the heading of a table
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
