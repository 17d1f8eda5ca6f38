import type { Command, Output, Parsed } from "../agent/types.ts";
import { ParseError } from "./parse-error.ts";
import { PROCESS_STATES, type Process, type ProcessState } from "./ps-process.ts";

export type { Process, ProcessState } from "./ps-process.ts";
export { psMetrics, type PsContext } from "./ps-metrics.ts";
export { longStanding, watchProcesses, type LongStanding, type ProcessWatch } from "./ps-watch.ts";

/** All processes of the host: the agent must share its process ids (hostPID). */
export const PS_COMMAND: Command = {
  argv: ["ps", "ax", "--no-headers", "--format", "state,rss,pid,cmd"],
  timeout: 10,
  maxBytes: 16 * 1024 * 1024,
};

const isState = (text: string | undefined): text is ProcessState => PROCESS_STATES.some((state) => state === text);

const readLine = (line: string): Process | undefined => {
  const [, state, kibibytes, pid, commandLine] =
    /^\s*([A-Za-z])\s+(\d{1,15})\s+(\d{1,10})(?:\s+(.*))?$/.exec(line) ?? [];
  if (!isState(state) || kibibytes === undefined || pid === undefined) return undefined;
  return { state, residentBytes: Number(kibibytes) * 1024, pid: Number(pid), commandLine: commandLine?.trim() ?? "" };
};

/**
 * Reads `ps ax --no-headers --format state,rss,pid,cmd`. A broken row is left out and counted. Other columns (`ps aux`,
 * `ps -ef`) must not be taken for these: where most rows do not fit, none is read.
 *
 * @throws {ParseError} when ps failed, or printed nothing or something else
 */
export const parsePs = (output: Output): Parsed<readonly Process[]> => {
  const printed = JSON.stringify((output.stderr.trim() || output.stdout.trim()).slice(0, 200));
  if (output.exitCode !== 0) throw new ParseError(`ps exited with ${output.exitCode} and printed ${printed}`);
  const lines = output.stdout.split("\n").filter((line) => line.trim() !== "");
  const processes = lines.map(readLine).filter((row) => row !== undefined);
  const rejected = lines.length - processes.length;
  if (processes.length === 0 || rejected >= processes.length) {
    const first = JSON.stringify(lines.find((line) => readLine(line) === undefined)?.slice(0, 200) ?? "");
    throw new ParseError(`ps printed ${rejected} of ${lines.length} rows that are not state, rss, pid, cmd: ${first}`);
  }
  return { value: processes, rejected };
};
