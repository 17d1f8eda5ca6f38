/** Answers in a row after which twice as much is tried, at first and at most. */
const PATIENCE = { first: 2, most: 16 };

/**
 * How many of the shortest windows a server answers at once, learnt from its refusals; 0: not even one, it is asked by uid.
 * Only what is asked at once depends on it, never what comes out.
 */
export class Pace {
  /** what to ask at once */
  most = Infinity;
  #answered = 0;
  #patience = PATIENCE.first;
  /** the greatest size that was answered since a refusal was believed */
  #proven = -1;
  #doubted = false;
  #known = false;

  /** Notes an answer of that size. */
  answered(size: number): void {
    this.#known = true;
    if (size >= Math.min(this.most, this.#proven)) this.#doubted = false;
    this.#proven = Math.max(this.#proven, size);
    if (size < this.most) return;
    this.#answered += 1;
    if (this.#answered < this.#patience) return;
    this.most = size === 0 ? 1 : size * 2;
    this.#answered = 0;
  }

  /**
   * Notes a refusal of that size, and gives what to ask next: half of it, or a quarter and less as long as nothing was ever
   * answered. What had been answered before may be refused by chance, so that less is asked only this once.
   * @param inARow how many refusals there were since the last answer, this one included
   */
  refused(size: number, inARow: number): number {
    const next = Math.floor(size / (this.#known ? 2 : 2 ** inARow));
    if (size <= this.#proven && !this.#doubted) {
      this.#doubted = true;
      return next;
    }
    this.#doubted = false;
    // Tried again for more in vain: it is tried less often.
    if (this.#known && inARow === 1) this.#patience = Math.min(this.#patience * 2, PATIENCE.most);
    this.#proven = -1;
    this.#answered = 0;
    this.most = Math.min(this.most, next);
    return next;
  }
}
