import { Buffer } from "node:buffer";

/** A text of its own: one that was cut out of a longer text keeps all of that in memory. */
export function ownText(text: string): string {
  const own = Buffer.from(text).toString();
  // Half a pair of UTF-16, which JSON can write, is no UTF-8: such a text stays what it is.
  return own === text ? own : text;
}

/** The uids of a piece, each once: several facts are asked about the same pods, and a uid is longer than all of them. */
export class Uids {
  readonly #places = new Map<string, number>();
  readonly #inOrder: string[] = [];

  /**
   * The place of a uid, from 0 on; a new one gets the next.
   * @param likely where it probably is: two answers about the same pods mostly have one order, and to compare two texts is
   * several times cheaper than to look one up among a hundred thousand
   */
  place(uid: string, likely = -1): number {
    if (this.#inOrder[likely] === uid) return likely;
    const known = this.#places.get(uid);
    if (known !== undefined) return known;
    const own = ownText(uid);
    this.#places.set(own, this.#places.size);
    return this.#inOrder.push(own) - 1;
  }

  /** The place of a uid, if it has one. */
  find(uid: string): number | undefined {
    return this.#places.get(uid);
  }

  /** All of them, with their places. */
  [Symbol.iterator](): Iterator<[uid: string, place: number]> {
    return this.#places[Symbol.iterator]();
  }
}

/** One number for each uid that has one, by its place. A month of jobs as objects would be ten times as large. */
export class Column {
  #values = new Float64Array(1024);
  #filled = new Uint8Array(1024);
  /** how many have one */
  size = 0;
  /** whether a NaN or an infinity ever came */
  wasOdd = false;

  /** No place from here on has one. */
  get end(): number {
    return this.#values.length;
  }

  get(place: number): number | undefined {
    return this.#filled[place] === 1 ? this.#values[place] : undefined;
  }

  set(place: number, value: number): void {
    if (place >= this.#values.length) this.#grow(place + 1);
    if (this.#filled[place] !== 1) this.size += 1;
    this.#filled[place] = 1;
    this.#values[place] = value;
    if (!Number.isFinite(value)) this.wasOdd = true;
  }

  /** The greater stays. NaN wins, so that it is seen. */
  raise(place: number, value: number): void {
    const held = this.get(place);
    if (held === undefined || value > held || Number.isNaN(value)) this.set(place, value);
  }

  /** Takes over the values of places that have none here. */
  fillFrom(other: Column): void {
    if (other.size === 0) return;
    for (let place = 0; place < other.end; place += 1) {
      const value = other.get(place);
      if (value !== undefined && this.get(place) === undefined) this.set(place, value);
    }
  }

  #grow(atLeast: number): void {
    const length = Math.max(atLeast, 2 * this.#values.length);
    const values = new Float64Array(length);
    const filled = new Uint8Array(length);
    values.set(this.#values);
    filled.set(this.#filled);
    this.#values = values;
    this.#filled = filled;
  }
}

/**
 * The parts of pods, the greatest value of each, as columns: a part's name is longer than all that is known of it, so its
 * hash stands for it. Two of the few parts of one pod have one hash once in 10^15.
 */
export class Parts {
  /** pods of which two values of one part came */
  readonly disagreeing = new Set<number>();
  readonly #heads = new Column();
  readonly #hashes = new Column();
  readonly #values = new Column();
  /** the place of the pod's part before; absent for its first one */
  readonly #before = new Column();

  /** The greater stays. NaN wins, so that it is seen. */
  raise(pod: number, part: string, value: number): void {
    const hash = hashOf(part);
    const head = this.#heads.get(pod);
    const known = this.#find(pod, hash);
    if (known !== undefined) {
      if (this.#values.get(known) !== value) this.disagreeing.add(pod);
      this.#values.raise(known, value);
      return;
    }
    const at = this.#hashes.size;
    this.#hashes.set(at, hash);
    this.#values.set(at, value);
    if (head !== undefined) this.#before.set(at, head);
    this.#heads.set(pod, at);
  }

  /** Whether the pod has that part. */
  has(pod: number, part: string): boolean {
    return this.#find(pod, hashOf(part)) !== undefined;
  }

  #find(pod: number, hash: number): number | undefined {
    for (let at = this.#heads.get(pod); at !== undefined; at = this.#before.get(at))
      if (this.#hashes.get(at) === hash) return at;
    return undefined;
  }

  /** Each pod's parts added up, in an order that does not depend on which came first; NaN if one is. */
  sums(): Column {
    const sums = new Column();
    for (let pod = 0; pod < this.#heads.end; pod += 1) {
      const values: number[] = [];
      for (let at = this.#heads.get(pod); at !== undefined; at = this.#before.get(at))
        values.push(this.#values.get(at) ?? 0);
      if (values.length > 0)
        sums.set(
          pod,
          values.sort((a, b) => a - b).reduce((sum, value) => sum + value, 0),
        );
    }
    return sums;
  }
}

/** 53 bits of a text: two ways to mix its characters, that no two texts are likely to share. */
function hashOf(text: string): number {
  let high = 0x9e3779b9;
  let low = 0x85ebca6b;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    high = Math.imul(high ^ code, 0x01000193);
    low = Math.imul(((low << 13) | (low >>> 19)) ^ code, 0xcc9e2d51);
  }
  high ^= high >>> 15;
  low ^= low >>> 16;
  return (high >>> 11) * 2 ** 32 + (Math.imul(low, 0x27d4eb2f) >>> 0);
}
