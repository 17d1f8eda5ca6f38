import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { link, mkdir, readdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import type { Unit } from "../../lib/accounting/model/tenant.ts";
import { messageKeys } from "../../lib/accounting/apel/replace-keys.ts";
import { DirectoryStore } from "../../lib/accounting/store/directory.ts";
import { Random } from "../simulator/index.ts";
import { spoolingViolations } from "../support/dirq-invariants.ts";
import { generationMessages, generationOf } from "../support/dirq-messages.ts";
import { bundledScript, scratchDirectory } from "../support/store-script.ts";
import { rounds, seed } from "../support/size.ts";

const KILLS = rounds(210, 7);
const SEED = seed(20_261_201);
const random = new Random(SEED);
const SLOTS = 3;
const READER = fileURLToPath(new URL("../support/dirq-reader.py", import.meta.url));
// Writers work on three units at a time and leave them after a while: a loss is seen where nothing newer hides it.
const AT_A_TIME = 3;
const KILLS_PER_UNITS = 7;
const units: Unit[] = Array.from({ length: (KILLS / KILLS_PER_UNITS) * AT_A_TIME }, (_, index) => ({
  site: "Some-Site",
  submitHost: `host-${index}`,
  month: "2025-01",
}));
const event = z.object({ event: z.string(), name: z.string().optional(), body: z.string().optional() });

let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let script: string;
const started = new Set<ChildProcess>();
beforeAll(async () => {
  scratch = await scratchDirectory();
  script = bundledScript("dirq-writer.ts");
});
afterAll(async () => {
  for (const child of started) child.kill("SIGKILL");
  await scratch.remove();
});

/** A child process and, line by line, what it wrote to stdout. */
function run(command: string, ...args: string[]): { child: ChildProcess; lines: string[]; closed: Promise<unknown> } {
  // The compiled script is kept: starting is most of what a writer that lives for 100 ms costs.
  const env = { ...process.env, NODE_COMPILE_CACHE: join(scratch.path, "compiled") };
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"], env });
  started.add(child);
  const lines: string[] = [];
  let rest = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    const parts = (rest + chunk).split("\n");
    rest = parts.pop() ?? "";
    lines.push(...parts);
  });
  const closed = once(child, "close").then(() => started.delete(child));
  return { child, lines, closed };
}

/** Two messages from before gridmeter: generation 0 of a unit under ssmsend's lock, and KAPEL's file of another unit. */
async function oldMessages(queue: string): Promise<void> {
  const directory = join(queue, "67748580");
  await mkdir(directory, { recursive: true });
  const locked = join(directory, "67748580000001");
  await writeFile(locked, generationMessages(units[0]!, 0)[0]!.body);
  await link(locked, `${locked}.lck`);
  await utimes(locked, new Date(), new Date());
  await writeFile(join(directory, "67748580000002"), generationMessages(units[1]!, 0)[0]!.body);
}

test(`${KILLS} writers killed at random instants beside the real python-dirq reader (seed ${SEED})`, async () => {
  const store = join(scratch.path, "store");
  const queue = join(scratch.path, "queue");
  await oldMessages(queue);
  const written: { unit: number; generation: number }[] = [];
  const progress = { killed: 0, killedDelivering: 0 };

  async function slot(): Promise<void> {
    while (progress.killed < KILLS) {
      const first = Math.floor(progress.killed / KILLS_PER_UNITS) * AT_A_TIME;
      progress.killed += 1;
      const current = JSON.stringify(units.slice(first, first + AT_A_TIME));
      const { child, lines, closed } = run(process.execPath, script, store, queue, current, `${random.unit()}`);
      await once(child.stdout!, "data");
      // Mostly in the first delivery, now and then after several.
      await sleep(random.unit() ** 2 * 400);
      expect(child.kill("SIGKILL")).toBe(true);
      await closed;
      expect(child.signalCode).toBe("SIGKILL");
      if (lines.at(-1) === "delivering") progress.killedDelivering += 1;
      for (const line of lines) {
        const [word, unit, generation] = line.split(" ");
        if (word === "written") written.push({ unit: first + Number(unit), generation: Number(generation) });
      }
    }
  }

  const slots = Array.from({ length: SLOTS }, slot);
  // The reader comes a little later, so that what lay in the queue before meets the first new generations.
  await sleep(700);
  const reader = run("/usr/bin/python3", READER, queue, "7");
  await Promise.all(slots);

  const last = run(process.execPath, script, store, queue, "[]", "once");
  await last.closed;
  expect(last.child.exitCode).toBe(0);
  reader.child.stdin!.end();
  await reader.closed;
  expect(reader.child.exitCode).toBe(0);

  const events = reader.lines.map((line) => event.parse(JSON.parse(line)));
  const sent = events.flatMap(({ name, body }) => (name === undefined || body === undefined ? [] : [{ name, body }]));
  const keysOf = units.map((unit) => generationMessages(unit, 1).flatMap(({ body }) => messageKeys(body)));
  const promised = written.map(({ unit, generation }) => ({ keys: keysOf[unit]!, generation }));
  expect(spoolingViolations({ sent, written: promised, generationOf })).toEqual([]);

  // That it was a real trial: kills in the middle of delivery, crashes of the reader, many units.
  expect(progress.killedDelivering).toBeGreaterThan(KILLS / 10);
  expect(events.filter(({ event: name }) => name === "crash").length).toBeGreaterThan(0);
  expect(new Set(written.map(({ unit }) => unit)).size).toBeGreaterThan(units.length / 2);
  expect(sent.length).toBeGreaterThan(KILLS / 5);

  const objects = new DirectoryStore(store);
  expect(await objects.list("outgoing/")).toEqual([]);
  const refused = (await objects.list("refused/")).filter((key) => key.endsWith(".reason"));
  for (const key of refused) expect((await objects.get(key))?.body).toMatch(/came after generation \d+ was delivered/);
  const left = (await readdir(queue, { recursive: true })).filter((path) =>
    /^[0-9a-f]{8}\/[0-9a-f]{14}(\.lck)?$/.test(path),
  );
  expect(left).toEqual([]);
}, 180_000);
