/**
 * The order in which containers are read. The time of a run may not do for all, and a container whose command hangs takes much of
 * it: those that had no turn last time come first, those that failed come last, so that neither starves the others.
 */
export class FairOrder {
  #waiting: ReadonlySet<string> = new Set();
  #failed: ReadonlySet<string> = new Set();

  arrange(ids: readonly string[]): readonly string[] {
    const rank = (id: string) => (this.#waiting.has(id) ? 0 : this.#failed.has(id) ? 2 : 1);
    return [...ids].sort((a, b) => rank(a) - rank(b));
  }

  /** Remembers what came of a run, and nothing of those before: containers come and go. */
  remember(waiting: Iterable<string>, failed: Iterable<string>): void {
    this.#waiting = new Set(waiting);
    this.#failed = new Set(failed);
  }
}
