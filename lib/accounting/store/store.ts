import { GridmeterError } from "../../shared/errors.ts";

/**
 * No object of ours is larger, bytes: the largest are the single jobs of a piece. A store asks for an object's length before
 * it reads the object.
 */
export const LARGEST_OBJECT = 128 * 1024 * 1024;

/** What a key holds now. `version` is opaque; it changes with every put. */
export type StoredObject = { readonly body: string; readonly version: string };

/** `stored`, or `conflict` when the condition did not hold (nothing was written then). */
export type PutResult = "stored" | "conflict";

/**
 * Where ledger, state and outgoing messages live: a directory, S3, or memory. Keys are `/`-separated segments of
 * `[A-Za-z0-9._=-]` (see `safeSegment`). Every implementation passes the same contract test.
 */
export interface ObjectStore {
  /**
   * The newest object under the key, or undefined. Never a torn or half-written one.
   * @param most bytes, at most and by default `LARGEST_OBJECT`
   * @throws GridmeterError `object_too_large`, before the object is read; `store_failed`
   */
  get(key: string, most?: number): Promise<StoredObject | undefined>;
  /**
   * Stores the body durably: once this returns "stored", it survives a kill. Without a condition it overwrites;
   * `{absent: true}` only if there is no such key; `{version}` only if the key still has that version (compare-and-set).
   */
  put(
    key: string,
    body: string,
    condition?: { readonly absent: true } | { readonly version: string },
  ): Promise<PutResult>;
  /** All keys that begin with the prefix, sorted. */
  list(prefix: string): Promise<string[]>;
  /** Removes the key; no error if there is none. */
  remove(key: string): Promise<void>;
}

/** The error for an object that is not read. @param size what is known of it, bytes */
export function tooLarge(name: string, size: number, most: number): GridmeterError {
  return new GridmeterError(
    "object_too_large",
    `${name} has ${size} bytes or more, and gridmeter reads at most ${most} there. It was not read and is left as it is. ` +
      "gridmeter writes no such object: see who put it there, and move it away.",
  );
}

/** A text as one segment of a key: percent-like encoding with `=XX` for every byte outside `[A-Za-z0-9._-]`, and for a leading dot. */
export function safeSegment(text: string): string {
  const bytes = new TextEncoder().encode(text);
  let out = "";
  for (const byte of bytes) {
    const char = String.fromCodePoint(byte);
    const plain = /[A-Za-z0-9_-]/.test(char) || (char === "." && out !== "");
    out += plain ? char : `=${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return out === "" ? "=" : out;
}

/** The text that `safeSegment` made the segment of, or undefined if it did not make it. */
export function readSegment(segment: string): string | undefined {
  if (segment === "=") return "";
  const bytes: number[] = [];
  for (const [piece] of segment.matchAll(/=[0-9A-F]{2}|[^]/g)) {
    bytes.push(piece.length === 3 ? Number.parseInt(piece.slice(1), 16) : (piece.codePointAt(0) ?? 0));
  }
  if (bytes.some((byte) => byte > 255)) return undefined;
  const text = new TextDecoder().decode(Uint8Array.from(bytes));
  return safeSegment(text) === segment ? text : undefined;
}

/** Stored objects are files `<key>.v<ten digits>`, so no segment of a key may look like one. */
const SEGMENT = /^(?!.*\.v\d{10}$)[A-Za-z0-9_=-][A-Za-z0-9._=-]*$/;

/** Whether every store can hold the key. */
export function isKey(key: string): boolean {
  return key.split("/").every((segment) => SEGMENT.test(segment));
}

/**
 * The key itself, if every store can hold it. A key is made by the program (see `safeSegment`), so a bad one is a fault
 * of the program.
 * @throws TypeError
 */
export function checkedKey(key: string): string {
  if (!isKey(key)) {
    throw new TypeError(`"${key}" is no key for an object store: encode its parts with safeSegment`);
  }
  return key;
}

/** Objects in memory: for `--ledger none`, for tests, and as the overlay of a dry run. */
export class MemoryStore implements ObjectStore {
  readonly #objects = new Map<string, StoredObject>();
  #puts = 0;

  async get(key: string, most = LARGEST_OBJECT): Promise<StoredObject | undefined> {
    const held = this.#objects.get(checkedKey(key));
    // A character is three bytes at most in UTF-8, and mostly one: only of a long text are they counted.
    const size = held === undefined || held.body.length * 3 <= most ? 0 : Buffer.byteLength(held.body);
    if (size > most) throw tooLarge(key, size, most);
    return held;
  }

  put(key: string, body: string, condition?: Parameters<ObjectStore["put"]>[2]): Promise<PutResult> {
    const held = this.#objects.get(checkedKey(key));
    if (condition !== undefined) {
      const holds = "absent" in condition ? held === undefined : held?.version === condition.version;
      if (!holds) return Promise.resolve("conflict");
    }
    this.#puts += 1;
    this.#objects.set(key, { body, version: `memory-${this.#puts}` });
    return Promise.resolve("stored");
  }

  list(prefix: string): Promise<string[]> {
    return Promise.resolve([...this.#objects.keys()].filter((key) => key.startsWith(prefix)).sort());
  }

  remove(key: string): Promise<void> {
    this.#objects.delete(checkedKey(key));
    return Promise.resolve();
  }
}

/**
 * What a dry run sees: the real store, with this run's own changes laid over it in memory. Nothing below is written, yet
 * the run goes on as the real one would.
 */
export class ReadOnlyStore implements ObjectStore {
  readonly #below: ObjectStore;
  /** what this run put, or undefined where it removed */
  readonly #overlay = new Map<string, StoredObject | undefined>();
  #puts = 0;

  constructor(below: ObjectStore) {
    this.#below = below;
  }

  async get(key: string, most?: number): Promise<StoredObject | undefined> {
    return this.#over(key, await this.#below.get(key, most));
  }

  async put(key: string, body: string, condition?: Parameters<ObjectStore["put"]>[2]): Promise<PutResult> {
    const below = condition === undefined ? undefined : await this.#below.get(key);
    // No await from here on, so that of two puts at once one comes first.
    if (condition !== undefined) {
      const held = this.#over(key, below);
      const holds = "absent" in condition ? held === undefined : held?.version === condition.version;
      if (!holds) return "conflict";
    }
    this.#puts += 1;
    this.#overlay.set(checkedKey(key), { body, version: `dry-run-${this.#puts}` });
    return "stored";
  }

  async list(prefix: string): Promise<string[]> {
    const keys = new Set(await this.#below.list(prefix));
    for (const [key, object] of this.#overlay) {
      if (object === undefined) keys.delete(key);
      else if (key.startsWith(prefix)) keys.add(key);
    }
    return [...keys].sort();
  }

  async remove(key: string): Promise<void> {
    this.#overlay.set(checkedKey(key), undefined);
  }

  #over(key: string, below: StoredObject | undefined): StoredObject | undefined {
    return this.#overlay.has(key) ? this.#overlay.get(key) : below;
  }
}
