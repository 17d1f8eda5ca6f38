// What bad input gets: a code, an exit code, a message that says what to do, and nothing published. The real command line
// against a server that misbehaves, a real Prometheus with bad data, and bad settings.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { kindsCluster, makeJob, monthStart, openMetrics, Random, simulate, STACK } from "../simulator/index.ts";
import type { Cluster, Series } from "../simulator/index.ts";
import { visible } from "../../lib/shared/text.ts";
import { prometheusError, startFaultProxy } from "../support/fault-proxy.ts";
import type { Fault } from "../support/fault-proxy.ts";
import { startPrometheus } from "../support/prometheus-server.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { bundledCli, gap, jsonOf, leastSettings, messagesIn, runCli } from "../support/run-cli.ts";
import type { CliRun } from "../support/run-cli.ts";
import { scratchDirectory } from "../support/store-script.ts";

let program: readonly string[];
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let server: PrometheusServer;

beforeAll(async () => {
  scratch = await scratchDirectory();
  program = bundledCli(scratch.path);
  server = await startPrometheus({ openmetrics: badData() });
}, 120_000);

afterAll(async () => {
  await server.stop();
  await scratch.remove();
});

/** January 2025 with a namespace for each way in which data can be bad, and one in which it is good. */
function badData(): string {
  const start = monthStart("2025-01") + 9 * 86_400;
  const random = new Random("bad data");
  const namespaces = ["good", "no-phase", "nan-end", "inf-start", "nan-cores"];
  const jobs = [...namespaces, "no-phase", "no-phase"].map((namespace) =>
    makeJob("plain", namespace, random, { start, end: start + 3600 }),
  );
  const cluster: Cluster = {
    ...kindsCluster({ kinds: [] }),
    to: monthStart("2025-02") + 86_400,
    scrapeInterval: 240,
    outages: [],
    jobs,
  };
  const without = ({ name, labels }: Series): boolean =>
    !(labels["namespace"] === "no-phase" && name === "kube_pod_status_phase");
  // Another cluster of the same server, of which nobody reports the phases of finished pods.
  const lacking: Cluster = {
    ...cluster,
    stacks: [{ ...STACK, labels: { cluster: "lacking" } }],
    jobs: jobs.slice(0, 1),
  };
  const isTerminal = ({ labels }: Series): boolean => ["Succeeded", "Failed"].includes(labels["phase"] ?? "");
  const series = [...simulate(cluster).filter(without), ...simulate(lacking).filter((one) => !isTerminal(one))];
  const text = [...openMetrics(series)].join("");
  const bad = [
    ["kube_pod_completion_time", "nan-end", "NaN"],
    ["kube_pod_start_time", "inf-start", "+Inf"],
    ["kube_pod_container_resource_requests", "nan-cores", "NaN"],
  ] as const;
  return bad.reduce(
    (all, [metric, namespace, value]) =>
      all.replaceAll(new RegExp(`^(${metric}\\{.*namespace="${namespace}".*\\}) \\S+ `, "gm"), `$1 ${value} `),
    text,
  );
}

let folders = 0;

/** `gridmeter account --json` over one month in a fresh directory, and the messages it left there. */
async function account(
  env: Readonly<Record<string, string>>,
  args: readonly string[] = gap("2025-01", "2025-02"),
): Promise<CliRun & { readonly messages: readonly string[] }> {
  const cwd = join(scratch.path, `${(folders += 1)}`);
  await mkdir(cwd);
  const run = await runCli(["account", "--json", ...args], { cwd, env, program });
  return { ...run, messages: await messagesIn(cwd) };
}

const errorSummary = z.object({ code: z.string(), message: z.string() });
const failedRun = z.object({
  exitCode: z.number(),
  error: errorSummary.optional(),
  months: z.array(z.object({ units: z.array(z.object({ error: errorSummary.nullable() })) })).optional(),
});

/** The errors in the one JSON object on stdout: of the run as a whole, or of its months. */
function errorsOf(run: CliRun): { readonly code: string; readonly message: string }[] {
  const { exitCode, error, months = [] } = failedRun.parse(jsonOf(run));
  expect(exitCode).toBe(run.code);
  const ofMonths = months.flatMap(({ units }) => units.map((unit) => unit.error)).filter((each) => each !== null);
  return error === undefined ? ofMonths : [error];
}

