// `gridmeter manual` as its users run it: where it looks for ledger and queue.
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { bundledCli, jsonOf, recordsIn, runCli } from "../support/run-cli.ts";
import type { CliRun } from "../support/run-cli.ts";
import { scratchDirectory } from "../support/store-script.ts";

let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let program: readonly string[];
let cwd: string;
let folders = 0;

beforeAll(async () => {
  scratch = await scratchDirectory();
  program = bundledCli(scratch.path);
}, 60_000);

beforeEach(async () => {
  cwd = join(scratch.path, `${(folders += 1)}`);
  await mkdir(cwd);
});

afterAll(() => scratch.remove());

const record = (vo: string): string =>
  `APEL-summary-job-message: v0.2\nSite: S\nMonth: 1\nYear: 2025\nVO: ${vo}\nSubmitHost: h\nServiceLevelType: si2k\nServiceLevel: 2500\n` +
  "WallDuration: 1\nCpuDuration: 1\nNumberOfJobs: 1\nProcessors: 0\nNodeCount: 0\n%%\n";
const manual = (args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<CliRun> =>
  runCli(["manual", ...args], { cwd, env, program });

test.each<[string, string[], Record<string, string>, string]>([
  ["neither", ["x.apel"], {}, "The ledger is not named"],
  ["no queue", ["x.apel", "--ledger", "there"], {}, "The queue is not named"],
  ["no ledger", ["x.apel", "--output", "there"], {}, "The ledger is not named"],
  ["empty ones", ["x.apel"], { LEDGER_PATH: "", OUTPUT_PATH: " " }, "The ledger is not named"],
  ["no ledger to unpin in", ["--unpin", "x.apel"], { OUTPUT_PATH: "there" }, "The ledger is not named"],
])("%s: exit 2, and nothing is written", async (_name, args, env, says) => {
  await writeFile(join(cwd, "x.apel"), record("a"));
  const run = await manual(args, env);
  expect({ code: run.code, stdout: run.stdout }).toEqual({ code: 2, stdout: "" });
  expect(run.stderr).toMatch(new RegExp(`usage: ${says}.*--ledger or LEDGER_PATH.*--output or OUTPUT_PATH`));
  expect(run.stderr).toContain("Nothing was sent");
  expect(await readdir(cwd)).toEqual(["x.apel"]);
});

test("-e FILE says where; what it says of the counting does not matter, a misspelt name does", async () => {
  await writeFile(join(cwd, "x.apel"), record("a"));
  await writeFile(
    join(cwd, "site.env"),
    "HERE=kept\nLEDGER_PATH=${HERE}/ledger\nOUTPUT_PATH=${HERE}/queue\nNODECOUNT=x\n",
  );
  const run = await manual(["x.apel", "-e", "site.env"]);
  expect(run.code).toBe(0);
  expect(run.stderr).toContain("1 records sent");
  expect(await recordsIn(join(cwd, "kept/queue"), Date.now() / 1000)).toMatchObject([{ kind: "summary", vo: "a" }]);
  const lifted = await manual(["--unpin", "x.apel", "--json"], { LEDGER_PATH: "kept/ledger" });
  expect(jsonOf(lifted)).toMatchObject({ units: [{ left: 0 }] });
  await writeFile(join(cwd, "site.env"), "LEDGER_PAHT=kept/ledger\nOUTPUT_PATH=kept/queue\n");
  const refused = await manual(["x.apel", "-e", "site.env"]);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain("LEDGER_PAHT: is no setting; did you mean LEDGER_PATH?");
  expect((await readdir(cwd)).sort()).toEqual(["kept", "site.env", "x.apel"]);
});
