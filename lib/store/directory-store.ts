import { randomUUID } from "node:crypto";
import fsp from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { GridmeterError } from "../errors.ts";
import { makeDirectory, syncDirectory, writeDurably } from "./durable.ts";
import { isErrno, linkError, orIfMissing, storeError } from "./fs-error.ts";
import { checkedKey } from "./object-key.ts";
import type { ObjectStore, PutResult, StoredObject } from "./object-store.ts";
import { readVersionName, versionName, versionTag } from "./versions.ts";

const TEMPORARY = ".tmp";
const STALE_TEMPORARY = 3_600_000;
/** Versions that a newer one replaced are kept this long, milliseconds. */
const KEEP_REPLACED = 600_000;
/** A writer that took longer than this from looking to linking (a suspended machine) no longer trusts what it saw. */
const SLOW = 60_000;

export type DirectoryStoreOptions = { readonly keepReplaced?: number; readonly slow?: number };
type PutCondition = Parameters<ObjectStore["put"]>[2];

/**
 * Objects as files below a directory, safe against SIGKILL at any instant and against many writers, without locks.
 *
 * A put writes a temporary file, syncs it and link()s it to `<key>.v<N>`, N being the newest version plus one: link() is
 * atomic and fails if the name is taken, so of two writers that saw the same newest version one wins. Readers take the
 * highest N.
 *
 * Replaced versions stay for ten minutes. This is what makes the race safe: a name that was taken stays taken, so a
 * writer that links within SLOW of looking has really replaced what it saw; and a reader that lists a directory while
 * it changes always meets one of the versions. A writer slower than that looks again.
 *
 * `remove` starts the numbers anew, so a compare-and-set that runs beside a removal may bring the key back. Only
 * outgoing objects are removed: they are written `absent`, their key holds their content's hash, and one that comes back
 * is delivered twice or refused as old, both harmless.
 */
export class DirectoryStore implements ObjectStore {
  readonly #root: string;
  readonly #keepReplaced: number;
  readonly #slow: number;
  #swept = false;

  constructor(root: string, options: DirectoryStoreOptions = {}) {
    this.#root = root;
    this.#keepReplaced = options.keepReplaced ?? KEEP_REPLACED;
    this.#slow = options.slow ?? SLOW;
  }

  async get(key: string): Promise<StoredObject | undefined> {
    const path = this.#path(key);
    try {
      for (;;) {
        const newest = (await versionsOf(path)).at(-1);
        if (newest === undefined) return undefined;
        const body = await orIfMissing(fsp.readFile(versionPath(path, newest), "utf8"), undefined);
        // Gone since it was listed: it was replaced and cleaned up, or removed.
        if (body !== undefined) return { body, version: versionTag(newest, body) };
      }
    } catch (thrown) {
      throw storeError(thrown, "read", path);
    }
  }

  async put(key: string, body: string, condition?: PutCondition): Promise<PutResult> {
    const path = this.#path(key);
    let temporary: string | undefined;
    try {
      for (;;) {
        const looked = Date.now();
        const versions = await versionsOf(path);
        const newest = versions.at(-1) ?? 0;
        if (!(await holds(path, newest, condition))) return "conflict";
        temporary ??= await this.#temporary(path, body);
        if (await this.#link(temporary, path, newest + 1, looked, condition)) {
          await this.#clean(path, versions);
          return "stored";
        }
        if (condition !== undefined) return "conflict";
      }
    } catch (thrown) {
      throw storeError(thrown, "write", path);
    } finally {
      if (temporary !== undefined) await fsp.unlink(temporary).catch(() => undefined);
    }
  }

