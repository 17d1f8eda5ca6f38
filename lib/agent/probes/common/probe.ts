import { errorText } from "../../../shared/errors.ts";
import type { Metric } from "../../../shared/exposition.ts";
import { within } from "../../../shared/time-limit.ts";
import { LARGEST_OUTPUT, LONGEST_TIMEOUT, checkLimit } from "../../command/run.ts";
import { Slot } from "../../command/slot.ts";
import type { Command, CommandResult, Output, Parsed, ResultKind } from "../../command/types.ts";
import { UnsupportedError, lastLine } from "./parse.ts";
import type { ProbeSettings } from "./settings.ts";

/** How one command of a probe's run ended. A run has several if the command is run once a container. */
export type CommandRun = {
  /** the command's short name, from a small fixed set: `nvidia-smi`, `docker ps`, `docker inspect`, `lsof` ... */
  readonly command: string;
  readonly kind: ResultKind;
  readonly seconds: number;
};

/** The result of one run of a probe. Only an `ok` has `metrics` and `readings`. */
export type ProbeRun<Readings = object> = {
  readonly kind: ResultKind;
  readonly seconds: number;
  readonly commands: readonly CommandRun[];
  readonly metrics: readonly Metric[];
  /** the values that other probes' data are joined with */
  readonly readings: Partial<Readings>;
  /** rows that were broken and left out */
  readonly rejected: number;
  /** of the command that the result is about, where it exited */
  readonly exitCode?: number;
  /** for people: which file was not found, what the tool printed */
  readonly detail?: string;
  /** for people: what is wrong on the node though the run was good */
  readonly warning?: string;
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
  /** how many children are alive although they were killed */
  stuck(): number;
};

/** What was read in a saved output of a probe's command. */
export type Saved = {
  readonly metrics: readonly Metric[];
  /** the values that were read, for people and for JSON; their shape is the probe's own */
  readonly parsed: unknown;
  /** rows that were broken and left out */
  readonly rejected: number;
};

/** One kind of probe. Both functions throw GridmeterError config_invalid for settings that are not valid. */
export type ProbeKind<Readings = object> = {
  readonly create: (settings: ProbeSettings) => Probe<Readings>;
  /** throws ParseError if the output cannot be read */
  readonly parseSaved: (output: Output, settings: ProbeSettings) => Saved;
};

/** Why a run publishes nothing. */
export type Failure = {
  readonly kind: Exclude<ResultKind, "ok">;
  /** of the command that failed, where it exited */
  readonly exitCode?: number;
  readonly detail: string;
};

/** What was read in the output of one command, or why nothing was. */
export type Reading<T> = (Parsed<T> & { readonly kind: "ok"; readonly exitCode: number }) | Failure;

/**
 * Reads what a command printed. The parser gets outputs of all exit codes, since some tools print everything and exit with another
 * than 0. If it cannot read such an output, the result is `exit_nonzero`; after exit code 0 it is `parse_error`. It is `not_found`
 * or `not_executable` if the command could not start the tool, and `disabled` if the tool can never do this on the node.
 */
