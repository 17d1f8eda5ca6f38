import { GRACE, runCommand } from "./runner.ts";
import type { RunOptions } from "./runner.ts";
import type { Command, CommandResult } from "./types.ts";

/** A child that lives so long beyond the KILL is stuck, milliseconds. */
const STUCK_AFTER_KILL = 1_000;

/**
 * The place of one command, which has room for one child. Until the child and all that came of it have really gone, another
 * start gives `skipped_in_flight`: a command that hangs in the kernel must not be started again at every interval.
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

  /** Whether a child (or what came of it) is there. */
  get busy(): boolean {
    return this.#busy;
  }

  /** Whether the child outlived its result. For as long as TERM and KILL take that is so after every timeout. */
  get overdue(): boolean {
    return this.#busy && this.#settledAt !== undefined;
  }

  /** 1 if the child is there although it was killed, else 0. */
  get stuck(): number {
    const since = this.#settledAt;
    const patience = this.#killedAfter + STUCK_AFTER_KILL;
    return this.#busy && since !== undefined && performance.now() - since >= patience ? 1 : 0;
  }
}
