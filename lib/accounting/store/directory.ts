import { createHash, randomUUID } from "node:crypto";
import { join } from "node:path";
import { GridmeterError } from "../../shared/errors.ts";
import { isErrno, linkError, storeError } from "../../shared/fs.ts";
import { GuardedFolder, Odd, oddError } from "./guarded-folder.ts";
import {
  LARGEST_OBJECT,
  type ObjectStore,
  type PutResult,
  type StoredObject,
  checkedKey,
  isKey,
  tooLarge,
} from "./store.ts";

const TEMPORARY = ".tmp";
const TEMPORARY_NAME = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const STALE_TEMPORARY = 3_600_000;
/** Versions that a newer one replaced are kept this long, milliseconds. */
const KEEP_REPLACED = 600_000;
/** A writer that took longer than this from looking to linking (a suspended machine) no longer trusts what it saw. */
const SLOW = 60_000;
type DirectoryStoreOptions = {
  readonly keepReplaced?: number;
  readonly slow?: number;
  /** Told of files that gridmeter cannot have made. They are never listed, and stay. */
  readonly warn?: (text: string) => void;
};
type PutCondition = Parameters<ObjectStore["put"]>[2];
/** Where the versions of a key are: files `<name>.v<N>` in a folder. */
type Place = { readonly folder: GuardedFolder; readonly name: string };

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
 * `remove` starts the numbers again, so a compare-and-set that runs beside a removal may bring the key back. Only
 * outgoing objects are removed: they are written `absent`, their key holds their content's hash, and one that comes back
 * is delivered twice or refused as old, both harmless.
 *
 * A version that is no regular file (a link, a FIFO) or is too large reads as an empty text, so that the caller deals with it
 * as with any damaged object.
 */
export class DirectoryStore implements ObjectStore {
  readonly #root: string;
  readonly #keepReplaced: number;
  readonly #slow: number;
  readonly #warn: (text: string) => void;
  #swept = false;

  constructor(root: string, options: DirectoryStoreOptions = {}) {
    this.#root = root;
    this.#keepReplaced = options.keepReplaced ?? KEEP_REPLACED;
    this.#slow = options.slow ?? SLOW;
    this.#warn = options.warn ?? (() => undefined);
  }

  async get(key: string, most = LARGEST_OBJECT): Promise<StoredObject | undefined> {
    const path = this.#path(key);
    let place: Place | undefined;
    try {
      place = this.#find(key);
      if (place === undefined) return undefined;
      for (;;) {
        const newest = versionsOf(place).at(-1);
        if (newest === undefined) return undefined;
        const { size } = place.folder.stat(versionName(place.name, newest)) ?? { size: 0 };
        // What no object of ours can be is taken for a damaged file, and set aside.
        if (Number(size) > most && Number(size) <= LARGEST_OBJECT) throw tooLarge(path, Number(size), most);
        const body = this.#read(place, newest);
        // Gone since it was listed: it was replaced and cleaned up, or removed.
        if (body !== undefined) return { body, version: versionTag(newest, body) };
      }
    } catch (thrown) {
      throw storeError(thrown, "read", path);
    } finally {
      place?.folder.close();
    }
  }

