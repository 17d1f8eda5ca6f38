import type { Fact, UidPrefixes } from "./ports.ts";
import { Sizes } from "./sizes.ts";

/** The digits a uid is made of. */
export const HEX: readonly string[] = Array.from({ length: 16 }, (_, digit) => digit.toString(16));
/** Shards of an hour: two hexadecimal digits of the uid. An hour that is still refused will not be answered at all. */
export const SHARDS = 256;

/** How much of each fact the server answers at once, remembered for a run: hours, below 1 a share of the uids of one hour. */
export class Tiling {
  readonly #held = new Map<Fact, Sizes>();

  /** What is known of that fact; it learns. */
  of(fact: Fact): Sizes {
    const held = this.#held.get(fact) ?? new Sizes(1 / SHARDS);
    this.#held.set(fact, held);
    return held;
  }
}

/** How many shards from `at` on make a share of that size; prefixes of one digit where they can. */
export function shardsOf(size: number, at: number): number {
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
