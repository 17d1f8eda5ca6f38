// The functions out of time, given what they cannot use, and with settings by name: in this process, against a real
// Prometheus and moto.
import { GetObjectCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import type { Context } from "aws-lambda";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { WorkItem } from "../../functions/common/work-item.ts";
import { accountBatch } from "../../functions/account.ts";
import { lambdaParts } from "../../functions/common/runtime.ts";
import { plan } from "../../functions/plan.ts";
import { reapGroups } from "../../functions/reap.ts";
import { MIXED, namespaceOf, simulate, truth } from "../simulator/index.ts";
import { prometheusError, startFaultProxy } from "../support/fault-proxy.ts";
import { AN_HOUR, FEW_DAYS, MONTH, invoke, item, record, settled } from "../support/functions-host.ts";
import {
  CLUSTER,
  TENANTS,
  UNIT,
  deployed,
  eventFile,
  loaded,
  newest,
  putParameter,
  reference,
  startDeployable,
} from "../support/functions-world.ts";
import type { Deployed } from "../support/functions-world.ts";
import type { Moto } from "../support/moto.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { startPushgateway } from "../support/pushgateway-server.ts";
import { serveSeries } from "../support/serve-series.ts";
import { drain, emptied } from "../support/work-queue.ts";

vi.hoisted(() => {
  // Their log and CloudWatch lines would drown the tests' own.
  Object.assign(process.env, { POWERTOOLS_LOG_LEVEL: "SILENT", POWERTOOLS_METRICS_DISABLED: "true" });
});

let moto: Moto;
let prometheus: PrometheusServer;
let expected: string[];

beforeAll(async () => {
  [moto, prometheus] = await Promise.all([startDeployable(), serveSeries(simulate(CLUSTER))]);
  expected = (await reference(prometheus.url, MONTH, FEW_DAYS)).toSorted();
}, 180_000);
afterAll(() => Promise.all([moto.stop(), prometheus.stop()]));

test("out of time after every piece: as many messages as it takes, none twice, and the same result", async () => {
  const one = await deployed(moto, prometheus.url);
  await plan(
    { mode: "gap", start: "2025-03-01T00:00:00Z", end: "2025-03-02T00:00:00Z", tenant: "plain" },
    { id: "plan", now: Math.floor(Date.now() / 1000), remaining: AN_HOUR },
    one.parts,
  );
  let killed = false;
  const events = await drain(moto.sqs, one.work, async ({ Records }) => {
    let asked = 0;
    // Time is up as soon as the first piece has begun.
    const remaining = (): number => ((asked += 1) === 1 ? 10_000 : 0);
    const answer = await accountBatch(Records, remaining, one.parts);
    if (killed || JSON.parse(Records[0]!.body).run === undefined) return answer;
    // Killed after it has put the rest on the queue, before its message is acknowledged.
    killed = true;
    throw new Error("killed");
  });
  const runs = events.map(({ Records }) => (JSON.parse(Records[0]!.body) as WorkItem).run?.id);
  expect(runs.length).toBeGreaterThan(4);
  expect(new Set(runs)).toEqual(new Set([undefined, events[0]!.Records[0]!.messageId]));
  expect(await settled(one.store, (await reference(prometheus.url, MONTH)).toSorted())).toBe(1);
  const { jobs } = truth(CLUSTER, MONTH).get(MIXED)!;
  const total = jobs + truth(CLUSTER, MONTH).get(namespaceOf("plain"))!.jobs;
  expect((await loaded(one.store)).totals(MONTH).get(UNIT.site)).toMatchObject({ jobs: total });
}, 120_000);

test("the handlers themselves, in this process, with the files of events/", async () => {
  const one = await deployed(moto, prometheus.url);
  for (const [name, value] of Object.entries(one.env)) vi.stubEnv(name, value);
  try {
    const context = { awsRequestId: "id", getRemainingTimeInMillis: AN_HOUR } as Context;
    const functions = await Promise.all([
      import("../../functions/plan.ts"),
      import("../../functions/account.ts"),
      import("../../functions/manual.ts"),
      import("../../functions/reap.ts"),
    ]);
    const [plan, account, manual, reap] = functions.map(
      ({ handler }) => handler as (...args: unknown[]) => Promise<unknown>,
    );
    expect(await plan!(await eventFile("auto"), context)).toMatchObject({ sent: [{ mode: "auto" }, { mode: "auto" }] });
    expect(await plan!(await eventFile("gap"), context)).toMatchObject({
      sent: [{ month: "2025-01" }, { month: "2025-02" }],
    });
    expect(await plan!(await eventFile("gap-dry-run"), context)).toMatchObject({
      dryRun: true,
      messages: [{ status: "would_publish" }],
    });
    expect(await one.store.list("")).toEqual([]);
    expect(await account!(await eventFile("work-item"), context)).toEqual({ batchItemFailures: [] });
    expect((await newest(one.store, "2025-01")).generation).toBe(1);
    // That of the example is another bucket.
    expect(await manual!(await eventFile("manual-s3"), context)).toMatchObject({ files: [{ outcome: "ignored" }] });
    expect(await reap!(await eventFile("reap"), context)).toEqual({ deleted: [], dryRun: false });
  } finally {
    vi.unstubAllEnvs();
  }
}, 120_000);

test("GRIDMETER_REPORT: the page lies in the bucket as HTML once a unit is done; without it there is none", async () => {
  for (const [more, found] of [
    [{ GRIDMETER_REPORT: "True" }, ["report/index.html"]],
    [{}, []],
  ] as const) {
    const one = await deployed(moto, prometheus.url, { ...FEW_DAYS, ...more });
    expect((await accountBatch([record(JSON.stringify(item()))], AN_HOUR, one.parts)).batchItemFailures).toEqual([]);
    expect(await one.store.list("report/")).toEqual(found);
    if (found.length === 0) continue;
    const answer = await moto.s3.send(new GetObjectCommand({ Bucket: one.bucket, Key: found[0] }));
    expect(answer.ContentType).toBe("text/html; charset=utf-8");
    expect(await answer.Body?.transformToString()).toContain(`<title>Accounting report of ${UNIT.site}</title>`);
  }
});

describe("what cannot be used", () => {
  let one: Deployed;
  beforeAll(async () => {
    one = await deployed(moto, prometheus.url, FEW_DAYS);
  });
  const dead = async () =>
    (await emptied(moto.sqs, one.dead)).map(({ body, messageAttributes }) => ({
      body,
      reason: messageAttributes["reason"]!.stringValue!,
    }));

  test.each([
    ["no JSON", "{", "it is not JSON"],
    ["another shape", JSON.stringify({ v: 2, site: "x" }), "it is no work item"],
    ["a setting that does not exist", JSON.stringify({ ...item(), forced: true }), "forced"],
    ["an unknown unit", JSON.stringify(item({ site: "ELSEWHERE" })), "No tenant publishes for ELSEWHERE"],
    ["a month that auto mode does not cover", JSON.stringify(item({ mode: "auto" })), "Use gap mode"],
    ["a month in the future", JSON.stringify(item({ month: "2099-01" })), "period_invalid"],
    ["control characters", "\u0001\u{1F5A5} {", "it is not JSON"],
  ])("%s goes to the dead letters at once, as it came and with the reason", async (_what, body, reason) => {
    const sent = record(body);
    const answer = await accountBatch([sent], AN_HOUR, one.parts);
    if (body.includes("\u0001")) {
      // SQS takes no such message, so it can neither have brought it; it is left to the queue.
      expect(answer.batchItemFailures).toHaveLength((await dead()).length === 0 ? 1 : 0);
      return;
    }
    expect(answer).toEqual({ batchItemFailures: [] });
    expect(await dead()).toEqual([{ body, reason: expect.stringContaining(reason) as string }]);
  });

  test("the rest of the batch goes on; what follows a failure in its group waits for it", async () => {
    const down = await deployed(moto, "http://127.0.0.1:9", FEW_DAYS);
    const records = [
      record("{", { MessageGroupId: "a" }),
      record(JSON.stringify(item()), { MessageGroupId: "b" }),
      record(JSON.stringify(item({ site: "ELSEWHERE" })), { MessageGroupId: "b" }),
      record("[]", { MessageGroupId: "c" }),
    ];
    const answer = await accountBatch(records, AN_HOUR, down.parts);
    expect(answer.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier)).toEqual([
      records[1]!.messageId,
      records[2]!.messageId,
    ]);
    expect((await emptied(moto.sqs, down.dead)).map(({ body }) => body)).toEqual(["{", "[]"]);
    expect(await down.store.list("")).toEqual([]);
  }, 120_000);

  test("what Prometheus refuses for good is set aside; what may pass comes again", async () => {
    const proxy = await startFaultProxy(prometheus.url);
    try {
      const faulty = await deployed(moto, proxy.url, { ...FEW_DAYS, QUERY_TIMEOUT: "2s" });
      const message = record(JSON.stringify(item()));
      proxy.set([], { kind: "answer", status: 503, body: "busy" });
      expect((await accountBatch([message], AN_HOUR, faulty.parts)).batchItemFailures).toHaveLength(1);
      proxy.set([], prometheusError(401, "unauthorized", "no"));
      expect((await accountBatch([message], AN_HOUR, faulty.parts)).batchItemFailures).toEqual([]);
      const [letter] = await emptied(moto.sqs, faulty.dead);
      expect(letter!.messageAttributes["reason"]!.stringValue).toContain("prometheus_auth");
      expect(await faulty.store.list("outgoing/")).toEqual([]);
      proxy.set([]);
      expect((await accountBatch([message], AN_HOUR, faulty.parts)).batchItemFailures).toEqual([]);
      await settled(faulty.store, expected);
    } finally {
      await proxy.stop();
    }
  }, 120_000);

  test("settings that are wrong are thrown, so that the function's alarm rings, and all is kept", async () => {
    const wrong = { ...one.parts, env: { ...one.env, BENCHMARK_VALUE: "ten" } };
    await expect(accountBatch([record(JSON.stringify(item()))], AN_HOUR, wrong)).rejects.toMatchObject({
      code: "config_invalid",
    });
    const missing = { ...one.parts, env: { ...one.env, GRIDMETER_BUCKET: "" } };
    await expect(accountBatch([record(JSON.stringify(item()))], AN_HOUR, missing)).rejects.toMatchObject({
      code: "config_invalid",
    });
    expect(await dead()).toEqual([]);
  });
});

