import { GridmeterError } from "../errors.ts";
import type { Window } from "./ports.ts";
import { showTime } from "./time.ts";

const HOUR = 3600;
/**
 * The smallest part is asked for again before its refusal is believed: a busy server is slow with everything. An answer that
 * is cut short has been tried again already.
 */
const MOST_SMALLEST = 5;
/** A server that says it cannot answer now is asked for less so often before that is believed. */
const MOST_UNAVAILABLE = 3;

/** An answer that ended too early, time after time. A limit in between may let a shorter one pass, so less is asked. */
export class CutShort extends GridmeterError {
  constructor(message: string) {
    super("prometheus_bad_answer", message);
  }
}

/** Some of what a question is about; `pods` says which, for the error's message (all: nothing). */
export type Part = { readonly window: Window; readonly pods: string; readonly isSmallest: boolean };

/** Counts the queries for the parts of one question, and ends it once there is no use in asking on. */
export class Tries {
  readonly #asked: string;
  readonly #most: number;
  #queries = 0;
  #inARow = 0;
  #smallest = 0;
  #unavailable = 0;

  /**
   * @param asked the question, for the error's message
   * @param most queries, answered and refused: so many for each hour, and besides
   */
  constructor(asked: string, windows: readonly Window[], most: { readonly anHour: number; readonly besides: number }) {
    const hours = windows.reduce((sum, { from, to }) => sum + Math.ceil((to - from) / HOUR), 0);
    this.#asked = asked;
    this.#most = most.besides + hours * most.anHour;
  }

  /** Refusals since the last answer. */
  get inARow(): number {
    return this.#inARow;
  }

  /**
   * Whether the server answered; where it did not, less is to be asked.
   * @throws whatever `ask` throws that is no refusal; the refusal, with the question, once there is no use in asking on
   */
  async answered({ window, pods, isSmallest }: Part, ask: () => Promise<void>): Promise<boolean> {
    this.#queries += 1;
    try {
      await ask();
    } catch (thrown) {
      if (!isRefusal(thrown)) throw thrown;
      this.#inARow += 1;
      if (isSmallest) this.#smallest += thrown instanceof CutShort ? MOST_SMALLEST : 1;
      if (thrown.code === "prometheus_unavailable") this.#unavailable += 1;
      const goesOn =
        this.#smallest < MOST_SMALLEST && this.#unavailable < MOST_UNAVAILABLE && this.#queries < this.#most;
      if (goesOn) return false;
      const where = `${pods} from ${showTime(window.from)} to ${showTime(window.to)}`;
      const times = this.#queries === 1 ? "" : `, after ${this.#queries} queries`;
      throw new GridmeterError(thrown.code, `Given up on ${this.#asked}${where}${times}. ${thrown.message}`, {
        cause: thrown,
      });
    }
    this.#inARow = this.#smallest = this.#unavailable = 0;
    return true;
  }
}

/** Whether less may be asked: it was too large or too slow, the server could not answer now, or the answer was cut short. */
function isRefusal(thrown: unknown): thrown is GridmeterError {
  if (!(thrown instanceof GridmeterError)) return false;
  return (
    thrown.code === "prometheus_too_large" || thrown.code === "prometheus_unavailable" || thrown instanceof CutShort
  );
}
