import { Buffer } from "node:buffer";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";

const CHUNK = 65_536;

/**
 * The text of a file. Its size is asked before it is read; what has none (a pipe) is read up to the bound.
 * @param most bytes
 * @throws Error that names the sizes where it is larger; what the system throws
 */
export function readTextFile(path: string, most: number): string {
  const file = openSync(path, "r");
  try {
    const { size } = fstatSync(file);
    if (size > most) throw tooLarge(size, most);
    const chunks: Buffer[] = [];
    let read = 0;
    for (;;) {
      const chunk = Buffer.alloc(CHUNK);
      const bytes = readSync(file, chunk);
      if (bytes === 0) return Buffer.concat(chunks).toString("utf8");
      read += bytes;
      if (read > most) throw tooLarge(read, most);
      chunks.push(chunk.subarray(0, bytes));
    }
  } finally {
    closeSync(file);
  }
}

function tooLarge(size: number, most: number): Error {
  return new Error(`it has ${size} bytes or more, and at most ${most} are read`);
}
