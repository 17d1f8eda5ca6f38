// The command line killed at random instants, as by a reboot or an impatient operator; the next run makes everything right.
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { kindsCluster, MIXED, NONE, Random, simulate, truth } from "../simulator/index.ts";
import type { TruthOptions } from "../simulator/index.ts";
import { dirqTool } from "../support/dirq-tool.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { bundledCli, gap, leastSettings, recordsIn, resultOf, startCli } from "../support/run-cli.ts";
import { serveSeries } from "../support/serve-series.ts";
import { scratchDirectory } from "../support/store-script.ts";
import { isLong } from "../support/size.ts";

const MONTHS = ["2025-01", "2025-02", "2025-03"];
const cluster = kindsCluster({
  kinds: ["plain", "millicores", "crosses-month", "no-cpu-request"],
  scrapeInterval: 240,
});
const random = new Random("kills");
let server: PrometheusServer;
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let program: readonly string[];

beforeAll(async () => {
  scratch = await scratchDirectory();
  program = bundledCli(scratch.path);
  server = await serveSeries(simulate(cluster));
}, 120_000);

afterAll(async () => {
  await server.stop();
  await scratch.remove();
});

function account(cwd: string, more: Readonly<Record<string, string>> = {}): ReturnType<typeof startCli> {
  const env = leastSettings(server.url, more);
  return startCli(["account", ...gap("2025-01", "2025-04"), "--json", "--force"], { cwd, env, program });
}

/** The queue as it must be after a whole run: of each month the newest generation alone, exact. */
async function expectNewest(cwd: string, options: TruthOptions = {}): Promise<void> {
  const queue = join(cwd, "gridmeter-data/outgoing");
  const records = await recordsIn(queue, Date.now() / 1000);
  expect(records).toHaveLength(2 * MONTHS.length);
  for (const [index, month] of MONTHS.entries()) {
    const { jobs, milliCoreSeconds } = truth(cluster, month, options).get(MIXED) ?? NONE;
    const own = { year: 2025, month: index + 1, numberOfJobs: jobs };
    const wallDuration = Math.round(milliCoreSeconds / 1000);
    expect(records).toContainEqual(expect.objectContaining({ kind: "summary", ...own, wallDuration }));
    expect(records).toContainEqual(expect.objectContaining({ kind: "sync", ...own }));
  }
  // Nothing half-written is left, and no lock but ssmsend's own. (Of a run killed while it puts up its own lock's file, that file
  // is left for an hour; nobody looks at it.)
  const files = await readdir(queue, { recursive: true });
  expect(files.filter((name) => /\.(tmp|lck)$|\.gridmeter\/(?!new-)./.test(name))).toEqual([]);
}

describe("SIGKILL at random instants", () => {
  test.each(isLong ? [1, 2, 3, 4] : [2])(
    "round %i: five kills, then a whole run",
    async (round) => {
      const cwd = join(scratch.path, `round-${round}`);
      await mkdir(cwd);
      // Odd rounds begin with nothing at all, even ones with days that are settled and a month that was published.
      const firstCode = round % 2 === 0 ? (await account(cwd).ended).code : 0;
      expect(firstCode).toBe(0);
      let reached = 0;
      for (let kill = 0; kill < 5; kill += 1) {
        const started = performance.now();
        const { child, ended } = account(cwd);
        // The whole of a run takes about as long as the longest one seen; the start of Node is not worth many kills.
        await Promise.race([sleep(random.int(150, 150 + Math.max(600, reached))), ended]);
        child.kill("SIGKILL");
        const { code, signal } = await ended;
        expect(signal === "SIGKILL" || code === 0).toBe(true);
        reached = Math.max(reached, performance.now() - started);
      }
      const whole = await account(cwd).ended;
      expect(whole.code).toBe(0);
      const { months, damaged } = resultOf(whole);
      expect(damaged).toEqual([]);
      expect(months.flatMap(({ units }) => units.map(({ status }) => status))).toEqual(MONTHS.map(() => "published"));
      await expectNewest(cwd);
    },
    60_000,
  );
});

test("killed while ssmsend holds an older message: the newer one waits, and comes after it", async () => {
  const cwd = join(scratch.path, "locked");
  await mkdir(cwd);
  expect((await account(cwd).ended).code).toBe(0);
  const queue = join(cwd, "gridmeter-data/outgoing");
  const names = (await readdir(queue, { recursive: true })).filter((name) => /^[0-9a-f]{8}\/[0-9a-f]{14}$/.test(name));
  expect(await dirqTool("lock", queue, ...names)).toEqual(names.map(() => true));
  // From now on there are more jobs, so that the new messages differ from the locked ones.
  const more = { DEFAULT_CORES: "1" };
  const { child, ended } = account(cwd, more);
  await sleep(random.int(200, 800));
  child.kill("SIGKILL");
  await ended;
  const waiting = await account(cwd, more).ended;
  expect(waiting.code).toBe(0);
  const statuses = resultOf(waiting).delivery.flatMap(({ messages }) => messages.map(({ status }) => status));
  expect(new Set(statuses)).toContain("waiting");
  expect(new Set(statuses)).not.toContain("delivered");
  expect(waiting.stderr).toContain("ssmsend has locked the older");
  // ssmsend sends what it locked; only then do the new ones come in.
  await dirqTool("send", queue, ...names);
  expect((await account(cwd, more).ended).code).toBe(0);
  await expectNewest(cwd, { defaultMilliCores: 1000 });
}, 60_000);