describe("refused months and metrics", () => {
  test("a refusal is acknowledged and on the Pushgateway, where the last success stays", async () => {
    const gateway = await startPushgateway();
    try {
      const one = await deployed(moto, prometheus.url, { ...FEW_DAYS, PUSHGATEWAY_URL: gateway.url });
      const line = async (name: string) =>
        (await gateway.metrics()).split("\n").find((text) => text.startsWith(`gridmeter_accounting_${name}{`));
      expect(await invoke(one.env, record(JSON.stringify(item())))).toMatchObject({ done: true });
      const success = await line("last_success_timestamp_seconds");
      const jobs = await line("jobs");
      expect(await line("refused")).toMatch(/ 0$/);
      // Nothing is known of that month.
      expect(await invoke(one.env, record(JSON.stringify(item({ month: "2024-12" }))))).toMatchObject({ done: true });
      expect(await line("refused")).toMatch(/ 0$/);
      const strict = { ...one.env, ACCOUNTING_SINCE: "" };
      expect(await invoke(strict, record(JSON.stringify(item({ month: "2024-12" }))))).toMatchObject({ done: true });
      expect(await line("refused")).toMatch(/ 1$/);
      expect(success).toBeDefined();
      expect(jobs).toBeDefined();
      expect(await one.store.list("outgoing/")).toHaveLength(expected.length);
      expect(await emptied(moto.sqs, one.dead)).toEqual([]);
      await gateway.stop();
      // The gateway is down: the accounting does not care.
      expect(await invoke(one.env, record(JSON.stringify(item({ force: true }))))).toMatchObject({ done: true });
      expect((await newest(one.store, MONTH)).generation).toBe(2);
    } finally {
      await gateway.stop();
    }
  }, 120_000);
});

