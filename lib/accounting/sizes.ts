/** Answers in a row after which twice as much is tried, at first and at most. */
const PATIENCE = { first: 2, most: 16 };

/**
 * How much a server answers at once, learnt from its refusals. A size is a whole number of hours or cells; below 1 it is less
 * than all pods of one: a power of 1/2, down to the smallest that is asked.
 *
 * Half of what was refused is tried next (a quarter and an eighth as long as nothing was ever answered, so that little is
 * spent on a server that answers nothing), and after some answers twice as much, since hours differ and a refusal may have
 * been a passing one. Only what is asked at once depends on it, never what comes out.
 */
export class Sizes {
  /** what to ask at once */
  most = Infinity;
  readonly smallest: number;
  /** the greatest size that was answered since a refusal was believed */
  #proven = 0;
  /** a size that had been answered was refused: once more, and it is believed */
  #doubted = false;
  /** the smallest size that was refused and not answered since */
  #refused = Infinity;
  /** answers in a row of what is asked at once */
  #answers = 0;
  #patience = PATIENCE.first;
  /** whether anything was ever answered */
  #known = false;

  constructor(smallest: number) {
    this.smallest = smallest;
  }

  /** Notes an answer of that size. */
  answered(size: number): void {
    this.#known = true;
    if (size >= Math.min(this.most, this.#proven)) this.#doubted = false;
    this.#proven = Math.max(this.#proven, size);
    if (size >= this.#refused) {
      // So that refusal was a passing one.
      this.#refused = Infinity;
      this.#patience = PATIENCE.first;
    }
    if (size < this.most) return;
    this.#answers += 1;
    if (this.#answers < this.#patience) return;
    this.most *= 2;
    this.#answers = 0;
  }

  /**
   * Notes a refusal of that size, and gives the size to ask next: the same where nothing smaller is left.
   * @param inARow how many refusals there were since the last answer, this one included
   */
  refused(size: number, inARow: number): number {
    if (size <= this.smallest) return size;
    const share = size / (this.#known ? 2 : 2 ** inARow);
    const next = Math.max(this.smallest, share >= 1 ? Math.floor(share) : 2 ** Math.floor(Math.log2(share)));
    // What was answered before may be refused by chance: it is asked in parts, and no less from now on until it happens again.
    if (this.#doubted && inARow > 1) return next;
    this.#doubted = !this.#doubted && size <= this.#proven;
    if (this.#doubted) return next;
    this.#proven = 0;
    // Tried again for more in vain: it is tried less often.
    if (inARow === 1 && size >= this.#refused) this.#patience = Math.min(this.#patience * 2, PATIENCE.most);
    this.#refused = Math.min(this.#refused, size);
    this.#answers = 0;
    this.most = Math.min(this.most, next);
    return next;
  }
}
