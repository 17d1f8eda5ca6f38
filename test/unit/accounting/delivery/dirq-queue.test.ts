import fsp from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { DirqQueue } from "../../../../lib/accounting/delivery/dirq.ts";
import { lockText, ownIdentity } from "../../../../lib/accounting/delivery/lock.ts";
import { at } from "../../../support/dirq-contract.ts";
import { dirqTool } from "../../../support/dirq-tool.ts";
import { scratchDirectory } from "../../../support/store-script.ts";

let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let queue: DirqQueue;
beforeEach(async () => {
  scratch = await scratchDirectory();
  queue = new DirqQueue(scratch.path);
});
afterEach(async () => {
  vi.restoreAllMocks();
  await scratch.remove();
});

async function add(...bodies: string[]): Promise<readonly string[]> {
  const result = await at(queue, (open) => open.replace([], bodies));
  return result.status === "added" ? result.names : [];
}
const replace = (older: readonly string[], ...bodies: string[]) => at(queue, (open) => open.replace(older, bodies));
const read = () => dirqTool("read", scratch.path);
const locks = async () =>
  (await fsp.readdir(scratch.path, { recursive: true })).filter((name) => name.endsWith(".lck"));
const leftLock = (name: string) =>
  fsp.writeFile(join(scratch.path, `${name}.lck`), lockText({ ...ownIdentity(), pid: 2 ** 30 }));

test("names are python-dirq's: a directory a minute, then seconds, microseconds and a digit", async () => {
  const before = Math.floor(Date.now() / 1000);
  const [name] = await add("1");
  const [, directory = "", seconds = "", microseconds = ""] =
    /^([0-9a-f]{8})\/([0-9a-f]{8})([0-9a-f]{5})[0-9a-f]$/.exec(name!)!;
  expect(Number.parseInt(directory, 16) % 60).toBe(0);
  expect(Number.parseInt(seconds, 16) - before).toBeLessThanOrEqual(5);
  expect(Number.parseInt(seconds, 16)).toBeGreaterThanOrEqual(before);
  expect(Number.parseInt(microseconds, 16)).toBeLessThan(1_000_000);
});

describe("while ssmsend holds an older message", () => {
  test("busy: nothing is removed or added, and no other message stays locked", async () => {
    const names = await add("1", "2", "3");
    expect(await dirqTool("lock", scratch.path, names[1]!)).toEqual([true]);
    expect(await replace(names, "4")).toEqual({ status: "busy", name: names[1] });
    expect(await locks()).toEqual([`${names[1]}.lck`]);
    expect(await read()).toEqual(["1", "3"]);
    await dirqTool("send", scratch.path, names[1]!);
    expect((await replace(names, "4")).status).toBe("added");
    expect(await read()).toEqual(["4"]);
  });

  test("its lock stays its own: it reads its message and removes it", async () => {
    const [name] = await add("1");
    await dirqTool("lock", scratch.path, name!);
    await replace([name!], "2");
    expect(await fsp.readFile(join(scratch.path, `${name}.lck`), "utf8")).toBe("1");
  });
});

test("ssmsend cannot lock a message while gridmeter holds it", async () => {
  const [name] = await add("1");
  const unlink = fsp.unlink.bind(fsp);
  let answer: unknown;
  vi.spyOn(fsp, "unlink").mockImplementation(async (path) => {
    if (basename(String(path)) === basename(name!)) answer = await dirqTool("lock", scratch.path, name!);
    await unlink(path);
  });
  expect((await replace([name!], "2")).status).toBe("added");
  expect(answer).toEqual([false]);
  expect(await read()).toEqual(["2"]);
  expect(await locks()).toEqual([]);
});

describe("a lock that a killed gridmeter left", () => {
  test("on a message is taken over", async () => {
    const [name] = await add("1");
    await leftLock(name!);
    expect(await read()).toEqual([]);
    expect((await replace([name!], "2")).status).toBe("added");
    expect(await read()).toEqual(["2"]);
    expect(await locks()).toEqual([]);
  });

  test("beside a message already removed is dropped", async () => {
    const [name] = await add("1");
    await leftLock(name!);
    await fsp.unlink(join(scratch.path, name!));
    expect(await at(queue, (open) => open.list())).toEqual([]);
    expect(await locks()).toEqual([]);
  });
});

test("a lock of unknown making is respected", async () => {
  const [name] = await add("1");
  await fsp.writeFile(join(scratch.path, `${name}.lck`), "something else");
  expect((await replace([name!], "2")).status).toBe("busy");
});

test("what ssmsend removed between listing and locking leaves no lock behind", async () => {
  const [name] = await add("1");
  await fsp.unlink(join(scratch.path, name!));
  expect((await replace([name!], "2")).status).toBe("added");
  expect(await locks()).toEqual([]);
});

test("a directory that ssmsend's purge removes is made again", async () => {
  const open = fsp.open.bind(fsp);
  let purged = 0;
  vi.spyOn(fsp, "open").mockImplementation(async (...args) => {
    if (String(args[0]).endsWith(".tmp") && purged < 3) {
      purged += 1;
      // It is named through its folder's descriptor.
      await fsp.rm(await fsp.realpath(dirname(String(args[0]))), { recursive: true, force: true });
    }
    return open(...args);
  });
  await add("1");
  expect(purged).toBe(3);
  expect(await read()).toEqual(["1"]);
});

test("a name that is taken: another one is found", async () => {
  const link = fsp.link.bind(fsp);
  vi.spyOn(fsp, "link").mockImplementationOnce(async (from, to) => {
    await fsp.writeFile(to, "theirs");
    await link(from, to);
  });
  await add("ours");
  expect(await read()).toEqual(["theirs", "ours"]);
});

test.each(["EPERM", "ENOTSUP"])("link() says %s: store_no_hard_links, nothing half-written", async (code) => {
  const [name] = await add("1");
  for (const older of [[], [name!]]) {
    vi.spyOn(fsp, "link").mockRejectedValueOnce(Object.assign(new Error(code), { code }));
    await expect(replace(older, "2")).rejects.toMatchObject({ code: "store_no_hard_links" });
    expect(await read()).toEqual(["1"]);
  }
  expect((await fsp.readdir(scratch.path, { recursive: true })).filter((path) => /tmp|lck/.test(path))).toEqual([]);
});
