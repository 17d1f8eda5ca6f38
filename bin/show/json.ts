import { once } from "node:events";
import { isErrno } from "../../lib/shared/fs.ts";
import { visible } from "../../lib/shared/text.ts";

/** Characters that are written together. */
const ENOUGH = 1 << 16;

const isIterable = (value: unknown): value is Iterable<unknown> =>
  typeof value === "object" && value !== null && Symbol.iterator in value;

/**
 * A text as JSON. JSON.stringify leaves C1 control characters, bidirectional ones and others as they are, and a terminal obeys
 * them; here they are escaped as well.
 */
const quoted = (text: string): string => visible(JSON.stringify(text));

/** Plain data as one line of JSON. */
export function jsonLine(value: unknown): string {
  return `${visible(JSON.stringify(value))}\n`;
}

/**
 * The text that `jsonLine` gives of plain data, in pieces and without the line's end. Whatever can be gone through is an array, and its elements
 * are asked for one after the other, so that they need not be in memory together.
 */
export function* jsonPieces(value: unknown): Generator<string> {
  if (isIterable(value)) {
    let before = "[";
    for (const element of value) {
      yield before;
      yield* jsonPieces(element ?? null);
      before = ",";
    }
    yield before === "[" ? "[]" : "]";
  } else if (typeof value === "object" && value !== null) {
    let before = "{";
    for (const [key, held] of Object.entries(value)) {
      if (held === undefined) continue;
      yield `${before}${quoted(key)}:`;
      yield* jsonPieces(held);
      before = ",";
    }
    yield before === "{" ? "{}" : "}";
  } else if (typeof value === "string") {
    yield quoted(value);
  } else {
    yield JSON.stringify(value);
  }
}

/** Writes texts to stdout as they come, and waits where the reader is slower. Where the reader is gone, the rest is not made. */
export async function writeOut(pieces: Iterable<string>): Promise<void> {
  let text = "";
  for (const piece of pieces) {
    text += piece;
    if (text.length < ENOUGH) continue;
    if (!process.stdout.write(text) && !(await drained())) return;
    text = "";
  }
  process.stdout.write(text);
}

async function drained(): Promise<boolean> {
  try {
    await once(process.stdout, "drain");
    return true;
  } catch (error) {
    if (isErrno(error, "EPIPE")) return false;
    throw error;
  }
}