test("a tenant that moves to another submit host: its old unit's other tenants are counted too, and APEL counts each job once", async () => {
  const tenants = (host: string) =>
    JSON.stringify({
      tenants: [
        { name: "mixed", NAMESPACE: MIXED },
        { name: "plain", NAMESPACE: namespaceOf("plain"), SUBMIT_HOST: host },
      ],
    });
  const name = "/gridmeter/test/moving";
  // Nothing settles, so nothing is in the ledger: the days of an open month.
  const one = await deployed(moto, prometheus.url, { ...FEW_DAYS, TENANTS_PARAMETER: name, SETTLE: "10d" });
  await putParameter(moto, name, tenants(UNIT.submitHost));
  const now = Date.parse("2025-04-04T08:00:00Z") / 1000;
  const run = (id: string) => ({ run: { id, now } });
  expect(await invoke(one.env, record(JSON.stringify(item(run("first")))))).toMatchObject({ done: true });
  await putParameter(moto, name, tenants("new-host"));
  expect(
    await invoke(one.env, record(JSON.stringify(item({ submitHost: "new-host", ...run("second") })))),
  ).toMatchObject({ done: true });
  const table = await loaded(one.store);
  const total = Number(expected.join("").split("NumberOfJobs: ").at(-1)!.split("\n")[0]);
  expect(table.totals(MONTH).get(UNIT.site)).toMatchObject({ jobs: total, syncJobs: total });
  expect((await one.store.list("outgoing/")).some((key) => key.includes("new-host"))).toBe(true);
}, 120_000);

