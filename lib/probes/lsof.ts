import type { Command, Metric, Output, Parsed } from "../agent/types.ts";
import { containerLabels, type ContainerNames } from "./container.ts";
import { nodeMetrics } from "./node-metrics.ts";
import { ParseError } from "./parse-error.ts";
import { parseEndpoint, type Endpoint } from "./sockets.ts";

/**
 * The connections in the network namespace of a process, seen from the host's process table: process ids are the host's. lsof
 * sees no socket of another network namespace. `-l` keeps it from looking users up, which would print a warning a socket.
 */
export const lsofCommand = (pid: number): Command => ({
  argv: ["nsenter", "--target", String(pid), "--net", "--", "lsof", "-i", "-n", "-P", "-l"],
  timeout: 5,
  maxBytes: 8 * 1024 * 1024,
});

/** An established connection. The same one may come several times, of processes that share it. */
export type Socket = {
  readonly pid: number;
  readonly type: "IPv4" | "IPv6";
  readonly protocol: "TCP" | "UDP";
  readonly local: Endpoint;
  readonly remote: Endpoint;
  /** as printed: `10.0.0.1:41001->10.0.0.2:80` */
  readonly text: string;
};

const ROW =
  /^(\S{1,64}) +(\d{1,10}) +(?:\d{1,10} +)?(\S{1,64}) +(\d{1,10}[a-zA-Z]{0,2}) +(IPv4|IPv6) +(\S{1,32}) +(\S{1,32}) +(TCP|UDP) +(\S{1,200})(?: \(([A-Z_0-9]{1,32})\))?$/;

/** More of a row is not looked at: its longest columns are two addresses. */
const LONGEST_ROW = 1024;

const isHeading = (line: string): boolean =>
  /^COMMAND {1,64}PID /.test(line) && line.slice(0, LONGEST_ROW).trimEnd().endsWith(" NAME");

const readRow = (line: string): Socket | undefined => {
  const [, , pid, , , type, , , protocol, text, state] = ROW.exec(line) ?? [];
  if ((type !== "IPv4" && type !== "IPv6") || (protocol !== "TCP" && protocol !== "UDP")) return undefined;
  if (protocol === "TCP" && state !== "ESTABLISHED") return undefined;
  const [local, remote, ...rest] = text?.split("->").map(parseEndpoint) ?? [];
  if (pid === undefined || text === undefined || local === undefined || remote === undefined) return undefined;
  return rest.length > 0 ? undefined : { pid: Number(pid), type, protocol, local, remote, text };
};

/** Rows with two ends that are connected. Others (listening, closing, unconnected UDP) are read past. */
const isConnection = (line: string): boolean =>
  line.includes("(ESTABLISHED)") || (line.includes(" UDP ") && line.includes("->", line.indexOf(" UDP ")));

/** lsof exits with 1 whenever it found nothing, and when it failed too: then it says so. Its warnings are no failure. */
const complaints = (stderr: string): string[] =>
  stderr
    .split("\n")
    .map((line) => line.trim())
    .filter(
      (line) =>
        line !== "" && !/^lsof: (?:no pwd entry for UID|WARNING: )|^Output information may be incomplete/i.test(line),
    );

/**
 * Reads the established connections that `lsof -i -n -P` prints. An exit code of 1 with empty outputs is what it does when
 * there is no connection. A connection's row that is broken is left out and counted (openpai#2763: warnings on stderr that
 * were mixed into the rows; the two streams belong apart).
 *
 * @throws {ParseError} when lsof failed, or nsenter did, or the output is something else
 */
export const parseLsof = (output: Output): Parsed<readonly Socket[]> => {
  const { stdout, stderr, exitCode } = output;
  const lines = stdout
    .split("\n")
    .map((line) => line.slice(0, LONGEST_ROW))
    .filter((line) => line.trim() !== "");
  const failed =
    exitCode > 1 || exitCode < 0 || (exitCode === 1 && lines.length === 0 && complaints(stderr).length > 0);
  const said = JSON.stringify((stderr.trim() || stdout.trim()).slice(0, 200));
  if (failed) throw new ParseError(`lsof exited with ${exitCode} and printed ${said}`);
  if (lines.length > 0 && !lines.some(isHeading)) {
    throw new ParseError(`lsof printed no heading: ${said}`);
  }
  const connections = lines.filter(isConnection);
  const sockets = connections.map(readRow).filter((row) => row !== undefined);
  return { value: sockets, rejected: connections.length - sockets.length };
};

/** How many established connections each container has, shared ones once. */
export const lsofMetrics = (
  all: readonly { readonly container: ContainerNames; readonly sockets: readonly Socket[] }[],
): Metric[] =>
  nodeMetrics(
    all.map(({ container, sockets }) => ({
      metric: "gridmeter_network_container_sockets",
      labels: containerLabels(container),
      value: new Set(sockets.map(({ text }) => text)).size,
    })),
  );
