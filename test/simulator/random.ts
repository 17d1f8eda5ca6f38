import { createHash } from "node:crypto";

/** A repeatable source of chance: the same seed gives the same cluster on every machine. */
export class Random {
  #state: number;

  constructor(seed: number | string) {
    this.#state = createHash("sha256").update(String(seed)).digest().readUInt32LE();
  }

  /** In [0, 1). */
  unit(): number {
    // mulberry32: 32 bits of state are plenty for a few thousand draws.
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer in [low, high]. */
  int(low: number, high: number): number {
    return low + Math.floor(this.unit() * (high - low + 1));
  }

  /** One of the items, of which there must be some. */
  pick<T>(items: readonly T[]): T {
    return items[this.int(0, items.length - 1)]!;
  }

  /** A uid as the API server makes it (version 4). */
  uid(): string {
    const hex = Array.from({ length: 32 }, () => this.int(0, 15).toString(16));
    hex[12] = "4";
    hex[16] = this.pick(["8", "9", "a", "b"]);
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)]
      .map((part) => part.join(""))
      .join("-");
  }

  /** The tail of a generated pod name. */
  suffix(): string {
    const letters = "bcdfghjklmnpqrstvwxz2456789";
    return Array.from({ length: 5 }, () => letters.charAt(this.int(0, letters.length - 1))).join("");
  }
}
