import { GridmeterError } from "../errors.ts";

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
