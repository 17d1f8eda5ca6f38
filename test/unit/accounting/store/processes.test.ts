import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { DirectoryStore } from "../../../../lib/accounting/store/directory.ts";
import { Random } from "../../../simulator/index.ts";
import { bodyOf, numberIn } from "../../../support/store-body.ts";
import { bundledScript, scratchDirectory } from "../../../support/store-script.ts";
import { rounds, seed } from "../../../support/size.ts";

const SEED = seed(20_261_201);

let script: string;
beforeAll(() => {
  script = bundledScript("store-writer.ts");
});

let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
beforeEach(async () => {
  scratch = await scratchDirectory();
});
afterEach(() => scratch.remove());

test("compare-and-set among many processes loses no update", async () => {
  const writers = Array.from({ length: 6 }, () =>
    promisify(execFile)(process.execPath, [script, "count", scratch.path, "30"]),
  );
  await Promise.all(writers);
  expect((await new DirectoryStore(scratch.path).get("counter"))?.body).toBe("180");
});

test(`writers killed at random instants: readers see no torn and no lost object (seed ${SEED})`, async () => {
  const kills = rounds(60);
  const random = new Random(SEED);
  const store = new DirectoryStore(scratch.path);
  await store.put("k", bodyOf(0));
  const progress = { killed: 0 };
  let reads = 0;
  let seen = 0;

  async function readAlong(): Promise<void> {
    while (progress.killed < kills) {
      const number = numberIn((await store.get("k"))!.body);
      expect(number).toBeGreaterThanOrEqual(seen);
      seen = number;
      reads += 1;
      await sleep(1);
    }
  }

  async function writeAndKill(): Promise<void> {
    for (; progress.killed < kills; progress.killed += 1) {
      const writer = spawn(process.execPath, [script, "write", scratch.path, "k"], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      let output = "";
      writer.stdout.setEncoding("utf8").on("data", (chunk: string) => (output += chunk));
      await once(writer.stdout, "data");
      await sleep(random.unit() * 15);
      writer.kill("SIGKILL");
      await once(writer, "close");
      const reported = Number(output.trimEnd().split("\n").at(-1));
      expect(numberIn((await store.get("k"))!.body)).toBeGreaterThanOrEqual(reported);
    }
  }

  await Promise.all([readAlong(), writeAndKill()]);
  expect(progress.killed).toBe(kills);
  expect(reads).toBeGreaterThan(kills);
  expect(seen).toBeGreaterThan(kills);
});
