import type { CommandResult } from "./types.ts";

/** How a command ended, before it is known whether it did so in time. */
export type Ending<R = CommandResult> = R extends CommandResult ? Omit<R, "seconds"> : never;

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
