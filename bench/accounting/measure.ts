import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { type Cost, costBetween, readMeters } from "./meters.ts";

/** A program that is measured: what `node` is given, and where it runs. */
export type Program = {
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  /** its clock at the start, epoch seconds; default: the real one */
  readonly now?: number;
};

/** One run of a program, as seen from outside. */
export type Run = Cost & {
  /** seconds from start to end of the process, Node's own start included */
  readonly seconds: number;
  /** the most memory that it had (VmHWM) */
  readonly peakBytes: number;
  readonly stdout: string;
};

/**
 * Runs a program to its end beside the Prometheus that it asks. Throws unless it ends with exit code 0.
 * @param probe what probe.ts is bundled into
 */
export async function measure(program: Program, probe: string, prometheus: string): Promise<Run> {
  const peakFile = join(program.cwd, "peak-bytes");
  const before = await readMeters(prometheus);
  const start = performance.now();
  const child = spawn(process.execPath, ["--import", probe, ...program.args], {
    cwd: program.cwd,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: process.env["PATH"],
      ...program.env,
      GRIDMETER_BENCH_PEAK: peakFile,
      ...(program.now === undefined ? {} : { GRIDMETER_BENCH_NOW: `${program.now}` }),
    },
  });
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  const closed = once(child, "close");
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), closed]);
  process.removeListener("exit", kill);
  const seconds = (performance.now() - start) / 1000;
  if (child.exitCode !== 0) {
    const how = child.exitCode ?? child.signalCode;
    throw new Error(`A measured program ended with ${String(how)}: ${program.args.join(" ")}\n${stderr}\n${stdout}`);
  }
  const cost = costBetween(before, await readMeters(prometheus));
  return { ...cost, seconds, peakBytes: Number(await readFile(peakFile, "utf8")), stdout };
}

/** The middle one of several runs' values (the mean of two). */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const [low, high] = [sorted[Math.floor((sorted.length - 1) / 2)], sorted[Math.ceil((sorted.length - 1) / 2)]];
  if (low === undefined || high === undefined) throw new Error("There is no median of nothing.");
  return (low + high) / 2;
}

/** The medians of all that was measured. Memory is the greatest, since that is what must be there. */
export function middle(runs: readonly Run[]): Omit<Run, "stdout"> {
  const of = (value: (run: Run) => number): number => median(runs.map(value));
  return {
    seconds: of((run) => run.seconds),
    peakBytes: Math.max(...runs.map((run) => run.peakBytes)),
    queries: of((run) => run.queries),
    querySeconds: of((run) => run.querySeconds),
    cpuSeconds: of((run) => run.cpuSeconds),
    sentBytes: of((run) => run.sentBytes),
  };
}
