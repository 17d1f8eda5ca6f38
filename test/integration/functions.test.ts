// The functions as they are deployed: their bundles under Lambda's own runtime client, against a real Prometheus, a
// real Pushgateway, and moto's S3, SQS and SSM, with the files of events/.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand } from "@aws-sdk/client-s3";
import { SendMessageCommand } from "@aws-sdk/client-sqs";
import type { S3Event, SQSBatchResponse, SQSEvent } from "aws-lambda";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MOST_PARTS, type WorkItem } from "../../functions/common/work-item.ts";
import { parseNotification, sha256Of } from "../../lib/accounting/delivery/notifications.ts";
import { push } from "../../lib/shared/pushgateway.ts";
import { listGroups } from "../../lib/shared/pushgateway-groups.ts";
import { buildFunctions } from "../../scripts/build-functions.ts";
import type { FunctionBundle } from "../../scripts/build-functions.ts";
import { demoCluster, MIXED, namespaceOf, simulate, truth } from "../simulator/index.ts";
import {
  CLUSTER,
  UNIT,
  deployed,
  eventFile,
  loaded,
  newest,
  reference,
  startDeployable,
} from "../support/functions-world.ts";
import type { Deployed } from "../support/functions-world.ts";
import { startLambda } from "../support/lambda-runtime.ts";
import type { Invoked, LambdaFunction } from "../support/lambda-runtime.ts";
import type { Moto } from "../support/moto.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { startPushgateway } from "../support/pushgateway-server.ts";
import type { PushgatewayServer } from "../support/pushgateway-server.ts";
import { serveSeries } from "../support/serve-series.ts";
import { startSlowProxy } from "../support/slow-proxy.ts";
import { drain, emptied } from "../support/work-queue.ts";
import { isLong } from "../support/size.ts";

let moto: Moto;
let prometheus: PrometheusServer;
let gateway: PushgatewayServer;
let folder: string;
let bundles: readonly FunctionBundle[];
const running: LambdaFunction[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "gridmeter-functions-"));
  [moto, prometheus, gateway, bundles] = await Promise.all([
    startDeployable(),
    serveSeries(simulate(CLUSTER)),
    startPushgateway(),
    buildFunctions(folder),
  ]);
}, 180_000);

afterAll(async () => {
  await Promise.all([...running.map((one) => one.stop()), moto.stop(), prometheus.stop(), gateway.stop()]);
  await rm(folder, { recursive: true, force: true });
});

async function lambda(name: string, env: Record<string, string>): Promise<LambdaFunction> {
  const started = await startLambda({ bundle: join(folder, `${name}.cjs`), env });
  running.push(started);
  return started;
}

// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- says what the answer is taken for
function answerOf<T>(invoked: Invoked): T {
  if (invoked.kind !== "answer") throw new Error(JSON.stringify(invoked));
  return invoked.value as T;
}

/** Lambda's event source: hands the work queue's messages to the function one by one. */
const work = (one: Deployed, account: LambdaFunction, seconds?: number) =>
  drain(moto.sqs, one.work, async (event) => answerOf<SQSBatchResponse>(await account.invoke(event, seconds)));

const figures = (month: string) => {
  const [mixed, plain] = [truth(CLUSTER, month).get(MIXED)!, truth(CLUSTER, month).get(namespaceOf("plain"))!];
  return { jobs: mixed.jobs + plain.jobs, coreSeconds: (mixed.milliCoreSeconds + plain.milliCoreSeconds) / 1000 };
};

test("a bundle each, of 2 MB at most, minified, with its source map", async () => {
  expect(bundles.map(({ name }) => name)).toEqual(["account", "check", "manual", "plan", "reap", "send"]);
  for (const { file, bytes } of bundles) {
    expect(bytes).toBeLessThanOrEqual(2_000_000);
    const map = JSON.parse(await readFile(`${file}.map`, "utf8")) as { sources: string[] };
    expect(map.sources.some((source) => source.endsWith("/lib/shared/errors.ts"))).toBe(true);
  }
});

