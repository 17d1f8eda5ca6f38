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
  /** the greatest size that was answered since the last refusal below it */
  proven: Size;
  answered: number;
  patience: number;
};

/**
 * How much of each fact the server answers at once, learnt from its refusals and remembered for a run. Half of what was
 * refused is tried next, a quarter after two refusals in a row, an eighth after three, so that little is spent on a server
 * that answers nothing; and after some answers twice as much, since hours differ and a refusal may have been a passing
 * one. Only what is asked at once depends on it, never what comes out.
 */
export class Tiling {
  readonly #held = new Map<Fact, Held>();

  #of(fact: Fact): Held {
    const held = this.#held.get(fact) ?? { most: Infinity, proven: 0, answered: 0, patience: PATIENCE.first };
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
    held.proven = Math.max(held.proven, size);
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
    const next = smaller(size, 2 ** inARow);
    // What was answered before may have been refused by chance: it is asked in parts this once, and no less from now on.
    const chance = size <= held.proven;
    held.proven = Math.min(held.proven, next);
    held.answered = 0;
    if (chance) return next;
    if (held.most !== Infinity) held.patience = Math.min(held.patience * 2, PATIENCE.most);
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
