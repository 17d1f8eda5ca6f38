import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A file system on which a write sleeps uninterruptibly, as nvidia-smi does in a driver that hangs. */
export type FrozenFileSystem = {
  /** where it is mounted */
  readonly path: string;
  readonly thaw: () => void;
  /** thaws and takes it down; to be called in `finally`, and harmless if called twice */
  readonly remove: () => void;
};

function quietly(program: string, ...args: readonly string[]): void {
  execFileSync(program, args, { stdio: ["ignore", "ignore", "pipe"], timeout: 20_000 });
}

function ifPossible(work: () => void): void {
  try {
    work();
  } catch {
    // not frozen, not mounted, or taken down already
  }
}

/** Makes and freezes one; a text that says why if this machine does not let us (no root, no loop device, no ext4). */
export function freezeFileSystem(): FrozenFileSystem | string {
  const folder = mkdtempSync(join(tmpdir(), "gridmeter-frozen-"));
  const image = join(folder, "image");
  const path = join(folder, "mount");
  const thaw = () => ifPossible(() => quietly("fsfreeze", "--unfreeze", path));
  const remove = () => {
    thaw();
    ifPossible(() => quietly("umount", "--lazy", path));
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    quietly("truncate", "--size", "16M", image);
    quietly("mkfs.ext4", "-q", image);
    mkdirSync(path);
    quietly("mount", "-o", "loop", image, path);
    quietly("fsfreeze", "--freeze", path);
    return { path, thaw, remove };
  } catch (thrown) {
    remove();
    return `no file system can be frozen here: ${thrown instanceof Error ? thrown.message : String(thrown)}`;
  }
}
