import { Buffer } from "node:buffer";
import { Readable } from "node:stream";
import type { GetObjectCommandOutput } from "@aws-sdk/client-s3";

/** A body that was not read to its end, or not at all. `size`: bytes, as announced, or as many as came. */
export class TooLong extends Error {
  readonly size: number;

  constructor(size: number) {
    super(`the object has ${size} bytes or more`);
    this.size = size;
  }
}

/**
 * Reads an object's body. Its length is asked before the first byte; a body that is longer than announced is cut off.
 * @param most bytes
 * @throws TooLong; whatever breaks the answer off
 */
export async function readBody({ Body, ContentLength }: GetObjectCommandOutput, most: number): Promise<Uint8Array> {
  if (Body === undefined) return new Uint8Array();
  if (!(Body instanceof Readable)) throw new TypeError("The body of an answer is no stream of Node");
  try {
    if (ContentLength !== undefined && ContentLength > most) throw new TooLong(ContentLength);
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of Body) {
      const bytes = chunk instanceof Uint8Array ? chunk : Buffer.from(String(chunk));
      size += bytes.length;
      if (size > Math.min(most, ContentLength ?? most)) throw new TooLong(size);
      chunks.push(bytes);
    }
    return Buffer.concat(chunks);
  } finally {
    // What was not read is not sent either.
    Body.destroy();
  }
}
