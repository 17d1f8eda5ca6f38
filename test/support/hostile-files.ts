// What a neighbour who may write in a folder can put there, and a folder of somebody else that must come out unharmed.
import { execFileSync, spawnSync } from "node:child_process";
import fs from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { constantFrom, tuple, uniqueArray } from "fast-check";
import type { Arbitrary } from "fast-check";

/** Another folder, with files old enough and named so that gridmeter would clear them away in its own. */
export type Victim = { readonly folder: string; readonly secret: string; unharmed(): boolean };

export const SECRET = "root:$6$secret:19000:0:99999:7:::";
const LONG_AGO = new Date(Date.now() - 86_400_000);

export function makeVictim(folder: string): Victim {
  fs.mkdirSync(folder, { recursive: true });
  const names = [
    "lock-00000000-0000-4000-8000-000000000000",
    "new-00000000-0000-4000-8000-000000000000",
    "00000000-0000-4000-8000-000000000000",
    "67748580000001",
    "67748580000001.lck",
    "k.v0000000001",
    "shadow",
  ];
  for (const name of names) {
    fs.writeFileSync(join(folder, name), `${SECRET}\n`);
    fs.utimesSync(join(folder, name), LONG_AGO, LONG_AGO);
  }
  fs.utimesSync(folder, LONG_AGO, LONG_AGO);
  const look = (): string =>
    JSON.stringify(
      [".", ...fs.readdirSync(folder)].map((name) => {
        const { mtimeMs, uid, gid, mode, nlink, size } = fs.lstatSync(join(folder, name));
        return [name, mtimeMs, uid, gid, mode, nlink, size];
      }),
    );
  const before = look();
  return { folder, secret: join(folder, "shadow"), unharmed: () => look() === before };
}

const KINDS = {
  "a link to a secret": (path: string, victim: Victim) => fs.symlinkSync(victim.secret, path),
  "a link to a folder": (path: string, victim: Victim) => fs.symlinkSync(victim.folder, path),
  "a link to nowhere": (path: string) => fs.symlinkSync("/nonexistent/nowhere", path),
  "a link to itself": (path: string) => fs.symlinkSync(path, path),
  "a link to a device": (path: string) => fs.symlinkSync("/dev/zero", path),
  "a FIFO": (path: string) => execFileSync("mkfifo", [path]),
  "a folder": (path: string) => fs.mkdirSync(path),
  "a folder with something in it": (path: string) => {
    fs.mkdirSync(path);
    fs.writeFileSync(join(path, "note"), "something\n");
  },
  "a file of 600 MB": (path: string) => {
    fs.writeFileSync(path, "begins like a message\n");
    fs.truncateSync(path, 600_000_000);
  },
  "a socket": (path: string) => {
    // Its name stays in the folder when the server is closed by force of a rename.
    const server = createServer();
    server.listen(`${path}.`);
    fs.renameSync(`${path}.`, path);
    server.close();
  },
  ...(canMakeDevices() ? { "a device": (path: string) => execFileSync("mknod", [path, "c", "1", "5"]) } : {}),
} satisfies Record<string, (path: string, victim: Victim) => unknown>;

function canMakeDevices(): boolean {
  const path = `/tmp/gridmeter-device-${process.pid}`;
  const made = spawnSync("mknod", [path, "c", "1", "5"]).status === 0;
  fs.rmSync(path, { force: true });
  return made;
}

export type OddKind = keyof typeof KINDS;
export const ODD_KINDS = Object.keys(KINDS) as OddKind[];

/** Puts something odd at a path, unless something is there, or something odd stands in its folder's place. */
export function makeOdd(kind: OddKind, path: string, victim: Victim): void {
  const parent = fs.lstatSync(dirname(path), { throwIfNoEntry: false });
  if (parent?.isDirectory() === false || fs.lstatSync(path, { throwIfNoEntry: false }) !== undefined) return;
  fs.mkdirSync(dirname(path), { recursive: true });
  (KINDS[kind] ?? KINDS["a FIFO"])(path, victim);
}

/** Some odd things at some of these places. */
export function oddThings(places: readonly string[]): Arbitrary<readonly (readonly [string, OddKind])[]> {
  return uniqueArray(tuple(constantFrom(...places), constantFrom(...ODD_KINDS)), {
    minLength: 1,
    maxLength: 6,
    selector: ([place]) => place,
  });
}
