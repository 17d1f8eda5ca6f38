// The accounting's own metrics: the real Pushgateway and promtool, and the command line as its users run it.
import { spawnSync } from "node:child_process";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { monthOf } from "../../lib/accounting/model/time.ts";
import { demoCluster, simulate } from "../simulator/index.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { type PushgatewayServer, startPushgateway } from "../support/pushgateway-server.ts";
import { type CliRun, bundledCli, leastSettings, resultOf, runCli } from "../support/run-cli.ts";
import { serveSeries } from "../support/serve-series.ts";
import { scratchDirectory } from "../support/store-script.ts";

const DAY = 86_400;
const real = new Date();
const now = Date.UTC(real.getUTCFullYear(), real.getUTCMonth() - 1, 16, 9, 41, 7) / 1000;
const CLOCK = fileURLToPath(new URL("../support/shifted-clock.ts", import.meta.url));
const demo = demoCluster({ now, namespace: "grid", rounds: 1, scrapeInterval: 120 });
/** Of the previous month a whole day was not seen; the current one is good. */
const lostDay = demo.from + 12 * DAY;
const cluster = {
  ...demo,
  outages: [...demo.outages, { from: lostDay - 3600, to: lostDay + DAY + 3600, kind: "absent" as const }],
};

let server: PrometheusServer;
let gateway: PushgatewayServer;
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let program: readonly string[];
let cwd: string;
let folders = 0;

beforeAll(async () => {
  scratch = await scratchDirectory();
  const [node = "", cli = ""] = bundledCli(scratch.path);
  program = [node, "--import", CLOCK, cli];
  await writeFile(join(scratch.path, "clock"), `${now - Math.floor(real.getTime() / 1000)}`);
  [server, gateway] = await Promise.all([serveSeries(simulate(cluster)), startPushgateway()]);
}, 180_000);

beforeEach(async () => {
  cwd = join(scratch.path, `${(folders += 1)}`);
  await mkdir(cwd);
});

afterAll(async () => {
  await gateway.stop();
  await server.stop();
  await scratch.remove();
});

