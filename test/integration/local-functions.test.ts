// The serverless block of README.md as a newcomer runs it: the settings of .env.local.example, a Prometheus with the demo's
// data, and `serverless invoke local` with an event whose period is relative to now.
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { addMonths, monthOf } from "../../lib/accounting/model/time.ts";
import { demoCluster, simulate, truth } from "../simulator/index.ts";
import { copyProject } from "../support/deployment.ts";
import type { Deployment } from "../support/deployment.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { serveSeries } from "../support/serve-series.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const EVENT = "events/previous-month-dry-run.json";
const cluster = demoCluster({
  now: Math.floor(Date.now() / 1000),
  namespace: "grid",
  rounds: 1,
  scrapeInterval: 120,
});
let project: Deployment;
let prometheus: PrometheusServer;

beforeAll(async () => {
  [project, prometheus] = await Promise.all([copyProject(), serveSeries(simulate(cluster))]);
  const example = await readFile(join(ROOT, ".env.local.example"), "utf8");
  // The demo's port may be taken on a machine that runs several tests.
  const own = example.replace("http://127.0.0.1:19090", prometheus.url);
  expect(own).not.toBe(example);
  await writeFile(join(project.folder, ".env.local"), own);
}, 180_000);

afterAll(async () => {
  await prometheus.stop();
  await project.remove();
});

test("README.md names the example, the event and the port on which the demo keeps its Prometheus", async () => {
  const readme = await readFile(join(ROOT, "README.md"), "utf8");
  for (const part of ["npm run demo -- --keep", "cp .env.local.example .env.local", `--path ${EVENT}`])
    expect(readme).toContain(part);
  expect(await readFile(join(ROOT, "scripts/demo.ts"), "utf8")).toMatch(/KEPT_PORT = 19090;/);
});

test("the previous month's messages, with nothing but the example's settings", { timeout: 60_000 }, async () => {
  const before = addMonths(monthOf(Date.now() / 1000), -1);
  const local = await project.run("serverless", ["invoke", "local", "-f", "plan", "--path", EVENT]);
  const month = addMonths(monthOf(Date.now() / 1000), -1);
  // At the turn of a month the answer may be of either.
  expect(local.output).toContain('"dryRun": true');
  expect(local.code).toBe(0);
  const counted = [...new Set([before, month])].map((each) => truth(cluster, each).get("grid")?.jobs ?? 0);
  const jobs = Number(/APEL-sync-message: v0\.1[^"]*NumberOfJobs: (\d+)/.exec(local.stdout)?.[1]);
  expect(counted).toContain(jobs);
  expect(jobs).toBeGreaterThan(10);
});

test("an error has its class' name and a summary, where osls shows the name of the constructor", async () => {
  const wrong = ["invoke", "local", "-f", "plan", "--data", '{"mode":"gap"}'];
  const { code, stdout } = await project.run("serverless", wrong);
  expect(code).toBe(1);
  const shown: unknown = JSON.parse(/^\{\n[^]*^\}$/m.exec(stdout)?.[0] ?? "null");
  expect(shown).toMatchObject({
    errorType: "GridmeterError",
    errorMessage: expect.stringContaining("Nothing was put on the queue.") as string,
    stackTrace: [expect.stringContaining("GridmeterError: period_invalid: ")],
  });
});
