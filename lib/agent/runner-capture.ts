import type { Readable } from "node:stream";

const FIRST_ROOM = 16_384;

/**
 * Takes in what one stream of a command brings, up to `maxBytes`. The bytes are copied into one growing buffer: kept chunk by
 * chunk, a child that writes single bytes would cost a hundred times what it printed.
 */
export class Capture {
  readonly #stream: Readable;
  readonly #maxBytes: number;
  #bytes = Buffer.alloc(0);
  #length = 0;
  #keeps = true;

  /** `tooLarge` is called once, when more than `maxBytes` came; the stream is closed by then and all of it forgotten. */
  constructor(stream: Readable, maxBytes: number, tooLarge: () => void) {
    this.#stream = stream;
    this.#maxBytes = maxBytes;
    stream.on("data", (chunk: Buffer) => {
      if (!this.#keeps) return;
      if (this.#length + chunk.length > maxBytes) {
        this.close();
        tooLarge();
      } else this.#append(chunk);
    });
    // A stream that breaks is a stream that ended: how the command exits says whether the run was good.
    stream.on("error", () => undefined);
  }

  #append(chunk: Buffer): void {
    const needed = this.#length + chunk.length;
    if (needed > this.#bytes.length) {
      const room = Math.min(this.#maxBytes, Math.max(FIRST_ROOM, 2 * this.#bytes.length, needed));
      const larger = Buffer.alloc(room);
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    chunk.copy(this.#bytes, this.#length);
    this.#length = needed;
  }

  /** What came so far; bytes that are no UTF-8 are replaced (docker logs hands on whatever a job printed). */
  text(): string {
    return this.#bytes.toString("utf8", 0, this.#length);
  }

  /** Forgets all of it, but goes on reading, so that a child that cleans up after TERM is not killed by SIGPIPE instead. */
  forget(): void {
    this.#keeps = false;
    this.#bytes = Buffer.alloc(0);
    this.#length = 0;
  }

  /** Forgets all of it and closes our end, whoever holds the other one. */
  close(): void {
    this.forget();
    this.#stream.destroy();
  }
}
