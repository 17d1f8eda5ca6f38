import { readFile } from "node:fs/promises";
import type { Metric } from "../../shared/exposition.ts";
import { orIfMissing } from "../../shared/fs.ts";
import type { Command, Output, Parsed } from "../command/types.ts";
import { labelText } from "./common/gpu.ts";
import { nodeMetrics } from "./common/metric-families.ts";
import { ParseError, type ProbeKind, fillIn, hasPlace, limitsOf, singleProbe } from "./common/probe.ts";
import {
  type ProbeDefaults,
  type ProbeSettings,
  USUAL_INTERVAL,
  commandDefaults,
  missingTool,
} from "./common/settings.ts";

export type TrafficReadings = { readonly traffic: Iftop };

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

export const IFTOP_DEFAULTS = {
  description: "what the network interface carries, by connection",
  interval: USUAL_INTERVAL,
  timeout: iftopCommand().timeout,
  ...commandDefaults(iftopCommand("{interface}")),
  options: { interface: undefined, proc: "/proc" },
} as const satisfies ProbeDefaults;
const NO_INTERFACE = "no network interface is configured, and none has the default route";

/** Routes change while the agent runs, so that this is asked at each run. Rejects if they cannot be read although they are there. */
const interfaceOf = async (settings: ProbeSettings): Promise<string | undefined> => {
  const { proc = IFTOP_DEFAULTS.options.proc } = settings;
  if (settings.interface !== undefined) return settings.interface;
  const routes = await orIfMissing(readFile(`${proc}/net/route`, "utf8"), undefined);
  return routes === undefined ? undefined : defaultInterface(routes);
};

/** iftop needs no docker: what the interface carries is known without the containers. */
export const iftop: ProbeKind<TrafficReadings> = {
  create: (settings) => {
    const { command = IFTOP_DEFAULTS.command } = settings;
    const argv = async () => {
      if (!hasPlace(command, "interface")) return command;
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
  /** undefined where no flow shows it */
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

/**
 * The interface of the default route with the lowest metric, out of the text of /proc/net/route; undefined where there is
 * none. iftop's own choice, the first interface it finds, may be one that no packet ever reaches (openpai#1719).
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

const POWERS: Readonly<Record<string, number>> = { "": 1, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40 };

/** How iftop printed a rate: with `-B` in bytes, else in bits. */
type RateUnit = "bytes" | "bits";

type Rate = { readonly bytes: number; readonly unit: RateUnit };

const RATE = /^(\d{1,15}(?:\.\d{1,9})?)([KMGT]?)([bB])$/;

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
