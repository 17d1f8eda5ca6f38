import { constants } from "node:fs";
import { access, open, stat } from "node:fs/promises";
import { isAbsolute, join, resolve } from "node:path";
import { errorText } from "../../shared/errors.ts";
import { errnoOf, isErrno } from "../../shared/fs.ts";

/** Why a command cannot be started. */
export type Unstartable = { readonly kind: "not_found" | "not_executable"; readonly detail: string };

const found = (path: string) => ({ kind: "found", path }) as const;
type Located = ReturnType<typeof found> | Unstartable;

/**
 * Finds the file of a command as the kernel would, before it is started. Three things that a failed spawn does not show:
 * whether ENOENT means the command or the working directory; where it was looked for; and whether the kernel can execute the
 * file at all. The C library hands a file that the kernel refuses (a text without `#!`, an empty or broken binary) to /bin/sh,
 * which would make an "ok" out of it: nothing here is ever run by a shell, so such a file is `not_executable`.
 *
 * A name with a slash is taken as it is (from `cwd`), another is looked up in `path`, where entries that are not absolute do
 * not count. Never throws.
 */
export async function locateExecutable(name: string, path: string, cwd?: string): Promise<Located> {
  try {
    if (cwd !== undefined) {
      const wrong = await wrongDirectory(cwd);
      if (wrong !== undefined) return { kind: "not_found", detail: wrong };
    }
    if (name.includes("/")) return await examine(resolve(cwd ?? ".", name));
    return await lookUp(name, path);
  } catch (thrown) {
    return { kind: "not_executable", detail: `${name} could not be examined: ${errorText(thrown)}` };
  }
}

async function wrongDirectory(cwd: string): Promise<string | undefined> {
  try {
    return (await stat(cwd)).isDirectory() ? undefined : `the working directory ${cwd} is not a directory`;
  } catch (thrown) {
    return `the working directory ${cwd} cannot be entered: ${errorText(thrown)}`;
  }
}

/** Milliseconds for which a file is looked for where it was found before; then it may also be found in a folder further in front. */
const REMEMBERED = 60_000;
/** So many files are remembered. */
const MOST = 100;

/** Where a name was found in a PATH, and until when that counts. */
const places = new Map<string, { readonly file: string; readonly until: number }>();
/** Which version of a file the kernel was found to run. */
const versions = new Map<string, string>();

function remember<T>(what: Map<string, T>, key: string, value: T): void {
  if (what.size >= MOST) what.clear();
  what.set(key, value);
}

/** The first file of that name that can be executed; as a shell does, one that cannot only counts if no other is found. */
async function lookUp(name: string, path: string): Promise<Located> {
  const key = `${name}\0${path}`;
  const before = places.get(key);
  if (before !== undefined && performance.now() < before.until) {
    const there = await examine(before.file);
    if (there.kind === "found") return there;
  }
  let refused: Unstartable | undefined;
  for (const folder of path.split(":").filter((entry) => isAbsolute(entry))) {
    const file = join(folder, name);
    const there = await examine(file);
    if (there.kind === "found") {
      remember(places, key, { file, until: performance.now() + REMEMBERED });
      return there;
    }
    if (there.kind === "not_executable") refused ??= there;
  }
  return refused ?? { kind: "not_found", detail: `${name} was not found in ${path}` };
}

async function examine(file: string): Promise<Located> {
  let version: string;
  try {
    const stats = await stat(file);
    if (!stats.isFile()) return { kind: "not_executable", detail: `${file} is not a file` };
    // Who writes into a file or takes a right away changes its time, and who puts another in its place the number.
    version = [stats.dev, stats.ino, stats.size, stats.ctimeMs].join(" ");
    if (versions.get(file) === version) return found(file);
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
  if (!(await kernelRuns(file))) {
    return { kind: "not_executable", detail: `${file} is neither a binary nor does it begin with #!` };
  }
  remember(versions, file, version);
  return found(file);
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
