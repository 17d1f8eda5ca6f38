// The same data, published through directories and through a bucket: what ssmsend reads is the same, byte for byte.
import { GetQueueAttributesCommand } from "@aws-sdk/client-sqs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { S3Store } from "../../lib/accounting/store/s3.ts";
import { kindsCluster, simulate } from "../simulator/index.ts";
import { summaryBody, unit } from "../support/dirq-messages.ts";
import { dirqTool } from "../support/dirq-tool.ts";
import { startMoto } from "../support/moto.ts";
import type { Moto } from "../support/moto.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { bundledCli, gap, jsonOf, leastSettings, resultOf, runCli, treeOf } from "../support/run-cli.ts";
import type { CliRun } from "../support/run-cli.ts";
import { serveSeries } from "../support/serve-series.ts";
import { scratchDirectory } from "../support/store-script.ts";

let server: PrometheusServer;
let moto: Moto;
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let program: readonly string[];
/** what `gridmeter account` puts into a dirq, with its ledger in a directory */
let expected: readonly string[];

beforeAll(async () => {
  scratch = await scratchDirectory();
  program = bundledCli(scratch.path);
  moto = await startMoto();
  server = await serveSeries(
    simulate(kindsCluster({ kinds: ["plain", "millicores", "crosses-month"], scrapeInterval: 300 })),
  );
  const tenants = ["mixed", "kind-plain"].map((NAMESPACE) => ({
    name: NAMESPACE,
    NAMESPACE,
    SUBMIT_HOST: `host:6443/${NAMESPACE}`,
  }));
  await writeFile(join(scratch.path, "tenants.json"), JSON.stringify({ tenants }));
  const run = await account("--output", queueOf("reference"), "--ledger", join(scratch.path, "ledger"));
  expected = await bodiesIn("reference");
  // Two units in three months, each with a summary and a sync.
  if (run.code !== 0 || expected.length !== 12) throw new Error(`exit ${String(run.code)}: ${run.stderr}`);
}, 240_000);
afterAll(async () => {
  await server.stop();
  await moto.stop();
  await scratch.remove();
});

let bucket: string;
let url: string;
let s3Place: string;
let store: S3Store;
let cwd: string;
beforeEach(async () => {
  bucket = await moto.bucket();
  url = await moto.queue({ fifo: true });
  s3Place = `s3://${bucket}/apel`;
  store = new S3Store({ client: moto.s3, bucket, prefix: "apel" });
  cwd = join(scratch.path, bucket);
  await mkdir(cwd);
});

const queueOf = (name: string) => `dirq:${join(scratch.path, name)}`;
const bodiesIn = async (name: string) =>
  z
    .array(z.string())
    .parse(await dirqTool("read", join(scratch.path, name)))
    .toSorted();

async function cli(...args: string[]): Promise<CliRun> {
  const env = leastSettings(server.url, { TENANTS_FILE: join(scratch.path, "tenants.json"), ...moto.env() });
  return runCli(args, { cwd: cwd ?? scratch.path, program, env });
}
const account = (...more: string[]) => cli("account", ...gap("2025-01", "2025-04"), "--json", ...more);
const spool = (name: string, ...more: string[]) =>
  cli("spool", "--once", "--source", s3Place, "--output", queueOf(name), ...more);

async function waiting(): Promise<number> {
  const AttributeNames = ["ApproximateNumberOfMessages" as const];
  const { Attributes = {} } = await moto.sqs.send(new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames }));
  return Number(Attributes[AttributeNames[0]!]);
}

