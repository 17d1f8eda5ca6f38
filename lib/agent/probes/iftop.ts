import { readFile } from "node:fs/promises";
import type { Metric } from "../../shared/exposition.ts";
import { orIfMissing } from "../../shared/fs.ts";
import type { Output, Parsed } from "../command/types.ts";
import { nodeMetrics } from "./common/metric-families.ts";
import { ParseError, labelText } from "./common/parse.ts";
import { type ProbeKind, fillIn, hasPlaceholder, limitsOf, singleProbe } from "./common/probe.ts";
import { type ProbeDefaults, type ProbeSettings, USUAL_INTERVAL, missingTool } from "./common/settings.ts";

export type TrafficReadings = { readonly traffic: Iftop };

export const IFTOP_DEFAULTS = {
  description: "what the network interface carries, by connection",
  interval: USUAL_INTERVAL,
  /** on an interface without any packet iftop does not end */
  timeout: 10,
  /**
   * Measures for a second, in bytes, and prints addresses and not names. Without an interface iftop would take the first one that it
   * finds.
   */
  command: ["iftop", "-t", "-P", "-s", "1", "-L", "10000", "-B", "-n", "-N", "-i", "{interface}"],
  /** 10,000 flows are 1.9 MB */
  maxBytes: 8 * 1024 * 1024,
  options: { interface: undefined, proc: "/proc" },
} as const satisfies ProbeDefaults;

const NO_INTERFACE = "no network interface is configured, and none has the default route";

export const iftop: ProbeKind<TrafficReadings> = {
  create: (settings) => {
    const { command = IFTOP_DEFAULTS.command } = settings;
    const argv = async () => {
      if (!hasPlaceholder(command, "interface")) return command;
      const name = await interfaceOf(settings);
      return name === undefined ? undefined : fillIn(command, { interface: name });
    };
    return singleProbe({
      name: "iftop",
      limits: limitsOf("iftop", settings, IFTOP_DEFAULTS),
      label: "iftop",
      argv: async () => (await argv()) ?? { kind: "disabled", detail: NO_INTERFACE },
      parse: parseIftop,
      metrics: iftopMetrics,
      readings: (traffic) => Promise.resolve({ traffic }),
      unavailable: async () =>
        (await missingTool([command[0]])) ??
        ((await argv().catch(() => command)) === undefined ? NO_INTERFACE : undefined),
    });
  },
  parseSaved: (output) => {
    const { value, rejected } = parseIftop(output);
    return { metrics: iftopMetrics(value), parsed: value, rejected };
  },
};

/** Asked at each run, since routes change while the agent runs. Rejects if the routes are there but cannot be read. */
const interfaceOf = async (settings: ProbeSettings): Promise<string | undefined> => {
  const { proc = IFTOP_DEFAULTS.options.proc } = settings;
  if (settings.interface !== undefined) return settings.interface;
  const routes = await orIfMissing(readFile(`${proc}/net/route`, "utf8"), undefined);
  return routes === undefined ? undefined : defaultInterface(routes);
};

/**
 * The interface of the default route with the lowest metric, in the text of /proc/net/route; undefined where there is none. The
 * first interface, which is iftop's own choice, may be one without traffic (openpai#1719).
 */
export const defaultInterface = (table: string): string | undefined => {
  const routes = table.split("\n").flatMap((line) => {
    const [name, destination, , flags, , , metric, mask] = line.slice(0, 512).trim().split(/\s+/);
    // bit 0 of the flags: the route is up
    const up = /^[0-9A-F]{4}$/i.test(flags ?? "") && Number.parseInt(flags ?? "", 16) % 2 === 1;
    if (name === undefined || destination !== "00000000" || mask !== "00000000" || !up) return [];
    return [{ name, metric: Number.parseInt(metric ?? "", 10) || 0 }];
  });
  return routes.sort((a, b) => a.metric - b.metric)[0]?.name;
};

export type Iftop = {
  readonly interface: string | undefined;
  readonly flows: readonly Flow[];
  /** undefined where there is no flow to read it from */
  readonly printedUnit: RateUnit | undefined;
  readonly send: Rates;
  readonly receive: Rates;
  readonly sendAndReceive: Rates;
};

/** One pair of endpoints. The texts are as printed, cut at 40 characters; `out` is what `source` sent. */
export type Flow = {
  readonly source: string;
  readonly destination: string;
  readonly out: Rates;
  readonly in: Rates;
  /** bytes in the whole run */
  readonly sentBytes: number;
  readonly receivedBytes: number;
};

/** Bytes a second, averaged over the last 2, 10 and 40 s, or over the whole run if it was shorter. */
export type Rates = readonly [last2: number, last10: number, last40: number];

/** A line is cut here. It has a host of at most 40 characters and four numbers. */
const LONGEST_LINE = 512;

/**
 * Reads the text mode of iftop (`-t`), with and without `-P`, `-B` and `-n`. An output without flows means that nothing was sent. A
 * flow with a broken line is left out and counted.
 *
 * @throws {ParseError} when iftop failed, or printed no totals, as when it was cut short
 */