/** What a refusal comes to; `unsaid` are those of the given texts that its message lacks. */
function refusalOf(run: Awaited<ReturnType<typeof account>>, says: readonly string[]) {
  const errors = errorsOf(run);
  const { code, message } = errors[0] ?? { code: "no error", message: "" };
  return {
    codes: errors.map((error) => error.code),
    exit: run.code,
    unsaid: says.filter((text) => !message.includes(text)),
    saysWhatWasDone: /nothing (of (this month|\d{4}-\d{2}) )?was (asked for or )?published|was not published/i.test(
      message,
    ),
    // People who do not ask for JSON read the same on stderr.
    onStderr: run.stderr.includes(`${code}: ${message}`),
    messages: run.messages,
  };
}

/** All that every refusal has in common. */
const refused = (code: string, exit: number): ReturnType<typeof refusalOf> => ({
  codes: [code],
  exit,
  unsaid: [],
  saysWhatWasDone: true,
  onStderr: true,
  messages: [],
});

function answer(status: number, body: string, headers: Record<string, string> = {}): Fault {
  return { kind: "answer", status, body, headers };
}

const EMPTY = '{"status":"success","data":{"resultType":"matrix","result":[]}}';

describe("a server that misbehaves", () => {
  test.concurrent.each<[name: string, fault: Fault, code: string, ...says: string[]]>([
    ["a connection that is reset", { kind: "reset" }, "prometheus_unreachable", "Check PROMETHEUS_SERVER"],
    ["401", answer(401, "Unauthorized"), "prometheus_auth", "401", "PROMETHEUS_AUTH_HEADER"],
    ["403", answer(403, "<html>no entry</html>"), "prometheus_auth", "no entry", "PROMETHEUS_TOKEN_FILE"],
    [
      "400",
      prometheusError(400, "bad_data", "parse error: oops"),
      "prometheus_bad_query",
      "parse error: oops",
      "gridmeter plan",
    ],
    [
      "422",
      prometheusError(422, "execution", "duplicate series"),
      "prometheus_bad_query",
      "duplicate series",
      "PROMETHEUS_LABELS",
    ],
    ["503", answer(503, "Service Unavailable"), "prometheus_unavailable", "503", "See that the server is up"],
    [
      "a sign-in page",
      answer(200, "<html>Sign in</html>"),
      "prometheus_bad_answer",
      "Sign in",
      "not JSON",
      "Set PROMETHEUS_SERVER",
    ],
    [
      "a body cut short",
      { kind: "cut", body: EMPTY.slice(0, 40) },
      "prometheus_bad_answer",
      "cut short",
      "proxy in between",
    ],
    [
      "warnings in a 200",
      answer(200, EMPTY.replace('"data"', '"warnings":["store 7 is down"],"data"')),
      "prometheus_incomplete",
      "store 7 is down",
    ],
  ])("%s", async (_name, fault, code, ...says) => {
    const proxy = await startFaultProxy();
    proxy.set([], fault);
    try {
      expect(refusalOf(await account(leastSettings(proxy.url)), says)).toEqual(refused(code, 4));
    } finally {
      await proxy.stop();
    }
  });

  test("nobody there", async () => {
    const proxy = await startFaultProxy();
    await proxy.stop();
    const run = await account(leastSettings(proxy.url));
    expect(refusalOf(run, ["ECONNREFUSED", "Check PROMETHEUS_SERVER"])).toEqual(refused("prometheus_unreachable", 4));
  });

  test("one that fails in the middle of the counting", async () => {
    const proxy = await startFaultProxy(server.url);
    try {
      proxy.set([], undefined);
      expect((await account(leastSettings(proxy.url, { NAMESPACE: "good" }))).code).toBe(0);
      const asked = proxy.requests.length;
      expect(asked).toBeGreaterThan(8);
      const upstream = await startFaultProxy(server.url);
      const late = await startLate(upstream.url, asked - 2);
      const run = await account(leastSettings(late.url, { NAMESPACE: "good" }));
      await late.stop();
      await upstream.stop();
      expect(refusalOf(run, ["401"])).toEqual(refused("prometheus_auth", 4));
    } finally {
      await proxy.stop();
    }
  });
});

/** Passes on so many requests and answers 401 to the rest, as when a token expires. */
async function startLate(upstream: string, requests: number): Promise<Awaited<ReturnType<typeof startFaultProxy>>> {
  const proxy = await startFaultProxy(upstream);
  proxy.set([], undefined);
  const { requests: seen } = proxy;
  const push = seen.push.bind(seen);
  seen.push = (...each) => {
    const length = push(...each);
    if (length >= requests) proxy.set([], answer(401, "token expired"));
    return length;
  };
  return proxy;
}