describe("the same messages", () => {
  test("ledger, state and messages in a bucket, the queue tells of them", async () => {
    const run = await account("--output", s3Place, "--queue", url, "--ledger", s3Place);
    expect(run.code).toBe(0);
    expect(jsonOf(run)).toMatchObject({ queue: s3Place, delivery: [] });
    // Nothing stays on this host.
    expect(await treeOf(cwd)).toEqual([]);
    const keys = await store.list("");
    expect(keys.filter((key) => key.startsWith("outgoing/"))).toHaveLength(expected.length);
    expect(keys.filter((key) => key.startsWith("state/"))).toHaveLength(6);
    expect(keys.some((key) => key.startsWith("ledger/"))).toBe(true);
    expect(await waiting()).toBe(expected.length);

    expect((await spool("all", "--queue", url)).code).toBe(0);
    expect(await bodiesIn("all")).toEqual(expected);
    expect(await waiting()).toBe(0);
    expect(await store.list("outgoing/")).toEqual([]);

    const again = await account("--output", s3Place, "--queue", url, "--ledger", s3Place);
    const units = resultOf(again).months.flatMap((month) => month.units);
    expect(units.map(({ status }) => status)).toEqual(units.map(() => "unchanged"));
    expect(await store.list("outgoing/")).toEqual([]);
    expect(await waiting()).toBe(0);
  });

  test("ledger and state in a directory, messages in a bucket, no queue", async () => {
    const run = await account("--output", s3Place, "--ledger", join(cwd, "ledger"));
    expect(run.code).toBe(0);
    expect(run.stderr).toContain(`${expected.length} messages are in ${s3Place}`);
    expect((await treeOf(cwd)).filter((line) => /outgoing|spooled/.test(line))).toEqual([]);
    const keys = await store.list("");
    expect(keys.filter((key) => !key.startsWith("outgoing/"))).toEqual([]);
    expect((await spool("swept")).code).toBe(0);
    expect(await bodiesIn("swept")).toEqual(expected);
  });

  test("ledger and state in a bucket, messages straight into a dirq", async () => {
    const run = await account("--output", queueOf("straight"), "--ledger", s3Place);
    expect(run.code).toBe(0);
    expect(await bodiesIn("straight")).toEqual(expected);
    expect(await treeOf(cwd)).toEqual([]);
    expect(await store.list("outgoing/")).toEqual([]);
  });

  test("no ledger, messages in a bucket", async () => {
    expect((await account("--output", s3Place, "--queue", url, "--ledger", "none")).code).toBe(0);
    expect((await spool("one-off", "--queue", url)).code).toBe(0);
    expect(await bodiesIn("one-off")).toEqual(expected);
  });
});

test("--dry-run writes nothing and rings for nothing, and prints the messages", async () => {
  const run = await cli(
    "account",
    ...gap("2025-01", "2025-04"),
    "--dry-run",
    "--output",
    s3Place,
    "--queue",
    url,
    "--ledger",
    s3Place,
  );
  expect(run.code).toBe(0);
  expect(await store.list("")).toEqual([]);
  expect(await waiting()).toBe(0);
  for (const body of expected) expect(run.stdout).toContain(body);
});

test("a queue that cannot be told: exit 4, it is said, and the sweep finds the messages all the same", async () => {
  const run = await account("--output", s3Place, "--queue", `${url.slice(0, -5)}-none.fifo`, "--ledger", s3Place);
  expect(run.code).toBe(4);
  expect(jsonOf(run)).toMatchObject({
    exitCode: 4,
    errors: [{ code: "queue_failed", message: expect.stringMatching(/sweep finds them.*Create the queue/) }],
  });
  expect((await spool("untold")).code).toBe(0);
  expect(await bodiesIn("untold")).toEqual(expected);
});

test("plan reads a ledger in a bucket and writes nothing", async () => {
  const run = await cli("plan", ...gap("2025-01", "2025-02"), "--ledger", s3Place);
  expect(run.code).toBe(0);
  expect(run.stdout).toContain("never published");
  expect(await store.list("")).toEqual([]);
});

describe("bad places: exit 2, and nothing is published", () => {
  test.each([
    [["--queue", "https://sqs.example.org/1/q"], "goes with --output s3://"],
    [["--output", "s3://b", "--queue", "https://sqs.example.org/1/q"], "s3://BUCKET/PREFIX"],
    [["--output", "s3://bucket/x", "--queue", "q"], "is no queue's URL"],
    [["--ledger", "s3://bucket//x"], "single slashes"],
  ])("%j", async (args, text) => {
    const run = await account(...args);
    expect(run.code).toBe(2);
    expect(run.stderr).toContain(text);
    expect(await treeOf(cwd)).toEqual([]);
  });

  test("an encryption that is none", async () => {
    const env = leastSettings(server.url, { ...moto.env(), S3_SSE: "rot13" });
    const run = await runCli(["account", "--output", s3Place, "--ledger", s3Place], { cwd, program, env });
    expect(run.code).toBe(2);
    expect(run.stderr).toContain('S3_SSE="rot13" is neither AES256 nor aws:kms');
  });
});

test("hand-written records go the same way", async () => {
  const file = join(cwd, "manual.txt");
  const body = summaryBody(unit, 3);
  await writeFile(file, body);
  const run = await cli("manual", file, "--json", "--output", s3Place, "--queue", url, "--ledger", s3Place);
  expect(run.code).toBe(0);
  expect(await waiting()).toBe(1);
  expect((await cli("manual", file, "--output", queueOf("manual"), "--ledger", join(cwd, "ledger"))).code).toBe(0);
  expect((await spool("manual-s3", "--queue", url)).code).toBe(0);
  expect(await bodiesIn("manual-s3")).toEqual(await bodiesIn("manual"));
  expect(await bodiesIn("manual-s3")).toHaveLength(1);
  await cli("manual", file, "--output", s3Place, "--queue", url, "--ledger", s3Place);
  expect(await waiting()).toBe(0);
});
