import { randomUUID } from "node:crypto";
import fs, { type BigIntStats, type Dirent, type Stats } from "node:fs";
import fsp from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { GridmeterError } from "../../shared/errors.ts";
import { isErrno, orIfMissing } from "../../shared/fs.ts";
import { type Belonging, type Purpose, belongingIn, groupMayWrite, queueOwnerError } from "./ownership.ts";

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = fs.constants;

/**
 * Where the kernel has it, an entry of an open folder is named through the folder's descriptor, as openat() does: nobody can put
 * a link in the folder's place meanwhile. Elsewhere (macOS) by its path, so only Linux is safe from a neighbour who may write there.
 */
const DESCRIPTORS = fs.existsSync("/proc/self/fd") ? "/proc/self/fd" : undefined;

/** Something that has a name of ours and is not what gridmeter makes there. */
export class Odd {
  /** a noun with its article, for messages */
  readonly what: string;
  /** a folder in good order that is another user's: it stays where it is */
  readonly foreign: boolean;

  constructor(what: string, foreign = false) {
    this.what = what;
    this.foreign = foreign;
  }
}

/** What all folders of a tree know of its root. */
type Root = {
  readonly uid: number;
  readonly gid: number;
  readonly shared: boolean;
  readonly belonging: Belonging;
};

/**
 * An open folder of a queue, a ledger or a store, in which others may write too. No link in it is followed, nothing but a regular
 * file of bounded size is read, and what is made in it belongs to whom it should (`belongingIn`) before it gets its name.
 * Small questions are asked synchronously: they take microseconds, and many at once need no more descriptors than one.
 */
export class GuardedFolder {
  /** for messages to people */
  readonly path: string;
  readonly #fd: number;
  readonly #via: string;
  readonly #root: Root;

  private constructor(path: string, fd: number, root: Root) {
    this.path = path;
    this.#fd = fd;
    this.#via = DESCRIPTORS === undefined ? path : `${DESCRIPTORS}/${fd}`;
    this.#root = root;
  }

  /**
   * Opens a root folder: an administrator named its path, so links on the way to it are followed. Undefined if it is not there.
   * @throws GridmeterError `queue_owner`
   */
  static root(path: string, purpose: Purpose): GuardedFolder | undefined {
    let fd: number;
    try {
      fd = fs.openSync(path, O_RDONLY | O_DIRECTORY);
    } catch (thrown) {
      if (isErrno(thrown, "ENOENT")) return undefined;
      throw thrown;
    }
    return closedOnError(fd, () => new GuardedFolder(path, fd, rootOf(path, fs.fstatSync(fd), purpose)));
  }

  /** Opens a root folder; makes it and its missing parents if need be. @throws GridmeterError `queue_owner` */
  static async makeRoot(path: string, purpose: Purpose): Promise<GuardedFolder> {
    const whole = resolve(path);
    for (;;) {
      const there = GuardedFolder.root(path, purpose);
      if (there !== undefined) return there;
      const above = await GuardedFolder.makeRoot(dirname(whole), "above");
      try {
        const made = await above.make(basename(whole), purpose === "ledger" ? 0o700 : undefined);
        if (made instanceof Odd) throw oddError(path, made);
        made.close();
      } finally {
        above.close();
      }
    }
  }

