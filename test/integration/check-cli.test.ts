// `gridmeter check` beside `gridmeter account`: its exit code and its verdict are those of the run that it stands for.
import { cp, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { simulate } from "../simulator/index.ts";
import type { Cluster } from "../simulator/index.ts";
import { ALL_DAYS, at, BATCH, batch, jobsOn } from "../simulator/situations/batch.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { bundledCli, gap, jsonOf, leastSettings, runCli, treeOf } from "../support/run-cli.ts";
import type { CliRun } from "../support/run-cli.ts";
import { serveSeries } from "../support/serve-series.ts";
import { scratchDirectory } from "../support/store-script.ts";

const unmeasured = { containers: [{ milliCores: 2000, measured: false }] };
/** Sites side by side in one Prometheus, each under its own label `cluster`. */
const SITES: Readonly<Record<string, Cluster>> = {
  ordinary: batch(jobsOn(ALL_DAYS)),
  fewer: batch(jobsOn(ALL_DAYS.filter((day) => day % 2 === 0))),
  "two-hours-away": batch(jobsOn(ALL_DAYS), { outages: [{ from: at(10, 11), to: at(10, 13), kind: "absent" }] }),
  "a-day-away": batch(jobsOn(ALL_DAYS), { outages: [{ from: at(10), to: at(11, 1), kind: "absent" }] }),
  "some-without-requests": batch([
    ...jobsOn(ALL_DAYS),
    ...jobsOn([3, 4], { plan: (index) => ({ pod: `none-${index}`, containers: [{ measured: false }] }) }),
  ]),
  "all-without-requests": batch(jobsOn(ALL_DAYS, { plan: () => ({ containers: [{ measured: false }] }) })),
  unmeasured: batch(jobsOn(ALL_DAYS, { plan: () => unmeasured })),
};

let server: PrometheusServer;
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let program: readonly string[];
let folders = 0;

beforeAll(async () => {
  scratch = await scratchDirectory();
  program = bundledCli(scratch.path);
  const series = Object.entries(SITES).flatMap(([name, cluster]) =>
    simulate(cluster).map((one) => ({ ...one, labels: { ...one.labels, cluster: name } })),
  );
  server = await serveSeries(series);
}, 180_000);

afterAll(async () => {
  await server.stop();
  await scratch.remove();
});

type Case = {
  readonly site: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly args?: readonly string[];
  /** a run that has published before */
  readonly before?: string;
  /** the tenants file; without one there is one tenant */
  readonly tenants?: readonly Readonly<Record<string, string>>[];
};

const labels = (site: string): string => `cluster="${site}"`;

/** Both commands with the same options, each in a folder of its own, after the same run if there was one. */
async function both({ site, env = {}, args = [], before, tenants }: Case, json = false): Promise<readonly CliRun[]> {
  const folder = join(scratch.path, `${(folders += 1)}`);
  await mkdir(folder);
  const settings = leastSettings(server.url, { NAMESPACE: BATCH, PROMETHEUS_LABELS: labels(site), ...env });
  if (tenants !== undefined) {
    settings["TENANTS_FILE"] = join(folder, "tenants.json");
    await writeFile(settings["TENANTS_FILE"], JSON.stringify({ tenants }));
  }
  const run = (command: string, cwd: string, options: readonly string[], more: Record<string, string> = {}) =>
    runCli([command, ...gap("2025-01", "2025-02"), ...options], { cwd, env: { ...settings, ...more }, program });
  const first = join(folder, "first");
  await mkdir(first);
  if (before !== undefined)
    expect((await run("account", first, [], { PROMETHEUS_LABELS: labels(before) })).code).toBe(0);
  const [ours, theirs] = [join(folder, "check"), join(folder, "account")];
  await cp(first, ours, { recursive: true });
  await cp(first, theirs, { recursive: true });
  const tree = await treeOf(ours);
  const checked = await run("check", ours, [...args, ...(json ? ["--json"] : [])]);
  // It writes nothing, whatever it finds.
  expect(await treeOf(ours)).toEqual(tree);
  return [checked, await run("account", theirs, args)];
}

const linesOf = ({ stdout }: CliRun, verdict: string): readonly string[] =>
  stdout.split("\n").filter((line) => line.startsWith(`  ${verdict.padEnd(4)} `));

describe("its verdict is what account comes to", () => {
  test.each<[name: string, each: Case, code: number, bad: RegExp | undefined]>([
    ["an ordinary month", { site: "ordinary" }, 0, undefined],
    ["two hours without monitoring", { site: "two-hours-away" }, 0, undefined],
    ["a whole day without monitoring", { site: "a-day-away" }, 3, /2025-01 .*monitoring_not_seen.*2025-01-10/],
    ["the same, allowed", { site: "a-day-away", args: ["--allow-incomplete"] }, 0, undefined],
    ["pods without requests among others", { site: "some-without-requests" }, 0, undefined],
    ["no pod with a request", { site: "all-without-requests" }, 3, /2025-01 .*all_left_out.*no_cpu_request/],
    ["the same, with DEFAULT_CORES", { site: "all-without-requests", env: { DEFAULT_CORES: "1" } }, 0, undefined],
    [
      "wallclock without CPU use",
      { site: "unmeasured", env: { ACCOUNTING_MODEL: "wallclock" } },
      3,
      /cpu_data_refused/,
    ],
    ["fewer jobs than were published", { site: "fewer", before: "ordinary" }, 3, /2025-01 .*decrease/],
    ["the same, allowed", { site: "fewer", before: "ordinary", args: ["--allow-decrease"] }, 0, undefined],
    ["what was published already", { site: "ordinary", before: "ordinary" }, 0, undefined],
    ["an unknown namespace", { site: "ordinary", env: { NAMESPACE: "gird" } }, 2, /namespace_unknown/],
    ["a VO label that is nowhere", { site: "ordinary", env: { VO_LABEL: "vo" } }, 2, /vo_label_missing/],
    [
      "nobody there",
      { site: "ordinary", env: { PROMETHEUS_SERVER: "http://127.0.0.1:1" } },
      4,
      /prometheus_unreachable/,
    ],
    ["a ledger that is no folder", { site: "ordinary", args: ["--ledger", "/dev/null/ledger"] }, 4, /store_failed/],
  ])("%s", async (_name, each, code, bad) => {
    const [checked, accounted] = await both(each);
    expect([checked?.code, accounted?.code, checked?.stderr]).toEqual([code, code, expect.any(String)]);
    const found = linesOf(checked!, "BAD");
    expect(found.length > 0).toBe(bad !== undefined);
    if (bad !== undefined) expect(found.join("\n")).toMatch(bad);
  });

  test("wrong settings: nothing is asked, and both say the same", async () => {
    const [checked, accounted] = await both({ site: "ordinary", env: { NAMESPACE: "Not One", PROCESSORS: "x" } });
    expect(checked).toMatchObject({ code: 2, stdout: "" });
    expect(checked?.stderr).toBe(accounted?.stderr);
    expect(checked?.stderr).toContain("2 settings are wrong");
  });

  test("of two tenants the one that is refused", async () => {
    const tenants = ["ordinary", "a-day-away"].map((name) => ({
      name,
      PROMETHEUS_LABELS: labels(name),
      SUBMIT_HOST: `host/${name}`,
    }));
    const [checked, accounted] = await both({ site: "ordinary", tenants });
    expect([checked?.code, accounted?.code]).toEqual([3, 3]);
    const [, ordinary = "", away = ""] = checked?.stdout.split(/^(?=\S)/m) ?? [];
    expect(checked?.stdout).toMatch(/^ordinary\n/);
    expect(ordinary + away).toContain("a-day-away");
    expect(linesOf(checked!, "BAD")).toHaveLength(1);
  });
});

describe("what it says", () => {
  test("figures, and what is worth a look, with what to do", async () => {
    const [checked] = await both({ site: "some-without-requests" });
    expect(linesOf(checked!, "ok").join("\n")).toContain("Would 2025-01 be published? yes: 31 jobs, 124.0 core hours");
    expect(checked?.stdout).toMatch(
      /WARN Do all jobs of 2025-01 have a CPU request\? no: 2 pods have none and are left out\n +Set DEFAULT_CORES/,
    );
  });

  test("a gap of the month that is over", async () => {
    const [checked] = await both({ site: "two-hours-away" });
    expect(linesOf(checked!, "WARN").join("\n")).toMatch(
      /Is 2025-01 whole\? batch: monitoring was not seen in 2025-01 from 2025-01-10 11:00 to 2025-01-10 13:00 UTC \(2 h\)/,
    );
  });

  test("what is published and has not changed", async () => {
    const [checked] = await both({ site: "ordinary", before: "ordinary" });
    expect(linesOf(checked!, "ok").join("\n")).toContain(
      "Would 2025-01 be published? it is published, and nothing has",
    );
  });

  test("with --json the same as data", async () => {
    const [checked] = await both({ site: "a-day-away" }, true);
    const finding = z.object({
      question: z.string(),
      verdict: z.enum(["ok", "WARN", "BAD"]),
      answer: z.string(),
      remedy: z.string().optional(),
    });
    const { tenants, exitCode } = z
      .strictObject({
        tenants: z.array(z.strictObject({ tenant: z.string(), findings: z.array(finding) })),
        exitCode: z.number(),
      })
      .parse(jsonOf(checked!));
    expect([tenants.map(({ tenant }) => tenant), exitCode, checked?.code]).toEqual([[BATCH], 3, 3]);
    const bad = tenants[0]?.findings.filter(({ verdict }) => verdict === "BAD") ?? [];
    expect(bad.map(({ question }) => question)).toEqual(["Would 2025-01 be published?"]);
  });
});
