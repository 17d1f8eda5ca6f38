import type { Command, Output, Parsed } from "../agent/types.ts";
import { ParseError } from "./parse-error.ts";
import { commandName, kernelName } from "./ps-command.ts";
import { PROCESS_STATES, type Process, type ProcessState } from "./ps-process.ts";

export type { Process, ProcessState } from "./ps-process.ts";
export { WATCHED_TOOLS, psMetrics, type PsContext } from "./ps-metrics.ts";
export { longStanding, watchProcesses, type LongStanding, type ProcessWatch } from "./ps-watch.ts";

/**
 * All processes of the host: the agent must share its process ids (hostPID). Every column is bounded by the kernel: command lines
 * are not, so that a user could fill the output with them, and reading one waits for a lock that a process that hangs may hold.
 */
export const PS_COMMAND: Command = {
  argv: ["ps", "ax", "--no-headers", "--format", "state,rss,pid,ruid,euid,wchan:32,comm"],
  timeout: 10,
  maxBytes: 16 * 1024 * 1024,
};

/** More of a row is not looked at. */
const LONGEST_ROW = 1024;

const isState = (text: string | undefined): text is ProcessState => PROCESS_STATES.some((state) => state === text);

const BEGINNING = /^([A-Za-z]) {1,32}(\d{1,15}) {1,32}(\d{1,10})(?: (.{0,1024}))?$/s;
/** A process may have a name of blanks alone. */
const IDENTITY = /^(\d{1,10}) {1,32}(\d{1,10}) {1,32}([^ ]{1,64})(?: (.{0,512}))?$/s;

/** What follows the process id: the command line alone, or users, wait and the kernel's name. */
type Rest = (text: string) => Pick<Process, "commandLine" | "name" | "isRoot" | "wait"> | undefined;

const commandLineOnly: Rest = (text) => ({ commandLine: text, name: commandName(text) });

/** A process that does not wait, or whose wait may not be seen, has `-`, `0` or `?` there. */
const NO_WAIT: readonly string[] = ["-", "0", "?"];

const withIdentity: Rest = (text) => {
  const [, real, effective, wait = "", comm = ""] = IDENTITY.exec(text) ?? [];
  if (real === undefined || effective === undefined) return undefined;
  const isRoot = Number(real) === 0 && Number(effective) === 0;
  const name = { commandLine: comm.trim(), name: kernelName(comm) };
  return { ...name, isRoot, wait: NO_WAIT.includes(wait) ? undefined : wait };
};

const readRow = (row: string, rest: Rest): Process | undefined => {
  const [, state, kibibytes, pid, text = ""] = BEGINNING.exec(row) ?? [];
  const command = rest(text.trim());
  if (!isState(state) || kibibytes === undefined || pid === undefined || command === undefined) return undefined;
  return { state, residentBytes: Number(kibibytes) * 1024, pid: Number(pid), ...command };
};

/**
 * Which columns were printed, by the first row that can be read: ps lists the oldest process first, which no user has named. Any
 * later row may be a command line that looks like other columns.
 */
const columnsOf = (rows: readonly string[]): Rest => {
  const first = rows.find((row) => readRow(row, commandLineOnly) !== undefined);
  return first !== undefined && readRow(first, withIdentity) !== undefined ? withIdentity : commandLineOnly;
};

/**
 * Reads `ps ax --no-headers --format state,rss,pid,ruid,euid,wchan:32,comm`, and `state,rss,pid,cmd`, which was asked for before. A
 * broken row is left out and counted. Other columns (`ps aux`, `ps -ef`) must not be taken for these: where most rows do not
 * fit, none is read.
 *
 * @throws {ParseError} when ps failed, or printed nothing or something else
 */
export const parsePs = (output: Output): Parsed<readonly Process[]> => {
  const printed = JSON.stringify((output.stderr.trim() || output.stdout.trim()).slice(0, 200));
  if (output.exitCode !== 0) throw new ParseError(`ps exited with ${output.exitCode} and printed ${printed}`);
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
