/** A thing sought in vain is sought again in the next run, then after twice as many, but at least this often, runs. */
const SELDOM = 10;

/**
 * What was sought in vain is sought again ever less often. Each thing has its own wait: one that is between two starts is found
 * soon, however many others are never to be found.
 */
export class BackOff {
  #run = 0;
  #waits: ReadonlyMap<string, { readonly runs: number; readonly until: number }> = new Map();

  /** Begins a run in which these are missing; others than these are forgotten. Gives those whose turn it is, new ones at once. */
  due(missing: readonly string[]): readonly string[] {
    this.#run += 1;
    this.#waits = new Map(
      missing.flatMap((id) => {
        const wait = this.#waits.get(id);
        return wait === undefined ? [] : [[id, wait] as const];
      }),
    );
    return missing.filter((id) => (this.#waits.get(id)?.until ?? 0) <= this.#run);
  }

  /** Notes that these were sought in this run and not found. */
  missed(ids: readonly string[]): void {
    const waits = ids.map((id) => {
      const before = this.#waits.get(id)?.runs;
      const runs = before === undefined ? 1 : Math.min(before * 2, SELDOM);
      return [id, { runs, until: this.#run + runs }] as const;
    });
    this.#waits = new Map([...this.#waits, ...waits]);
  }
}
