import { bytes, seconds } from "./accounting/tables.ts";
import type { Table } from "./accounting/tables.ts";
import type { Latency, Many, Minute } from "./agent-measure.ts";

export type AgentResults = {
  readonly machine: string;
  readonly bundleBytes: number;
  readonly minutes: readonly Minute[];
  readonly hanging: Latency;
  readonly many: Many;
};

/** The predecessor (job-exporter), measured at the same interval, its children apart; RSS over its runs: 48 to 63 MB. */
const PREDECESSOR: ReadonlyMap<number, number> = new Map([
  [2, 0.69],
  [8, 1.94],
]);
const LARGEST_RESIDENT = 75e6;
const LONGEST_SCRAPE = 0.02;

const milliseconds = (value: number): string => `${(value * 1000).toFixed(value < 0.01 ? 2 : 1)} ms`;

/** The tables of the section. */
export function agentTables({ minutes, hanging, many, bundleBytes }: AgentResults): readonly Table[] {
  const verdict = (reached: boolean): string => (reached ? "yes" : "**no**");
  return [
    {
      title: "A minute of the agent, all probes every 2 s, scraped every 2 s and pushing",
      head: [
        "node",
        "CPU",
        "of it bare Node's",
        "predecessor's CPU",
        "RSS",
        "of it its own",
        "peak RSS",
        "RSS at the start",
        "predecessor's RSS",
        "scrape",
      ],
      rows: minutes.map((one) => [
        `${one.gpus} GPUs, ${one.containers} containers`,
        seconds(one.cpuSeconds),
        seconds(one.bareSeconds),
        seconds(PREDECESSOR.get(one.gpus) ?? Number.NaN),
        bytes(one.residentBytes),
        bytes(one.privateBytes),
        bytes(one.peakBytes),
        bytes(one.startBytes),
        "48 to 63 MB",
        bytes(one.scrapeBytes),
      ]),
    },
    {
      title: "Scrapes",
      head: ["while", "scrapes", "p50", "p99", "slowest", "size"],
      rows: [
        [
          "all commands hang",
          String(hanging.scrapes),
          ...[hanging.p50, hanging.p99, hanging.worst].map(milliseconds),
          "-",
        ],
        [
          `docker stats lists ${many.containers} containers`,
          String(many.latency.scrapes),
          ...[many.latency.p50, many.latency.p99, many.latency.worst].map(milliseconds),
          bytes(many.scrapeBytes),
        ],
      ],
    },
    {
      title: `docker stats with ${many.containers} containers`,
      head: ["", "CPU of one run", "RSS"],
      rows: [["command, parsing, laying out, push", milliseconds(many.cpuPerRun), bytes(many.residentBytes)]],
    },
    {
      title: "Targets",
      head: ["target", "wanted", "found", "reached"],
      rows: [
        ...minutes.flatMap(({ gpus, cpuSeconds }) => {
          const wanted = PREDECESSOR.get(gpus) ?? Number.NaN;
          return [
            [
              `CPU a minute, ${gpus} GPUs`,
              `under ${seconds(wanted)}`,
              seconds(cpuSeconds),
              verdict(cpuSeconds < wanted),
            ],
          ];
        }),
        ...minutes.map(({ gpus, residentBytes }) => [
          `RSS, ${gpus} GPUs`,
          `under ${bytes(LARGEST_RESIDENT)}`,
          bytes(residentBytes),
          verdict(residentBytes < LARGEST_RESIDENT),
        ]),
        [
          "p99 of /metrics while all commands hang",
          `under ${milliseconds(LONGEST_SCRAPE)}`,
          milliseconds(hanging.p99),
          verdict(hanging.p99 < LONGEST_SCRAPE),
        ],
        ["size of the program, one file", "-", bytes(bundleBytes), "-"],
      ],
    },
  ];
}