  close(): void {
    fs.closeSync(this.#fd);
  }

  /** Opens a folder in this one: no link, and owned by us, root, the root folder's owner or the group that shares it. */
  open(name: string): GuardedFolder | Odd | undefined {
    let fd: number;
    try {
      fd = fs.openSync(this.#at(name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    } catch (thrown) {
      if (isErrno(thrown, "ENOENT")) return undefined;
      return this.#oddInsteadOf(name, thrown);
    }
    const root = this.#root;
    return closedOnError(fd, () => {
      const { uid, gid } = fs.fstatSync(fd);
      const trusted = [0, root.uid, process.geteuid?.()].includes(uid) || (root.shared && gid === root.gid);
      if (trusted) return new GuardedFolder(join(this.path, name), fd, root);
      fs.closeSync(fd);
      return new Odd(`a folder of another user (${uid})`, true);
    });
  }

  /** As `open`, and makes the folder if it is not there. */
  async make(name: string, mode = this.#root.belonging.folderMode): Promise<GuardedFolder | Odd> {
    for (;;) {
      const there = this.open(name);
      if (there instanceof GuardedFolder) there.#adopt(mode);
      if (there !== undefined) return there;
      try {
        await this.#named(fsp.mkdir(this.#at(name), mode === undefined ? undefined : mode & 0o777));
      } catch (thrown) {
        if (isErrno(thrown, "EEXIST")) continue;
        throw thrown;
      }
      const made = this.open(name);
      // Gone at once: ssmsend's purge removes empty folders.
      if (made === undefined) continue;
      if (made instanceof GuardedFolder && fs.fstatSync(made.#fd).uid === process.geteuid?.())
        made.#give(made.#fd, mode);
      await this.sync();
      return made;
    }
  }

  /** A folder that is nobody's but gridmeter's. What has its name and is none is moved out of the way, and `warn` says so. */
  async own(name: string, warn: (text: string) => void): Promise<GuardedFolder> {
    for (let tries = 1; ; tries += 1) {
      const made = await this.make(name);
      if (made instanceof GuardedFolder) return made;
      const aside = `${name}-odd-${randomUUID()}`;
      if (tries > 10) throw oddError(join(this.path, name), made);
      await orIfMissing(this.rename(name, this, aside), undefined);
      const moved = this.open(aside);
      if (moved instanceof GuardedFolder) {
        // Another gridmeter had put it right meanwhile.
        moved.close();
        await this.rename(aside, this, name);
      } else if (moved !== undefined) {
        warn(`${join(this.path, name)} was ${made.what}. It is set aside as ${aside}; see who made it.`);
      }
    }
  }

  names(): string[] {
    return this.#naming(() => fs.readdirSync(this.#via));
  }

  entries(): Dirent[] {
    return this.#naming(() => fs.readdirSync(this.#via, { withFileTypes: true }));
  }

  /** What has the name, links themselves and not what they point to. */
  stat(name: string): BigIntStats | undefined {
    return this.#naming(() => fs.lstatSync(this.#at(name), { bigint: true, throwIfNoEntry: false }));
  }

  /** The text of a regular file of at most so many bytes. */
  read(name: string, most: number): string | Odd | undefined {
    let fd: number;
    try {
      // O_NONBLOCK: a FIFO that nobody writes to opens at once, and is seen to be one.
      fd = fs.openSync(this.#at(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    } catch (thrown) {
      if (isErrno(thrown, "ENOENT")) return undefined;
      return this.#oddInsteadOf(name, thrown);
    }
    try {
      const stat = fs.fstatSync(fd);
      if (!stat.isFile()) return new Odd(kindOf(stat));
      if (stat.size > most) return new Odd(`a file of ${stat.size} bytes, more than the ${most} that gridmeter reads`);
      return textOf(fd, stat.size);
    } finally {
      fs.closeSync(fd);
    }
  }

  /** Writes a new file so that it survives a power cut once it is linked somewhere; removes it again if that fails. EEXIST if there is one. */
  async write(name: string, body: string): Promise<void> {
    const { fileMode } = this.#root.belonging;
    const file = await this.#named(
      fsp.open(this.#at(name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, fileMode ?? 0o666),
    );
    try {
      this.#give(file.fd, fileMode);
      await file.writeFile(body, "utf8");
      await file.sync();
      await file.close();
    } catch (thrown) {
      // A failed write must not leave half a file, and the write's error matters more than what these two may say.
      await file.close().catch(() => undefined);
      await fsp.unlink(this.#at(name)).catch(() => undefined);
      throw thrown;
    }
  }

  async link(name: string, to: GuardedFolder, as: string): Promise<void> {
    await this.#named(fsp.link(this.#at(name), to.#at(as)), to);
  }

  async rename(name: string, to: GuardedFolder, as: string): Promise<void> {
    await this.#named(fsp.rename(this.#at(name), to.#at(as)), to);
  }

  /** Moves something odd where nothing looks at it, a link as such; gives the sentence that says what became of it. */
  async setAside(name: string, odd: Odd, into: GuardedFolder): Promise<string> {
    const aside = `odd-${randomUUID()}`;
    try {
      await this.rename(name, into, aside);
      return `${join(this.path, name)} is ${odd.what}. It is set aside as ${join(into.path, aside)}, and the rest goes on.`;
    } catch {
      return `${join(this.path, name)} is ${odd.what}. It cannot be moved away and is left alone; the rest goes on.`;
    }
  }

  /** Removes a file or a link itself; nothing if it is gone. */
  async remove(name: string): Promise<void> {
    await orIfMissing(this.#named(fsp.unlink(this.#at(name))), undefined);
  }

  /** Makes a file young again, a link itself. ENOENT if it is gone. */
  async touch(name: string): Promise<void> {
    const now = new Date();
    await this.#named(fsp.lutimes(this.#at(name), now, now));
  }

  /** Makes the entries durable: a link or unlink is on disk only after this. */
  async sync(): Promise<void> {
    try {
      await promisify(fs.fsync)(this.#fd);
    } catch (thrown) {
      // Some file systems (FUSE, SMB) cannot sync a directory; they make entries durable in their own way.
      if (!isErrno(thrown, "EINVAL", "ENOTSUP", "EOPNOTSUPP")) throw thrown;
    }
  }

  #at(name: string): string {
    return `${this.#via}/${name}`;
  }

  #give(fd: number, mode: number | undefined): void {
    const { owner } = this.#root.belonging;
    if (owner !== undefined) fs.fchownSync(fd, owner.uid, owner.gid);
    if (mode !== undefined) fs.fchmodSync(fd, mode);
  }

  /** Gives a folder that this user made before to whom it should belong: a kill came between, or an older version made it. */
  #adopt(mode: number | undefined): void {
    const { owner } = this.#root.belonging;
    if (owner === undefined) return;
    const stat = fs.fstatSync(this.#fd);
    if (stat.uid !== process.geteuid?.()) return;
    const right =
      stat.uid === owner.uid && stat.gid === owner.gid && (mode ?? stat.mode & 0o7777) === (stat.mode & 0o7777);
    if (!right) this.#give(this.#fd, mode);
  }

  /** Why an entry could not be opened: it is odd, or gone by now; else the error itself is thrown. */
  #oddInsteadOf(name: string, thrown: unknown): Odd | undefined {
    const stat = fs.lstatSync(this.#at(name), { throwIfNoEntry: false });
    if (stat === undefined) return undefined;
    const folder = isErrno(thrown, "ENOTDIR");
    if (folder || (!stat.isFile() && !stat.isDirectory())) return new Odd(kindOf(stat));
    if (isErrno(thrown, "EACCES", "EPERM") && stat.uid !== this.#root.uid)
      return new Odd(`${kindOf(stat)} of another user (${stat.uid}) that cannot be read`, stat.isDirectory());
    throw this.#withPath(thrown);
  }

  /** Errors name the folder, not its descriptor. */
  #withPath(thrown: unknown, ...others: readonly GuardedFolder[]): unknown {
    if (thrown instanceof Error)
      for (const folder of [this, ...others])
        thrown.message = thrown.message.replaceAll(`'${folder.#via}/`, `'${folder.path}/`);
    return thrown;
  }

  async #named<T>(call: Promise<T>, ...others: readonly GuardedFolder[]): Promise<T> {
    try {
      return await call;
    } catch (thrown) {
      throw this.#withPath(thrown, ...others);
    }
  }

  #naming<T>(call: () => T): T {
    try {
      return call();
    } catch (thrown) {
      throw this.#withPath(thrown);
    }
  }
}

/** The error for something odd without which nothing goes on. */
export function oddError(path: string, { what }: Odd): GridmeterError {
  return new GridmeterError(
    "store_failed",
    `${path} is ${what}, where a folder of gridmeter's is needed, and gridmeter does not touch it. Nothing was written there. ` +
      `See who made it, move it away, and run again.`,
  );
}

function rootOf(path: string, stat: Stats, purpose: Purpose): Root {
  const belonging = belongingIn(stat, purpose);
  if (belonging === undefined) throw queueOwnerError(path, stat);
  return { uid: stat.uid, gid: stat.gid, shared: groupMayWrite(stat), belonging };
}

function closedOnError<T>(fd: number, work: () => T): T {
  try {
    return work();
  } catch (thrown) {
    fs.closeSync(fd);
    throw thrown;
  }
}

/** The bytes that were there when it was opened: a file that grows for ever ends here too. */
function textOf(fd: number, size: number): string {
  const bytes = Buffer.alloc(size);
  let filled = 0;
  while (filled < size) {
    const read = fs.readSync(fd, bytes, filled, size - filled, filled);
    if (read === 0) break;
    filled += read;
  }
  return bytes.toString("utf8", 0, filled);
}

function kindOf(stat: Stats): string {
  if (stat.isSymbolicLink()) return "a symbolic link";
  if (stat.isDirectory()) return "a folder";
  if (stat.isFIFO()) return "a FIFO";
  if (stat.isSocket()) return "a socket";
  return stat.isFile() ? "a file" : "a device";
}