  async list(prefix: string): Promise<string[]> {
    const from = prefix.slice(0, prefix.lastIndexOf("/") + 1);
    const keys = new Set<string>();
    try {
      await collect(this.#root, from, prefix, keys);
    } catch (thrown) {
      throw storeError(thrown, "list", join(this.#root, from));
    }
    return [...keys].sort();
  }

  async remove(key: string): Promise<void> {
    const path = this.#path(key);
    try {
      const versions = await versionsOf(path);
      // Lowest first: killed half-way, the newest is still the newest.
      for (const n of versions) await orIfMissing(fsp.unlink(versionPath(path, n)), undefined);
      if (versions.length > 0) await syncDirectory(dirname(path));
    } catch (thrown) {
      throw storeError(thrown, "remove", path);
    }
  }

  #path(key: string): string {
    return join(this.#root, checkedKey(key));
  }

  async #temporary(path: string, body: string): Promise<string> {
    const directory = join(this.#root, TEMPORARY);
    await makeDirectory(directory);
    await makeDirectory(dirname(path));
    if (!this.#swept) await sweep(directory);
    this.#swept = true;
    const temporary = join(directory, randomUUID());
    await writeDurably(temporary, body);
    return temporary;
  }

  /** Whether `n` is ours now. */
  async #link(temporary: string, path: string, n: number, looked: number, condition: PutCondition): Promise<boolean> {
    const target = versionPath(path, n);
    try {
      await fsp.link(temporary, target);
    } catch (thrown) {
      if (isErrno(thrown, "EEXIST")) return false;
      throw linkError(thrown, target);
    }
    await syncDirectory(dirname(path));
    if (Math.abs(Date.now() - looked) < this.#slow) return true;
    const newest = (await versionsOf(path)).at(-1) ?? 0;
    if (newest <= n) return true;
    // Either ours came in between replaced versions that had been cleaned up, or it counted and was replaced already.
    await orIfMissing(fsp.unlink(target), undefined);
    if (condition === undefined) return false;
    throw new GridmeterError(
      "store_conflict",
      `Writing ${path} took over ${this.#slow / 1000} s (was the machine suspended?), and others wrote it meanwhile. ` +
        `Their version stands. Run again.`,
    );
  }

  /** Removes what was replaced long ago, lowest first. `versions` were there before the new one. */
  async #clean(path: string, versions: readonly number[]): Promise<void> {
    const replaced = versions.slice(0, -1);
    const replacer = versions.at(-1);
    if (replacer === undefined || replaced.length === 0) return;
    const stat = await orIfMissing(fsp.stat(versionPath(path, replacer)), undefined);
    // ctime, unlike mtime, tells when the file got its name.
    if (stat === undefined || Date.now() - stat.ctimeMs < this.#keepReplaced) return;
    for (const n of replaced) await orIfMissing(fsp.unlink(versionPath(path, n)), undefined);
  }
}

function versionPath(path: string, n: number): string {
  return join(dirname(path), versionName(basename(path), n));
}

/** The versions there are, ascending. */
async function versionsOf(path: string): Promise<number[]> {
  const versions: number[] = [];
  for (const file of await orIfMissing(fsp.readdir(dirname(path)), [])) {
    const read = readVersionName(file);
    if (read?.name === basename(path)) versions.push(read.n);
  }
  return versions.sort((a, b) => a - b);
}

async function holds(path: string, newest: number, condition: PutCondition): Promise<boolean> {
  if (condition === undefined) return true;
  if ("absent" in condition) return newest === 0;
  if (newest === 0) return false;
  const body = await orIfMissing(fsp.readFile(versionPath(path, newest), "utf8"), undefined);
  return body !== undefined && versionTag(newest, body) === condition.version;
}

async function collect(root: string, from: string, prefix: string, keys: Set<string>): Promise<void> {
  for (const entry of await orIfMissing(fsp.readdir(join(root, from), { withFileTypes: true }), [])) {
    const key = from + entry.name;
    if (entry.name.startsWith(".")) continue;
    if (entry.isDirectory()) {
      if (`${key}/`.startsWith(prefix) || prefix.startsWith(`${key}/`)) await collect(root, `${key}/`, prefix, keys);
      continue;
    }
    const read = readVersionName(entry.name);
    if (read !== undefined && (from + read.name).startsWith(prefix)) keys.add(from + read.name);
  }
}

async function sweep(directory: string): Promise<void> {
  for (const name of await fsp.readdir(directory)) {
    const path = join(directory, name);
    const stat = await orIfMissing(fsp.stat(path), undefined);
    if (stat !== undefined && Date.now() - stat.mtimeMs > STALE_TEMPORARY) {
      await orIfMissing(fsp.unlink(path), undefined);
    }
  }
}