export const readResult = <T>(result: CommandResult, parse: (output: Output) => Parsed<T>): Reading<T> => {
  switch (result.kind) {
    case "ok":
    case "exit_nonzero": {
      const { exitCode } = result.output;
      try {
        return { kind: "ok", exitCode, ...parse(result.output) };
      } catch (thrown) {
        return { kind: failureKind(result.output, thrown), exitCode, detail: errorText(thrown) };
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

const failureKind = (output: Output, thrown: unknown): Failure["kind"] => {
  if (output.exitCode === 0) return "parse_error";
  return unstartable(output) ?? (thrown instanceof UnsupportedError ? "disabled" : "exit_nonzero");
};

/** How nsenter, chroot, sudo, ip netns, docker exec and shells say that there is no such program. */
const NO_TOOL =
  /(?:failed to execute|failed to run command|can't execute|cannot run|exec of) [^\n]{1,256}No such file or directory|: command not found$|executable file not found in \$PATH/;
const NO_RIGHT =
  /(?:failed to execute|failed to run command|can't execute|cannot run|exec of) [^\n]{1,256}(?:Permission denied|Exec format error)/;

/**
 * Why a command that starts another (`nsenter ... -- TOOL`, `chroot /host TOOL`) could not start it; undefined if it could. The exit
 * codes 126 and 127 say so too, but a tool that lacks a library also exits with 127: that one is there and is broken.
 */
const unstartable = ({ stderr, exitCode }: Output): "not_found" | "not_executable" | undefined => {
  const text = lastLine(stderr);
  if (/shared librar|shared object/i.test(text)) return undefined;
  if (NO_TOOL.test(text) || (exitCode === 127 && /No such file or directory|: not found$/.test(text)))
    return "not_found";
  return NO_RIGHT.test(text) ? "not_executable" : undefined;
};

/** What a probe has read and publishes. */
export type Success<Readings = object> = {
  readonly kind: "ok";
  readonly metrics: readonly Metric[];
  readonly readings: Partial<Readings>;
  readonly rejected: number;
  readonly exitCode?: number;
  readonly detail?: string;
  readonly warning?: string;
};

/** With less time left than this no command is started, as it could not end in time. Seconds. */
export const LEAST_TIME = 0.01;

/** So long after its deadline a run still takes the results of its commands, which have the same deadline. Seconds. */
const RESULTS_LATER = 0.25;

/** One run of a probe: the time that is left, and the commands so far. */
export class Run {
  readonly #started = performance.now();
  readonly #timeout: number;
  readonly #ended: CommandRun[] = [];
  readonly #running = new Set<{ readonly command: string; readonly since: number }>();

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
   * Runs a command in the time that is left, at most `most` seconds, and reads what it printed. The command counts as `ok` if its
   * output could be read.
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
    this.#running.add(entry);
    const result = await start(timeout);
    const reading = readResult(result, parse);
    if (this.#running.delete(entry)) this.#ended.push({ command, kind: reading.kind, seconds: result.seconds });
    return reading;
  }

  /** Ends the run and gives its commands. Those that still run count as timed out, and their results are ignored. */
  close(): readonly CommandRun[] {
    const now = performance.now();
    const cut = [...this.#running].map(({ command, since }) => ({
      command,
      kind: "timeout" as const,
      seconds: (now - since) / 1000,
    }));
    this.#running.clear();
    return [...this.#ended, ...cut];
  }
}

/** Does the work of one run. Resolves soon after `timeout` seconds at the latest, whatever the work does. Never rejects. */
export const conduct = async <Readings>(
  timeout: number,
  work: (run: Run) => Promise<Success<Readings> | Failure>,
): Promise<ProbeRun<Readings>> => {
  const run = new Run(timeout);
  const late = { kind: "timeout", detail: `it had not ended after ${timeout} s` } as const;
  const end = await within(timeout + RESULTS_LATER, orFailure(work(run)), late);
  const { seconds } = run;
  const commands = run.close();
  if (end.kind === "ok") return { ...end, seconds, commands };
  return { ...end, seconds, commands, metrics: [], readings: {}, rejected: 0 };
};

/** An error thrown here is a fault of the probe's code, which must not end the agent. */
const orFailure = <Readings>(work: Promise<Success<Readings> | Failure>): Promise<Success<Readings> | Failure> =>
  work.catch((thrown: unknown) => ({ kind: "parse_error", detail: `the probe failed: ${errorText(thrown)}` }));

/** A probe that runs one command. */
type SingleCommand<T, Readings> = {
  readonly name: string;
  readonly limits: Limits;
  /** the command's name in `gridmeter_command_duration_seconds` */
  readonly label: string;
  /** the command, or why there is none for this run */
  readonly argv: () => Promise<Command["argv"] | Failure>;
  readonly parse: (output: Output) => Parsed<T>;
  /** adds what the command does not print, within so many seconds; rejects if that cannot be read */
  readonly complete?: (value: T, secondsLeft: number) => Promise<T>;
  readonly metrics: (value: T) => readonly Metric[];
  /** the values that other probes' data are joined with, within so many seconds */
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
 * The interval, timeout and byte cap of a probe.
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

/** Replaces the placeholders `{name}` of a command by their values. One without a value stays as it is. */
export const fillIn = ([program, ...rest]: Argv, values: Readonly<Record<string, string>>): Argv => {
  const fill = (argument: string) =>
    argument.replaceAll(/\{([a-z]+)\}/g, (placeholder, name: string) => values[name] ?? placeholder);
  return [fill(program), ...rest.map(fill)];
};

/** Whether a command has the placeholder `{name}`. */
export const hasPlaceholder = (argv: Argv, name: string): boolean =>
  argv.some((argument) => argument.includes(`{${name}}`));
