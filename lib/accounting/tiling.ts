import type { Fact, UidPrefixes } from "./ports.ts";

/** Hours of all uids at once; below 1 it is a share of the uids of one hour: 1/256 is two hexadecimal digits. */
export type Size = number;

const HEX = Array.from({ length: 16 }, (_, digit) => digit.toString(16));
/** Shards of an hour: two hexadecimal digits of the uid. An hour that is still refused will not be answered at all. */
export const SHARDS = 256;
const SMALLEST: Size = 1 / SHARDS;
/** Answers in a row after which twice as much is tried, at first and at most. */
const PATIENCE = { first: 2, most: 16 };

type Held = {
  /** what is asked at once */
  most: Size;
  /** the greatest size that was answered since a refusal was believed */
  proven: Size;
  /** a size that had been answered was refused: once more, and it is believed */
  doubted: boolean;
  /** the smallest size that was refused and not answered since */
  refused: Size;
  /** answers in a row of what is asked at once */
  answered: number;
  patience: number;
  /** whether anything was ever answered */
  known: boolean;
};

const nothingYet = (): Held => ({
  most: Infinity,
  proven: 0,
  doubted: false,
  refused: Infinity,
  answered: 0,
  patience: PATIENCE.first,
  known: false,
});

/**
 * How much of each fact the server answers at once, learnt from its refusals and remembered for a run. Half of what was
 * refused is tried next (a quarter and an eighth as long as nothing was ever answered, so that little is spent on a server
 * that answers nothing), and after some answers twice as much, since hours differ and a refusal may have been a passing
 * one. Only what is asked at once depends on it, never what comes out.
 */
export class Tiling {
  readonly #held = new Map<Fact, Held>();

  #of(fact: Fact): Held {
    const held = this.#held.get(fact) ?? nothingYet();
    this.#held.set(fact, held);
    return held;
  }

  /** How much to ask at once. */
  most(fact: Fact): Size {
    return this.#of(fact).most;
  }

  /** Notes an answer of that size. */
  answered(fact: Fact, size: Size): void {
    const held = this.#of(fact);
    held.known = true;
    if (size >= Math.min(held.most, held.proven)) held.doubted = false;
    held.proven = Math.max(held.proven, size);
    if (size >= held.refused) {
      // So that refusal was a passing one.
      held.refused = Infinity;
      held.patience = PATIENCE.first;
    }
    if (size < held.most) return;
    held.answered += 1;
    if (held.answered < held.patience) return;
    held.most = larger(held.most);
    held.answered = 0;
  }

  /**
   * Notes a refusal of that size; gives the size to ask next, or undefined where nothing smaller is left.
   * @param inARow how many refusals there were since the last answer, this one included
   */
  refused(fact: Fact, size: Size, inARow: number): Size | undefined {
    if (size <= SMALLEST) return undefined;
    const held = this.#of(fact);
    const next = smaller(size, held.known ? 2 : 2 ** inARow);
    // What was answered before may be refused by chance: it is asked in parts, and no less from now on until it happens again.
    if (held.doubted && inARow > 1) return next;
    if (size <= held.proven && !held.doubted) {
      held.doubted = true;
      return next;
    }
    held.doubted = false;
    held.proven = 0;
    // Tried again for more in vain: it is tried less often.
    if (inARow === 1 && size >= held.refused) held.patience = Math.min(held.patience * 2, PATIENCE.most);
    held.refused = Math.min(held.refused, size);
    held.answered = 0;
    held.most = Math.min(held.most, next);
    return next;
  }
}

function larger(size: Size): Size {
  return size * 2;
}

/** Whole hours above one, halves of an hour's uids below. */
function smaller(size: Size, times: number): Size {
  const hours = Math.floor(size / times);
  return hours >= 1 ? hours : Math.max(SMALLEST, 2 ** Math.floor(Math.log2(size / times)));
}

/** How many shards from `at` on make a share of that size; prefixes of one digit where they can. */
export function shardsOf(size: Size, at: number): number {
  let width = Math.max(1, Math.floor(size * SHARDS));
  while (at % width !== 0) width /= 2;
  return width;
}

/** The beginnings of the uids in the shards [at, at + width). */
export function prefixesOf(at: number, width: number): UidPrefixes {
  if (width >= 16) return HEX.slice(at / 16, (at + width) / 16);
  const digit = HEX[Math.floor(at / 16)] ?? "";
  return HEX.slice(at % 16, (at % 16) + width).map((second) => digit + second);
}
