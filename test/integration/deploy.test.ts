// `serverless deploy` into moto, then what was deployed, fetched back from there: under Lambda's own runtime client, with
// the deployed settings and the files of events/, against a real Prometheus and a real Pushgateway, down to ssmsend's queue.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { PutObjectCommand } from "@aws-sdk/client-s3";
import type { S3Event, SQSBatchResponse } from "aws-lambda";
import { afterAll, beforeAll, expect, test } from "vitest";
import { S3Store } from "../../lib/accounting/store/s3.ts";
import { simulate } from "../simulator/index.ts";
import { missingRights } from "../support/aws-rights.ts";
import { type DeployedFunction, askLambda, fetchFunction } from "../support/deployed-function.ts";
import { copyProject } from "../support/deployment.ts";
import type { Deployment, Ended } from "../support/deployment.ts";
import { dirqTool } from "../support/dirq-tool.ts";
import { CLUSTER, TENANTS, UNIT, accountingEnv, eventFile, putParameter } from "../support/functions-world.ts";
import type { Invoked } from "../support/lambda-runtime.ts";
import { startMoto } from "../support/moto.ts";
import type { Moto } from "../support/moto.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { startPushgateway } from "../support/pushgateway-server.ts";
import type { PushgatewayServer } from "../support/pushgateway-server.ts";
import { bundledCli, gap, runCli } from "../support/run-cli.ts";
import type { CliRun } from "../support/run-cli.ts";
import { serveSeries } from "../support/serve-series.ts";
import { readTemplate } from "../support/template.ts";
import type { Json, Template } from "../support/template.ts";
import { drain } from "../support/work-queue.ts";

const BUCKET = "gridmeter-dev-123456789012-eu-central-1";
const TENANTS_PARAMETER = "/gridmeter/dev/tenants";
const FUNCTIONS = ["plan", "account", "manual", "send", "reap", "check"] as const;
type Name = (typeof FUNCTIONS)[number];

let moto: Moto;
let prometheus: PrometheusServer;
let gateway: PushgatewayServer;
let project: Deployment;
let program: readonly string[];
let deployment: Ended;
let template: Template;
let store: S3Store;
const functions = new Map<Name, DeployedFunction>();

const deployEnv = (): Record<string, string> => ({
  ...moto.env(),
  ...accountingEnv(prometheus.url),
  PUSHGATEWAY_URL: gateway.url,
  TENANTS_PARAMETER,
});

beforeAll(async () => {
  [moto, gateway, project, prometheus] = await Promise.all([
    startMoto(),
    startPushgateway(),
    copyProject(),
    serveSeries(simulate(CLUSTER)),
  ]);
  program = bundledCli(project.folder);
  store = new S3Store({ client: moto.s3, bucket: BUCKET, prefix: "" });
  await writeFile(join(project.folder, "tenants.json"), TENANTS);
  await putParameter(moto, TENANTS_PARAMETER, TENANTS);
  deployment = await project.run("serverless", ["deploy"], deployEnv());
  if (deployment.code !== 0) throw new Error(deployment.output);
  template = await readTemplate(join(project.folder, ".serverless"), ["NamesTenants"], {
    TenantsParameter: TENANTS_PARAMETER,
  });
  for (const name of FUNCTIONS) functions.set(name, await fetchFunction(moto, project, name));
}, 300_000);

afterAll(async () => {
  for (const { lambda, aws } of functions.values()) await Promise.all([lambda.stop(), aws.stop()]);
  await Promise.all([moto.stop(), gateway.stop(), prometheus.stop()]);
  await project.remove();
});

const lambdaApi = (path: string): Promise<Json> => askLambda(moto, path);

const deployed = (name: Name): DeployedFunction => functions.get(name)!;
const variables = (name: Name): Record<string, string> => deployed(name).configuration.Environment.Variables;

// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- says what the answer is taken for
async function invoke<T>(name: Name, event: unknown): Promise<T> {
  const invoked: Invoked = await deployed(name).lambda.invoke(event);
  if (invoked.kind !== "answer") throw new Error(`${JSON.stringify(invoked)}\n${deployed(name).lambda.log()}`);
  return invoked.value as T;
}

/** Lambda's event source mapping, as it was deployed. */
async function work(): Promise<number> {
  const { EventSourceMappings: mappings } = await lambdaApi("event-source-mappings/");
  expect(mappings).toHaveLength(1);
  const events = await drain(
    moto.sqs,
    variables("plan")["WORK_QUEUE_URL"]!,
    (event) => invoke<SQSBatchResponse>("account", event),
    { max: mappings[0].BatchSize },
  );
  return events.length;
}

