import { Buffer } from "node:buffer";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { GridmeterError, errorText } from "./errors.ts";

/** The `code` of a failed system call, e.g. "ENOENT". */
export function errnoOf(thrown: unknown): string | undefined {
  return thrown instanceof Error && "code" in thrown && typeof thrown.code === "string" ? thrown.code : undefined;
}

export function isErrno(thrown: unknown, ...codes: readonly string[]): boolean {
  const errno = errnoOf(thrown);
  return errno !== undefined && codes.includes(errno);
}

/** Runs a system call whose absence of a file is an answer, not a failure. */
export async function orIfMissing<T, M>(call: Promise<T>, missing: M): Promise<T | M> {
  try {
    return await call;
  } catch (thrown) {
    if (isErrno(thrown, "ENOENT")) return missing;
    throw thrown;
  }
}

const REMEDIES: Readonly<Record<string, string>> = {
  ENOSPC: "The file system is full: free space (or inodes) there and run again.",
  EDQUOT: "The disk quota is used up: free space there and run again.",
  EROFS: "The file system is mounted read-only: mount it writable or name another directory.",
  EACCES: "The permissions forbid it: give the user that runs gridmeter write access to the directory.",
  EPERM: "The permissions forbid it: give the user that runs gridmeter write access to the directory.",
  ENOTDIR: "A file is where a directory is needed: move it away or name another directory.",
  EISDIR: "A directory is where a file is needed: move it away or name another directory.",
  ELOOP: "Links point in a circle: mend them or name another directory.",
  ENAMETOOLONG: "The path is too long for the file system: name a directory with a shorter path.",
  EMFILE: "Too many files are open: raise the limit (ulimit -n) and run again.",
  ESTALE: "The network file system lost the file: mount it again and run again.",
};

/**
 * The error for a failed system call on a path: what was tried, what came of it, what to do.
 * An error that already is one of ours passes through.
 */
export function storeError(thrown: unknown, doing: string, path: string): GridmeterError {
  if (thrown instanceof GridmeterError) return thrown;
  const remedy = REMEDIES[errnoOf(thrown) ?? ""] ?? "See to the cause named here and run again.";
  const left = doing === "read" || doing === "list" ? "" : " Nothing half-written was left there.";
  const text = `Cannot ${doing} ${path}: ${errorText(thrown)}.${left} ${remedy}`;
  return new GridmeterError("store_failed", text, { cause: thrown });
}

/** As `storeError`, for a failed link(): file systems without hard links (FAT, some network and FUSE mounts) say so here. */
export function linkError(thrown: unknown, path: string): GridmeterError {
  if (!isErrno(thrown, "EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK", "EXDEV")) {
    return storeError(thrown, "make the hard link", path);
  }
  const text =
    `The file system of ${path} makes no hard links (${errorText(thrown)}), and without them a half-written file ` +
    `could be taken for a whole one. Nothing was stored. Name a directory on a local file system such as ext4 or XFS.`;
  return new GridmeterError("store_no_hard_links", text, { cause: thrown });
}

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
