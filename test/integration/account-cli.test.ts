// The command line as its users run it: the default auto mode, over a Prometheus whose data ends now.
import { cp, mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { endOfDay } from "../../lib/accounting/model/time.ts";
import { demoCluster, NONE, simulate, truth } from "../simulator/index.ts";
import type { Figures } from "../simulator/index.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import {
  bundledCli,
  jsonOf,
  leastSettings,
  messagesIn,
  recordsIn,
  resultOf,
  runCli,
  treeOf,
} from "../support/run-cli.ts";
import type { AccountResult, CliRun } from "../support/run-cli.ts";
import { serveSeries } from "../support/serve-series.ts";
import { scratchDirectory } from "../support/store-script.ts";
import { longestRange, startWatchProxy } from "../support/watch-proxy.ts";
import type { WatchProxy } from "../support/watch-proxy.ts";

const DAY = 86_400;
// On the first days of a month the month before is open as well, so all that follows takes place in the middle of the last one.
const real = new Date();
const now = Date.UTC(real.getUTCFullYear(), real.getUTCMonth() - 1, 16, 9, 41, 7) / 1000;
const CLOCK = fileURLToPath(new URL("../support/shifted-clock.ts", import.meta.url));
const demo = demoCluster({ now, namespace: "grid", rounds: 1, scrapeInterval: 120 });
// Watched without a gap for longer than a month, so that `check` finds nothing to say.
const cluster = { ...demo, from: demo.from - 40 * DAY, outages: [] };
let server: PrometheusServer;
let proxy: WatchProxy;
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let program: readonly string[];
/** where the first run left its ledger and its queue, and that run; tests that need one before them start from a copy */
let base: string;
let first: CliRun;
let askedAtFirst: number;
let cwd: string;
let folders = 0;

beforeAll(async () => {
  scratch = await scratchDirectory();
  const [node = "", cli = ""] = bundledCli(scratch.path);
  program = [node, "--import", CLOCK, cli];
  await writeFile(join(scratch.path, "clock"), `${now - Math.floor(real.getTime() / 1000)}`);
  server = await serveSeries(simulate(cluster));
  proxy = await startWatchProxy(server.url);
  base = join(scratch.path, "base");
  await mkdir(base);
  cwd = base;
  first = await gridmeter(["account", "--json"]);
  askedAtFirst = proxy.requests.length;
}, 180_000);

beforeEach(async () => {
  cwd = join(scratch.path, `${(folders += 1)}`);
  await mkdir(cwd);
  proxy.requests.length = 0;
});

afterAll(async () => {
  await proxy.stop();
  await server.stop();
  await scratch.remove();
});

const afterFirst = (): Promise<void> => cp(base, cwd, { recursive: true });
const SUBMIT_HOST = "k8s.example.org:6443/grid";

