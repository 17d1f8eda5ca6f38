import { randomUUID } from "node:crypto";
import fsp from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { MessageQueue, OpenQueue } from "../../lib/accounting/delivery/queue.ts";
import { lockText, ownIdentity } from "../../lib/accounting/delivery/lock.ts";
import { scratchDirectory } from "./store-script.ts";

export type QueueKind = {
  readonly name: string;
  open(root: string, patience?: number): MessageQueue;
  /** What ssmsend would send, in its order, read without gridmeter's code. */
  read(root: string): Promise<string[]>;
};

/** Runs something at the queue, which must be free. */
export async function at<T>(queue: MessageQueue, work: (open: OpenQueue) => Promise<T>): Promise<T> {
  const result = await queue.exclusively(work);
  if (result === "taken") throw new Error(`${queue.place} is taken`);
  return result;
}

/** Everything that delivery relies on in ssmsend's queue. Every implementation passes it. */
export function messageQueueContract(kind: QueueKind): void {
  describe(`${kind.name} keeps the queue's contract`, () => {
    let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
    let root: string;
    let queue: MessageQueue;
    beforeEach(async () => {
      scratch = await scratchDirectory();
      root = join(scratch.path, "spool", "queue");
      queue = kind.open(root);
    });
    afterEach(async () => {
      vi.restoreAllMocks();
      await scratch.remove();
    });

    const add = (...bodies: string[]) =>
      at(queue, async (open) => {
        const result = await open.replace([], bodies);
        return result.status === "added" ? result.names : [];
      });
    const list = () => at(queue, async (open) => Promise.all((await open.list()).map(({ read }) => read())));

    test("makes its directory; an empty queue lists nothing", async () => {
      expect(await list()).toEqual([]);
      expect((await fsp.stat(root)).isDirectory()).toBe(true);
    });

    test("adds in the order given; names tell the messages apart", async () => {
      const names = await add("one\n", "two\n");
      await add("three\n");
      expect(new Set(names).size).toBe(2);
      expect(await list()).toEqual(["one\n", "two\n", "three\n"]);
      expect(await kind.read(root)).toEqual(["one\n", "two\n", "three\n"]);
    });

    test("replaces the older ones and leaves the others", async () => {
      const [first, , third] = await add("1", "2", "3");
      const result = await at(queue, (open) => open.replace([first!, third!], ["4"]));
      expect(result.status).toBe("added");
      expect(await kind.read(root)).toEqual(["2", "4"]);
    });

    test("an older one that is gone was sent: the new one is added", async () => {
      const [first] = await add("1");
      await at(queue, (open) => open.replace([first!], []));
      expect((await at(queue, (open) => open.replace([first!], ["2"]))).status).toBe("added");
      expect(await kind.read(root)).toEqual(["2"]);
    });

    test("a disk that fills up while the new one is written: the older one stays, nothing is half-written", async () => {
      const [first] = await add("1");
      await expect(
        at(queue, async (open) => {
          const openFile = fsp.open.bind(fsp);
          vi.spyOn(fsp, "open").mockImplementationOnce(async (...args) => {
            const file = await openFile(...args);
            await file.writeFile("ha");
            const full = Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" });
            vi.spyOn(file, "writeFile").mockRejectedValueOnce(full);
            return file;
          });
          return open.replace([first!], ["2"]);
        }),
      ).rejects.toMatchObject({ code: "store_failed", message: expect.stringMatching(/queue.*free space/s) });
      expect(await kind.read(root)).toEqual(["1"]);
      const left = await fsp.readdir(root, { recursive: true, withFileTypes: true });
      expect(left.filter((entry) => entry.isFile())).toHaveLength(1);
      expect((await at(queue, (open) => open.replace([first!], ["3"]))).status).toBe("added");
      expect(await kind.read(root)).toEqual(["3"]);
    });

    test.each(["EROFS", "EACCES"])("a directory that gives %s: store_failed with the path", async (code) => {
      vi.spyOn(fsp, "mkdir").mockRejectedValueOnce(Object.assign(new Error(code), { code }));
      const attempt = add("1");
      await expect(attempt).rejects.toMatchObject({ code: "store_failed", exit: 4 });
      await expect(attempt).rejects.toThrow(root);
    });

    test("one gridmeter at a time", async () => {
      let inside = 0;
      let rounds = 0;
      const round = () =>
        kind.open(root).exclusively(async (open) => {
          inside += 1;
          expect(inside).toBe(1);
          await open.replace([], [`${rounds}`]);
          rounds += 1;
          inside -= 1;
        });
      await Promise.all(Array.from({ length: 6 }, round));
      expect(await kind.read(root)).toEqual(["0", "1", "2", "3", "4", "5"]);
    });

    test("taken: the other's work goes on and ours does not begin", async () => {
      const work = vi.fn<() => Promise<string>>();
      await at(queue, async () => {
        expect(await kind.open(root, 50).exclusively(work)).toBe("taken");
      });
      expect(work).not.toHaveBeenCalled();
      expect(await list()).toEqual([]);
    });

    describe("a lock of another gridmeter", () => {
      const left = `lock-${randomUUID()}`;
      async function leave(owner: Partial<ReturnType<typeof ownIdentity>>, ageSeconds: number): Promise<void> {
        await fsp.mkdir(join(root, ".gridmeter"), { recursive: true });
        const path = join(root, ".gridmeter", left);
        await fsp.writeFile(path, lockText({ ...ownIdentity(), ...owner }));
        const then = new Date(Date.now() - ageSeconds * 1000);
        await fsp.utimes(path, then, then);
      }
      const isTaken = async () => (await kind.open(root, 50).exclusively(async () => "free")) === "taken";

      test("that is dead, or whose number another process has now, does not stop us", async () => {
        await leave({ started: "1" }, 0);
        expect(await isTaken()).toBe(false);
        await leave({ pid: 2 ** 30 }, 0);
        expect(await isTaken()).toBe(false);
        await leave({ boot: "before" }, 0);
        expect(await isTaken()).toBe(false);
      });

      test("that lives on this host stops us, however old it is", async () => {
        await leave({}, 86_400);
        expect(await isTaken()).toBe(true);
      });

      test.each([[{ host: "elsewhere" }], [{ pidSpace: "pid:[1]" }]])(
        "of another host or container (%o) stops us for ten minutes",
        async (owner) => {
          await leave(owner, 590);
          expect(await isTaken()).toBe(true);
          await leave(owner, 610);
          expect(await isTaken()).toBe(false);
        },
      );
    });

    test("an error of the caller's own comes through as it is, and the queue is free again", async () => {
      const own = new RangeError("own");
      await expect(queue.exclusively(() => Promise.reject(own))).rejects.toBe(own);
      expect(await list()).toEqual([]);
    });

    test("a gridmeter whose lock was taken for a left one adds nothing", async () => {
      const attempt = at(queue, async (open) => {
        for (const name of await fsp.readdir(join(root, ".gridmeter")))
          await fsp.unlink(join(root, ".gridmeter", name));
        return open.replace([], ["late"]);
      });
      await expect(attempt).rejects.toMatchObject({ code: "store_conflict" });
      expect(await kind.read(root)).toEqual([]);
    });
  });
}
