// `gridmeter report` as a command, on the ledger of a real run in a directory and in a bucket: nothing is asked and nothing written.
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { loadSettings } from "../../lib/accounting/settings/load.ts";
import { DirectoryStore } from "../../lib/accounting/store/directory.ts";
import { S3Store } from "../../lib/accounting/store/s3.ts";
import { type Moto, startMoto } from "../support/moto.ts";
import { bundledCli, jsonOf, leastSettings, runCli, treeOf } from "../support/run-cli.ts";
import type { CliRun } from "../support/run-cli.ts";
import { scratchDirectory } from "../support/store-script.ts";
import { HOUR, World, cluster, ended } from "../unit/accounting/world.ts";

/** Nothing listens there: a command that asks anything fails. */
const ENV = leastSettings("http://127.0.0.1:9");
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let moto: Moto;
let program: readonly string[];
let ledger: string;
let bucket: string;

beforeAll(async () => {
  scratch = await scratchDirectory();
  program = bundledCli(scratch.path);
  moto = await startMoto();
  const tenants = loadSettings({ env: ENV }).tenants.map(({ tenant }) => tenant);
  const world = new World(
    cluster(
      Array.from({ length: 30 }, (_, index) =>
        ended(1_735_689_600 + index * 47 * HOUR, { in: "mixed", containers: [{ milliCores: 1000 + 500 * index }] }),
      ),
      { emptyNamespaces: ["mixed"] },
    ),
  );
  await world.run("2025-03-20", tenants, { gap: ["2025-01", "2025-03"] });
  ledger = join(scratch.path, "ledger");
  const name = await moto.bucket();
  bucket = `s3://${name}/apel`;
  const stores = [new DirectoryStore(ledger), new S3Store({ client: moto.s3, bucket: name, prefix: "apel" })];
  for (const key of await world.store.list("")) {
    const { body = "" } = (await world.store.get(key)) ?? {};
    await Promise.all(stores.map((store) => store.put(key, body)));
  }
}, 240_000);
afterAll(async () => {
  await moto.stop();
  await scratch.remove();
});

async function report(...args: string[]): Promise<CliRun> {
  const cwd = join(scratch.path, "elsewhere");
  await mkdir(cwd, { recursive: true });
  return runCli(["report", ...args], { cwd, program, env: { ...ENV, ...moto.env() } });
}
const RANGE = ["--from", "2025-01", "--to", "2025-03"];
const figures = z.object({ totals: z.looseObject({ jobs: z.number() }) });

describe("a ledger", () => {
  test("in a directory and in a bucket gives the same report, and stays as it is", async () => {
    const before = await treeOf(ledger);
    const [one, other] = [
      await report("--ledger", ledger, ...RANGE, "--json"),
      await report("--ledger", bucket, ...RANGE, "--json"),
    ];
    expect([one.code, one.stderr, other.code, other.stderr]).toEqual([0, "", 0, ""]);
    const { now: _one, ...first } = z.looseObject({ now: z.number() }).parse(jsonOf(one));
    const { now: _other, ...second } = z.looseObject({ now: z.number() }).parse(jsonOf(other));
    expect(second).toEqual(first);
    expect(figures.parse(first).totals.jobs).toBe(30);
    expect(await treeOf(ledger)).toEqual(before);
  });

  test("--csv prints one table, by month unless another is named; --html writes the page and says so", async () => {
    const csv = await report("--ledger", ledger, ...RANGE, "--csv");
    expect(csv.stdout.split("\r\n").map((line) => line.split(",").slice(0, 4).join(","))).toEqual([
      "month,tenant,vo,jobs",
      "2025-01,mixed,example.vo,16",
      "2025-02,mixed,example.vo,14",
      "",
    ]);
    expect((await report("--ledger", ledger, ...RANGE, "--csv", "units")).stdout).toMatch(
      /^month,site,submitHost,generation,/,
    );
    const file = join(scratch.path, "report.html");
    const html = await report("--ledger", ledger, ...RANGE, "--html", file);
    expect([html.code, html.stdout]).toEqual([0, ""]);
    expect(html.stderr).toContain(`the report is in ${file}`);
    expect(await readFile(file, "utf8")).toContain("<title>Accounting report of EXAMPLE-SITE</title>");
  });

  test("on a screen no line is wider than that, and a pipe gets no colour", async () => {
    const { stdout } = await runCli(["report", "--ledger", ledger, ...RANGE], {
      cwd: scratch.path,
      program,
      env: { ...ENV, COLUMNS: "80" },
    });
    expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
    expect(stdout).not.toContain("\u001B");
    expect(stdout).toContain("Counted against published");
  });
});

describe("what is wrong", () => {
  test.each([
    [["--csv", "tenant"], 'usage: --csv "tenant" is not one of'],
    [["--csv", "--json"], "--json and --csv both want stdout"],
    [["--from", "2025-13"], '--from "2025-13" is no month'],
    [["--from", "2025-03", "--to", "2025-01"], "end before they begin"],
    [["--ledger", "none"], "without a ledger there is nothing to report"],
  ])("%j", async (args, text) => {
    const run = await report(...args);
    expect(run.code).toBe(2);
    expect(run.stderr).toContain(text);
  });

  test("a page that cannot be written: exit code 4, and nothing half-written", async () => {
    const run = await report("--demo", "--html", join(scratch.path, "no-such-folder", "report.html"));
    expect(run.code).toBe(4);
    expect(run.stderr).toContain("store_failed: Cannot write");
  });

  test("an empty ledger is said to be empty", async () => {
    const run = await report("--ledger", join(scratch.path, "nothing-here"), ...RANGE);
    expect(run.code).toBe(0);
    expect(run.stderr).toContain("has no day of these months that was counted with these settings");
  });

  test("a day that is damaged is warned of, left out, and left as it is", async () => {
    const copy = join(scratch.path, "damaged");
    const store = new DirectoryStore(copy);
    await store.put("ledger/mixed/2025-02/2025-02-03.json", "{ broken");
    const before = await treeOf(copy);
    const run = await report("--ledger", copy, ...RANGE);
    expect(run.stderr).toContain("ledger/mixed/2025-02/2025-02-03.json is damaged");
    expect(await treeOf(copy)).toEqual(before);
  });
});

test("--demo needs no settings and says that it is made up", async () => {
  const cwd = scratch.path;
  const text = await runCli(["report", "--demo"], { cwd, program });
  expect([text.code, text.stderr]).toEqual([0, ""]);
  expect(text.stdout.split("\n")[0]).toBe("Demonstration: every figure is made up.");
  const { madeUp } = z
    .looseObject({ madeUp: z.boolean() })
    .parse(jsonOf(await runCli(["report", "--demo", "--json"], { cwd, program })));
  expect(madeUp).toBe(true);
});