function account(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<CliRun> {
  const settings = leastSettings(server.url, { NAMESPACE: "grid", SUBMIT_HOST: "k8s.example.org/grid", ...env });
  return runCli(["account", ...args], {
    cwd,
    env: { ...settings, SHIFTED_CLOCK: join(scratch.path, "clock") },
    program,
  });
}

/** The values of a metric by period (or queue), in a text. */
function valuesOf(text: string, name: string): Readonly<Record<string, number>> {
  const lines = text.split("\n").filter((line) => line.startsWith(`gridmeter_accounting_${name}{`));
  return Object.fromEntries(
    lines.map((line) => [/(?:period|queue)="([^"]*)"/.exec(line)?.[1] ?? "", Number(line.split(" ").at(-1))]),
  );
}

test("are on the Pushgateway and in the file, the same figures; a refused month has no success", async () => {
  const file = join(cwd, "gridmeter.prom");
  const run = await account(["--pushgateway", gateway.url, "--metrics-file", file, "--json"]);
  expect(run.code).toBe(3);
  const result = resultOf(run);
  const [previous, current] = result.months;
  for (const text of [await gateway.metrics(), await readFile(file, "utf8")]) {
    expect(valuesOf(text, "jobs")).toEqual({
      previous: previous?.tenants[0]?.jobs,
      current: current?.tenants[0]?.jobs,
    });
    expect(valuesOf(text, "refused")).toEqual({ previous: 1, current: 0 });
    expect(valuesOf(text, "failed")).toEqual({ previous: 0, current: 0 });
    expect(Object.keys(valuesOf(text, "last_success_timestamp_seconds"))).toEqual(["current"]);
    const seconds = valuesOf(text, "core_seconds");
    expect(seconds["current"]).toBeCloseTo((current?.tenants[0]?.coreHours ?? 0) * 3600, 2);
    // The day that was not seen, and what the simulator leaves out besides.
    expect(valuesOf(text, "gap_seconds")["previous"]).toBeGreaterThan(DAY);
    expect(valuesOf(text, "month_timestamp_seconds")["current"]).toBe(
      Date.parse(`${monthOf(now)}-01T00:00:00Z`) / 1000,
    );
    expect(valuesOf(text, "unsent_messages")).toEqual({ "dirq:./gridmeter-data/outgoing": 2 });
  }
  expect(previous?.tenants[0]?.gaps.length).toBeGreaterThan(0);
  const { stdout, stderr } = spawnSync("/usr/bin/promtool", ["check", "metrics"], {
    input: await readFile(file),
    encoding: "utf8",
  });
  // A number of days, which promtool takes for a duration.
  expect(`${stdout}${stderr}`.trim().split("\n")).toEqual([
    expect.stringMatching(/^gridmeter_accounting_days_asked use base unit/),
  ]);
  expect(await readdir(cwd)).toEqual(expect.arrayContaining(["gridmeter-data", "gridmeter.prom"]));
  expect(await readdir(cwd)).toHaveLength(2);
});

test("say how long a message has been waiting that nobody sends", async () => {
  const file = join(cwd, "gridmeter.prom");
  const since = ["--mode", "auto", "--metrics-file", file];
  const env = { ACCOUNTING_SINCE: `${monthOf(now)}-01` };
  expect((await account(since, env)).code).toBe(0);
  expect(
    valuesOf(await readFile(file, "utf8"), "unsent_oldest_age_seconds")["dirq:./gridmeter-data/outgoing"],
  ).toBeLessThan(600);
  const clock = join(scratch.path, "clock");
  const shift = Number(await readFile(clock, "utf8"));
  await writeFile(clock, `${shift + 3 * 3600}`);
  try {
    expect((await account(since, env)).code).toBe(0);
  } finally {
    await writeFile(clock, `${shift}`);
  }
  const age = valuesOf(await readFile(file, "utf8"), "unsent_oldest_age_seconds")["dirq:./gridmeter-data/outgoing"];
  expect(age).toBeGreaterThanOrEqual(3 * 3600);
  expect(age).toBeLessThan(4 * 3600);
});

test("a run that cannot ask leaves the last success and says that it failed", async () => {
  const file = join(cwd, "gridmeter.prom");
  const env = { ACCOUNTING_SINCE: `${monthOf(now)}-01` };
  expect((await account(["--metrics-file", file], env)).code).toBe(0);
  const before = valuesOf(await readFile(file, "utf8"), "last_success_timestamp_seconds");
  const down = await account(["--metrics-file", file], { ...env, PROMETHEUS_SERVER: "http://127.0.0.1:9" });
  expect(down.code).toBe(4);
  const after = await readFile(file, "utf8");
  expect(valuesOf(after, "last_success_timestamp_seconds")["current"]).toBe(before["current"]);
  expect(valuesOf(after, "failed")["current"]).toBe(1);
});

test("a gateway that is away and a file that is another's are warned of, and fail no run", async () => {
  const file = join(cwd, "node.prom");
  await writeFile(file, "node_load1 3\n");
  const run = await account(["--pushgateway", "http://127.0.0.1:9", "--metrics-file", file], {
    ACCOUNTING_SINCE: `${monthOf(now)}-01`,
  });
  expect(run.code).toBe(0);
  expect(run.stderr).toContain("the run's own metrics were not pushed");
  expect(run.stderr).toMatch(/not written into METRICS_FILE .*node\.prom.*left as it is/);
  expect(await readFile(file, "utf8")).toBe("node_load1 3\n");
});

test("a dry run publishes none", async () => {
  const file = join(cwd, "gridmeter.prom");
  expect((await account(["--dry-run", "--metrics-file", file])).code).toBe(3);
  expect(await readdir(cwd)).toEqual([]);
});

test.for([
  ["--pushgateway", "gateway:9091", /PUSHGATEWAY_URL \(--pushgateway\).*gateway:9091/],
  ["--metrics-file", "", /--metrics-file is empty/],
] as const)("%s %s is refused before anything is asked", async ([option, value, message]) => {
  const run = await account([option, value]);
  expect(run.code).toBe(2);
  expect(run.stderr).toMatch(message);
});
