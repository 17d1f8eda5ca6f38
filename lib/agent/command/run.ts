/*
 * Runs one command of a probe. A command may fail in any of these ways, and each costs only its own data: gone within the timeout
 * and 2.5 s, other probes' data go on, and nothing is left behind. Comments in this folder call a fault by its name here.
 *
 *   hangs                                       Outcome: `timeout` at the deadline; endTree (tree.ts) ends its processes
 *   ignores TERM                                endTree: KILL after the grace
 *   grandchild in its own session, holds stdout `ended`: pipes are awaited 0.2 s; findOrphans (tree.ts) finds it by its mark
 *   endless flood; 500 MB then exit 0           Capture (start.ts): `output_too_large`
 *   exit code, garbage, truncated               the probe's parser: nothing is published
 *   missing                                     locateExecutable (executable.ts): `not_found`, `not_executable`
 *   one GPU lost, one `--` row                  the probe's parser: that row is left out and counted
 *   D state                                     Slot (slot.ts): no second child; killAll waits for it only within a limit
 */
import { setImmediate as nextIteration } from "node:timers/promises";
import { GridmeterError } from "../../shared/errors.ts";
import { within } from "../../shared/time-limit.ts";
import { Capture, type Child, commandEnvironment, newMark, startCommand } from "./start.ts";
import { Tree, endTree, findOrphans, searchNow } from "./tree.ts";
import type { Command, CommandResult } from "./types.ts";

export type RunOptions = {
  /** seconds between TERM and KILL; default 2 */
  readonly grace?: number;
  /** variables of the child's environment in addition to the few that it inherits */
  readonly environment?: Readonly<Record<string, string>>;
};

/** A command that was started. Neither promise ever rejects. */
type Running = {
  /** the result, not later than the deadline, whatever the child does */
  readonly settled: Promise<CommandResult>;
  /** when its child has exited and no process that came of it is left; for a child in uninterruptible sleep, perhaps never */
  readonly gone: Promise<void>;
};

/** Seconds from TERM to KILL by default. */
export const GRACE = 2;

/** So long after a child's exit its pipes are awaited, seconds: a grandchild may hold them for ever. */
const PIPES_LIMIT = 0.2;

/**
 * Starts a command: never through a shell, in a process group of its own, with LC_ALL=C, stdout and stderr apart. At the deadline
 * the result is `timeout`, at once. TERM, the grace and KILL to all its processes follow in the background, as they do after too
 * much output. If the command ends by itself, the processes it leaves behind are ended too: a probe's command starts no daemons.
 *
 * If a command cannot be started, that is a result too: `not_found` if it or its working directory is not there, `not_executable`
 * for other causes (not permitted, a directory, no binary, arguments too long, no file descriptors or processes left).
 * Limit: Node waits for the kernel's exec, so a program on a network file system that hangs may hold up the agent.
 *
 * @throws GridmeterError config_invalid if the timeout, the byte cap or the grace is out of bounds
 */
export function runCommand(command: Command, options: RunOptions = {}): Running {
  const { grace = GRACE, environment } = options;
  checkCommand(command, grace);
  const run = new Run(command, grace * 1000);
  const over = run.conduct(environment);
  register({ kill: (why) => run.outcome.settle({ kind: "killed", detail: why }), killNow: () => run.killNow(), over });
  return { settled: run.outcome.settled, gone: run.outcome.gone };
}

class Run {
  readonly outcome: Outcome;
  readonly #command: Command;
  readonly #grace: number;
  #tree: Tree | undefined;

  constructor(command: Command, grace: number) {
    this.#command = command;
    this.#grace = grace;
    this.outcome = new Outcome(command.timeout);
  }

  killNow(): void {
    this.#tree?.signal("SIGKILL");
  }

  /** Starts the command, and resolves when its last process has ended. */
  async conduct(environment: RunOptions["environment"]): Promise<void> {
    const mark = newMark();
    const env = commandEnvironment(mark, process.env, environment);
    const started = await startCommand(this.#command, env, () => !this.outcome.isSettled);
    if (started?.kind === "started") {
      this.#tree = new Tree(mark, started.pid);
      await this.#watch(started.child, this.#tree);
    } else {
      this.outcome.leave();
      if (started !== undefined) this.outcome.settle(started);
    }
  }

  async #watch(child: Child, tree: Tree): Promise<void> {
    const { outcome } = this;
    const stdout = this.#capture(child.stdout, "stdout");
    const stderr = this.#capture(child.stderr, "stderr");
    const closeOurEnds = () => {
      stdout.close();
      stderr.close();
    };
    const pipes = await Promise.race([ended(child, tree), outcome.settled.then(() => "open" as const)]);
    if (!outcome.isSettled) {
      const ending = endingOf(child, stdout.text(), stderr.text());
      const nothingLeft = pipes === "closed" && tree.groupIsEmpty;
      if (nothingLeft) outcome.leave();
      outcome.settle(ending);
      closeOurEnds();
      if (nothingLeft && (await findOrphans(tree, true)).length === 0) return;
    }
    stdout.drop();
    stderr.drop();
    await endTree(tree, this.#grace, () => {
      closeOurEnds();
      child.unref();
    });
    outcome.leave();
  }

  #capture(stream: Child["stdout"], name: string): Capture {
    const { maxBytes } = this.#command;
    const detail = `more than ${maxBytes} bytes on ${name}`;
    return new Capture(stream, maxBytes, () => this.outcome.settle({ kind: "output_too_large", detail }));
  }
}