  async put(key: string, body: string, condition?: PutCondition): Promise<PutResult> {
    const path = this.#path(key);
    let place: Place | undefined;
    let scratch: GuardedFolder | undefined;
    const temporary = randomUUID();
    try {
      for (;;) {
        const looked = Date.now();
        place ??= this.#find(key);
        const versions = place === undefined ? [] : versionsOf(place);
        if (!this.#holds(place, versions.at(-1) ?? 0, condition)) return "conflict";
        place ??= await this.#make(key);
        if (scratch === undefined) {
          scratch = await this.#scratch();
          await scratch.write(temporary, body);
        }
        if (await this.#link(scratch, temporary, place, (versions.at(-1) ?? 0) + 1, looked, condition)) {
          await this.#clean(place, versions);
          return "stored";
        }
        if (condition !== undefined) return "conflict";
      }
    } catch (thrown) {
      throw storeError(thrown, "write", path);
    } finally {
      await scratch?.remove(temporary).catch(() => undefined);
      scratch?.close();
      place?.folder.close();
    }
  }

  async list(prefix: string): Promise<string[]> {
    const from = prefix.slice(0, prefix.lastIndexOf("/") + 1);
    const keys = new Set<string>();
    let root: GuardedFolder | undefined;
    try {
      root = GuardedFolder.root(this.#root, "ledger");
      const folder = root === undefined ? undefined : descend(root, from.split("/").slice(0, -1));
      if (folder !== root) {
        root?.close();
        root = folder;
      }
      if (folder !== undefined) this.#collect(folder, from, prefix, keys);
    } catch (thrown) {
      throw storeError(thrown, "list", join(this.#root, from));
    } finally {
      root?.close();
    }
    return [...keys].sort();
  }

  async remove(key: string): Promise<void> {
    const path = this.#path(key);
    let place: Place | undefined;
    try {
      place = this.#find(key);
      const versions = place === undefined ? [] : versionsOf(place);
      if (place === undefined || versions.length === 0) return;
      // Lowest first: killed half-way, the newest is still the newest.
      for (const n of versions) await this.#discard(place, n);
      await place.folder.sync();
    } catch (thrown) {
      throw storeError(thrown, "remove", path);
    } finally {
      place?.folder.close();
    }
  }

  #path(key: string): string {
    return join(this.#root, checkedKey(key));
  }

  /** Where the key is; undefined if there is no such folder. The caller closes it. */
  #find(key: string): Place | undefined {
    const root = GuardedFolder.root(this.#root, "ledger");
    if (root === undefined) return undefined;
    const names = key.split("/");
    let folder: GuardedFolder | undefined;
    try {
      folder = descend(root, names.slice(0, -1));
    } finally {
      if (folder !== root) root.close();
    }
    return folder && { folder, name: names.at(-1) ?? "" };
  }

  /** As `#find`, and makes the folders. */
  async #make(key: string): Promise<Place> {
    const names = key.split("/");
    let folder = await GuardedFolder.makeRoot(this.#root, "ledger");
    for (const name of names.slice(0, -1)) {
      const parent = folder;
      try {
        folder = inOrder(parent, name, await parent.make(name));
      } finally {
        parent.close();
      }
    }
    return { folder, name: names.at(-1) ?? "" };
  }

  /** The folder for half-written files, swept once. The caller closes it. */
  async #scratch(): Promise<GuardedFolder> {
    const root = await GuardedFolder.makeRoot(this.#root, "ledger");
    try {
      const scratch = await root.own(TEMPORARY, this.#warn);
      if (!this.#swept) await sweep(scratch);
      this.#swept = true;
      return scratch;
    } finally {
      root.close();
    }
  }

  #read({ folder, name }: Place, n: number): string | undefined {
    const file = versionName(name, n);
    const text = folder.read(file, LARGEST_OBJECT);
    if (!(text instanceof Odd)) return text;
    this.#warn(`${join(folder.path, file)} is ${text.what}. It is taken for a damaged file; see who made it.`);
    return "";
  }

  #holds(place: Place | undefined, newest: number, condition: PutCondition): boolean {
    if (condition === undefined) return true;
    if ("absent" in condition) return newest === 0;
    if (place === undefined || newest === 0) return false;
    const body = this.#read(place, newest);
    return body !== undefined && versionTag(newest, body) === condition.version;
  }

  /** Whether `n` is ours now. */
  async #link(
    scratch: GuardedFolder,
    temporary: string,
    place: Place,
    n: number,
    looked: number,
    condition: PutCondition,
  ): Promise<boolean> {
    const { folder, name } = place;
    const path = join(folder.path, name);
    const target = versionName(name, n);
    try {
      await scratch.link(temporary, folder, target);
    } catch (thrown) {
      if (isErrno(thrown, "EEXIST")) return false;
      throw linkError(thrown, join(folder.path, target));
    }
    await folder.sync();
    if (Math.abs(Date.now() - looked) < this.#slow) return true;
    const newest = versionsOf(place).at(-1) ?? 0;
    if (newest <= n) return true;
    // Either ours came in between replaced versions that had been cleaned up, or it counted and was replaced already.
    await folder.remove(target);
    if (condition === undefined) return false;
    throw new GridmeterError(
      "store_conflict",
      `Writing ${path} took over ${this.#slow / 1000} s (was the machine suspended?), and others wrote it meanwhile. ` +
        `Their version is kept. Run again.`,
    );
  }

  /** Removes what was replaced long ago, lowest first. `versions` were there before the new one. */
  async #clean(place: Place, versions: readonly number[]): Promise<void> {
    const replaced = versions.slice(0, -1);
    const replacer = versions.at(-1);
    if (replacer === undefined || replaced.length === 0) return;
    const stat = place.folder.stat(versionName(place.name, replacer));
    // ctime, unlike mtime, shows when the file got its name.
    if (stat === undefined || Date.now() - Number(stat.ctimeMs) < this.#keepReplaced) return;
    for (const n of replaced) await this.#discard(place, n);
  }

  /** Removes a version; a folder in its place is set aside. */
  async #discard({ folder, name }: Place, n: number): Promise<void> {
    const file = versionName(name, n);
    if (folder.stat(file)?.isDirectory() !== true) return folder.remove(file);
    const scratch = await this.#scratch();
    try {
      this.#warn(await folder.setAside(file, new Odd("a folder"), scratch));
    } finally {
      scratch.close();
    }
  }

  #collect(folder: GuardedFolder, from: string, prefix: string, keys: Set<string>): void {
    for (const entry of folder.entries()) {
      const key = from + entry.name;
      if (entry.name.startsWith(".")) continue;
      const read = readVersionName(entry.name);
      if (read !== undefined && isKey(read.name)) {
        if ((from + read.name).startsWith(prefix)) keys.add(from + read.name);
      } else if (read === undefined && isKey(entry.name) && (entry.isDirectory() || entry.isSymbolicLink())) {
        if (!`${key}/`.startsWith(prefix) && !prefix.startsWith(`${key}/`)) continue;
        // A link in a folder's place hides what is below: that is not to be taken for an empty folder.
        const below = inOrder(folder, entry.name, folder.open(entry.name));
        if (below === undefined) continue;
        try {
          this.#collect(below, `${key}/`, prefix, keys);
        } finally {
          below.close();
        }
      } else {
        const path = join(folder.path, JSON.stringify(entry.name).slice(1, -1));
        this.#warn(`${path} is none of gridmeter's files and is left alone.`);
      }
    }
  }
}

/** The folder so many levels below; undefined if one is missing. All folders on the way are closed, but not the first. */
function descend(root: GuardedFolder, names: readonly string[]): GuardedFolder | undefined {
  let folder = root;
  for (const name of names) {
    const parent = folder;
    try {
      const below = inOrder(parent, name, parent.open(name));
      if (below === undefined) return undefined;
      folder = below;
    } finally {
      if (parent !== root) parent.close();
    }
  }
  return folder;
}

/** Figures are never counted as if what an odd folder holds were not there. @throws GridmeterError `store_failed` */
function inOrder<T extends GuardedFolder | undefined>(parent: GuardedFolder, name: string, found: T | Odd): T {
  if (found instanceof Odd) throw oddError(join(parent.path, name), found);
  return found;
}

/** The versions there are, ascending. */
function versionsOf({ folder, name }: Place): number[] {
  const versions: number[] = [];
  for (const file of folder.names()) {
    const read = readVersionName(file);
    if (read?.name === name) versions.push(read.n);
  }
  return versions.sort((a, b) => a - b);
}

/** Removes what killed writers left, and nothing else. */
async function sweep(scratch: GuardedFolder): Promise<void> {
  for (const name of scratch.names().filter((each) => TEMPORARY_NAME.test(each))) {
    const stat = scratch.stat(name);
    if (stat?.isFile() === true && Date.now() - Number(stat.mtimeMs) > STALE_TEMPORARY) await scratch.remove(name);
  }
}

/** Numbers begin at 1; the highest are left out, so that one more is still a number that is read. */
const NAME = /^(.+)\.v((?!0{10})[0-8]\d{9})$/;

/** The file name of a key's last segment at version `n`. */
function versionName(name: string, n: number): string {
  return `${name}.v${String(n).padStart(10, "0")}`;
}

/** The last segment of a key and its version, or undefined for a file that is no stored object. */
function readVersionName(file: string): { readonly name: string; readonly n: number } | undefined {
  const [, name, n] = NAME.exec(file) ?? [];
  return name === undefined || n === undefined ? undefined : { name, n: Number(n) };
}

/** The version a caller sees. The hash keeps apart two objects that had the same number, one after a removal. */
function versionTag(n: number, body: string): string {
  return `${n}-${createHash("sha256").update(body).digest("hex").slice(0, 16)}`;
}
