import { close, open, read } from "node:fs";
import { isErrno } from "../store/fs-error.ts";

/** Most of these files are smaller by far; where one is not, each further read takes twice as much. */
const CHUNK = 4096;
const LARGEST_CHUNK = 64 * 1024;

/**
 * Reads a file of /proc as text, one that the kernel writes at once, as `cgroup` or `environ` (and not, say, `net/tcp`). With half
 * the work of `readFile`, which asks for the size first (such a file has none) and takes room for a large one: of these files,
 * thousands may be read at a time. Bytes that are no UTF-8 are replaced. Rejects as the system call that failed.
 */
export const readProcFile = (path: string): Promise<string> =>
  new Promise((resolve, reject) => {
    open(path, "r", (failure, file) => {
      if (failure) return reject(failure);
      const chunks: Buffer[] = [];
      const end = (thrown: Error | null): void =>
        close(file, () => (thrown ? reject(thrown) : resolve(Buffer.concat(chunks).toString("utf8"))));
      const next = (size: number): void =>
        read(file, Buffer.allocUnsafe(size), 0, size, null, (thrown, bytes, chunk) => {
          if (thrown) return end(thrown);
          if (bytes > 0) chunks.push(chunk.subarray(0, bytes));
          // The kernel gives as much of such a text as there is room for.
          if (bytes === size) next(Math.min(size * 2, LARGEST_CHUNK));
          else end(null);
        });
      next(CHUNK);
    });
  });

/** Whether a file of /proc could not be read since its process is gone, or may not be looked at. */
export const isHidden = (thrown: unknown): boolean => isErrno(thrown, "ENOENT", "ESRCH", "EACCES", "EPERM");
