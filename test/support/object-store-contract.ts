import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ObjectStore } from "../../lib/accounting/store/store.ts";

/** What a contract run needs: two handles to the same objects, as two processes would have them. */
export type ContractSubject = { readonly one: ObjectStore; readonly two: ObjectStore; close(): Promise<void> };

/** Everything that the program relies on in an object store. Every implementation passes it. */
export function objectStoreContract(name: string, open: () => Promise<ContractSubject>): void {
  describe(`${name} keeps the object store's contract`, () => {
    let subject: ContractSubject;
    beforeEach(async () => {
      subject = await open();
    });
    afterEach(() => subject.close());

    test("a key that was never put is undefined, and not listed", async () => {
      expect(await subject.one.get("state/none")).toBeUndefined();
      expect(await subject.one.list("")).toEqual([]);
    });

    test.each([
      ["plain", "text"],
      ["empty", ""],
      ["not ASCII, with line breaks", "é\n\r\n\u{1F600}"],
      ["long", "x".repeat(1_000_000)],
    ])("a body comes back as it was put: %s", async (_, body) => {
      expect(await subject.one.put("state/a=20b.json", body)).toBe("stored");
      expect((await subject.two.get("state/a=20b.json"))?.body).toBe(body);
    });

    test("each put has another version, of an equal body too", async () => {
      const versions = new Set<string | undefined>();
      for (const body of ["1", "2", "2"]) {
        await subject.one.put("k", body);
        versions.add((await subject.two.get("k"))?.version);
      }
      expect(versions.size).toBe(3);
    });

    test("absent: stores the first only, and leaves it as it is", async () => {
      expect(await subject.one.put("k", "first", { absent: true })).toBe("stored");
      expect(await subject.two.put("k", "second", { absent: true })).toBe("conflict");
      expect((await subject.one.get("k"))?.body).toBe("first");
    });

    test("version: only the holder of the newest version stores", async () => {
      await subject.one.put("k", "1");
      const { version } = (await subject.one.get("k"))!;
      expect(await subject.one.put("k", "2", { version })).toBe("stored");
      expect(await subject.two.put("k", "3", { version })).toBe("conflict");
      expect((await subject.two.get("k"))?.body).toBe("2");
      expect(await subject.two.put("never", "3", { version })).toBe("conflict");
      expect(await subject.two.get("never")).toBeUndefined();
    });

    test("list: sorted, each key once, by any prefix", async () => {
      for (const key of ["b/2", "b/1", "b/10/x", "c", "bb", "b"]) await subject.one.put(key, key);
      await subject.one.put("b/2", "again");
      expect(await subject.two.list("")).toEqual(["b", "b/1", "b/10/x", "b/2", "bb", "c"]);
      expect(await subject.two.list("b/")).toEqual(["b/1", "b/10/x", "b/2"]);
      expect(await subject.two.list("b/1")).toEqual(["b/1", "b/10/x"]);
      expect(await subject.two.list("b/10/x")).toEqual(["b/10/x"]);
      expect(await subject.two.list("none/")).toEqual([]);
    });

    test("remove: the key is gone with all its history, and may be put again", async () => {
      for (const body of ["1", "2", "3"]) await subject.one.put("k/a", body);
      const { version } = (await subject.one.get("k/a"))!;
      await subject.two.remove("k/a");
      expect(await subject.one.get("k/a")).toBeUndefined();
      expect(await subject.one.list("k")).toEqual([]);
      expect(await subject.one.put("k/a", "4", { version })).toBe("conflict");
      expect(await subject.one.put("k/a", "4", { absent: true })).toBe("stored");
      expect((await subject.two.get("k/a"))?.body).toBe("4");
      await expect(subject.one.remove("k/none")).resolves.toBeUndefined();
    });

    test("of many absent puts at once one is stored", async () => {
      const puts = Array.from({ length: 20 }, (_, n) =>
        (n % 2 ? subject.one : subject.two).put("k", `${n}`, { absent: true }),
      );
      const results = await Promise.all(puts);
      expect(results.filter((result) => result === "stored")).toHaveLength(1);
      expect((await subject.one.get("k"))?.body).toBe(`${results.indexOf("stored")}`);
    });

    test("compare-and-set loses no update", async () => {
      const workers = [subject.one, subject.two, subject.one, subject.two];
      await Promise.all(workers.map((store) => countUp(store, "counter", 10)));
      expect(countOf((await subject.one.get("counter"))?.body)).toBe(40);
    });

    test.each(["", "/a", "a/", "a//b", "../a", "a/.hidden", "a b", "é", "a.v0000000001", "a.v0000000001/b"])(
      "%j is no key",
      async (key) => {
        await expect((async () => subject.one.put(key, ""))()).rejects.toThrow(TypeError);
        await expect((async () => subject.one.get(key))()).rejects.toThrow(TypeError);
      },
    );
  });
}

/** Adds one to a number `times` times by compare-and-set, as concurrent runs change the state of a unit. */
export async function countUp(store: ObjectStore, key: string, times: number): Promise<void> {
  for (let done = 0; done < times;) {
    const held = await store.get(key);
    // Every body is its own: after an ambiguous failure a store tells its own work by it.
    const next = `${countOf(held?.body) + 1} ${randomUUID()}`;
    const condition = held === undefined ? ({ absent: true } as const) : { version: held.version };
    if ((await store.put(key, next, condition)) === "stored") done += 1;
  }
}

/** The count in a body that `countUp` wrote. */
export function countOf(body: string | undefined): number {
  return Number(body?.split(" ")[0] ?? "0");
}