export const parseIftop = (output: Output): Parsed<Iftop> => {
  const printed = JSON.stringify((output.stderr.trim() || output.stdout.trim()).slice(-200));
  if (output.exitCode !== 0) throw new ParseError(`iftop exited with ${output.exitCode} and printed ${printed}`);
  const lines = output.stdout.split("\n").map((line) => line.slice(0, LONGEST_LINE));
  const send = readTotal(lines, "Total send rate");
  const receive = readTotal(lines, "Total receive rate");
  const sendAndReceive = readTotal(lines, "Total send and receive rate");
  if (send === undefined || receive === undefined || sendAndReceive === undefined) {
    throw new ParseError(`iftop printed no totals: ${printed}`);
  }
  const { flows, rejected, printedUnit } = readFlows(lines);
  const listening = lines
    .find((line) => line.startsWith("Listening on "))
    ?.slice("Listening on ".length)
    .trim();
  return { value: { interface: listening, flows, printedUnit, send, receive, sendAndReceive }, rejected };
};

/** One of the three totals, which an output that was cut short does not have. Peaks are not read, as they are 0B above 1 GB/s. */
const readTotal = (lines: readonly string[], name: string): Rates | undefined => {
  const line = lines.find((text) => text.startsWith(`${name}:`));
  const cells =
    line
      ?.slice(name.length + 1)
      .trim()
      .split(/\s+/) ?? [];
  return cells.length === 3 ? readRates(cells)?.rates : undefined;
};

/** Each flow has two lines, one for each direction. */
const readFlows = (lines: readonly string[]): Pick<Iftop, "flows" | "printedUnit"> & { readonly rejected: number } => {
  const flows: Flow[] = [];
  let rejected = 0;
  let printedUnit: RateUnit | undefined;
  for (const [index, line] of lines.entries()) {
    if (line.includes("=>")) {
      const out = readSide(line, "=>");
      const back = readSide(lines[index + 1] ?? "", "<=");
      if (out === undefined || back === undefined) {
        rejected += 1;
        continue;
      }
      printedUnit ??= out.unit;
      flows.push({
        source: out.text,
        destination: back.text,
        out: out.rates,
        in: back.rates,
        sentBytes: out.total,
        receivedBytes: back.total,
      });
    } else if (line.includes("<=") && !lines[index - 1]?.includes("=>")) rejected += 1;
  }
  return { flows, rejected, printedUnit };
};

type Side = {
  readonly text: string;
  readonly rates: Rates;
  readonly total: number;
  readonly unit: RateUnit;
};

/** `HOST => RATE RATE RATE TOTAL`, with a number in front of the first of two. */
const readSide = (line: string, arrow: "=>" | "<="): Side | undefined => {
  const [left = "", right = "", ...rest] = line.split(arrow);
  if (rest.length > 0) return undefined;
  const text = (arrow === "=>" ? left.trim().replace(/^\d{1,6}\s+/, "") : left.trim()).trim();
  const cells = right.trim().split(/\s+/);
  const found = readRates(cells);
  const total = parseRate(cells[3] ?? "");
  if (cells.length !== 4 || text === "" || /\s/.test(text) || found === undefined || total === undefined)
    return undefined;
  return { text, ...found, total: total.bytes };
};

const readRates = (texts: readonly string[]): { rates: Rates; unit: RateUnit } | undefined => {
  const [first, second, third] = texts.map(parseRate);
  if (first === undefined || second === undefined || third === undefined) return undefined;
  return { rates: [first.bytes, second.bytes, third.bytes], unit: first.unit };
};

/** The unit in which iftop printed a rate: bytes with `-B`, else bits. */
type RateUnit = "bytes" | "bits";

type Rate = { readonly bytes: number; readonly unit: RateUnit };

const RATE = /^(\d{1,15}(?:\.\d{1,9})?)([KMGT]?)([bB])$/;

const POWERS: Readonly<Record<string, number>> = { "": 1, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40 };

/**
 * Reads `1.16MB` or `448b` (bits) as bytes. iftop's units are binary, 1024 apart, whatever they are called. Undefined for
 * anything else.
 */
export const parseRate = (text: string): Rate | undefined => {
  const [, digits, prefix = "", unit] = RATE.exec(text) ?? [];
  const power = POWERS[prefix];
  if (digits === undefined || power === undefined) return undefined;
  const value = Number(digits) * power;
  return unit === "b" ? { bytes: value / 8, unit: "bits" } : { bytes: value, unit: "bytes" };
};

/** The metrics of the interface, which are averages over the run. */
export const iftopMetrics = (value: Iftop): Metric[] => {
  const labels = { interface: labelText(value.interface) };
  return nodeMetrics([
    { metric: "gridmeter_network_receive_bytes_per_second", labels, value: value.receive[2] },
    { metric: "gridmeter_network_transmit_bytes_per_second", labels, value: value.send[2] },
    { metric: "gridmeter_network_flows", labels, value: value.flows.length },
  ]);
};
