/** For so many runs, containers that failed give way to those that did not. */
const PATIENCE = 8;

/**
 * The order in which containers are read. The time of a run may not do for all, and a container whose command hangs takes much of
 * it: those that have waited longest come first, so that all are read now and then, and those that failed come behind those that
 * did not, so that they take only what time is left. They do come before containers that had a turn `PATIENCE` runs later.
 */
export class FairOrder {
  #run = 0;
  #turns: ReadonlyMap<string, { readonly run: number; readonly failed: boolean }> = new Map();

  arrange(ids: readonly string[]): readonly string[] {
    const rank = (id: string): number => {
      const turn = this.#turns.get(id);
      return turn === undefined ? 0 : turn.run + (turn.failed ? PATIENCE : 0);
    };
    return [...ids].sort((a, b) => rank(a) - rank(b));
  }

  /** Remembers which of the containers had a turn, and which failed; others than these are forgotten, as they have gone. */
  remember(ids: readonly string[], begun: ReadonlySet<string>, failed: ReadonlySet<string>): void {
    this.#run += 1;
    const turns = ids.flatMap((id) => {
      const turn = begun.has(id) ? { run: this.#run, failed: failed.has(id) } : this.#turns.get(id);
      return turn === undefined ? [] : [[id, turn] as const];
    });
    this.#turns = new Map(turns);
  }
}
