import { setTimeout as sleep } from "node:timers/promises";
import type { CommandRun, ProbeRun } from "../../agent/probe.ts";
import type { CommandResult, Metric, Output, Parsed } from "../../agent/types.ts";
import { errorText } from "../../errors.ts";
import { readResult, type Failure, type Reading } from "./reading.ts";

/** What a probe has read and publishes. */
export type Success<Readings = object> = {
  readonly kind: "ok";
  readonly metrics: readonly Metric[];
  readonly readings: Partial<Readings>;
  readonly rejected: number;
  readonly exitCode?: number;
  readonly detail?: string;
};

/** With less time left than this, seconds, a command would only be started to be killed. */
export const LEAST_TIME = 0.01;

/** So long after the deadline of a run its commands, which have the same deadline, are heard. Seconds. */
const HEARING = 0.25;

/** One run of a probe: the time it has, and the commands it has run. */
export class Run {
  readonly #started = performance.now();
  readonly #timeout: number;
  readonly #ended: CommandRun[] = [];
  readonly #atWork = new Set<{ readonly command: string; readonly since: number }>();

  constructor(timeout: number) {
    this.#timeout = timeout;
  }

  get seconds(): number {
    return (performance.now() - this.#started) / 1000;
  }

  /** Seconds that are left, 0 or more. */
  get left(): number {
    return Math.max(0, this.#timeout - this.seconds);
  }

  /**
   * Runs a command in the time that is left, at most `most` seconds, and reads what it printed. It counts as one that ended well
   * if that could be read.
   */
  async read<T>(
    command: string,
    most: number,
    start: (timeout: number) => Promise<CommandResult>,
    parse: (output: Output) => Parsed<T>,
  ): Promise<Reading<T>> {
    const timeout = Math.min(most, this.left);
    if (timeout < LEAST_TIME) return { kind: "timeout", detail: `no time was left to start ${command}` };
    const entry = { command, since: performance.now() };
    this.#atWork.add(entry);
    const result = await start(timeout);
    const reading = readResult(result, parse);
    if (this.#atWork.delete(entry)) this.#ended.push({ command, kind: reading.kind, seconds: result.seconds });
    return reading;
  }

  /** The commands so far. Those that are still at work count as timed out, and are not heard any more. */
  close(): readonly CommandRun[] {
    const now = performance.now();
    const cut = [...this.#atWork].map(({ command, since }) => ({
      command,
      kind: "timeout" as const,
      seconds: (now - since) / 1000,
    }));
    this.#atWork.clear();
    return [...this.#ended, ...cut];
  }
}

/**
 * Conducts one run: never rejects, and is done soon after `timeout` seconds at the latest, whatever the work does.
 */
export const conduct = async <Readings>(
  timeout: number,
  work: (run: Run) => Promise<Success<Readings> | Failure>,
): Promise<ProbeRun<Readings>> => {
  const run = new Run(timeout);
  const timer = new AbortController();
  const tooLate = { kind: "timeout", detail: `it had not ended after ${timeout} s` } as const;
  const late = sleep((timeout + HEARING) * 1000, tooLate, { signal: timer.signal }).catch(() => tooLate);
  const end = await Promise.race([settle(work(run)), late]);
  timer.abort();
  const { seconds } = run;
  const commands = run.close();
  if (end.kind === "ok") return { ...end, seconds, commands };
  return { ...end, seconds, commands, metrics: [], readings: {}, rejected: 0 };
};

/** What is thrown here is a fault of the probe, which must not end the agent. */
const settle = <Readings>(work: Promise<Success<Readings> | Failure>): Promise<Success<Readings> | Failure> =>
  work.catch((thrown: unknown) => ({ kind: "parse_error", detail: `the probe failed: ${errorText(thrown)}` }));
