import { beforeEach, expect, test } from "vitest";
import { MemoryStore, ReadOnlyStore } from "../../../../lib/accounting/store/store.ts";

let below: MemoryStore;
let store: ReadOnlyStore;
beforeEach(async () => {
  below = new MemoryStore();
  await below.put("a", "below");
  await below.put("b", "below");
  store = new ReadOnlyStore(below);
});

test("a dry run sees its own changes, and the store below sees none", async () => {
  const { version } = (await store.get("a"))!;
  expect(await store.put("a", "above", { version })).toBe("stored");
  expect(await store.put("a", "again", { version })).toBe("conflict");
  expect(await store.put("b", "above", { absent: true })).toBe("conflict");
  await store.put("c", "above");
  await store.remove("b");
  expect(await store.list("")).toEqual(["a", "c"]);
  expect(await store.get("b")).toBeUndefined();
  expect((await store.get("a"))?.body).toBe("above");
  expect(await below.list("")).toEqual(["a", "b"]);
  expect((await below.get("a"))?.body).toBe("below");
});

test("a removed key that is put again is there again", async () => {
  await store.remove("a");
  expect(await store.put("a", "new", { absent: true })).toBe("stored");
  expect(await store.list("")).toEqual(["a", "b"]);
  expect((await store.get("a"))?.body).toBe("new");
});
