import { existsSync } from "node:fs";
import fsp from "node:fs/promises";
import { dirname } from "node:path";
import { isErrno } from "./fs-error.ts";

/** Writes a new file so that it survives a power cut once it is linked somewhere; removes it again if that fails. EEXIST if there is one. */
export async function writeDurably(path: string, body: string): Promise<void> {
  const file = await fsp.open(path, "wx");
  try {
    await file.writeFile(body, "utf8");
    await file.sync();
    await file.close();
  } catch (thrown) {
    // A failed write must not leave half a file, and the write's error matters more than what these two may say.
    await file.close().catch(() => undefined);
    await fsp.unlink(path).catch(() => undefined);
    throw thrown;
  }
}

/** Makes the directory's entries durable: a link or unlink is on disk only after this. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await fsp.open(path, "r");
  try {
    await directory.sync();
  } catch (thrown) {
    // Some file systems (FUSE, SMB) cannot sync a directory; they make entries durable in their own way.
    if (!isErrno(thrown, "EINVAL", "ENOTSUP", "EOPNOTSUPP")) throw thrown;
  } finally {
    await directory.close();
  }
}

/** Makes a directory and its missing parents, durably. */
export async function makeDirectory(path: string): Promise<void> {
  const first = await fsp.mkdir(path, { recursive: true }).catch((thrown: unknown) => realCause(path, thrown));
  if (first === undefined) return;
  for (let made = path; made.length >= first.length; made = dirname(made)) await syncDirectory(dirname(made));
}

/** Node says ENOENT whatever kept it from making a parent, such as a read-only file system; the plain call tells the cause. */
async function realCause(path: string, thrown: unknown): Promise<never> {
  if (isErrno(thrown, "ENOENT")) {
    let missing = path;
    while (dirname(missing) !== missing && !existsSync(dirname(missing))) missing = dirname(missing);
    await fsp.mkdir(missing);
  }
  throw thrown;
}
