import type { Metric } from "../agent/types.ts";
import { labelText } from "./gpu.ts";
import { nodeMetrics, type NodeSample } from "./node-metrics.ts";
import type { LongStanding } from "./ps-watch.ts";
import { PROCESS_STATES, type Process } from "./ps-process.ts";

export type PsContext = {
  /** undefined while nobody knows; see longStanding */
  readonly longStanding: LongStanding | undefined;
  /** bytes from which on a process's resident memory is published */
  readonly largeResidentBytes: number;
};

/** Commands that get a series of their own in one metric; the predecessor had one for every process. */
const MOST_COMMANDS = 20;

/** Those whose hanging an alert names: they are never lost among others, and nobody else's process counts as one. */
export const WATCHED_TOOLS: ReadonlySet<string> = new Set([
  "nvidia-smi",
  "rocm-smi",
  "docker",
  "dockerd",
  "containerd",
  "iftop",
  "lsof",
  "crictl",
]);

/** What is not listed by its name. */
export const OTHER = "other";

const nameOf = (process: Process): string => labelText(process.name);

const countByCommand = (
  metric: "gridmeter_process_uninterruptible" | "gridmeter_process_zombies",
  processes: readonly Process[],
): NodeSample[] => {
  const counts = new Map<string, number>();
  for (const process of processes) counts.set(nameOf(process), (counts.get(nameOf(process)) ?? 0) + 1);
  const rank = (name: string) => (WATCHED_TOOLS.has(name) ? Infinity : (counts.get(name) ?? 0));
  const names = [...counts.keys()].sort((a, b) => (rank(a) === rank(b) ? (a < b ? -1 : 1) : rank(b) - rank(a)));
  const named = new Set(names.slice(0, MOST_COMMANDS));
  const merged = new Map<string, number>();
  for (const [name, count] of counts) {
    const command = named.has(name) ? name : OTHER;
    merged.set(command, (merged.get(command) ?? 0) + count);
  }
  return [...merged].map(([command, value]) => ({ metric, labels: { command }, value }));
};

const largest = (processes: readonly Process[], least: number): NodeSample[] => {
  const byCommand = new Map<string, number>();
  for (const process of processes) {
    if (process.residentBytes <= least) continue;
    byCommand.set(nameOf(process), Math.max(process.residentBytes, byCommand.get(nameOf(process)) ?? 0));
  }
  return [...byCommand]
    .sort(([, a], [, b]) => b - a)
    .slice(0, MOST_COMMANDS)
    .map(([command, value]) => ({ metric: "gridmeter_process_largest_resident_bytes", labels: { command }, value }));
};

/** The metrics of processes: by state, those that have long been D or Z by command, and the largest by command. */
export const psMetrics = (processes: readonly Process[], { longStanding, largeResidentBytes }: PsContext): Metric[] =>
  nodeMetrics([
    ...PROCESS_STATES.map((state) => ({
      metric: "gridmeter_process_states" as const,
      labels: { state },
      value: processes.filter((process) => process.state === state).length,
    })),
    ...countByCommand("gridmeter_process_uninterruptible", longStanding?.uninterruptible ?? []),
    ...countByCommand("gridmeter_process_zombies", longStanding?.zombies ?? []),
    ...largest(processes, largeResidentBytes),
  ]);
