import { randomUUID } from "node:crypto";
import { Capture } from "./runner-capture.ts";
import { endTree } from "./runner-end-tree.ts";
import { commandEnvironment } from "./runner-environment.ts";
import { checkCommand } from "./runner-limits.ts";
import { keepAlive } from "./runner-live.ts";
import { Outcome } from "./runner-outcome.ts";
import type { Ending } from "./runner-outcome.ts";
import { startCommand } from "./runner-start.ts";
import type { Child } from "./runner-start.ts";
import { findStrays } from "./runner-strays.ts";
import { Tree } from "./runner-tree.ts";
import type { Command, CommandResult } from "./types.ts";

export type RunOptions = {
  /** seconds between TERM and KILL; default 2 */
  readonly grace?: number;
  /** variables of the child's environment besides the few it inherits */
  readonly environment?: Readonly<Record<string, string>>;
};

/** A command that was started. Neither promise ever rejects. */
export type Running = {
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
      if (nothingLeft && (await findStrays(tree, true)).length === 0) return;
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
