import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Fact, Only, Row, Window } from "../../lib/accounting/model/monitoring.ts";
import type { Selection } from "../../lib/accounting/model/tenant.ts";
import { GridmeterError } from "../../lib/shared/errors.ts";
import { type Client, createClient } from "../../lib/accounting/prometheus/client.ts";
import { createMonitoring } from "../../lib/accounting/prometheus/monitoring.ts";
import type { Series } from "../simulator/index.ts";
import { Random } from "../simulator/index.ts";
import { Schedule } from "../simulator/schedule.ts";
import { type Gate, type Refusal, startGate } from "../support/gate.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { rowsOf } from "../support/rows-of.ts";
import { bundledCli, gap, leastSettings, resultOf, runCli } from "../support/run-cli.ts";
import { serveSeries } from "../support/serve-series.ts";
import { startWatchProxy, withoutBody } from "../support/watch-proxy.ts";

const SECRET = "s3cretT0ken";
const URL_LIMIT = 6000;
const PODS = 4500;
/** Less than a quarter, so that they are asked for by name. */
const FAILED = 1100;
const START = Date.parse("2026-10-05T08:00:00Z") / 1000;
const END = START + 7200;
const day: Window = { from: START - 3600, to: END + 3600 };
const random = new Random("get only");
const uids = Array.from({ length: PODS }, () => random.uid());

let server: PrometheusServer;
const open: { stop(): unknown }[] = [];
const folder = mkdtempSync(join(tmpdir(), "gridmeter-get-"));

beforeAll(async () => {
  server = await serveSeries([...series(""), ...series("exported_"), up()]);
}, 120_000);
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});
afterEach(async () => {
  for (const one of open.splice(0)) await one.stop();
});

/** Pods of one core, seen after their end, of which many failed; those with odd numbers are on no node, as far as is known. */
function series(prefix: string): Series[] {
  const schedule = new Schedule(300, 7, { from: END, to: END + 600 }, []);
  const one = (name: string, labels: Record<string, string>, value: number): Series => ({
    name,
    labels: { [`${prefix}namespace`]: prefix === "" ? "mixed" : "renamed", ...labels },
    segments: [{ from: END, to: END + 600, value }],
    schedule,
  });
  const container = `${prefix}container`;
  return uids.flatMap((uid, index) => [
    one("kube_pod_completion_time", { uid, [`${prefix}pod`]: `job-${index}` }, END),
    one("kube_pod_start_time", { uid }, START),
    one("kube_pod_status_phase", { uid, phase: "Succeeded" }, index < FAILED ? 0 : 1),
    one("kube_pod_status_phase", { uid, phase: "Failed" }, index < FAILED ? 1 : 0),
    // The phase that they had before is still reported.
    one("kube_pod_status_phase", { uid, phase: "Running" }, 1),
    one("kube_pod_labels", { uid, label_vo: "atlas" }, 1),
    one("kube_pod_container_resource_requests", { uid, [container]: "main", resource: "memory", node: "n1" }, 1024),
    one(
      "kube_pod_container_resource_requests",
      { uid, [container]: "main", resource: "cpu", node: index % 2 === 0 ? "n1" : "" },
      1,
    ),
  ]);
}

/** Monitoring was up all month, and long before. */
function up(): Series {
  const all = { from: Date.parse("2026-09-25T00:00:00Z") / 1000, to: Date.parse("2026-11-02T00:00:00Z") / 1000 };
  const labels = { job: "kube-state-metrics", instance: "a" };
  return { name: "up", labels, segments: [{ ...all, value: 1 }], schedule: new Schedule(120, 7, all, []) };
}

const refusal = (status: number): Refusal => ({ status, body: `${status} says the gate` });

/** A proxy before the real Prometheus that answers POST with one status, GET with another or what Prometheus says, and long URLs with 414. */
async function gateOf(post: number, get?: number, urlLimit = URL_LIMIT): Promise<Gate> {
  const gate = await startGate(server.url, {
    request: ({ method, path, headers }) => {
      if (method === "POST") return refusal(post);
      if (get !== undefined) return refusal(get);
      return `http://${headers.host}${path}`.length >= urlLimit ? refusal(414) : undefined;
    },
  });
  open.push(gate);
  return gate;
}

const client = (url: string, concurrency = 2): Client =>
  createClient({ url, authHeader: `Bearer ${SECRET}`, timeoutSeconds: 20, concurrency });

