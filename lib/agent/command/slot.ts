import pLimit from "p-limit";
import { within } from "../../shared/time-limit.ts";
import { GRACE, LONGEST_TIMEOUT, type RunOptions, checkLimit, runCommand } from "./run.ts";
import type { Command, CommandResult } from "./types.ts";

/** A child that lives so long after KILL is stuck, milliseconds. */
const STUCK_AFTER_KILL = 1_000;

/**
 * Runs one command, never two at a time (fault "D state": one child, never doubled). Until the child and all that came of it are
 * gone, another start gives `skipped_in_flight`: a command that hangs in the kernel must not be started again at every interval.
 */
export class Slot {
  #busy = false;
  #settledAt: number | undefined;
  #killedAfter = 0;

  /** Runs the command, if the slot is free. As `runCommand`, it throws for a command without finite limits. */
  run(command: Command, options: RunOptions = {}): Promise<CommandResult> {
    if (this.#busy) {
      const detail = `an earlier ${command.argv[0]} has not gone yet`;
      return Promise.resolve({ kind: "skipped_in_flight", seconds: 0, detail });
    }
    const { settled, gone } = runCommand(command, options);
    this.#busy = true;
    this.#settledAt = undefined;
    this.#killedAfter = (options.grace ?? GRACE) * 1000;
    void gone.then(() => (this.#busy = false));
    return settled.then((result) => {
      this.#settledAt = performance.now();
      return result;
    });
  }

  /** Whether a child, or a process that came of it, is alive. */
  get busy(): boolean {
    return this.#busy;
  }

  /** Whether the child outlived its result: after each timeout, for as long as TERM and KILL take. */
  get overdue(): boolean {
    return this.#busy && this.#settledAt !== undefined;
  }

  /** 1 if the child is alive although it was killed, else 0. */
  get stuck(): number {
    const since = this.#settledAt;
    const stuckAfter = this.#killedAfter + STUCK_AFTER_KILL;
    return this.#busy && since !== undefined && performance.now() - since >= stuckAfter ? 1 : 0;
  }
}

/**
 * Slots of the commands that a probe runs once a container: one child a key, and at most `mostOverdue` children in all that
 * outlived their deadline. Otherwise a docker that hangs would leave a thousand children on a node with a thousand containers
 * (prometheus-community/ipmi_exporter#95).
 */
export class SlotPerKey {
  readonly #slots = new Map<string, Slot>();
  readonly #mostOverdue: number;

  constructor(mostOverdue = 16) {
    this.#mostOverdue = mostOverdue;
  }

  /** Runs the command in the slot of that key. As `runCommand`, it throws for a command without finite limits. */
  run(key: string, command: Command, options: RunOptions = {}): Promise<CommandResult> {
    this.#dropFree();
    const slot = this.#slots.get(key) ?? new Slot();
    const overdue = [...this.#slots.values()].filter((other) => other.overdue).length;
    if (!slot.busy && overdue >= this.#mostOverdue) {
      const detail = `${overdue} earlier ${command.argv[0]} have not gone yet`;
      return Promise.resolve({ kind: "skipped_in_flight", seconds: 0, detail });
    }
    const result = slot.run(command, options);
    this.#slots.set(key, slot);
    return result;
  }

  /** How many children are alive although they were killed. */
  get stuck(): number {
    return [...this.#slots.values()].reduce((sum, slot) => sum + slot.stuck, 0);
  }

  /** Containers come and go: a key is kept only while it has a child. */
  #dropFree(): void {
    for (const [key, slot] of this.#slots) if (!slot.busy) this.#slots.delete(key);
  }
}

type FanOutLimits = {
  /** how many run at a time */
  readonly concurrency: number;
  /** seconds from now for all of them together */
  readonly deadline: number;
};

type FanOutEntry<T> = { readonly item: T; readonly result: CommandResult };

/** With less time left than this, milliseconds, a command would only be started to be killed. */
const LEAST_TIME = 10;

/**
 * Runs one command an item, a few at a time, all within one deadline. `work` gets the seconds that are left. At the deadline the
 * items that have not ended or were not started are `timeout`, whatever `work` does. One entry an item, in the order of the items.
 * Rejects only if `work` does.
 *
 * @throws GridmeterError config_invalid if the deadline is not finite and above 0
 */
export async function fanOut<T>(
  items: readonly T[],
  work: (item: T, secondsLeft: number) => Promise<CommandResult>,
  { concurrency, deadline }: FanOutLimits,
): Promise<readonly FanOutEntry<T>[]> {
  checkLimit("the commands run once a container", "deadline", deadline, LONGEST_TIMEOUT, "seconds");
  const ends = performance.now() + deadline * 1000;
  const shown = Number(deadline.toFixed(3));
  const limit = pLimit(concurrency);
  const one = async (item: T): Promise<FanOutEntry<T>> => {
    const started = performance.now();
    if (started > ends - LEAST_TIME) return { item, result: timeout(0, `it was not started within ${shown} s`) };
    const left = (ends - started) / 1000;
    const result = await within(left, work(item, left), undefined);
    if (result !== undefined) return { item, result };
    const seconds = (performance.now() - started) / 1000;
    return { item, result: timeout(seconds, `it had not ended when the ${shown} s for all were over`) };
  };
  try {
    return await Promise.all(items.map((item) => limit(one, item)));
  } finally {
    limit.clearQueue();
  }
}

function timeout(seconds: number, detail: string): CommandResult {
  return { kind: "timeout", seconds, detail };
}
