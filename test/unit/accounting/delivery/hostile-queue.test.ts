// A neighbour who may write in the queue: nothing of anybody else's is read, changed or removed, and delivery goes on.
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import { join } from "node:path";
import { assert, asyncProperty } from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { GridmeterError } from "../../../../lib/shared/errors.ts";
import { DirqQueue } from "../../../../lib/accounting/delivery/dirq.ts";
import type { MessageQueue } from "../../../../lib/accounting/delivery/queue.ts";
import { PlainDirectoryQueue } from "../../../../lib/accounting/delivery/plain-queue.ts";
import { at } from "../../../support/dirq-contract.ts";
import { dirqTool } from "../../../support/dirq-tool.ts";
import { ODD_KINDS, SECRET, makeOdd, makeVictim, oddThings } from "../../../support/hostile-files.ts";
import type { OddKind, Victim } from "../../../support/hostile-files.ts";
import { scratchDirectory } from "../../../support/store-script.ts";

let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let victim: Victim;
let runs = 0;
beforeEach(async () => {
  scratch = await scratchDirectory();
  victim = makeVictim(join(scratch.path, "victim"));
});
afterEach(() => scratch.remove());

const GOOD = "67748580/67748580000005";
const GOOD_LATE = "69000000/69000000000005";
const LOCK = "00000000-0000-4000-8000-000000000001";

type Outcome = { readonly root: string; readonly warnings: readonly string[]; readonly texts: readonly string[] };

/** Delivers one message into a queue in which these odd things lie beside good messages. */
async function deliverBeside(
  kind: "dirq" | "dir",
  good: readonly string[],
  things: readonly (readonly [string, OddKind])[],
): Promise<Outcome> {
  const root = join(scratch.path, `${(runs += 1)}`, "queue");
  for (const name of good) {
    fs.mkdirSync(join(root, name, ".."), { recursive: true });
    fs.writeFileSync(join(root, name), `good ${name}\n`);
  }
  for (const [place, odd] of things) makeOdd(odd, join(root, place), victim);
  const warnings: string[] = [];
  const warn = (text: string): unknown => warnings.push(text);
  const open = (): MessageQueue =>
    kind === "dirq" ? new DirqQueue(root, 100, warn) : new PlainDirectoryQueue(root, 100, warn);
  const texts = await at(open(), async (queue) => {
    const read: string[] = [];
    for (const message of await queue.list()) {
      const text = await message.read();
      if (text !== undefined) read.push(text);
    }
    expect((await queue.replace([], ["new\n"])).status).toBe("added");
    return read;
  });
  return { root, warnings, texts };
}

function expectUnharmed({ warnings }: Outcome): void {
  expect(victim.unharmed()).toBe(true);
  expect(warnings.join("\n")).not.toContain(SECRET);
}

const DIRQ_PLACES = [
  ".gridmeter",
  `.gridmeter/lock-${LOCK}`,
  `.gridmeter/new-${LOCK}`,
  ".gridmeter/67748580000001",
  "67748584",
  "ffffffff",
  "stray name",
  "67748580/67748580000001",
  "67748580/67748580000009",
  "67748580/67748580000009.tmp",
  "67748580/67748580000003.lck",
  "67748580/stray.lck",
  "69000000/69000000000001",
];
/** Where ssmsend would meet it: this must be out of its way afterwards. */
const MET_BY_SSMSEND = /^[0-9a-f]{8}(\/[0-9a-f]{14})?$/;

async function dirqHolds(things: readonly (readonly [string, OddKind])[]): Promise<void> {
  const outcome = await deliverBeside("dirq", [GOOD, GOOD_LATE], things);
  expectUnharmed(outcome);
  expect(outcome.texts.toSorted()).toEqual([`good ${GOOD}\n`, `good ${GOOD_LATE}\n`].sort());
  for (const [place, odd] of things.filter(([each]) => MET_BY_SSMSEND.test(each))) {
    // A folder of the queue's owner is as good as one that ssmsend made.
    if (!place.includes("/") && odd.startsWith("a folder")) continue;
    expect(outcome.warnings.filter((text) => text.includes(`${place} is `)).join()).toContain("set aside as");
    expect(fs.lstatSync(join(outcome.root, place), { throwIfNoEntry: false })).toBeUndefined();
  }
  const sent = (await dirqTool("read", outcome.root)) as string[];
  expect(sent.sort()).toEqual([`good ${GOOD}\n`, `good ${GOOD_LATE}\n`, "new\n"].sort());
}