const cli = (...args: string[]): Promise<CliRun> =>
  runCli(args, {
    cwd: project.folder,
    program,
    env: { ...moto.env(), ...accountingEnv(prometheus.url), TENANTS_FILE: "tenants.json" },
  });

const spool = (queue: string): Promise<CliRun> =>
  cli(
    "spool",
    "--once",
    "--source",
    `s3://${BUCKET}`,
    "--queue",
    variables("account")["SPOOL_QUEUE_URL"]!,
    "--output",
    `dirq:${queue}`,
  );

/** A queue's messages, as the real python-dirq reads them. */
async function bodiesIn(queue: string): Promise<readonly string[]> {
  return ((await dirqTool("read", join(project.folder, queue))) as string[]).toSorted();
}

test("serverless deploy and info: the functions with the settings, and the queue before account", async () => {
  expect(deployment.output).toContain("Service deployed to stack gridmeter-dev");
  const info = await project.run("serverless", ["info"], deployEnv());
  expect([info.code, info.output]).toEqual([0, expect.stringContaining("stack: gridmeter-dev")]);
  for (const name of FUNCTIONS) {
    expect(deployed(name).configuration).toMatchObject({
      Runtime: "nodejs24.x",
      Handler: `dist/functions/${name}.handler`,
      Role: expect.stringContaining(`role/gridmeter-dev-${name[0]!.toUpperCase()}${name.slice(1)}Role-`) as string,
      Environment: { Variables: { PUSHGATEWAY_URL: gateway.url } },
    });
  }
  expect(variables("account")).toMatchObject({
    ...accountingEnv(prometheus.url),
    GRIDMETER_BUCKET: BUCKET,
    TENANTS_PARAMETER,
    S3_SSE: "AES256",
  });
  const { EventSourceMappings: mappings } = await lambdaApi("event-source-mappings/");
  expect(mappings).toEqual([
    expect.objectContaining({
      BatchSize: 1,
      EventSourceArn: "arn:aws:sqs:eu-central-1:123456789012:gridmeter-dev-work.fifo",
      FunctionArn: "arn:aws:lambda:eu-central-1:123456789012:function:gridmeter-dev-account",
      FunctionResponseTypes: ["ReportBatchItemFailures"],
    }),
  ]);
}, 60_000);

test("check answers from the deployed function that all can be reached", async () => {
  const answer: Json = await invoke("check", {});
  const of = (about: string): Json => answer.findings.filter((each: Json) => each.about === about);
  for (const about of ["parameters", "bucket", "queues", "settings"])
    expect([about, of(about).map(({ verdict }: Json) => verdict)]).toEqual([about, of(about).map(() => "ok")]);
  expect(of("queues")).toHaveLength(3);
  expect(of("tenant mixed")[0]).toMatchObject({ question: "Is Prometheus reachable?", verdict: "ok" });
}, 60_000);

test("events/gap-dry-run.json shows the messages and stores nothing", async () => {
  const answer: Json = await invoke("plan", await eventFile("gap-dry-run"));
  expect(answer).toMatchObject({ dryRun: true, interrupted: false });
  expect(answer.messages.map(({ status }: Json) => status)).toEqual(["would_publish"]);
  expect(await store.list("")).toEqual([]);
}, 60_000);

test("from events/gap.json to ssmsend's queue: byte for byte what the command line puts there", async () => {
  await invoke("plan", await eventFile("gap"));
  expect(await work()).toBe(2);
  const outgoing = await store.list("outgoing/");
  expect(outgoing).toHaveLength(4);
  expect(await spool("queue")).toMatchObject({ code: 0 });
  const reference = await cli(
    "account",
    ...gap("2025-01", "2025-03"),
    "--ledger",
    "ledger",
    "--output",
    "dirq:reference",
  );
  expect(reference).toMatchObject({ code: 0 });
  const expected = await bodiesIn("reference");
  expect(expected).toHaveLength(4);
  expect(await bodiesIn("queue")).toEqual(expected);
  expect(await store.list("outgoing/")).toEqual([]);
  expect(await store.list("spooled/")).toEqual(outgoing.map((key) => key.replace("outgoing/", "spooled/")));
  expect(await gateway.metrics()).toContain('job="gridmeter_accounting"');
}, 120_000);