describe("events/gap.json, from the plan to APEL's table", () => {
  let one: Deployed;
  let account: LambdaFunction;
  let sent: readonly WorkItem[];
  beforeAll(async () => {
    one = await deployed(moto, prometheus.url, { PUSHGATEWAY_URL: gateway.url });
    account = await lambda("account", one.env);
    const plan = await lambda("plan", one.env);
    ({ sent } = answerOf<{ sent: WorkItem[] }>(await plan.invoke(await eventFile("gap"))));
  }, 60_000);

  test("one work item for each month of the unit that both tenants share", async () => {
    expect(sent).toEqual(["2025-01", "2025-02"].map((month) => ({ v: 1, ...UNIT, month, mode: "gap" })));
    const events = await work(one, account);
    expect(events).toHaveLength(2);
    expect(events.map(({ Records }) => JSON.parse(Records[0]!.body))).toEqual(expect.arrayContaining([...sent]));
    expect(await emptied(moto.sqs, one.dead)).toEqual([]);
  }, 60_000);

  test("the messages are those of one uninterrupted run, and APEL's table is the truth", async () => {
    const table = await loaded(one.store);
    for (const month of ["2025-01", "2025-02"]) {
      const { generation, messages } = await newest(one.store, month);
      expect(generation).toBe(1);
      expect(messages.toSorted()).toEqual((await reference(prometheus.url, month)).toSorted());
      const { jobs, coreSeconds } = figures(month);
      expect(table.totals(month).get(UNIT.site)).toMatchObject({ jobs, syncJobs: jobs });
      expect(Math.abs(table.totals(month).get(UNIT.site)!.coreSeconds - coreSeconds)).toBeLessThan(1);
    }
  }, 60_000);

  test("a notification for every object, with its hash", async () => {
    const bells = (await emptied(moto.sqs, one.spool)).map(({ body }) => parseNotification(body));
    const keys = await one.store.list("outgoing/");
    const rung = bells.map((bell) => (bell.ok ? bell.notification : undefined)!);
    expect(rung.map(({ key }) => key).toSorted()).toEqual(keys);
    for (const { bucket, key, sha256 } of rung) {
      expect(bucket).toBe(one.bucket);
      expect(sha256).toBe(sha256Of((await one.store.get(key))!.body));
    }
  });

  test("its own metrics are on the Pushgateway and in the log for CloudWatch, and no scratch is left", async () => {
    expect(await one.store.list("scratch/")).toEqual([]);
    const text = await gateway.metrics();
    const labels = `instance="",job="gridmeter_accounting",period="older",site="${UNIT.site}",submit_host="${UNIT.submitHost}"`;
    const value = (name: string, more = ""): number => {
      const line = text
        .split("\n")
        .find(
          (each) =>
            each.startsWith(`gridmeter_accounting_${name}{${labels.replace(",period", `,period`)}`) &&
            each.includes(more),
        );
      return Number(line?.split(" ").at(-1));
    };
    expect(value("jobs")).toBe(figures("2025-02").jobs);
    expect(value("messages")).toBe((await newest(one.store, "2025-02")).messages.length);
    expect(value("days_asked")).toBe(56);
    expect(Math.abs(value("last_success_timestamp_seconds") - Date.now() / 1000)).toBeLessThan(120);
    expect(value("month_timestamp_seconds")).toBe(Date.parse("2025-02-01T00:00:00Z") / 1000);
    expect(text).toMatch(/gridmeter_accounting_left_out\{.*reason="no_cpu_request".*\} [1-9]/);
    const emf = account
      .log()
      .split("\n")
      .filter((line) => line.includes('"_aws"'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(emf).toHaveLength(2);
    for (const line of emf) {
      expect(line).toMatchObject({ service: "gridmeter", Success: 1, RefusedMonths: 0, Failed: 0 });
      expect(line["_aws"]).toMatchObject({
        CloudWatchMetrics: [{ Namespace: "gridmeter", Dimensions: [["service"]] }],
      });
    }
    expect(emf.map(({ Jobs }) => String(Jobs)).toSorted()).toEqual(
      ["2025-01", "2025-02"].map((month) => String(figures(month).jobs)).toSorted(),
    );
  });

  test("asked again, nothing changes; what the spooler has not taken is rung for again", async () => {
    const keys = await one.store.list("");
    const plan = running.at(-1)!;
    answerOf(await plan.invoke(await eventFile("gap")));
    expect(await work(one, account)).toHaveLength(2);
    expect(await one.store.list("")).toEqual(keys);
  }, 60_000);
});

test("events/work-item.json: one unit and month, whoever asked for it", async () => {
  const one = await deployed(moto, prometheus.url);
  const account = await lambda("account", one.env);
  const event = await eventFile<SQSEvent>("work-item");
  expect(answerOf(await account.invoke(event))).toEqual({ batchItemFailures: [] });
  const { messages } = await newest(one.store, "2025-01");
  expect(messages.toSorted()).toEqual((await reference(prometheus.url, "2025-01")).toSorted());
  expect(await newest(one.store, "2025-02")).toEqual({ generation: 0, messages: [] });
}, 60_000);

test("events/auto.json: the previous and the current month up to now", async () => {
  const now = Math.floor(Date.now() / 1000);
  const cluster = demoCluster({ now, rounds: 1, scrapeInterval: 120 });
  const server = await serveSeries(simulate(cluster));
  try {
    // One tenant, from the environment alone, and no queue to ring on.
    const one = await deployed(moto, server.url, { NAMESPACE: "grid", TENANTS_PARAMETER: "", SPOOL_QUEUE_URL: "" });
    const [plan, account] = [await lambda("plan", one.env), await lambda("account", one.env)];
    const { sent } = answerOf<{ sent: WorkItem[] }>(await plan.invoke(await eventFile("auto")));
    expect(sent.map(({ mode }) => mode)).toEqual(["auto", "auto"]);
    expect(await work(one, account)).toHaveLength(2);
    expect(await emptied(moto.sqs, one.dead)).toEqual([]);
    const table = await loaded(one.store);
    for (const { month } of sent) {
      const { jobs } = truth(cluster, month).get("grid")!;
      expect(jobs).toBeGreaterThan(0);
      expect(table.totals(month).get(UNIT.site)).toMatchObject({ jobs, syncJobs: jobs });
    }
  } finally {
    await server.stop();
  }
}, 120_000);

describe("events/gap-dry-run.json", () => {
  test("without a bucket or queue: the plan and the messages", async () => {
    const { env } = await deployed(moto, prometheus.url);
    const bare = Object.fromEntries(Object.entries(env).filter(([name]) => !/BUCKET|QUEUE/.test(name)));
    const plan = await lambda("plan", bare);
    const answer = answerOf<DryRun>(await plan.invoke(await eventFile("gap-dry-run")));
    expect(answer.dryRun).toBe(true);
    expect(answer.plan.units).toEqual([
      { ...UNIT, month: "2025-01", tenants: ["mixed", "plain"], generation: 0, pins: 0 },
    ]);
    expect(answer.plan.months.map(({ wouldAsk }) => wouldAsk[0])).toEqual([
      "2025-01-01 to 2025-01-31",
      "2025-01-01 to 2025-01-31",
    ]);
    expect(answer.messages.flatMap(({ messages }) => messages).toSorted()).toEqual(
      (await reference(prometheus.url, "2025-01")).toSorted(),
    );
    expect(await moto.s3.send(new ListObjectsV2Command({ Bucket: env["GRIDMETER_BUCKET"] }))).toMatchObject({
      KeyCount: 0,
    });
  }, 60_000);

  test("with a bucket: nothing is written, and nothing is on the queue", async () => {
    const one = await deployed(moto, prometheus.url);
    const plan = await lambda("plan", one.env);
    const answer = answerOf<DryRun>(await plan.invoke(await eventFile("gap-dry-run")));
    expect(answer.messages.map(({ status }) => status)).toEqual(["would_publish"]);
    expect(await one.store.list("")).toEqual([]);
    expect(await emptied(moto.sqs, one.work)).toEqual([]);
  }, 60_000);
});

type DryRun = {
  readonly dryRun: boolean;
  readonly plan: { readonly units: unknown[]; readonly months: { readonly wouldAsk: string[] }[] };
  readonly messages: { readonly status: string; readonly messages: string[] }[];
};

describe("a month that takes more than one invocation", () => {
  test("goes on where it was, as a new message each time, and ends with the same messages", async () => {
    const slow = await startSlowProxy(prometheus.url, 150);
    const single = { NAMESPACE: MIXED, TENANTS_PARAMETER: "", QUERY_CONCURRENCY: "1" };
    try {
      const one = await deployed(moto, slow.url, single);
      const [plan, account] = [await lambda("plan", one.env), await lambda("account", one.env)];
      answerOf(await plan.invoke({ mode: "gap", start: "2025-01-01T00:00:00Z", end: "2025-02-01T00:00:00Z" }));
      const events = await work(one, account, 16);
      const records = events.flatMap(({ Records }) => Records);
      expect(records.length).toBeGreaterThan(1);
      expect(new Set(records.map(({ messageId }) => messageId)).size).toBe(records.length);
      // No receive count is spent: that would lead to the dead letters.
      expect(records.map(({ attributes }) => attributes.ApproximateReceiveCount)).toEqual(records.map(() => "1"));
      const runs = records.slice(1).map(({ body }) => (JSON.parse(body) as WorkItem).run);
      const [first] = records;
      expect(runs).toEqual(
        runs.map((_, index) => ({
          id: first!.messageId,
          now: Math.floor(Number(first!.attributes.SentTimestamp) / 1000),
          part: index + 2,
        })),
      );
      const { generation, messages } = await newest(one.store, "2025-01");
      expect(generation).toBe(1);
      expect(messages.toSorted()).toEqual((await reference(prometheus.url, "2025-01", single)).toSorted());
      expect(await one.store.list("scratch/")).toEqual([]);
      expect(await emptied(moto.sqs, one.dead)).toEqual([]);
    } finally {
      await slow.stop();
    }
  }, 120_000);

  test("a run that comes to no end goes to the dead letters with its reason, and not on", async () => {
    const slow = await startSlowProxy(prometheus.url, 150);
    try {
      const one = await deployed(moto, slow.url, { NAMESPACE: MIXED, TENANTS_PARAMETER: "", QUERY_CONCURRENCY: "1" });
      const account = await lambda("account", one.env);
      const run = { id: "endless", now: 1_764_486_000, part: MOST_PARTS };
      const item: WorkItem = { v: 1, ...UNIT, month: "2025-01", mode: "gap", run };
      const message = { QueueUrl: one.work, MessageBody: JSON.stringify(item), MessageGroupId: "unit" };
      await moto.sqs.send(new SendMessageCommand({ ...message, MessageDeduplicationId: "endless" }));
      expect(await work(one, account, 16)).toHaveLength(1);
      expect(await emptied(moto.sqs, one.work)).toEqual([]);
      expect((await emptied(moto.sqs, one.dead)).map(({ body }) => body)).toEqual([JSON.stringify(item)]);
      expect(account.log()).toContain("run_too_long");
      expect(account.log()).toContain('"Failed":1');
      expect(await one.store.list("outgoing/")).toEqual([]);
    } finally {
      await slow.stop();
    }
  }, 120_000);

  test.runIf(isLong)(
    "a function that Lambda kills in the middle comes again and keeps what it had",
    async () => {
      const slow = await startSlowProxy(prometheus.url, 150);
      try {
        const one = await deployed(moto, slow.url, { QUERY_CONCURRENCY: "1", QUERY_TIMEOUT: "60s" });
        const [plan, account] = [await lambda("plan", one.env), await lambda("account", one.env)];
        answerOf(await plan.invoke({ mode: "gap", start: "2025-01-01T00:00:00Z", end: "2025-02-01T00:00:00Z" }));
        let killed = 0;
        const events = await drain(moto.sqs, one.work, async (event) => {
          // The handler believes that it has an hour, so it never stops by itself.
          const invoked = await account.invoke(event, 3600, killed < 2 ? 3 : undefined);
          if (invoked.kind === "timeout") killed += 1;
          return answerOf<SQSBatchResponse>(invoked);
        });
        expect(killed).toBe(2);
        expect(events.map(({ Records }) => Records[0]!.attributes.ApproximateReceiveCount)).toEqual(["1", "2", "3"]);
        const { messages } = await newest(one.store, "2025-01");
        expect(messages.toSorted()).toEqual((await reference(prometheus.url, "2025-01")).toSorted());
      } finally {
        await slow.stop();
      }
    },
    120_000,
  );
});

describe("events/manual-s3.json", () => {
  const NAME = "corrections of January (v2).apel";
  const record = (fields: Record<string, string>): string =>
    Object.entries({
      Site: UNIT.site,
      Month: "1",
      Year: "2025",
      VO: "by-hand",
      SubmitHost: UNIT.submitHost,
      InfrastructureType: "grid",
      ServiceLevelType: "si2k",
      ServiceLevel: "2500",
      WallDuration: "7200",
      CpuDuration: "7200",
      NumberOfJobs: "2",
      Processors: "0",
      NodeCount: "0",
      EarliestEndTime: "1735700000",
      LatestEndTime: "1735700001",
      ...fields,
    })
      .map(([name, value]) => `${name}: ${value}\n`)
      .join("") + "%%\n";
  const HEADER = "APEL-summary-job-message: v0.2\n";

  async function submitted(body: string, name = NAME) {
    const one = await deployed(moto, prometheus.url);
    const manual = await lambda("manual", one.env);
    await moto.s3.send(new PutObjectCommand({ Bucket: one.bucket, Key: `manual/incoming/${name}`, Body: body }));
    const event = await eventFile<S3Event>("manual-s3");
    event.Records[0]!.s3.bucket.name = one.bucket;
    const text = async (Key: string) =>
      (await moto.s3.send(new GetObjectCommand({ Bucket: one.bucket, Key }))).Body!.transformToString();
    const files = async () =>
      ((await moto.s3.send(new ListObjectsV2Command({ Bucket: one.bucket, Prefix: "manual/" }))).Contents ?? [])
        .map(({ Key }) => Key!)
        .filter((key) => /^manual\/(incoming|accepted|refused)\//.test(key));
    return { one, manual, event, text, files };
  }

  test("good records are sent and rung for, and the file is moved to accepted/; told of twice, nothing more happens", async () => {
    const body = HEADER + record({});
    const { one, manual, event, text, files } = await submitted(body);
    expect(answerOf(await manual.invoke(event))).toMatchObject({
      files: [{ outcome: "accepted", sent: 1, refused: 0 }],
    });
    expect(await files()).toEqual([`manual/accepted/${NAME}`]);
    expect(await text(`manual/accepted/${NAME}`)).toBe(body);
    expect((await newest(one.store, "2025-01")).messages).toEqual([body]);
    expect(await emptied(moto.sqs, one.spool)).toHaveLength(1);
    const before = await one.store.list("");
    expect(answerOf(await manual.invoke(event))).toMatchObject({ files: [{ outcome: "gone" }] });
    expect(await one.store.list("")).toEqual(before);
  }, 60_000);

  test("of a partly bad file the good records go; the file is in refused/ with line and reason", async () => {
    const body = HEADER + record({}) + record({ VO: "other", WallDuration: "3600.5" });
    const { one, manual, event, text, files } = await submitted(body);
    expect(answerOf(await manual.invoke(event))).toMatchObject({
      files: [{ outcome: "refused", sent: 1, refused: 1 }],
    });
    expect(await files()).toEqual([`manual/refused/${NAME}`, `manual/refused/${NAME}.reason.txt`]);
    expect(await text(`manual/refused/${NAME}`)).toBe(body);
    expect(await text(`manual/refused/${NAME}.reason.txt`)).toMatch(
      /1 records were refused.*1 others were sent[^]*line 26: .*3600\.5/,
    );
    expect((await newest(one.store, "2025-01")).messages).toEqual([HEADER + record({})]);
  }, 60_000);

  test.each([
    ["no message at all", "hello\n", "header"],
    ["a blank file", " \n", ""],
    ["bytes that are no text", Buffer.from([0xff, 0xfe, 0x00, 0x41]).toString("latin1"), ""],
  ])(
    "%s is refused as a whole",
    async (_what, body, reason) => {
      const { one, manual, event, text, files } = await submitted(body);
      expect(answerOf(await manual.invoke(event))).toMatchObject({ files: [{ outcome: "refused", sent: 0 }] });
      expect(await files()).toEqual([`manual/refused/${NAME}`, `manual/refused/${NAME}.reason.txt`]);
      expect(await text(`manual/refused/${NAME}.reason.txt`)).toContain(reason);
      expect(await one.store.list("outgoing/")).toEqual([]);
    },
    60_000,
  );

  test("files elsewhere are left alone, so a wrong notification does no harm", async () => {
    const { one, manual, event } = await submitted(HEADER + record({}));
    event.Records[0]!.s3.object.key = "manual/accepted/x";
    expect(answerOf(await manual.invoke(event))).toMatchObject({ files: [{ outcome: "ignored" }] });
    event.Records[0]!.s3.object.key = "manual/incoming/";
    expect(answerOf(await manual.invoke(event))).toMatchObject({ files: [{ outcome: "ignored" }] });
    expect(await one.store.list("outgoing/")).toEqual([]);
  }, 60_000);
});

test("events/reap.json: groups of dead agents go; the accounting's and everybody else's stay", async () => {
  const own = await startPushgateway();
  try {
    const text = "# TYPE probe_up gauge\nprobe_up 1\n";
    const agent = { job: "gridmeter_agent", instance: "node/1", probe: "docker ps" };
    const others = [
      { job: "gridmeter_agent" },
      { job: "gridmeter_accounting", period: "current" },
      { job: "other", probe: "x" },
    ];
    for (const group of [agent, ...others]) await push(own.url, group, text);
    const reap = await lambda("reap", { AWS_REGION: "eu-central-1", PUSHGATEWAY_URL: own.url });
    const event = await eventFile<Record<string, unknown>>("reap");
    expect(answerOf(await reap.invoke(event))).toEqual({ deleted: [], dryRun: false });
    await new Promise((resolve) => setTimeout(resolve, 1100));
    const soon = { ...event, olderThanSeconds: 0.001 };
    expect(answerOf(await reap.invoke({ ...soon, dryRun: true }))).toMatchObject({
      deleted: [{ grouping: agent }],
      dryRun: true,
    });
    expect(await listGroups(own.url)).toHaveLength(4);
    expect(answerOf(await reap.invoke(soon))).toMatchObject({ deleted: [{ grouping: agent }] });
    const left = (await listGroups(own.url)).map(({ grouping }) => grouping);
    expect(left).toHaveLength(3);
    expect(left).toEqual(expect.arrayContaining(others));
    const wrong = await reap.invoke({ older: 3 });
    expect(wrong).toMatchObject({
      kind: "error",
      errorType: "GridmeterError",
      // A summary, and no lines of the bundle.
      trace: [expect.stringMatching(/^GridmeterError: config_invalid: The event of reap is wrong/)],
    });
    expect(reap.log()).toContain('"code":"config_invalid"');
  } finally {
    await own.stop();
  }
  const gone = await lambda("reap", { AWS_REGION: "eu-central-1", PUSHGATEWAY_URL: own.url });
  expect(await gone.invoke({})).toMatchObject({
    kind: "error",
    errorMessage: expect.stringContaining("could not be reached") as string,
  });
}, 60_000);
