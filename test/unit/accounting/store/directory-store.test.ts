import { randomUUID } from "node:crypto";
import fs from "node:fs";
import fsp from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { DirectoryStore } from "../../../../lib/accounting/store/directory.ts";
import { scratchDirectory } from "../../../support/store-script.ts";

let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let store: DirectoryStore;
beforeEach(async () => {
  scratch = await scratchDirectory();
  store = new DirectoryStore(scratch.path);
});
afterEach(async () => {
  vi.restoreAllMocks();
  await scratch.remove();
});

function failing(code: string): Error {
  return Object.assign(new Error(`${code}: the file system says no`), { code });
}

const temporaries = () => fsp.readdir(join(scratch.path, ".tmp"));

test("replaced versions are removed once their successor is old enough, never before, never the newest", async () => {
  for (const body of ["1", "2", "3"]) await store.put("d/k", body);
  expect(await fsp.readdir(join(scratch.path, "d"))).toHaveLength(3);
  const impatient = new DirectoryStore(scratch.path, { keepReplaced: 0 });
  await impatient.put("d/k", "4");
  expect((await fsp.readdir(join(scratch.path, "d"))).sort()).toEqual(["k.v0000000003", "k.v0000000004"]);
  expect((await store.get("d/k"))?.body).toBe("4");
});

describe("a writer that was suspended between looking and linking, while what it saw was replaced and cleaned up", () => {
  async function suspended(slow: number): Promise<DirectoryStore> {
    await store.put("k", "seen");
    const others = new DirectoryStore(scratch.path, { keepReplaced: 0 });
    const link = fsp.link.bind(fsp);
    vi.spyOn(fsp, "link").mockImplementationOnce(async (from, to) => {
      for (const body of ["other 1", "other 2", "other 3"]) await others.put("k", body);
      await link(from, to);
    });
    return new DirectoryStore(scratch.path, { slow });
  }

  test("does not win by a name that is free again", async () => {
    const slow = await suspended(0);
    const { version } = (await slow.get("k"))!;
    await expect(slow.put("k", "late", { version })).rejects.toMatchObject({ code: "store_conflict", retryable: true });
    expect((await slow.get("k"))?.body).toBe("other 3");
    expect(await temporaries()).toEqual([]);
  });

  test("without a condition it writes again, on top", async () => {
    const slow = await suspended(0);
    expect(await slow.put("k", "late")).toBe("stored");
    expect((await store.get("k"))?.body).toBe("late");
  });
});

test("a version that is cleaned up while it is read: the next one is read", async () => {
  await store.put("k", "old");
  const open = fs.openSync.bind(fs);
  vi.spyOn(fs, "openSync").mockImplementation((...args) => {
    if (String(args[0]).endsWith("/k.v0000000001")) {
      fs.writeFileSync(join(scratch.path, "k.v0000000002"), "new");
      fs.unlinkSync(join(scratch.path, "k.v0000000001"));
    }
    return open(...args);
  });
  expect((await store.get("k"))?.body).toBe("new");
});

const [OLD, YOUNG] = [randomUUID(), randomUUID()];

test("temporary files of killed writers are swept after an hour", async () => {
  await store.put("k", "1");
  for (const name of [OLD, YOUNG, "theirs"]) await fsp.writeFile(join(scratch.path, ".tmp", name), "half");
  const longAgo = new Date(Date.now() - 3_700_000);
  for (const name of [OLD, "theirs"]) await fsp.utimes(join(scratch.path, ".tmp", name), longAgo, longAgo);
  await new DirectoryStore(scratch.path).put("k", "2");
  expect((await temporaries()).sort()).toEqual([YOUNG, "theirs"].sort());
  expect(await store.list("")).toEqual(["k"]);
});

test.each(["ENOSPC", "EROFS", "EACCES", "EDQUOT"])("%s: store_failed with the path and a remedy", async (code) => {
  vi.spyOn(fsp, "mkdir").mockRejectedValueOnce(failing(code));
  const attempt = store.put("state/k", "body");
  await expect(attempt).rejects.toMatchObject({ code: "store_failed", exit: 4, retryable: true });
  await expect(attempt).rejects.toThrow(join(scratch.path, "state/k"));
  await expect(attempt).rejects.toThrow(/free space|mount it writable|give the user/);
});

test("a disk that fills up while the temporary file is written: nothing of it is left", async () => {
  await store.put("k", "before");
  const open = fsp.open.bind(fsp);
  vi.spyOn(fsp, "open").mockImplementationOnce(async (...args) => {
    const file = await open(...args);
    await file.writeFile("ha");
    vi.spyOn(file, "writeFile").mockRejectedValueOnce(failing("ENOSPC"));
    return file;
  });
  await expect(store.put("k", "after")).rejects.toMatchObject({ code: "store_failed" });
  expect(await temporaries()).toEqual([]);
  expect((await store.get("k"))?.body).toBe("before");
});

test.each(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"])("link() says %s: store_no_hard_links", async (code) => {
  vi.spyOn(fsp, "link").mockRejectedValueOnce(failing(code));
  const attempt = store.put("k", "body");
  await expect(attempt).rejects.toMatchObject({ code: "store_no_hard_links", exit: 4, retryable: false });
  await expect(attempt).rejects.toThrow(scratch.path);
  expect(await temporaries()).toEqual([]);
  expect(await store.get("k")).toBeUndefined();
});

test("a file where the store's directory should be: store_failed that says so", async () => {
  await fsp.writeFile(join(scratch.path, "file"), "");
  const misplaced = new DirectoryStore(join(scratch.path, "file"));
  const attempts = [
    () => misplaced.get("k"),
    () => misplaced.put("k", ""),
    () => misplaced.list(""),
    () => misplaced.remove("k"),
  ];
  for (const attempt of attempts) {
    await expect(attempt()).rejects.toMatchObject({ code: "store_failed" });
    await expect(attempt()).rejects.toThrow("A file is where a directory is needed");
  }
});
