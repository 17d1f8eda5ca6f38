import { constants } from "node:fs";
import { access, open, stat } from "node:fs/promises";
import { isAbsolute, join, resolve } from "node:path";
import { errorText } from "../../shared/errors.ts";
import { errnoOf, isErrno } from "../../shared/fs.ts";

/** Why a command cannot be started. */
export type Unstartable = { readonly kind: "not_found" | "not_executable"; readonly detail: string };

type Found = {
  readonly kind: "found";
  readonly path: string;
  /** changes with the file's content and rights, and when another file takes its place */
  readonly version: string;
};

/**
 * Finds the file of a command before it is started, as the kernel would (fault "missing"). A spawn that fails does not say
 * whether ENOENT means the command or the working directory, nor where the command was looked for. And the C library hands a file
 * that the kernel refuses (a text without `#!`, an empty or broken binary) to /bin/sh, whose exit code may be 0: no command of the
 * agent is run by a shell, so such a file is `not_executable`.
 *
 * A name with a slash is taken as it is (from `cwd`). Any other is looked up in `path`, of which only absolute entries count.
 * Never throws.
 */
export async function locateExecutable(name: string, path: string, cwd?: string): Promise<Found | Unstartable> {
  try {
    if (cwd !== undefined) {
      const wrong = await wrongDirectory(cwd);
      if (wrong !== undefined) return { kind: "not_found", detail: wrong };
    }
    const given = name.includes("/") ? resolve(cwd ?? ".", name) : undefined;
    const key = given ?? `${name}\0${path}`;
    const earlier = remembered.get(key);
    if (earlier !== undefined && performance.now() < earlier.until && (await isUnchanged(earlier.found))) {
      return earlier.found;
    }
    const found = given === undefined ? await lookUp(name, path) : await examine(given);
    if (found.kind === "found") remembered.set(key, { found, until: performance.now() + REMEMBERED });
    else remembered.delete(key);
    return found;
  } catch (thrown) {
    return { kind: "not_executable", detail: `${name} could not be examined: ${errorText(thrown)}` };
  }
}

/**
 * Where commands were found. A file that has not changed is not looked for and examined again for this time: that is a fifth of
 * the work (CPU of the agent in bench/results.md). After it the command may be found in an earlier folder of PATH. Milliseconds.
 */
const REMEMBERED = 60_000;
const remembered = new Map<string, { readonly found: Found; readonly until: number }>();

async function isUnchanged({ path, version }: Found): Promise<boolean> {
  try {
    return versionOf(await stat(path)) === version;
  } catch {
    return false;
  }
}

function versionOf({ dev, ino, size, ctimeMs }: Awaited<ReturnType<typeof stat>>): string {
  return [dev, ino, size, ctimeMs].join(" ");
}

async function wrongDirectory(cwd: string): Promise<string | undefined> {
  try {
    return (await stat(cwd)).isDirectory() ? undefined : `the working directory ${cwd} is not a directory`;
  } catch (thrown) {
    return `the working directory ${cwd} cannot be entered: ${errorText(thrown)}`;
  }
}

/** The first file of that name that can be executed. As in a shell, one that cannot counts only if no other is found. */
async function lookUp(name: string, path: string): Promise<Found | Unstartable> {
  let refused: Unstartable | undefined;
  for (const folder of path.split(":").filter((entry) => isAbsolute(entry))) {
    const found = await examine(join(folder, name));
    if (found.kind === "found") return found;
    if (found.kind === "not_executable") refused ??= found;
  }
  return refused ?? { kind: "not_found", detail: `${name} was not found in ${path}` };
}

async function examine(file: string): Promise<Found | Unstartable> {
  let version: string;
  try {
    const stats = await stat(file);
    if (!stats.isFile()) return { kind: "not_executable", detail: `${file} is not a file` };
    version = versionOf(stats);
    await access(file, constants.X_OK);
  } catch (thrown) {
    if (isErrno(thrown, "EACCES", "EPERM")) {
      return { kind: "not_executable", detail: `${file} may not be executed: ${errorText(thrown)}` };
    }
    if (isErrno(thrown, "ENOENT", "ENOTDIR", "ELOOP", "ENAMETOOLONG")) {
      return { kind: "not_found", detail: `${file} is not there (${errnoOf(thrown)})` };
    }
    throw thrown;
  }
  if (await kernelRuns(file)) return { kind: "found", path: file, version };
  return { kind: "not_executable", detail: `${file} is neither a binary nor does it begin with #!` };
}

/** Whether the file begins as a binary or names its interpreter. One that may be executed but not read is left to the kernel. */
async function kernelRuns(file: string): Promise<boolean> {
  let handle;
  try {
    handle = await open(file, "r");
  } catch (thrown) {
    if (isErrno(thrown, "EACCES", "EPERM")) return true;
    throw thrown;
  }
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(4), 0, 4, 0);
    const start = buffer.toString("latin1", 0, bytesRead);
    return start === "\x7fELF" || start.startsWith("#!");
  } finally {
    await handle.close();
  }
}