describe("a dirq", () => {
  test.each(ODD_KINDS)("as an element, a lock, a folder, a lock of ours and .gridmeter itself: %s", async (kind) => {
    const places = [
      "67748580/67748580000001",
      "67748580/67748580000003.lck",
      "67748584",
      `.gridmeter/lock-${LOCK}`,
      ".gridmeter",
    ];
    for (const place of places) await expect(dirqHolds([[place, kind]])).resolves.toBeUndefined();
  });

  test("whatever lies wherever", async () => {
    await assert(asyncProperty(oddThings(DIRQ_PLACES), dirqHolds), { numRuns: 60 });
  }, 60_000);

  test("a link in the place of .gridmeter is set aside and named", async () => {
    const { root, warnings } = await deliverBeside("dirq", [], [[".gridmeter", "a link to a folder"]]);
    expect(warnings).toEqual([expect.stringContaining(`${root}/.gridmeter was a symbolic link. It is set aside as`)]);
    expect(fs.lstatSync(join(root, ".gridmeter")).isDirectory()).toBe(true);
    expect(victim.unharmed()).toBe(true);
  });

  test("an odd element that ssmsend holds is left alone", async () => {
    const root = join(scratch.path, "held");
    makeOdd("a file of 600 MB", join(root, "67748580/67748580000001"), victim);
    fs.linkSync(join(root, "67748580/67748580000001"), join(root, "67748580/67748580000001.lck"));
    const warnings: string[] = [];
    await at(new DirqQueue(root, 100, (text) => warnings.push(text)), async (queue) => {
      expect(await (await queue.list())[0]?.read()).toBeUndefined();
    });
    expect(warnings).toEqual([expect.stringMatching(/67748580000001 is a file of 600000000 bytes.*ssmsend holds it/)]);
    expect(fs.readdirSync(join(root, "67748580")).sort()).toEqual(["67748580000001", "67748580000001.lck"]);
  });

  test("a queue that is a link itself is its administrator's word", async () => {
    const root = join(scratch.path, "elsewhere");
    fs.mkdirSync(root);
    fs.symlinkSync(root, join(scratch.path, "queue"));
    await at(new DirqQueue(join(scratch.path, "queue")), (queue) => queue.replace([], ["1"]));
    expect(await dirqTool("read", root)).toEqual(["1"]);
  });
});

const SWAPPER = `
import os, sys
root, victim, names = sys.argv[1], sys.argv[2], sys.argv[3:]
print("up", flush=True)
turn = 0
def attempt(step, *args):
    try:
        step(*args)
    except OSError:
        pass
while True:
    for name in names:
        turn += 1
        path = os.path.join(root, name)
        away = "%s.away%d" % (path, turn)
        attempt(os.rename, path, away)
        attempt(os.symlink, victim, path)
        attempt(os.unlink, path)
        attempt(os.rename, away, path)
`;

test.each(["dirq", "dir"])(
  "a neighbour who swaps folders of a %s for links all the while: nothing of anybody else's is touched",
  async (kind) => {
    const root = join(scratch.path, "swapped");
    const names = [".gridmeter", "67748580"];
    for (const name of names) fs.mkdirSync(join(root, name), { recursive: true });
    const warn = (): undefined => undefined;
    const queue = kind === "dirq" ? new DirqQueue(root, 0, warn) : new PlainDirectoryQueue(root, 0, warn);
    const swapper = spawn("/usr/bin/python3", ["-c", SWAPPER, root, victim.folder, ...names]);
    await once(swapper.stdout, "data");
    let done = 0;
    try {
      for (const end = Date.now() + 2000; Date.now() < end;) {
        try {
          await queue.exclusively(async (open) => {
            const held = await open.list();
            for (const { read } of held) await read();
            await open.replace(
              held.map(({ name }) => name),
              ["new\n"],
            );
            done += 1;
          });
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(GridmeterError);
        }
      }
    } finally {
      swapper.kill("SIGKILL");
    }
    expect(done).toBeGreaterThan(0);
    expect(victim.unharmed()).toBe(true);
  },
  20_000,
);

const PLAIN_PLACES = [
  ".gridmeter",
  `.gridmeter/lock-${LOCK}`,
  ".gridmeter/67748580000001",
  "a",
  "b.txt",
  ".hidden",
  "ä",
];

async function plainHolds(things: readonly (readonly [string, OddKind])[]): Promise<void> {
  const outcome = await deliverBeside("dir", ["good"], things);
  expectUnharmed(outcome);
  expect(outcome.texts).toEqual(["good good\n"]);
  for (const [place, odd] of things.filter(([each]) => !each.startsWith(".gridmeter") && !each.includes("/"))) {
    // ssmsend passes over folders.
    if (odd.startsWith("a folder")) continue;
    expect(outcome.warnings.filter((text) => text.includes(`/${place} is `)).join()).toContain("set aside as");
    expect(fs.lstatSync(join(outcome.root, place), { throwIfNoEntry: false })).toBeUndefined();
  }
}

describe("a plain directory", () => {
  test.each(ODD_KINDS)("as a message, a lock of ours and .gridmeter itself: %s", async (kind) => {
    const places = ["a", `.gridmeter/lock-${LOCK}`, ...(kind === "a file of 600 MB" ? [] : [".gridmeter"])];
    for (const place of places) await expect(plainHolds([[place, kind]])).resolves.toBeUndefined();
  });

  test("whatever lies wherever", async () => {
    await assert(asyncProperty(oddThings(PLAIN_PLACES), plainHolds), { numRuns: 60 });
  }, 60_000);
});