/** Resolves when the child has exited and its pipes are closed, or a little later if another process still holds them. */
async function ended(child: Child, tree: Tree): Promise<"closed" | "held"> {
  const closed = new Promise<"closed">((resolve) => child.once("close", () => resolve("closed")));
  await new Promise<void>((resolve) => {
    child.once("exit", () => {
      tree.reaped();
      resolve();
    });
  });
  const pipes = await within(PIPES_LIMIT, closed, "held" as const);
  // If the event loop was busy until now, its next iteration reads what is still in the pipes.
  return pipes === "closed" ? pipes : Promise.race([closed, nextIteration("held" as const)]);
}

function endingOf({ exitCode, signalCode }: Child, stdout: string, stderr: string): Ending {
  if (exitCode === null) return { kind: "killed", detail: `ended by ${signalCode ?? "a signal"}` };
  return { kind: exitCode === 0 ? "ok" : "exit_nonzero", output: { stdout, stderr, exitCode } };
}

/** How a command ended, before it is known whether it did so in time. */
type Ending<R = CommandResult> = R extends CommandResult ? Omit<R, "seconds"> : never;

/** Fault "hangs": the result of a run, settled once and not later than its deadline, and the moment at which no process is left. */
export class Outcome {
  readonly settled: Promise<CommandResult>;
  readonly gone: Promise<void>;
  #settle: (result: CommandResult) => void = () => undefined;
  #leave: () => void = () => undefined;
  #isSettled = false;
  readonly #started = performance.now();
  readonly #timeout: number;
  readonly #timer: NodeJS.Timeout;

  /** The deadline lies `timeout` seconds from now. */
  constructor(timeout: number) {
    this.settled = new Promise((settle) => (this.#settle = settle));
    this.gone = new Promise((leave) => (this.#leave = leave));
    this.#timeout = timeout;
    this.#timer = setTimeout(() => this.settle(this.#late()), timeout * 1000);
  }

  get isSettled(): boolean {
    return this.#isSettled;
  }

  /**
   * The first ending counts. One that is seen after the deadline is a timeout, even with exit code 0: the event loop may have been
   * busy when the timer was due, but the command was too slow all the same.
   */
  settle(ending: Ending): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    clearTimeout(this.#timer);
    const seconds = (performance.now() - this.#started) / 1000;
    this.#settle({ ...(seconds < this.#timeout ? ending : this.#late()), seconds });
  }

  #late(): Ending {
    return { kind: "timeout", detail: `it had not ended after ${Number(this.#timeout.toFixed(3))} s` };
  }

  /** To be called when no process of the run is left; before `settle` if both are known at once, so that its slot is free then. */
  leave(): void {
    this.#leave();
  }
}

/** A run that is not over: its child or a process that came of it may be alive. */
type LiveRun = {
  /** settles its result as `killed` if it has none yet, and begins to end its processes */
  readonly kill: (why: string) => void;
  /** sends KILL to its group synchronously */
  readonly killNow: () => void;
  /** resolves when no process of it is left */
  readonly over: Promise<void>;
};

const live = new Set<LiveRun>();
let hooked = false;

/** Registers the run until it is over. If the program exits without a call of `killAll`, the run's group is killed. */
function register(run: LiveRun): void {
  live.add(run);
  void run.over.then(() => live.delete(run));
  if (hooked) return;
  hooked = true;
  process.once("exit", () => {
    for (const left of live) left.killNow();
  });
}

/** How many runs are not over. */
export function liveRuns(): number {
  return live.size;
}

/**
 * Ends every command that is still alive, when the agent ends: open results become `killed`, and TERM, grace and KILL follow.
 * Resolves when all are gone, or after `limit` seconds, since a child in uninterruptible sleep may never be.
 */
export async function killAll(why = "the agent is ending", limit = 3): Promise<void> {
  const runs = [...live];
  for (const run of runs) run.kill(why);
  searchNow();
  await within(limit, Promise.all(runs.map((run) => run.over)), undefined);
}

/** Timers of Node count milliseconds in 32 bits, and fire at once beyond. Seconds. */
export const LONGEST_TIMEOUT = 2_147_483;
/** The longest text that V8 holds is 512 MiB. Bytes. */
export const LARGEST_OUTPUT = 500_000_000;

/**
 * A command without a finite timeout or byte cap is never started.
 *
 * @throws GridmeterError config_invalid
 */
function checkCommand(command: Command, grace: number): void {
  const [name] = command.argv;
  checkLimit(`the command ${name}`, "timeout", command.timeout, LONGEST_TIMEOUT, "seconds");
  checkLimit(`the command ${name}`, "byte cap", command.maxBytes, LARGEST_OUTPUT, "bytes");
  if (grace !== 0) checkLimit(`the command ${name}`, "grace", grace, LONGEST_TIMEOUT, "seconds");
}

/**
 * Refuses a limit that is not a number above 0 and at most `most`.
 *
 * @throws GridmeterError config_invalid
 */
export function checkLimit(whose: string, what: string, value: number, most: number, unit: string): void {
  if (value > 0 && value <= most) return;
  throw new GridmeterError(
    "config_invalid",
    `The ${what} of ${whose} is ${value}. Nothing was started. ` +
      `Give it a number of ${unit} above 0 and at most ${most}.`,
  );
}
