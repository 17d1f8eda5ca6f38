import * as z from "zod";
import { errorText } from "../../../shared/errors.ts";
import type { Metric } from "../../../shared/exposition.ts";
import { LARGEST_OUTPUT, LONGEST_TIMEOUT, checkLimit } from "../../command/run.ts";
import { Slot } from "../../command/slot.ts";
import type { Command, CommandResult, Output, Parsed, ResultKind } from "../../command/types.ts";
import type { ProbeSettings } from "./settings.ts";
import { within } from "../../../shared/time-limit.ts";

/** How one command of a probe ended; a probe may run several (once a container). */
export type CommandRun = {
  /** the command's short name, from a small fixed set: `nvidia-smi`, `docker ps`, `docker inspect`, `lsof` ... */
  readonly command: string;
  readonly kind: ResultKind;
  readonly seconds: number;
};

/** What one run of a probe came to. `metrics` and `readings` are there for `ok` only. */
export type ProbeRun<Readings = object> = {
  readonly kind: ResultKind;
  readonly seconds: number;
  readonly commands: readonly CommandRun[];
  readonly metrics: readonly Metric[];
  /** what other probes' data are joined with */
  readonly readings: Partial<Readings>;
  /** rows that were broken and left out */
  readonly rejected: number;
  /** of the command that decided the result, where it exited */
  readonly exitCode?: number;
  /** for people: which file was not found, what the tool printed */
  readonly detail?: string;
};

/** A probe that can be run. `run` settles within `timeout` seconds whatever its commands do, and never rejects. */
export type Probe<Readings = object> = {
  readonly name: string;
  /** seconds from the start of a run to the start of the next */
  readonly interval: number;
  /** seconds for one run in all */
  readonly timeout: number;
  /** why the probe cannot run on this node (a tool or device is missing), or undefined if it can */
  unavailable(): Promise<string | undefined>;
  run(): Promise<ProbeRun<Readings>>;
  /** children that are there although they were killed */
  stuck(): number;
};

/** What a saved output of a probe's command says. */
export type Saved = {
  readonly metrics: readonly Metric[];
  /** the values that were read, for people and for JSON; their shape is the probe's own */
  readonly parsed: unknown;
  /** rows that were broken and left out */
  readonly rejected: number;
};

/** One kind of probe. Both functions throw GridmeterError config_invalid for settings that cannot be. */
export type ProbeKind<Readings = object> = {
  readonly create: (settings: ProbeSettings) => Probe<Readings>;
  /** throws ParseError if nothing can be read */
  readonly parseSaved: (output: Output, settings: ProbeSettings) => Saved;
};

/** Why there is nothing to publish. */
export type Failure = {
  readonly kind: Exclude<ResultKind, "ok">;
  /** of the command that decided it, where it exited */
  readonly exitCode?: number;
  readonly detail: string;
};

/** What the output of one command says, or why it says nothing. */
export type Reading<T> = (Parsed<T> & { readonly kind: "ok"; readonly exitCode: number }) | Failure;

/**
 * Reads what a command printed. The parser is asked whatever the exit code is, since some tools exit with another than 0 and have
 * said all there is to say; if it refuses then, the exit is the reason, and otherwise the output is.
 */
export const readResult = <T>(result: CommandResult, parse: (output: Output) => Parsed<T>): Reading<T> => {
  switch (result.kind) {
    case "ok":
    case "exit_nonzero": {
      const { exitCode } = result.output;
      try {
        return { kind: "ok", exitCode, ...parse(result.output) };
      } catch (thrown) {
        const kind = result.kind === "ok" ? "parse_error" : result.kind;
        return { kind, exitCode, detail: errorText(thrown) };
      }
    }
    case "timeout":
    case "not_found":
    case "not_executable":
    case "output_too_large":
    case "killed":
    case "skipped_in_flight":
      return { kind: result.kind, detail: result.detail };
    default:
      return result satisfies never;
  }
};

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

/** So long after the deadline of a run the results of its commands, which have the same deadline, still count. Seconds. */
const LATE_RESULTS = 0.25;

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

  /** The commands so far. Those that are still at work count as timed out, whatever they come to. */
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
  const tooLate = { kind: "timeout", detail: `it had not ended after ${timeout} s` } as const;
  const end = await within(timeout + LATE_RESULTS, settle(work(run)), tooLate);
  const { seconds } = run;
  const commands = run.close();
  if (end.kind === "ok") return { ...end, seconds, commands };
  return { ...end, seconds, commands, metrics: [], readings: {}, rejected: 0 };
};