describe("a real Prometheus with bad data", () => {
  const settings = (namespace: string): Record<string, string> =>
    leastSettings(server.url, { NAMESPACE: namespace, PROMETHEUS_LABELS: 'cluster=""' });

  test("the good one is published", async () => {
    const run = await account(settings("good"));
    expect(run.code).toBe(0);
    expect(run.messages).toHaveLength(4);
  });

  test("no sign of monitoring in the period", async () => {
    const run = await account(settings("good"), gap("2024-06", "2024-07"));
    expect(
      refusalOf(run, [
        "whole days of 2024-06: 2024-06-01 to 2024-06-30 (30 days)",
        "ACCOUNTING_SINCE",
        "--allow-incomplete",
        "MONITORING_SELECTOR",
      ]),
    ).toEqual(refused("monitoring_not_seen", 3));
  });

  test("one month without monitoring does not fail the other", async () => {
    const run = await account(settings("good"), gap("2024-12", "2025-02"));
    expect(errorsOf(run).map(({ code }) => code)).toEqual(["monitoring_not_seen"]);
    expect(run.code).toBe(3);
    expect(run.messages).toHaveLength(4);
    expect(run.messages.join("\n")).not.toContain("2024-12");
  });

  test("completions without phases, though other pods have them", async () => {
    const run = await account(settings("no-phase"));
    const says = [
      "3 of 3 pods of 2025-01-10 (100.0 %) have no phase",
      "when asked once more",
      "Replicas of Prometheus",
    ];
    expect(refusalOf(run, says)).toEqual(refused("answers_disagree", 4));
  });

  test("phases that nobody reports", async () => {
    const run = await account({ ...settings("good"), PROMETHEUS_LABELS: 'cluster="lacking"' });
    const says = ["kube_pod_status_phase", "2025-01-10", "--metric-allowlist", "--allow-incomplete"];
    expect(refusalOf(run, says)).toEqual(refused("phase_missing", 3));
  });

  test.each([
    ["nan-end", "NaN as end"],
    ["inf-start", "Infinity as start"],
    ["nan-cores", "NaN as cores"],
  ])("%s", async (namespace, quoted) => {
    expect(refusalOf(await account(settings(namespace)), [quoted, "the pod with uid ", "PROMETHEUS_LABELS"])).toEqual(
      refused("sample_invalid", 4),
    );
  });

  test("an unknown namespace", async () => {
    const run = await account(settings("gird"));
    expect(
      refusalOf(run, [
        '"gird"',
        "known are: good, inf-start, kube-system, monitoring, nan-cores, nan-end, no-phase",
        "NAMESPACE",
      ]),
    ).toEqual(refused("namespace_unknown", 2));
  });

  test("a VO label that is on no pod", async () => {
    const run = await account({ ...settings("good"), VO_LABEL: "team" });
    expect(refusalOf(run, ["label_team", "--metric-labels-allowlist", "VO_LABEL"])).toEqual(
      refused("vo_label_missing", 2),
    );
  });
});

