import type { Command, Metric, Output, Parsed } from "../agent/types.ts";
import { labelText } from "./gpu.ts";
import { parseRate, type RateUnit } from "./iftop-rates.ts";
import { nodeMetrics } from "./node-metrics.ts";
import { ParseError } from "./parse-error.ts";

export { defaultInterface } from "./iftop-interface.ts";

/**
 * Watches one interface for a second, in bytes, without names. 10,000 flows print 1.9 MB. On an interface without any packet,
 * iftop does not end: that is a timeout. Without an interface iftop takes the first one it finds.
 */
export const iftopCommand = (networkInterface?: string): Command => ({
  argv: [
    "iftop",
    "-t",
    "-P",
    "-s",
    "1",
    "-L",
    "10000",
    "-B",
    "-n",
    "-N",
    ...(networkInterface === undefined ? [] : ["-i", networkInterface]),
  ],
  timeout: 10,
  maxBytes: 8 * 1024 * 1024,
});

/** Bytes a second, averaged over the last 2, 10 and 40 s, or over the whole run where it was shorter. */
export type Rates = readonly [last2: number, last10: number, last40: number];

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

export type Iftop = {
  readonly interface: string | undefined;
  readonly flows: readonly Flow[];
  /** undefined where there is no flow to tell */
  readonly printedUnit: RateUnit | undefined;
  readonly send: Rates;
  readonly receive: Rates;
  readonly sendAndReceive: Rates;
};

type Side = {
  readonly text: string;
  readonly rates: Rates;
  readonly total: number;
  readonly unit: RateUnit;
};

const readRates = (texts: readonly string[]): { rates: Rates; unit: RateUnit } | undefined => {
  const [first, second, third] = texts.map(parseRate);
  if (first === undefined || second === undefined || third === undefined) return undefined;
  return { rates: [first.bytes, second.bytes, third.bytes], unit: first.unit };
};

/** More of a line is not looked at: a host is cut at 40 characters, and there are four numbers. */
const LONGEST_LINE = 512;

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

/** The three totals; there is none in an output that was cut short. Peaks are not read: they are 0B above 1 GB/s. */
const readTotal = (lines: readonly string[], name: string): Rates | undefined => {
  const line = lines.find((text) => text.startsWith(`${name}:`));
  const cells =
    line
      ?.slice(name.length + 1)
      .trim()
      .split(/\s+/) ?? [];
  return cells.length === 3 ? readRates(cells)?.rates : undefined;
};

/**
 * Reads the text mode of iftop (`-t`), with and without `-P`, `-B` and `-n`. No flow at all is a reading too: nothing was sent.
 * A flow with a broken line is left out and counted.
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
  const listening = lines
    .find((line) => line.startsWith("Listening on "))
    ?.slice("Listening on ".length)
    .trim();
  return { value: { interface: listening, flows, printedUnit, send, receive, sendAndReceive }, rejected };
};

/** The metrics of the interface: averages over the run. */
export const iftopMetrics = (value: Iftop): Metric[] => {
  const labels = { interface: labelText(value.interface) };
  return nodeMetrics([
    { metric: "gridmeter_network_receive_bytes_per_second", labels, value: value.receive[2] },
    { metric: "gridmeter_network_transmit_bytes_per_second", labels, value: value.send[2] },
    { metric: "gridmeter_network_flows", labels, value: value.flows.length },
  ]);
};