async function errorOf(answer: Promise<unknown>): Promise<GridmeterError> {
  const thrown = await answer.then(
    (value) => new Error(`It answered: ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );
  if (thrown instanceof GridmeterError) return thrown;
  throw thrown;
}

const methods = (gate: Gate): readonly string[] => gate.seen.map(({ method }) => method);

describe("where POST is refused it is asked by GET", () => {
  test.each([403, 405, 501])("%i, once and for all", async (status) => {
    const gate = await gateOf(status);
    const asking = client(gate.url);
    const query = `count(kube_pod_start_time{namespace="mixed",x!="ü+ &='(*)%2B"})`;
    expect(await asking.instant(query, END + 60)).toEqual([{ labels: {}, value: PODS }]);
    expect(await asking.instant(query, END + 60)).toEqual([{ labels: {}, value: PODS }]);
    const range = await asking.range("up", END, END + 600, 300);
    expect(range.map(({ values }) => values.length)).toEqual([3]);
    expect(methods(gate)).toEqual(["POST", "GET", "GET", "GET"]);
    const [posted, got] = gate.seen.map(({ form }) => [...form]);
    expect(got).toEqual(posted);
    for (const { headers } of gate.seen) expect(headers.authorization).toBe(`Bearer ${SECRET}`);
  });

  test("also where many queries are on their way already", async () => {
    const gate = await gateOf(405);
    const asking = client(gate.url, 4);
    const answers = await Promise.all(Array.from({ length: 12 }, () => asking.instant("vector(7)", END)));
    expect(answers).toEqual(Array.from({ length: 12 }, () => [{ labels: {}, value: 7 }]));
    const posts = methods(gate).filter((method) => method === "POST").length;
    expect(posts).toBeGreaterThanOrEqual(1);
    expect(posts).toBeLessThanOrEqual(4);
    expect(await asking.instant("vector(7)", END)).toHaveLength(1);
    expect(methods(gate).at(-1)).toBe("GET");
  });

  test.each(["instant", "range"])("a body that is dropped on its way, %s query first", async (first) => {
    const proxy = await startWatchProxy(server.url, withoutBody);
    open.push(proxy);
    const asking = client(proxy.url);
    const instant = (): Promise<unknown> => asking.instant("vector(7)", END);
    const range = (): Promise<unknown> => asking.range("vector(7)", END, END + 60, 60);
    const [one, other] = first === "instant" ? [instant, range] : [range, instant];
    expect(await one()).toHaveLength(1);
    expect(await other()).toHaveLength(1);
    expect(proxy.requests.map(({ method, status }) => [method, status])).toEqual([
      ["POST", 400],
      ["GET", 200],
      ["GET", 200],
    ]);
  });

  test("a query that is wrong is asked once", async () => {
    const proxy = await startWatchProxy(server.url);
    open.push(proxy);
    for (const query of ["up{", "1+", "sum(", "up[5m"]) {
      const error = await errorOf(client(proxy.url).instant(query, END));
      expect(error.code).toBe("prometheus_bad_query");
      expect(error.message).toContain("answered 400 to POST");
    }
    expect(proxy.requests.map(({ method }) => method)).toEqual(["POST", "POST", "POST", "POST"]);
  });

  test("the server's own refusals are judged as ever", async () => {
    const gate = await gateOf(405);
    const error = await errorOf(client(gate.url).instant("up{", END));
    expect(error.code).toBe("prometheus_bad_query");
    expect(error.message).toContain("answered 400 to GET");
    expect(error.message).toContain('answered 405 to POST: "405 says the gate"');
  });
});

describe("where GET is refused as well, it is said what both were answered", () => {
  test.each<[post: number, get: number, code: string, advice: string]>([
    [403, 403, "prometheus_auth", "PROMETHEUS_AUTH_HEADER"],
    [403, 401, "prometheus_auth", "PROMETHEUS_AUTH_HEADER"],
    [405, 403, "prometheus_auth", "PROMETHEUS_AUTH_HEADER"],
    [403, 405, "prometheus_auth", "PROMETHEUS_AUTH_HEADER"],
    [403, 501, "prometheus_auth", "PROMETHEUS_AUTH_HEADER"],
    [405, 405, "prometheus_bad_answer", "take POST or GET there"],
    [501, 405, "prometheus_bad_answer", "take POST or GET there"],
    [403, 404, "prometheus_bad_answer", "part before /api/v1"],
    [405, 307, "prometheus_bad_answer", "is not followed"],
  ])("POST %i, GET %i", async (post, get, code, advice) => {
    const gate = await gateOf(post, get);
    const error = await errorOf(client(gate.url).instant("up", END));
    expect(error.code).toBe(code);
    expect(error.message).toContain(`answered ${post} to POST: "${post} says the gate", so it was asked by GET`);
    expect(error.message).toContain(`answered ${get} to GET: "${get} says the gate"`);
    expect(error.message).toContain("Nothing was published.");
    expect(error.message).toContain(advice);
    expect(methods(gate)).toEqual(["POST", "GET"]);
  });

  test("401 to POST is about the credentials, at once", async () => {
    const gate = await gateOf(401);
    const error = await errorOf(client(gate.url).instant("up", END));
    expect(error.code).toBe("prometheus_auth");
    expect(error.message).toContain("answered 401 to POST");
    expect(methods(gate)).toEqual(["POST"]);
  });

  test("an address whose query string is a secret does not show", async () => {
    const gate = await startGate(server.url, {
      request: ({ method, path }) => ({ status: method === "POST" ? 405 : 404, body: `no ${path} here` }),
    });
    open.push(gate);
    const url = `${gate.url}/?token=${SECRET}`;
    const error = await errorOf(createClient({ url, timeoutSeconds: 20, concurrency: 1 }).instant("up", END));
    expect(error.message).toContain("no /api/v1/query?***&query=up");
    expect(error.message).not.toContain(SECRET);
  });
});

describe("many pods named one by one, through addresses that must be short", () => {
  const plain: Selection = { namespace: "mixed", matchers: [], labelPrefix: "", voLabel: "label_vo" };
  const renamed: Selection = { namespace: "renamed", matchers: [], labelPrefix: "exported_" };
  const sorted = (rows: readonly Row[]): Row[] => rows.toSorted((a, b) => (a.uid < b.uid ? -1 : 1));
  const named: Only = { uids: uids.slice(0, 1000) };

  test.each<[string, Selection, Fact, Only | undefined, rows: number]>([
    ["which pods failed", plain, "failed", named, 1000],
    ["which pods failed, with a prefix", renamed, "failed", named, 1000],
    ["which pods failed, whose labels are renamed", { ...renamed, labelPrefix: "" }, "failed", named, 1000],
    ["until when pods ran", plain, "runningUntil", named, 1000],
    ["the last days of pods", plain, "lastDay", named, 1000],
    ["requests of copies", plain, "coresAt", named, 1000],
    ["requests of copies, with a prefix", renamed, "memoryRequestAt", named, 1000],
    ["VO labels of copies", plain, "voAt", named, 1000],
    ["requests of pods", plain, "unscheduledCores", named, 500],
    ["requests of pods, with a prefix", renamed, "unscheduledCores", named, 500],
    ["starts of pods", plain, "start", named, 1000],
  ])("%s, as the first question", async (_, selection, fact, only, rows) => {
    const gate = await gateOf(403);
    const expected = await rowsOf(createMonitoring(client(server.url), selection), fact, day, only);
    expect(expected).toHaveLength(rows);
    const answer = await rowsOf(createMonitoring(client(gate.url), selection), fact, day, only);
    expect(sorted(answer)).toEqual(sorted(expected));
    const gets = gate.seen.filter(({ method }) => method === "GET");
    expect(gets.every(({ status }) => status === 200)).toBe(true);
    expect(gets.length).toBeGreaterThan(8);
    expect(gate.seen.length - gets.length).toBeLessThan(10);
  });

  test("a limit below ours is met by asking for fewer", async () => {
    const gate = await gateOf(405, undefined, 2000);
    const expected = await rowsOf(createMonitoring(client(server.url), plain), "start", day, named);
    const answer = await rowsOf(createMonitoring(client(gate.url), plain), "start", day, named);
    expect(sorted(answer)).toEqual(sorted(expected));
  });

  test("a query that has no room in an address, whatever is asked, is refused before it is sent", async () => {
    const gate = await gateOf(405);
    const selection = { ...plain, matchers: [`node!="${"x".repeat(7000)}"`] };
    const error = await errorOf(rowsOf(createMonitoring(client(gate.url), selection), "start", day, named));
    expect(error.code).toBe("prometheus_bad_query");
    expect(error.message).toMatch(/answered 405 to POST: .*By GET this query has an address of 7\d\d\d characters/);
    expect(error.message).toContain("shorten PROMETHEUS_LABELS");
    expect(methods(gate)).not.toContain("GET");
  });
});

test("an account through a proxy that takes GET only is the account of the server", async () => {
  const gate = await gateOf(403);
  const program = bundledCli(folder);
  const [direct, through] = await Promise.all(
    [server.url, gate.url].map(async (url) => {
      const args = ["account", ...gap("2026-10", "2026-11"), "--ledger", "none", "--dry-run", "--json"];
      const run = await runCli(args, { cwd: folder, env: leastSettings(url), program });
      expect(run.code).toBe(0);
      return resultOf(run).months;
    }),
  );
  expect(through).toEqual(direct);
  expect(direct).toMatchObject([{ tenants: [{ jobs: PODS, coreHours: PODS * 2 }] }]);
  expect(gate.seen.every(({ method, status }) => status === (method === "GET" ? 200 : 403))).toBe(true);
});