describe("settings by name", () => {
  test("the Pushgateway's header comes from SSM, decrypted and again each time, for account and for reap", async () => {
    const gateway = await startPushgateway();
    const proxy = await startFaultProxy(gateway.url);
    const name = "/gridmeter/test/pushgateway-header";
    const seen = () =>
      proxy.requests.splice(0).map(({ method, path, headers }) => [method, path, headers.authorization]);
    try {
      await putParameter(moto, name, "Bearer pu5h\n");
      const settings = { ...FEW_DAYS, PUSHGATEWAY_URL: proxy.url, PUSHGATEWAY_AUTH_HEADER_PARAMETER: name };
      const one = await deployed(moto, prometheus.url, settings);
      expect(await invoke(one.env, record(JSON.stringify(item())))).toMatchObject({ done: true });
      const group = expect.stringMatching(/^\/metrics\/job\/gridmeter_accounting\//) as string;
      expect(seen()).toEqual([["PUT", group, "Bearer pu5h"]]);
      await putParameter(moto, name, "Bearer new");
      expect(await reapGroups(await eventFile("reap"), Math.floor(Date.now() / 1000), one.parts)).toEqual({
        deleted: [],
        dryRun: false,
      });
      expect(seen()).toEqual([["GET", "/api/v1/metrics", "Bearer new"]]);
    } finally {
      await Promise.all([proxy.stop(), gateway.stop()]);
    }
  }, 120_000);

  test("the header comes from SSM, decrypted; the tenants from an object", async () => {
    const proxy = await startFaultProxy(prometheus.url);
    try {
      await putParameter(moto, "/gridmeter/test/header", "Bearer t0ken\n");
      const one = await deployed(moto, proxy.url, {
        ...FEW_DAYS,
        PROMETHEUS_AUTH_HEADER_PARAMETER: "/gridmeter/test/header",
        TENANTS_PARAMETER: "",
        TENANTS_OBJECT: "config/tenants.yaml",
      });
      await moto.s3.send(new PutObjectCommand({ Bucket: one.bucket, Key: "config/tenants.yaml", Body: TENANTS }));
      expect(await invoke(one.env, record(JSON.stringify(item())))).toMatchObject({ done: true });
      expect(proxy.requests.length).toBeGreaterThan(0);
      expect(new Set(proxy.requests.map(({ headers }) => headers.authorization))).toEqual(new Set(["Bearer t0ken"]));
      await settled(one.store, expected);
    } finally {
      await proxy.stop();
    }
  }, 120_000);

  test.each([
    [
      { PROMETHEUS_AUTH_HEADER_PARAMETER: "/nothing" },
      /PROMETHEUS_AUTH_HEADER_PARAMETER names the parameter "\/nothing", but there is none/,
    ],
    [
      { TENANTS_PARAMETER: "", TENANTS_OBJECT: "config/nothing" },
      /TENANTS_OBJECT names s3:.*config\/nothing, but there is no such object/,
    ],
    [{ TENANTS_OBJECT: "config/both" }, /TENANTS_PARAMETER and TENANTS_OBJECT are set/],
    [{ WORK_QUEUE_URL: "" }, /WORK_QUEUE_URL is not set/],
    [{ S3_SSE: "rot13" }, /S3_SSE/],
  ])("%o is refused before anything is sent", async (more: Record<string, string>, message) => {
    const one = await deployed(moto, prometheus.url);
    const parts = lambdaParts({ ...one.env, ...more });
    const event = {
      mode: "gap",
      start: "2025-03-01T00:00:00Z",
      end: "2025-03-02T00:00:00Z",
      ...("S3_SSE" in more ? { dryRun: true } : {}),
    };
    await expect(
      plan(event, { id: "x", now: Math.floor(Date.now() / 1000), remaining: AN_HOUR }, parts),
    ).rejects.toThrow(message);
    expect(await emptied(moto.sqs, one.work)).toEqual([]);
  });

  test("plan tried again by Lambda puts nothing on the queue twice; asked again by hand, it does", async () => {
    const one = await deployed(moto, prometheus.url);
    const event = {
      mode: "gap",
      start: "2025-01-01T00:00:00Z",
      end: "2025-03-02T00:00:00Z",
      allowDecrease: true,
      force: false,
    };
    const ask = (id: string) => plan(event, { id, now: Math.floor(Date.now() / 1000), remaining: AN_HOUR }, one.parts);
    await ask("first");
    await ask("first");
    const items = (await emptied(moto.sqs, one.work)).map(({ body }) => JSON.parse(body) as WorkItem);
    expect(items).toHaveLength(3);
    for (const each of items)
      expect(each).toEqual({ v: 1, ...UNIT, month: each.month, mode: "gap", allowDecrease: true });
    await ask("second");
    expect(await emptied(moto.sqs, one.work)).toHaveLength(3);
  });
});
