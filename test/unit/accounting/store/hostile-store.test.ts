// A neighbour who may write in the ledger, and names that are none of ours.
import fs from "node:fs";
import { join } from "node:path";
import { assert, asyncProperty, constantFrom, string } from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { listOutgoing } from "../../../../lib/accounting/delivery/outgoing.ts";
import { DirectoryStore } from "../../../../lib/accounting/store/directory.ts";
import { ODD_KINDS, SECRET, makeOdd, makeVictim, oddThings } from "../../../support/hostile-files.ts";
import type { OddKind, Victim } from "../../../support/hostile-files.ts";
import { scratchDirectory } from "../../../support/store-script.ts";

let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let victim: Victim;
let root: string;
let runs = 0;
let warnings: string[];
let store: DirectoryStore;
beforeEach(async () => {
  scratch = await scratchDirectory();
  victim = makeVictim(join(scratch.path, "victim"));
  fresh();
});
afterEach(() => scratch.remove());

function fresh(): void {
  root = join(scratch.path, `${(runs += 1)}`);
  warnings = [];
  store = new DirectoryStore(root, { keepReplaced: 0, warn: (text) => warnings.push(text) });
}

const UUID = "00000000-0000-4000-8000-000000000002";
const PLACES = [
  ".tmp",
  `.tmp/${UUID}`,
  ".tmp/theirs",
  "d/k.v0000000001",
  "d/k.v0000000007",
  "d/other.v0000000001",
  "d/stray name",
  "d/stray name.v0000000001",
  "d/k",
  "d/k.v9999999999",
  "d/k.v0000000000",
];

async function holds(things: readonly (readonly [string, OddKind])[]): Promise<void> {
  fresh();
  await store.put("d/good", "good");
  fs.rmSync(join(root, ".tmp"), { recursive: true });
  for (const [place, kind] of things) makeOdd(kind, join(root, place), victim);
  store = new DirectoryStore(root, { keepReplaced: 0, warn: (text) => warnings.push(text) });
  expect((await store.get("d/good"))?.body).toBe("good");
  const odd = await store.get("d/k");
  expect(odd?.body ?? "").toBe("");
  // What is odd can be replaced, by compare-and-set too, and removed.
  const condition = odd === undefined ? ({ absent: true } as const) : { version: odd.version };
  expect(await store.put("d/k", "new", condition)).toBe("stored");
  expect((await store.get("d/k"))?.body).toBe("new");
  for (const body of ["1", "2", "3"]) await store.put("d/k", body);
  expect((await store.get("d/k"))?.body).toBe("3");
  const keys = await store.list("d/g");
  expect(keys).toEqual(["d/good"]);
  await store.remove("d/k");
  expect(await store.get("d/k")).toBeUndefined();
  expect(victim.unharmed()).toBe(true);
  expect(warnings.join("\n")).not.toContain(SECRET);
}

test.each(ODD_KINDS)("as a version, a half-written file and .tmp itself: %s", async (kind) => {
  const places = [".tmp", `.tmp/${UUID}`, "d/k.v0000000007"];
  for (const place of places) await expect(holds([[place, kind]])).resolves.toBeUndefined();
});

test("whatever lies wherever", async () => {
  await assert(asyncProperty(oddThings(PLACES), holds), { numRuns: 60 });
}, 60_000);

test("a link in the place of .tmp is set aside and named", async () => {
  makeOdd("a link to a folder", join(root, ".tmp"), victim);
  await store.put("k", "1");
  expect(warnings).toEqual([expect.stringContaining(`${root}/.tmp was a symbolic link. It is set aside as`)]);
  expect(victim.unharmed()).toBe(true);
});

describe("a folder of the store that is none", () => {
  test.each(ODD_KINDS.filter((kind) => !kind.startsWith("a folder")))(
    "%s: store_failed that names it",
    async (kind) => {
      await store.put("state/a/k", "1");
      makeOdd(kind, join(root, "state/b"), victim);
      for (const attempt of [
        () => store.get("state/b/k"),
        () => store.put("state/b/k", "2"),
        () => store.remove("state/b/k"),
      ])
        await expect(attempt()).rejects.toMatchObject({
          code: "store_failed",
          message: expect.stringContaining("state/b is a"),
        });
      // Figures are not counted as if nothing were there.
      const link = kind.startsWith("a link");
      if (link) await expect(store.list("state/")).rejects.toMatchObject({ code: "store_failed" });
      else expect(await store.list("state/")).toEqual(["state/a/k"]);
      expect(victim.unharmed()).toBe(true);
    },
  );
});

test("a stray name is named and left alone, and the rest is listed", async () => {
  const name = string({ unit: "grapheme", minLength: 1, maxLength: 20 })
    .filter((text) => !/[/\0]/.test(text) && text !== "." && text !== "..")
    .filter((text) => Buffer.byteLength(text) < 100);
  await assert(
    asyncProperty(name, constantFrom("", ".v0000000001", "/"), async (stray, ending) => {
      fresh();
      await store.put("outgoing/good", "good");
      const path = join(root, "outgoing", stray + ending.replace("/", ""));
      if (fs.existsSync(path)) return;
      if (ending === "/") fs.mkdirSync(path);
      else fs.writeFileSync(path, "stray");
      const keys = await store.list("outgoing/");
      for (const key of keys) expect(await store.get(key)).toBeDefined();
      expect(keys).toContain("outgoing/good");
      await listOutgoing(store);
      if (!keys.some((key) => key.startsWith(`outgoing/${stray}`)) && !stray.startsWith(".") && ending !== "/")
        expect(warnings.join()).toContain("is none of gridmeter's files and is left alone");
      expect(fs.existsSync(path)).toBe(true);
    }),
    { numRuns: 60 },
  );
});

test("files and folders are for their owner alone, whatever the umask", async () => {
  for (const umask of [0o000, 0o022, 0o777]) {
    fresh();
    root = join(root, "made", "ledger");
    store = new DirectoryStore(root);
    const before = process.umask(umask);
    try {
      fs.mkdirSync(join(root, ".."), { recursive: true, mode: 0o777 });
      fs.chmodSync(join(root, ".."), 0o755);
      await store.put("state/2025-01/k", "1");
    } finally {
      process.umask(before);
    }
    const entries = fs.readdirSync(root, { recursive: true, withFileTypes: true });
    expect(entries.length).toBeGreaterThanOrEqual(4);
    const modes = entries.map((entry) => fs.lstatSync(join(entry.parentPath, entry.name)).mode & 0o7777);
    expect(entries.map((entry, index) => [entry.name, modes[index]])).toEqual(
      entries.map((entry) => [entry.name, entry.isDirectory() ? 0o700 : 0o600]),
    );
    expect(fs.statSync(root).mode & 0o7777).toBe(0o700);
  }
});
