import type { Metric } from "../../shared/exposition.ts";
import { withoutEnd } from "../../shared/text.ts";
import type { Output, Parsed } from "../command/types.ts";
import { type NodeSample, nodeMetrics } from "./common/metric-families.ts";
import { ParseError, exitError, labelText } from "./common/parse.ts";
import { type ProbeKind, limitsOf, singleProbe } from "./common/probe.ts";
import { type ProbeDefaults, USUAL_INTERVAL, missingTool } from "./common/settings.ts";
import {
  GenuineTools,
  type LongStanding,
  OTHER,
  PROCESS_STATES,
  type Process,
  type ProcessState,
  type ProcessWatch,
  WATCHED_TOOLS,
  longStanding,
  watchProcesses,
} from "./ps-watch.ts";

export type ProcessReadings = {
  /** `longStanding` is there once processes were seen twice */
  readonly processes: { readonly all: readonly Process[]; readonly longStanding?: LongStanding };
};

export const PS_DEFAULTS = {
  description: "processes by state, those that hang (D) or were not reaped (Z), and the largest",
  interval: USUAL_INTERVAL,
  timeout: 10,
  /**
   * All processes of the host, whose process ids the agent must share (hostPID). Not the command lines (cmd): a user could fill the
   * output with one, and reading one waits for a lock that a process that hangs may hold.
   */
  command: ["ps", "ax", "--no-headers", "--format", "state,rss,pid,ruid,euid,wchan:32,comm"],
  maxBytes: 16 * 1024 * 1024,
  options: { longStanding: 20, largeResidentBytes: 500 * 1024 * 1024, proc: "/proc" },
} as const satisfies ProbeDefaults;

export const ps: ProbeKind<ProcessReadings> = {
  create: (settings) => {
    const {
      command = PS_DEFAULTS.command,
      longStanding: least = PS_DEFAULTS.options.longStanding,
      largeResidentBytes = PS_DEFAULTS.options.largeResidentBytes,
      proc = PS_DEFAULTS.options.proc,
    } = settings;
    const tools = new GenuineTools(proc);
    let watch: ProcessWatch | undefined;
    return singleProbe({
      name: "ps",
      limits: limitsOf("ps", settings, PS_DEFAULTS),
      label: "ps",
      argv: () => Promise.resolve(command),
      parse: (output) => {
        const { value: all, rejected } = parsePs(output);
        watch = watchProcesses(watch, all, performance.now() / 1000);
        return { value: { all, standing: longStanding(watch, least) }, rejected };
      },
      complete: async ({ all, standing }, secondsLeft) => ({
        all,
        standing: standing === undefined ? undefined : await tools.name(standing, secondsLeft),
      }),
      metrics: ({ all, standing }) => psMetrics(all, { longStanding: standing, largeResidentBytes }),
      readings: ({ all, standing }) =>
        Promise.resolve({ processes: { all, ...(standing === undefined ? {} : { longStanding: standing }) } }),
      unavailable: () => missingTool([command[0]]),
    });
  },
  parseSaved: (output, { largeResidentBytes = PS_DEFAULTS.options.largeResidentBytes }) => {
    const { value, rejected } = parsePs(output);
    return { metrics: psMetrics(value, { longStanding: undefined, largeResidentBytes }), parsed: value, rejected };
  },
};

/**
 * Reads `ps ax --no-headers --format state,rss,pid,ruid,euid,wchan:32,comm`, and `state,rss,pid,cmd`, which older configurations have.
 * A broken row is left out and counted. If most rows do not fit, the output has other columns (`ps aux`, `ps -ef`), and none is read.
 *
 * @throws {ParseError} when ps failed, or printed nothing or something else
 */
export const parsePs = (output: Output): Parsed<readonly Process[]> => {
  if (output.exitCode !== 0) throw exitError("ps", output);
  const rows = output.stdout
    .split("\n")
    .map((line) => line.slice(0, LONGEST_ROW).trim())
    .filter((row) => row !== "");
  const columns = columnsOf(rows);
  const read = rows.map((row) => readRow(row, columns));
  const processes = read.filter((row) => row !== undefined);
  const rejected = rows.length - processes.length;
  if (processes.length === 0 || rejected >= processes.length) {
    const first = JSON.stringify(rows[read.indexOf(undefined)]?.slice(0, 200) ?? "");
    throw new ParseError(
      `ps printed ${rejected} of ${rows.length} rows that are not state, rss, pid, ruid, euid, wchan, comm: ${first}`,
    );
  }
  return { value: processes, rejected };
};

