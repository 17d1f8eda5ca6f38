import { randomUUID } from "node:crypto";
import { GridmeterError } from "../../shared/errors.ts";
import { endTree, findOrphans, lookNow } from "./orphans.ts";
import { Tree } from "./processes.ts";
import { Capture, type Child, commandEnvironment, startCommand } from "./start.ts";
import type { Command, CommandResult } from "./types.ts";
import { within } from "../../shared/time-limit.ts";

export type RunOptions = {
  /** seconds between TERM and KILL; default 2 */
  readonly grace?: number;
  /** variables of the child's environment besides the few it inherits */
  readonly environment?: Readonly<Record<string, string>>;
};

/** A command that was started. Neither promise ever rejects. */
type Running = {
  /** the result, at the deadline at the latest, whatever the child does */
  readonly settled: Promise<CommandResult>;
  /** when its child has exited and nothing that came of it is left; for a child in uninterruptible sleep, perhaps never */
  readonly gone: Promise<void>;
};

/** Seconds from TERM to KILL, if nothing else is said. */
export const GRACE = 2;

/** So long after its exit a child's pipes are waited for, milliseconds: a grandchild may hold them for ever. */
const PIPES_LIMIT = 200;

/**
 * Starts a command: never through a shell, in a process group of its own, LC_ALL=C, stdout and stderr apart. At the deadline
 * the result is `timeout`, at once; TERM, the grace and KILL to all its processes follow in the background, as they do after
 * too much output. Of a command that ended by itself, nothing is left running either (a probe has no business with daemons).
 *
 * Whatever keeps a command from being started is a result too: `not_found` if it or its working directory is not there,
 * `not_executable` for the rest (not permitted, a directory, no binary, arguments too long, no files or processes left).
 * Limit: Node waits for the kernel's exec, so a program on a hung network file system may hold up the agent.
 *
 * @throws GridmeterError config_invalid if the timeout, the byte cap or the grace is out of bounds
 */
export function runCommand(command: Command, options: RunOptions = {}): Running {
  const { grace = GRACE, environment } = options;
  checkCommand(command, grace);
  const run = new Run(command, grace * 1000);
  const over = run.conduct(environment);
  keepAlive({ kill: (why) => run.outcome.settle({ kind: "killed", detail: why }), killNow: () => run.killNow(), over });
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

  /** From the start to the end of the last process. */
  async conduct(environment: RunOptions["environment"]): Promise<void> {
    const mark = randomUUID();
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
    stdout.forget();
    stderr.forget();
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

/** Resolves when the child has exited and its pipes are closed, or still held by others a little later. */
function ended(child: Child, tree: Tree): Promise<"closed" | "held"> {
  return new Promise((resolve) => {
    child.once("exit", () => {
      tree.reaped();
      // The turn after the timer reads what still lies in the pipes, should the loop have been busy until now.
      const timer = setTimeout(() => setImmediate(resolve, "held"), PIPES_LIMIT);
      child.once("close", () => {
        clearTimeout(timer);
        resolve("closed");
      });
    });
  });
}

function endingOf({ exitCode, signalCode }: Child, stdout: string, stderr: string): Ending {
  if (exitCode === null) return { kind: "killed", detail: `ended by ${signalCode ?? "a signal"}` };
  return { kind: exitCode === 0 ? "ok" : "exit_nonzero", output: { stdout, stderr, exitCode } };
}

/** How a command ended, before it is known whether it did so in time. */
type Ending<R = CommandResult> = R extends CommandResult ? Omit<R, "seconds"> : never;

/** The result of a run, which is settled once and not later than its deadline, and the moment at which nothing of it is left. */
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
   * The first ending counts. One that is seen after the deadline is a timeout, exit 0 or not: the loop may have been busy when
   * the timer was due, and a command that was too slow today must not pass because the agent was, too.
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

  /** Nothing of the run is left. Called before `settle` where both are known at once, so that its slot is free by then. */
  leave(): void {
    this.#leave();
  }
}

/** A run that is not over: its child or something that came of it may live. */
type LiveRun = {
  /** settles its result as `killed` if it has none yet, and begins to end its processes */
  readonly kill: (why: string) => void;
  /** KILL to its group, at once and in this very turn */
  readonly killNow: () => void;
  /** resolves when nothing of it is left */
  readonly over: Promise<void>;
};

const live = new Set<LiveRun>();
let hooked = false;

/** Keeps the run in mind until it is over. When the program ends without having called `killAll`, its group is killed. */
function keepAlive(run: LiveRun): void {
  live.add(run);
  void run.over.then(() => live.delete(run));
  if (hooked) return;
  hooked = true;
  process.once("exit", () => {
    for (const left of live) left.killNow();
  });
}

/**
 * Ends all that ever was started and still lives, for the end of the agent: results that are open become `killed`, TERM, grace
 * and KILL follow. Resolves when all is gone, at the latest after `limit` seconds, since a child in uninterruptible sleep
 * cannot be awaited. Call it before the program ends on its own accord, too: a timed-out command may be in its grace.
 */
export async function killAll(why = "the agent is ending", limit = 3): Promise<void> {
  const runs = [...live];
  for (const run of runs) run.kill(why);
  lookNow();
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
 * A limit that is no number, not finite or not above 0 limits nothing.
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