test("events/work-item.json brings nothing new; of events/auto.json last month is refused, since nobody saw it", async () => {
  const keys = await store.list("");
  expect(await invoke("account", await eventFile("work-item"))).toEqual({ batchItemFailures: [] });
  await invoke("plan", await eventFile("auto"));
  expect(await work()).toBe(2);
  expect(await store.list("")).toEqual(keys);
  expect(deployed("account").lambda.log()).toMatch(/monitoring_not_seen[^]*"RefusedMonths":1/);
}, 60_000);

test("a state that is damaged is recovered from what was spooled, and published under a later generation", async () => {
  const [state = ""] = await store.list("state/2025-01/");
  await store.put(state, "no JSON");
  // Looking only: it is set aside in thought, and nothing is written.
  const keys = await store.list("");
  expect(await invoke("plan", await eventFile("gap-dry-run"))).toMatchObject({
    messages: [{ status: "would_publish" }],
  });
  expect(await store.list("")).toEqual(keys);
  await invoke("plan", { ...(await eventFile<object>("gap-dry-run")), dryRun: false });
  expect(await work()).toBe(1);
  expect((await store.list("damaged/")).length).toBe(1);
  expect((await store.list("outgoing/")).map((key) => /0000000002-[a-z]+-/.test(key))).toEqual([true, true]);
  const before = await bodiesIn("queue");
  expect(await spool("queue")).toMatchObject({ code: 0 });
  expect(await bodiesIn("queue")).toEqual(before);
}, 60_000);

test("events/manual-s3.json and events/reap.json", async () => {
  const name = "corrections of January (v2).apel";
  const [body = ""] = (await bodiesIn("queue")).filter((each) => /summary[^]*Month: 1\n/.test(each));
  const written = body.replaceAll(/^VO: .*$/gm, "VO: by-hand");
  await moto.s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: `manual/incoming/${name}`, Body: written }));
  const event = await eventFile<S3Event>("manual-s3");
  event.Records[0]!.s3.bucket.name = BUCKET;
  expect(await invoke("manual", event)).toMatchObject({ files: [{ outcome: "accepted", sent: 1, refused: 0 }] });
  expect(await spool("queue")).toMatchObject({ code: 0 });
  expect(await bodiesIn("queue")).toContain(written);
  expect(await invoke("reap", await eventFile("reap"))).toEqual({ deleted: [], dryRun: false });
}, 60_000);

test("each function asked of AWS only what its role allows", () => {
  for (const name of FUNCTIONS) {
    const { requests } = deployed(name).aws;
    const role = `${name[0]!.toUpperCase()}${name.slice(1)}Role`;
    expect([name, missingRights(template, role, requests)]).toEqual([name, []]);
    // reap has a Pushgateway and nothing of AWS to ask; send is not called with delivery: spool.
    expect(requests.length > 0).toBe(name !== "reap" && name !== "send");
  }
  // Another's role would not do, so the comparison can fail.
  expect(missingRights(template, "PlanRole", deployed("account").aws.requests)).not.toEqual([]);
  expect(missingRights(template, "AccountRole", deployed("manual").aws.requests)).not.toEqual([]);
});

test("serverless invoke local -f plan --path events/gap-dry-run.json", async () => {
  const env = { ...accountingEnv(prometheus.url), TENANTS_FILE: "tenants.json" };
  const local = await project.run(
    "serverless",
    ["invoke", "local", "-f", "plan", "--path", "events/gap-dry-run.json"],
    env,
  );
  expect([local.code, local.output]).toEqual([0, expect.stringContaining('"dryRun": true')]);
  const answer: Json = JSON.parse(/^\{\n[^]*^\}$/m.exec(local.stdout)?.[0] ?? "null");
  const january = (await bodiesIn("reference")).filter((body) => /^Month: 1$/m.test(body));
  expect(answer.messages.flatMap(({ messages }: Json) => messages).toSorted()).toEqual(january);
  expect(answer.plan.units).toEqual([
    { ...UNIT, month: "2025-01", tenants: ["mixed", "plain"], generation: 0, pins: 0 },
  ]);
}, 60_000);

test("serverless remove takes the functions and queues away", async () => {
  const removed = await project.run("serverless", ["remove"], deployEnv());
  expect([removed.code, removed.output]).toEqual([0, expect.stringContaining("successfully removed")]);
  await expect(lambdaApi("functions/gridmeter-dev-plan")).rejects.toThrow("404");
}, 60_000);