describe("settings, before anything is asked", () => {
  /** The lines about settings in the message, by setting. */
  function linesOf(run: CliRun): string[] {
    const [error] = errorsOf(run);
    return (error?.message ?? "").split("\n").filter((line) => line.startsWith("  - "));
  }

  const settingsIn = (run: CliRun): string[] =>
    linesOf(run)
      .map((line) => /[A-Z_]{5,}/.exec(line)?.[0] ?? "")
      .sort();

  test("every missing one at once", async () => {
    const run = await account({}, ["--mode", "gap"]);
    expect(refusalOf(run, ["8 settings are wrong", "docs/configuration.md"])).toEqual(refused("config_invalid", 2));
    const named = [
      "QUERY_START",
      "QUERY_END",
      "PROMETHEUS_SERVER",
      "NAMESPACE",
      "SITE_NAME",
      "SUBMIT_HOST",
      "VO_NAME",
      "BENCHMARK_VALUE",
    ];
    expect(settingsIn(run)).toEqual(named.sort());
    for (const line of linesOf(run)) expect(line).toMatch(/is not set.*Write/);
  });

  test("every malformed one at once, and no secret is shown", async () => {
    const malformed = {
      PUBLISHING_MODE: "manual",
      PROMETHEUS_SERVER: "ftp://user:hunter2@prometheus",
      PROMETHEUS_AUTH_HEADER: "Bearer s3cret\nX-Evil: 1",
      NAMESPACE: "Not A Namespace",
      SUMMARIZE_RECORDS: "perhaps",
      QUERY_TIMEOUT: "soon",
      OUTPUT_PATH: "dirq:",
      BENCHMARK_VALUE: "fast",
      BENCHMARK_TYPE: "specint",
      NODECOUNT: "-1",
      PROCESSORS: "1.5",
      ACCOUNTING_MODEL: "both",
      MESSAGE_FORMAT: "summary-0.3",
      DEFAULT_CORES: "none",
      SETTLE: "1",
      ACCOUNTING_SINCE: "yesterday",
      MONITORING_SELECTOR: "up{",
      QUERY_CONCURRENCY: "0",
      PROMETHEUS_LABELS: "cluster",
      PROMETHEUS_LABEL_PREFIX: "ex-",
      VO_LABEL: "not a label",
      INFRASTRUCTURE_TYPE: "x".repeat(21),
    };
    const run = await account({ ...leastSettings("http://127.0.0.1:1"), ...malformed }, []);
    expect(refusalOf(run, ["22 settings are wrong"])).toEqual(refused("config_invalid", 2));
    expect(settingsIn(run)).toEqual(Object.keys(malformed).sort());
    expect(run.stdout + run.stderr).not.toMatch(/hunter2|s3cret/);
  });

  test.each([
    ["a line break", "EVIL\nVO: other"],
    ["a carriage return", "EVIL\rSITE"],
    ["%%", "EVIL%%SITE"],
    ["a character that is not ASCII", "CERN-Zürich"],
    ["a line separator of Unicode", "EVIL\u2028SITE"],
    ["more than 255 characters", "x".repeat(256)],
  ])("site, VO and host with %s", async (_name, value) => {
    const run = await account({
      ...leastSettings("http://127.0.0.1:1"),
      SITE_NAME: value,
      VO_NAME: value,
      SUBMIT_HOST: value,
    });
    expect(refusalOf(run, ["3 settings are wrong"])).toEqual(refused("config_invalid", 2));
    const lines = linesOf(run);
    expect(settingsIn(run)).toEqual(["SITE_NAME", "SUBMIT_HOST", "VO_NAME"]);
    for (const line of lines) expect(line).toContain(visible(JSON.stringify(value)).slice(0, 8));
  });

  const times = (start: string, end: string): string[] => ["--mode", "gap", "--start", start, "--end", end];
  test.each<[name: string, args: string[], code: string, ...says: string[]]>([
    [
      "end before start",
      times("2025-02-01T00:00:00Z", "2025-01-01T00:00:00Z"),
      "period_invalid",
      "is not after",
      "later end",
    ],
    [
      "a period in the future",
      times("2024-01-01T00:00:00Z", "2999-01-01T00:00:00Z"),
      "period_invalid",
      "in the future",
      "2999-01-01",
      "current month",
    ],
    ["a start in the future", times("2999-01-01T00:00:00Z", "2999-02-01T00:00:00Z"), "period_invalid", "in the future"],
    [
      "a time without zone",
      times("2025-01-01T00:00:00", "2025-02-01T00:00:00Z"),
      "period_invalid",
      "no time zone",
      "2025-01-01T00:00:00Z",
    ],
    ["no time at all", times("last month", "2025-02-01T00:00:00Z"), "period_invalid", '"last month"', "ISO 8601"],
    ["--start without gap", ["--start", "2025-01-01T00:00:00Z"], "usage", "--mode gap"],
    ["a tenant that is not configured", ["--tenant", "nobody"], "usage", '"nobody"', "mixed"],
  ])("%s", async (_name, args, code, ...says) => {
    expect(refusalOf(await account(leastSettings("http://127.0.0.1:1"), args), says)).toEqual(refused(code, 2));
  });

  test("an env file, tenants file and CA file that cannot be read are named", async () => {
    for (const [args, env, name] of [
      [["-e", "no.env"], {}, "no.env"],
      [[], { TENANTS_FILE: "no.yaml" }, "no.yaml"],
      [[], { PROMETHEUS_CA_FILE: "no.pem" }, "no.pem"],
    ] as const) {
      const run = await account({ ...leastSettings("https://127.0.0.1:1"), ...env }, args);
      expect(refusalOf(run, [name, "cannot be read"])).toEqual(refused("config_invalid", 2));
    }
  });

  test.each([
    ["an option that there is not", ["--outptu", "x"], "unknown option '--outptu'"],
    ["a mode that there is not", ["--mode", "manual"], "Allowed choices are auto, gap"],
    ["an argument too many", ["2025-01"], "too many arguments"],
  ])("%s is a matter of usage", async (_name, args, says) => {
    const run = await account(leastSettings("http://127.0.0.1:1"), args);
    expect(run.code).toBe(2);
    expect(run.stderr).toContain(says);
    expect(run.stdout).toBe("");
    expect(run.messages).toEqual([]);
  });
});