function gridmeter(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<CliRun> {
  const settings = leastSettings(proxy.url, { NAMESPACE: "grid", SUBMIT_HOST, ...env });
  return runCli(args, { cwd, env: { ...settings, SHIFTED_CLOCK: join(scratch.path, "clock") }, program });
}

const queue = (): string => join(cwd, "gridmeter-data/outgoing");
const statusOf = (result: AccountResult): string[] =>
  result.months.flatMap(({ units }) => units.map(({ status }) => status));
const figuresOf = (month: string): Figures => truth(cluster, month).get("grid") ?? NONE;

/** What must be in the queue: of every month its summary, if there is a job in it, and its sync record. */
function recordsOf({ months }: AccountResult): object[] {
  return months.flatMap(({ month }): object[] => {
    const { jobs, milliCoreSeconds, firstEnd, lastEnd } = figuresOf(month);
    const seconds = Math.round(milliCoreSeconds / 1000);
    const own = { year: Number(month.slice(0, 4)), month: Number(month.slice(5)), numberOfJobs: jobs };
    const usage = { wallDuration: seconds, cpuDuration: seconds, earliestEndTime: firstEnd, latestEndTime: lastEnd };
    return [...(jobs === 0 ? [] : [{ kind: "summary", ...own, ...usage }]), { kind: "sync", ...own }];
  });
}

/** The queue's records with the fields of `recordsOf`, in its order. */
async function queued(): Promise<object[]> {
  const records = await recordsIn(queue(), Date.now() / 1000);
  const monthly = records.flatMap((record) => (record.kind === "summary" || record.kind === "sync" ? [record] : []));
  expect(monthly).toHaveLength(records.length);
  return monthly
    .toSorted((a, b) => a.year - b.year || a.month - b.month || a.kind.localeCompare(b.kind))
    .map((record) => {
      const own = { year: record.year, month: record.month, numberOfJobs: record.numberOfJobs };
      if (record.kind === "sync") return { kind: record.kind, ...own };
      const { wallDuration, cpuDuration, earliestEndTime, latestEndTime } = record;
      return { kind: record.kind, ...own, wallDuration, cpuDuration, earliestEndTime, latestEndTime };
    });
}

test("auto publishes the previous and the current month up to now", async () => {
  await afterFirst();
  expect(first.code).toBe(0);
  const result = resultOf(first);
  expect(result).toMatchObject({ exitCode: 0, dryRun: false, queue: "dirq:./gridmeter-data/outgoing" });
  expect(statusOf(result)).toEqual(["published", "published"]);
  for (const { month, tenants } of result.months) {
    const { jobs, leftOut } = figuresOf(month);
    expect(tenants[0]).toMatchObject({ tenant: "grid", jobs, leftOut });
  }
  expect(await queued()).toEqual(recordsOf(result));
  expect(recordsOf(result).length).toBeGreaterThanOrEqual(3);
});

test("a table of the months on stdout, all else on stderr", async () => {
  const run = await gridmeter(["account"]);
  expect(run.code).toBe(0);
  const [header, ...rows] = run.stdout.split("\n").filter((line) => line.startsWith("│"));
  expect(header).toMatch(/month.*tenant.*jobs.*core hours.*first end.*last end.*left out.*status/);
  expect(rows.join("\n")).toMatch(/no_cpu_request \d/);
  expect(run.stdout).toMatch(/no_end \d/);
  expect(run.stdout).not.toContain("messages are in");
  expect(run.stderr).toContain("messages are in dirq:./gridmeter-data/outgoing");
});

describe("a second run right after", () => {
  test("says unchanged, adds nothing to the queue, and asks only for the days that are not settled", async () => {
    await afterFirst();
    const before = await treeOf(queue());
    const second = resultOf(await gridmeter(["account", "--json"]));
    expect(statusOf(second)).toEqual(["unchanged", "unchanged"]);
    expect(second.delivery).toEqual([]);
    expect(await treeOf(queue())).toEqual(before);

    const open = second.months.reduce((sum, { tenants }) => sum + (tenants[0]?.days.open ?? 0), 0);
    expect(open).toBeLessThanOrEqual(2);
    expect(resultOf(first).asked.days).toBeGreaterThan(27);
    expect(second.asked.days).toBe(open);
    expect(proxy.requests.length).toBeLessThan(askedAtFirst / 2);
    // No query reaches back to before the day before yesterday's end, but for the five minutes that clocks may differ.
    const settled = endOfDay(new Date((now - 2 * DAY) * 1000).toISOString().slice(0, 10));
    const facts = proxy.requests.filter(({ path }) => path === "/api/v1/query");
    expect(facts.length).toBeGreaterThan(0);
    for (const { form } of facts) {
      const from = Number(form.get("time")) - longestRange(form.get("query") ?? "");
      expect(from).toBeGreaterThanOrEqual(settled - 300);
    }
  });

  test("--recount asks for every day again; --force publishes again, and the queue holds the newest only", async () => {
    await afterFirst();
    const recount = resultOf(await gridmeter(["account", "--json", "--recount"]));
    expect(recount.asked.days).toBe(resultOf(first).asked.days);
    expect(statusOf(recount)).toEqual(["unchanged", "unchanged"]);
    const records = await recordsIn(queue(), Date.now() / 1000);
    const forced = resultOf(await gridmeter(["account", "--json", "--force"]));
    expect(forced.months.map(({ units }) => units[0])).toMatchObject([
      { status: "published", why: "again", generation: 2 },
      { status: "published", why: "again", generation: 2 },
    ]);
    const after = await recordsIn(queue(), Date.now() / 1000);
    expect(after).toHaveLength(records.length);
    expect(after).toEqual(expect.arrayContaining(records));
  });

  test("another benchmark: the old rows go out as zeros in the same file", async () => {
    await afterFirst();
    expect((await gridmeter(["account"], { BENCHMARK_VALUE: "12" })).code).toBe(0);
    const summaries = (await recordsIn(queue(), Date.now() / 1000)).filter((record) => record.kind === "summary");
    const values = summaries.map(({ serviceLevel, numberOfJobs }) => [serviceLevel.value, numberOfJobs > 0]);
    expect(values).toContainEqual([3000, true]);
    expect(values).toContainEqual([2500, false]);
    expect(values).not.toContainEqual([2500, true]);
  });
});

describe("--dry-run writes nothing at all", () => {
  test("in an empty directory: it prints every message", async () => {
    const run = await gridmeter(["account", "--dry-run"]);
    expect(run.code).toBe(0);
    expect(await treeOf(cwd)).toEqual([]);
    expect(run.stdout).toContain("would publish (new)");
    expect(run.stdout).not.toContain("│ published");
    expect(run.stdout).toContain("Would be published:");
    expect(run.stdout.match(/^APEL-summary-job-message: v0\.2$/gm)?.length).toBeGreaterThanOrEqual(1);
    expect(run.stdout.match(/^APEL-sync-message: v0\.1$/gm)).toHaveLength(2);
    // What it prints is what the real run puts into the queue.
    await afterFirst();
    const names = (await treeOf(queue())).flatMap((line) => /^[0-9a-f]{8}\/[0-9a-f]{14}(?= )/.exec(line)?.[0] ?? []);
    for (const name of names) expect(run.stdout).toContain(await readFile(join(queue(), name), "utf8"));
  });

  test("beside a ledger and a queue: not a byte changes", async () => {
    await afterFirst();
    const before = await treeOf(cwd);
    const forced = await gridmeter(["account", "--dry-run", "--force", "--recount", "--json"]);
    const result = resultOf(forced);
    expect(result).toMatchObject({ dryRun: true, delivery: [], exitCode: 0 });
    expect(statusOf(result)).toEqual(["would_publish", "would_publish"]);
    expect([...(result.months[0]?.units[0]?.messages ?? [])].join("")).toContain("APEL-sync-message: v0.1");
    const unchanged = await gridmeter(["account", "--dry-run"]);
    expect(unchanged.stdout).toContain("Nothing would be published.");
    expect(await treeOf(cwd)).toEqual(before);
  });
});

test("--ledger none remembers nothing, and says so on stderr", async () => {
  const run = await gridmeter(["account", "--ledger", "none", "--json"]);
  expect(run.code).toBe(0);
  expect(run.stderr).toContain("--ledger none: this run remembers nothing");
  expect(statusOf(resultOf(run))).toEqual(["published", "published"]);
  expect(await readdir(join(cwd, "gridmeter-data"))).toEqual(["outgoing"]);
  const again = await gridmeter(["account", "--ledger", "none", "--json"]);
  expect(statusOf(resultOf(again))).toEqual(["published", "published"]);
  expect(await queued()).toEqual(recordsOf(resultOf(run)));
});

test.each([
  ["a bare path is a dirq", "there/queue", /^[0-9a-f]{8}\/[0-9a-f]{14} /],
  ["dirq:DIR", "dirq:there/queue", /^[0-9a-f]{8}\/[0-9a-f]{14} /],
  ["dir:DIR is a flat directory", "dir:there/queue", /^[0-9a-f]{14} /],
])("--output: %s", async (_name, output, file) => {
  const run = await gridmeter(["account", "--output", output, "--ledger", "here/ledger"]);
  expect(run.code).toBe(0);
  const lines = await treeOf(join(cwd, "there/queue"));
  expect(lines.filter((line) => file.test(line)).length).toBeGreaterThanOrEqual(3);
  expect((await readdir(cwd)).sort()).toEqual(["here", "there"]);
});

test("-e FILE: its settings, its paths beside it; the environment wins over it", async () => {
  await mkdir(join(cwd, "etc"));
  const file = join(cwd, "etc/site.env");
  const lines = Object.entries(leastSettings(proxy.url, { NAMESPACE: "grid", SITE_NAME: "FROM-FILE" }));
  await writeFile(
    file,
    `${lines.map(([name, value]) => `${name}="${value}"`).join("\n")}\nTENANTS_FILE=tenants.yaml\n`,
  );
  await writeFile(join(cwd, "etc/tenants.yaml"), "tenants:\n  - name: one\n    NAMESPACE: grid\n    VO_NAME: team\n");
  const run = await runCli(["account", "-e", "etc/site.env", "--json"], {
    cwd,
    env: { SUBMIT_HOST: "from-env", SHIFTED_CLOCK: join(scratch.path, "clock") },
    program,
  });
  expect(run.code).toBe(0);
  const [unit] = resultOf(run).months[0]?.units ?? [];
  expect(unit).toMatchObject({ site: "FROM-FILE", submitHost: "from-env", tenants: ["one"], status: "published" });
  expect([...(unit?.messages ?? [])].join("")).toContain("VO: team");
});

test("LEDGER_PATH names the ledger, a relative one in the working directory, and plan reads the same", async () => {
  await mkdir(join(cwd, "etc"));
  await writeFile(join(cwd, "etc/site.env"), "ROOT=kept\nLEDGER_PATH=${ROOT}/ledger\nOUTPUT_PATH=kept/queue\n");
  expect((await gridmeter(["account", "-e", "etc/site.env"])).code).toBe(0);
  expect(await readdir(cwd)).toEqual(["etc", "kept"]);
  expect((await readdir(join(cwd, "kept"))).sort()).toEqual(["ledger", "queue"]);
  const planned = await gridmeter(["plan", "-e", "etc/site.env"]);
  expect(planned.stdout).toMatch(/last published .* jobs in the sync record/);
  expect((await gridmeter(["plan", "-e", "etc/site.env", "--ledger", "none"])).stdout).toContain("never published");
});

test("--tenant counts one; the others' figures come from the ledger, or their months are refused", async () => {
  await writeFile(
    join(cwd, "tenants.json"),
    JSON.stringify({ tenants: ["grid", "gri"].map((name) => ({ name, NAMESPACE: name, VO_NAME: name })) }),
  );
  const env = { TENANTS_FILE: "tenants.json" };
  const refused = await gridmeter(["account", "--tenant", "grid", "--json"], env);
  expect(refused.code).toBe(3);
  const errors = resultOf(refused).months.flatMap(({ units }) => units.map(({ error }) => error?.code));
  expect(errors).toEqual(["ledger_incomplete", "ledger_incomplete"]);
  expect(await messagesIn(cwd)).toEqual([]);
  expect((await gridmeter(["account"], env)).code).toBe(0);
  const narrowed = resultOf(await gridmeter(["account", "--tenant", "grid", "--json"], env));
  expect(statusOf(narrowed)[0]).toBe("unchanged");
});

describe("plan", () => {
  const plan = z.object({
    months: z.array(
      z.object({
        month: z.string(),
        settled: z.array(z.string()),
        pieces: z.array(z.object({ days: z.array(z.string()), queries: z.array(z.object({ query: z.string() })) })),
      }),
    ),
    units: z.array(
      z.object({
        submitHost: z.string(),
        generation: z.number(),
        published: z.object({ sync: z.number() }).nullable(),
      }),
    ),
  });

  test("shows months, pieces, queries and what would be decided; it asks nothing and writes nothing", async () => {
    const run = await gridmeter(["plan"]);
    expect(run.code).toBe(0);
    expect(run.stdout).toMatch(
      /^\d{4}-\d\d grid: 0 days settled in the ledger\n {2}would ask for \d{4}-\d\d-01 to \d{4}-\d\d-(?:28|29|30|31)\n/,
    );
    expect(run.stdout).toContain(`would decide about EXAMPLE-SITE ${SUBMIT_HOST}`);
    expect(run.stdout).toContain("never published");
    expect(run.stdout).toContain('kube_pod_completion_time{namespace="grid",exported_namespace=""}');
    expect(proxy.requests).toEqual([]);
    expect(await treeOf(cwd)).toEqual([]);
  });

  test("after a run: the settled days, and what was published", async () => {
    await afterFirst();
    const result = resultOf(first);
    const before = await treeOf(cwd);
    const { months, units } = plan.parse(jsonOf(await gridmeter(["plan", "--json"])));
    for (const [index, { month, settled, pieces }] of months.entries()) {
      const { days, jobs } = result.months[index]!.tenants[0]!;
      expect(settled).toHaveLength(days.settled);
      expect(pieces.flatMap((piece) => piece.days)).toHaveLength(days.open);
      expect(month).toBe(result.months[index]?.month);
      expect(units[index]).toEqual({ submitHost: SUBMIT_HOST, generation: 1, published: { sync: jobs } });
    }
    expect((await gridmeter(["plan"])).stdout).toMatch(/last published .* jobs in the sync record/);
    expect(proxy.requests).toEqual([]);
    expect(await treeOf(cwd)).toEqual(before);
  });
});

describe("check", () => {
  const found = z.object({
    exitCode: z.number(),
    tenants: z.array(
      z.object({
        findings: z.array(
          z.object({
            question: z.string(),
            verdict: z.enum(["ok", "WARN", "BAD"]),
            answer: z.string(),
            remedy: z.string().optional(),
          }),
        ),
      }),
    ),
  });

  test("all is well: exit code 0, and nothing is written", async () => {
    const run = await gridmeter(["check"]);
    expect(run.stdout).not.toContain("BAD");
    expect(run.code).toBe(0);
    expect(run.stdout).toMatch(/^grid\n {2}ok {3}Is Prometheus reachable\? yes, version 2\.\d+/);
    expect(run.stdout).toContain("Is the namespace there? yes, grid");
    expect(await treeOf(cwd)).toEqual([]);
  });

  test("an unknown namespace: what is wrong, what to do, and account's exit code", async () => {
    const run = await gridmeter(["check"], { NAMESPACE: "gird" });
    expect(run.code).toBe(2);
    expect(run.stdout).toMatch(
      /WARN Is the namespace there\? no, "gird".*known are: .*grid.*\n +Set NAMESPACE to one of them/,
    );
    expect(run.stdout).toMatch(/BAD {2}Would \d{4}-\d\d be published\? no: namespace_unknown/);
    const { exitCode, tenants } = found.parse(jsonOf(await gridmeter(["check", "--json"], { NAMESPACE: "gird" })));
    expect(exitCode).toBe(2);
    const warnings = tenants[0]?.findings.filter(({ verdict }) => verdict === "WARN") ?? [];
    expect(warnings.length).toBeGreaterThan(1);
    for (const { remedy } of warnings) expect(remedy).toMatch(/\w{3}/);
    expect(tenants[0]?.findings.find(({ question }) => question.includes("last hour"))?.verdict).toBe("ok");
  });

  test("nobody there: one answer about the monitoring, and no month can be published", async () => {
    const run = await gridmeter(["check", "--json"], { PROMETHEUS_SERVER: "http://127.0.0.1:1" });
    expect(run.code).toBe(4);
    const [tenant] = found.parse(jsonOf(run)).tenants;
    const [reachable, ...months] = tenant?.findings ?? [];
    expect(reachable?.answer).toContain("prometheus_unreachable");
    expect(months.map(({ verdict }) => verdict)).toEqual(["BAD", "BAD"]);
  });
});

test("--help and --version of the program and its commands end with 0", async () => {
  for (const args of [
    ["--help"],
    ["--version"],
    ...["account", "plan", "check", "manual"].map((name) => [name, "--help"]),
  ]) {
    const { code, stdout, stderr } = await gridmeter(args);
    expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: "" });
    expect(stdout.length).toBeGreaterThan(5);
  }
  expect(await treeOf(cwd)).toEqual([]);
});