/** A row is cut here. */
const LONGEST_ROW = 1024;

/**
 * Which columns were printed, by the first row that can be read: ps lists the oldest process first, whose name no user has chosen. In
 * a later row a command line may look like other columns.
 */
const columnsOf = (rows: readonly string[]): ReadRest => {
  const first = rows.find((row) => readRow(row, commandLineOnly) !== undefined);
  return first !== undefined && readRow(first, withIdentity) !== undefined ? withIdentity : commandLineOnly;
};

const readRow = (row: string, rest: ReadRest): Process | undefined => {
  const [, state, kibibytes, pid, text = ""] = BEGINNING.exec(row) ?? [];
  const command = rest(text.trim());
  if (!isState(state) || kibibytes === undefined || pid === undefined || command === undefined) return undefined;
  return { state, residentBytes: Number(kibibytes) * 1024, pid: Number(pid), ...command };
};

const BEGINNING = /^([A-Za-z]) {1,32}(\d{1,15}) {1,32}(\d{1,10})(?: (.{0,1024}))?$/s;

const isState = (text: string | undefined): text is ProcessState => PROCESS_STATES.some((state) => state === text);

/** Reads the columns after the process id: the command line, or users, wait and the kernel's name of the process. */
type ReadRest = (text: string) => Pick<Process, "commandLine" | "name" | "isRoot" | "wait"> | undefined;

const commandLineOnly: ReadRest = (text) => ({ commandLine: text, name: commandName(text) });

/** The name is optional, as a process may have one of blanks only. */
const IDENTITY = /^(\d{1,10}) {1,32}(\d{1,10}) {1,32}([^ ]{1,64})(?: (.{0,512}))?$/s;

/** What ps prints for a process that does not wait, or whose wait may not be read. */
const NO_WAIT: readonly string[] = ["-", "0", "?"];

const withIdentity: ReadRest = (text) => {
  const [, real, effective, wait = "", comm = ""] = IDENTITY.exec(text) ?? [];
  if (real === undefined || effective === undefined) return undefined;
  const isRoot = Number(real) === 0 && Number(effective) === 0;
  const name = { commandLine: comm.trim(), name: kernelName(comm) };
  return { ...name, isRoot, wait: NO_WAIT.includes(wait) ? undefined : wait };
};

/** A command line is cut here: a user chooses its length, and the program is at its beginning. */
const MOST_CHARACTERS = 4096;

/** A name is cut here for a label. */
const MOST_NAME = 64;

/**
 * The name by which a process is counted, by its command line: the file's name, without path and arguments, or a kernel thread's
 * without its number. A command line as a label would make a series of each process.
 */
export const commandName = (commandLine: string): string => {
  const line = commandLine.slice(0, MOST_CHARACTERS);
  const bracketed = line.startsWith("[") ? before(line.slice(1, 1 + MOST_NAME), "]/:").trim() : "";
  if (bracketed !== "") return bracketed;
  let end = 0;
  while (end < line.length && !isSpace(line[end] ?? "")) end += 1;
  const program = line.slice(0, end);
  // some programs write into their command line, as in `sshd: user@pts/0`
  return orUnknown(withoutEnd(program.slice(program.lastIndexOf("/") + 1), ":"));
};

/** What ps prints after the name of a process that waits to be reaped. */
const DEFUNCT = " <defunct>";

/** The name by which a process is counted, from the kernel's name of at most 15 bytes: `kworker/0:1` is `kworker`. */
export const kernelName = (comm: string): string => {
  const printed = comm.slice(0, MOST_NAME).trim();
  const name = printed.endsWith(DEFUNCT) ? printed.slice(0, -DEFUNCT.length) : printed;
  return orUnknown(before(name, "/:").trim());
};

const isSpace = (character: string): boolean => character.trim() === "";

const orUnknown = (name: string): string => (name === "" ? "unknown" : name.slice(0, MOST_NAME));

/** The text before the first of some characters. */
const before = (text: string, ends: string): string => {
  let end = 0;
  for (const character of text) {
    if (ends.includes(character)) break;
    end += character.length;
  }
  return text.slice(0, end);
};

type PsContext = {
  /** undefined until it is known; see longStanding */
  readonly longStanding: LongStanding | undefined;
  /** bytes of resident memory above which a process is published */
  readonly largeResidentBytes: number;
};

/** The metrics of processes: by state; by command those that have been in D or Z for long; and the largest by command. */
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

/** So many commands have a series in one metric: names come from users, and must not make a series each (OpenPAI's exporter did). */
const MOST_COMMANDS = 20;

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
