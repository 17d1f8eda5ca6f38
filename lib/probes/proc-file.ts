import { close, open, read } from "node:fs";

/** Most of these files are smaller by far. */
const CHUNK = 4096;

/**
 * Reads a small file of /proc as text, one that the kernel writes at once, as `cgroup` (and not, say, `net/tcp`). With half the work of `readFile`, which asks for the size first (such a file has none) and
 * takes room for a large one: of these files, thousands may be read at a time. Rejects as the system call that failed.
 */
export const readProcFile = (path: string): Promise<string> =>
  new Promise((resolve, reject) => {
    open(path, "r", (failure, file) => {
      if (failure) return reject(failure);
      const chunks: Buffer[] = [];
      const end = (thrown: Error | null): void =>
        close(file, () => (thrown ? reject(thrown) : resolve(Buffer.concat(chunks).toString("utf8"))));
      const next = (): void =>
        read(file, Buffer.allocUnsafe(CHUNK), 0, CHUNK, null, (thrown, bytes, chunk) => {
          if (thrown) return end(thrown);
          if (bytes > 0) chunks.push(chunk.subarray(0, bytes));
          // The kernel gives as much of such a text as there is room for.
          if (bytes === CHUNK) next();
          else end(null);
        });
      next();
    });
  });