/** What is thrown here is a fault of the probe, which must not end the agent. */
const settle = <Readings>(work: Promise<Success<Readings> | Failure>): Promise<Success<Readings> | Failure> =>
  work.catch((thrown: unknown) => ({ kind: "parse_error", detail: `the probe failed: ${errorText(thrown)}` }));

/** A probe that runs one command. */
type SingleCommand<T, Readings> = {
  readonly name: string;
  readonly limits: Limits;
  /** the command's name in `gridmeter_command_duration_seconds` */
  readonly label: string;
  /** the command, or why there is none now */
  readonly argv: () => Promise<Command["argv"] | Failure>;
  readonly parse: (output: Output) => Parsed<T>;
  /** adds what the command does not say, within so many seconds; rejects if that cannot be read */
  readonly complete?: (value: T, secondsLeft: number) => Promise<T>;
  readonly metrics: (value: T) => readonly Metric[];
  /** what other probes' data are joined with, within so many seconds */
  readonly readings: (value: T, secondsLeft: number) => Promise<Partial<Readings>>;
  readonly unavailable: () => Promise<string | undefined>;
};

export const singleProbe = <T, Readings>(probe: SingleCommand<T, Readings>): Probe<Readings> => {
  const { name, label, limits } = probe;
  const { interval, timeout, maxBytes } = limits;
  const slot = new Slot();
  return {
    name,
    interval,
    timeout,
    unavailable: probe.unavailable,
    stuck: () => slot.stuck,
    run: () =>
      conduct(timeout, async (run) => {
        const argv = await probe.argv();
        if ("kind" in argv) return argv;
        const start = (seconds: number) => slot.run({ argv, timeout: seconds, maxBytes });
        const reading = await run.read(label, timeout, start, probe.parse);
        if (reading.kind !== "ok") return reading;
        const { value: printed, rejected, exitCode } = reading;
        const value = (await probe.complete?.(printed, run.left)) ?? printed;
        const metrics = probe.metrics(value);
        return { kind: "ok", metrics, readings: await probe.readings(value, run.left), rejected, exitCode };
      }),
  };
};

export type Limits = { readonly interval: number; readonly timeout: number; readonly maxBytes: number };

/**
 * When and within what limits a probe runs.
 *
 * @throws GridmeterError config_invalid if one is not finite or not above 0
 */
export const limitsOf = (name: string, settings: ProbeSettings, defaults: Limits): Limits => {
  const { interval = defaults.interval, timeout = defaults.timeout, maxBytes = defaults.maxBytes } = settings;
  const whose = `the probe ${name}`;
  checkLimit(whose, "interval", interval, LONGEST_TIMEOUT, "seconds");
  checkLimit(whose, "timeout", timeout, LONGEST_TIMEOUT, "seconds");
  checkLimit(whose, "byte cap", maxBytes, LARGEST_OUTPUT, "bytes");
  return { interval, timeout, maxBytes };
};

type Argv = Command["argv"];

const change = ([program, ...rest]: Argv, one: (argument: string) => string): Argv => [one(program), ...rest.map(one)];

/** Puts values into the places of a command that are written `{name}`; places without a value stay as they are. */
export const fillIn = (argv: Argv, values: Readonly<Record<string, string>>): Argv =>
  change(argv, (argument) => argument.replaceAll(/\{([a-z]+)\}/g, (place, name: string) => values[name] ?? place));

/** Makes a template of a command, by putting a place where it has this very argument. */
export const template = (argv: Argv, argument: string, place: string): Argv =>
  change(argv, (one) => (one === argument ? place : one));

/** Whether a command has the place `{name}`. */
export const hasPlace = (argv: Argv, name: string): boolean => argv.some((argument) => argument.includes(`{${name}}`));

/** The output of a command is not what it prints; the probe publishes nothing. The message quotes the place. */
export class ParseError extends Error {
  override readonly name = "ParseError";
}

/** The parsed text; undefined where it is no JSON. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/** A text that says something. Of another type, or empty, it is undefined: one bad value must not cost the whole object. */
export const Text = z.string().min(1).optional().catch(undefined);

/** A whole number of 0 or more, else undefined. */
export const Count = z.int().nonnegative().optional().catch(undefined);

/** True or false, else undefined. */
export const Flag = z.boolean().optional().catch(undefined);

/** An object of texts; what is no text is left out. */
export const Texts = z
  .record(z.string(), z.unknown())
  .catch({})
  .transform(
    (found) =>
      new Map(Object.entries(found).flatMap(([key, value]) => (typeof value === "string" ? [[key, value]] : []))),
  );
