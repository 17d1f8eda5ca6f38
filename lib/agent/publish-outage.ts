import { backOff } from "./publish-back-off.ts";

/** Whether the gateway is down, and when it may be asked again. */
export class Outage {
  readonly #random: () => number;
  #failures = 0;
  #retryAt = -Infinity;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** Failures in a row; 0 if the gateway works. A request takes it along, to be told from those sent before the last failure. */
  get round(): number {
    return this.#failures;
  }

  /** Whether one more may ask a gateway that is down. */
  mayAsk(now: number): boolean {
    return now >= this.#retryAt;
  }

  /** A request failed. `round` is that of its start: several that fail together are one failure. */
  failed(round: number, now: number): void {
    if (round !== this.#failures) return;
    this.#failures += 1;
    this.#retryAt = now + backOff(this.#failures, this.#random);
  }

  /** A request succeeded. Gives whether the gateway was down. */
  works(): boolean {
    const was = this.#failures > 0;
    this.#failures = 0;
    this.#retryAt = -Infinity;
    return was;
  }
}
