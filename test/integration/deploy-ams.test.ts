// `serverless deploy` with DELIVERY=ams into moto: the deployed bundles count a month and send it to a stand-in of AMS, end to end; then the
// same stack with DELIVERY=spool.
import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { SQSBatchResponse } from "aws-lambda";
import { afterAll, beforeAll, expect, test } from "vitest";
import { deliveryOf } from "../../lib/accounting/delivery/ams-or-spool.ts";
import { S3Store } from "../../lib/accounting/store/s3.ts";
import { simulate } from "../simulator/index.ts";
import { type AmsServer, startAms } from "../support/ams-server.ts";
import { missingRights } from "../support/aws-rights.ts";
import { type DeployedFunction, askLambda, fetchFunction } from "../support/deployed-function.ts";
import { type Deployment, copyProject } from "../support/deployment.ts";
import { dirqTool } from "../support/dirq-tool.ts";
import { CLUSTER, TENANTS, accountingEnv, eventFile, putParameter } from "../support/functions-world.ts";
import { type Moto, startMoto } from "../support/moto.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { type CliRun, bundledCli, gap, runCli } from "../support/run-cli.ts";
import { serveSeries } from "../support/serve-series.ts";
import { verified } from "../support/smime.ts";
import { type Json, type Template, readTemplate } from "../support/template.ts";
import { type Authority, type Identity, makeAuthority } from "../support/tls.ts";
import { drain } from "../support/work-queue.ts";

const BUCKET = "gridmeter-dev-123456789012-eu-central-1";
const NAMES = ["plan", "account", "send"] as const;
type Name = (typeof NAMES)[number];
const PARAMETERS = {
  TENANTS_PARAMETER: "/gridmeter/dev/tenants",
  AMS_CERTIFICATE_PARAMETER: "/gridmeter/dev/ams-certificate",
  AMS_KEY_PARAMETER: "/gridmeter/dev/ams-key",
  AMS_CA_PARAMETER: "/gridmeter/dev/ams-ca",
};

let moto: Moto;
let ams: AmsServer;
let authority: Authority;
let host: Identity;
let prometheus: PrometheusServer;
let project: Deployment;
let program: readonly string[];
let store: S3Store;
let template: Template;
const functions = new Map<Name, DeployedFunction>();

const deployEnv = (delivery: "ams" | "spool"): Record<string, string> => ({
  ...moto.env(),
  ...accountingEnv(prometheus.url),
  ...PARAMETERS,
  DELIVERY: delivery,
  AMS_HOST: ams.host,
  AMS_PORT: String(ams.port),
  AMS_AUTHN_PORT: String(ams.authnPort),
});

beforeAll(async () => {
  [moto, project, prometheus] = await Promise.all([startMoto(), copyProject(), serveSeries(simulate(CLUSTER))]);
  const folder = join(project.folder, "authority");
  await mkdir(folder);
  authority = makeAuthority(folder, "authority");
  host = authority.issue("host.example.org", 30, "rsa");
  ams = await startAms(authority);
  program = bundledCli(project.folder);
  store = new S3Store({ client: moto.s3, bucket: BUCKET, prefix: "" });
  await writeFile(join(project.folder, "tenants.json"), TENANTS);
  await putParameter(moto, PARAMETERS.TENANTS_PARAMETER, TENANTS);
  await putParameter(moto, PARAMETERS.AMS_CERTIFICATE_PARAMETER, readFileSync(host.certFile, "utf8"));
  await putParameter(moto, PARAMETERS.AMS_KEY_PARAMETER, readFileSync(host.keyFile, "utf8"));
  await putParameter(moto, PARAMETERS.AMS_CA_PARAMETER, readFileSync(authority.caFile, "utf8"));
  const build = await project.run("node", ["scripts/build-functions.ts"]);
  if (build.code !== 0) throw new Error(build.output);
  await deploy("ams");
}, 300_000);

afterAll(async () => {
  for (const { lambda, aws } of functions.values()) await Promise.all([lambda.stop(), aws.stop()]);
  await Promise.all([moto.stop(), ams.stop(), prometheus.stop()]);
  await project.remove();
});

async function deploy(delivery: "ams" | "spool"): Promise<void> {
  const { code, output } = await project.run("serverless", ["deploy"], deployEnv(delivery));
  if (code !== 0) throw new Error(output);
  const conditions = ["NamesTenants", "NamesAmsCertificate", "NamesAmsKey", "NamesAmsCa"];
  const given = {
    TenantsParameter: PARAMETERS.TENANTS_PARAMETER,
    AmsCertificateParameter: PARAMETERS.AMS_CERTIFICATE_PARAMETER,
    AmsKeyParameter: PARAMETERS.AMS_KEY_PARAMETER,
    AmsCaParameter: PARAMETERS.AMS_CA_PARAMETER,
  };
  template = await readTemplate(
    join(project.folder, ".serverless"),
    [...conditions, ...(delivery === "ams" ? ["SendsToAms"] : [])],
    given,
  );
  for (const name of NAMES) {
    const before = functions.get(name);
    await Promise.all([before?.lambda.stop(), before?.aws.stop()]);
    functions.set(name, await fetchFunction(moto, project, name));
  }
}

const configuration = (name: Name): Json => functions.get(name)!.configuration;
const variables = (name: Name): Record<string, string> => configuration(name).Environment.Variables;

// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- says what the answer is taken for
async function invoke<T>(name: Name, event: unknown): Promise<T> {
  const { lambda } = functions.get(name)!;
  const invoked = await lambda.invoke(event);
  if (invoked.kind !== "answer") throw new Error(`${JSON.stringify(invoked)}\n${lambda.log()}`);
  return invoked.value as T;
}

/** Lambda's event source mappings, as they were deployed: the queue's name, and the function that it calls. */
async function mappings(): Promise<readonly string[]> {
  const { EventSourceMappings: all } = await askLambda(moto, "event-source-mappings/");
  return all
    .map(({ EventSourceArn: queue, FunctionArn: name }: Json) => `${queue.split(":").at(-1)} ${name.split(":").at(-1)}`)
    .toSorted();
}

/** Plays the mapping of a queue. */
async function work(queue: "WORK_QUEUE_URL" | "SPOOL_QUEUE_URL", name: Name): Promise<number> {
  const events = await drain(moto.sqs, variables("plan")[queue]!, (event) => invoke<SQSBatchResponse>(name, event));
  return events.length;
}

const cli = (...args: string[]): Promise<CliRun> =>
  runCli(args, {
    cwd: project.folder,
    program,
    env: { ...moto.env(), ...accountingEnv(prometheus.url), TENANTS_FILE: "tenants.json" },
  });
const spool = (): Promise<CliRun> =>
  cli(
    "spool",
    "--once",
    "--source",
    `s3://${BUCKET}`,
    "--queue",
    variables("account")["SPOOL_QUEUE_URL"]!,
    "--output",
    "dirq:queue",
  );
const bodiesIn = async (queue: string): Promise<readonly string[]> =>
  ((await dirqTool("read", join(project.folder, queue))) as string[]).toSorted();
const taken = (): readonly string[] => ams.published.map(({ signed }) => verified(signed, authority.caFile, "cms"));

test("with DELIVERY=ams the spool queue calls send", async () => {
  expect(await mappings()).toEqual([
    "gridmeter-dev-spool.fifo gridmeter-dev-send",
    "gridmeter-dev-work.fifo gridmeter-dev-account",
  ]);
  expect(variables("send")).toMatchObject({ DELIVERY: "ams", AMS_HOST: "127.0.0.1", GRIDMETER_BUCKET: BUCKET });
  expect(JSON.stringify([configuration("send"), template])).not.toContain("BEGIN");
});

test("from events/gap.json to AMS: what it received verifies, and is byte for byte what the command line counts", async () => {
  await invoke("plan", await eventFile("gap"));
  expect(await work("WORK_QUEUE_URL", "account")).toBe(2);
  const outgoing = await store.list("outgoing/");
  expect(outgoing).toHaveLength(4);
  expect(await deliveryOf(store)).toBe("ams");
  // A spooler that somebody left running does nothing.
  expect(await spool()).toMatchObject({ code: 2, stderr: expect.stringContaining("delivery_elsewhere") as string });
  expect(await work("SPOOL_QUEUE_URL", "send")).toBe(4);
  const reference = await cli(
    "account",
    ...gap("2025-01", "2025-03"),
    "--ledger",
    "ledger",
    "--output",
    "dirq:reference",
  );
  expect(reference).toMatchObject({ code: 0 });
  expect(taken().toSorted()).toEqual(await bodiesIn("reference"));
  expect(await store.list("outgoing/")).toEqual([]);
  expect((await store.list("sent/")).filter((key) => !key.endsWith(".ams.json"))).toEqual(
    outgoing.map((key) => key.replace("outgoing/", "sent/")),
  );
}, 120_000);

test("events/send-sweep.json finds nothing more, and a state that is damaged is recovered from what was sent", async () => {
  expect(await invoke("send", await eventFile("send-sweep"))).toEqual({ messages: [] });
  const [state = ""] = await store.list("state/2025-01/");
  await store.put(state, "no JSON");
  await invoke("plan", { ...(await eventFile<object>("gap-dry-run")), dryRun: false });
  await work("WORK_QUEUE_URL", "account");
  expect((await store.list("outgoing/")).map((key) => /0000000002-[a-z]+-/.test(key))).toEqual([true, true]);
  expect(await invoke("send", await eventFile("send-sweep"))).toMatchObject({
    messages: [{ status: "sent" }, { status: "sent" }],
  });
  expect(taken()).toHaveLength(6);
}, 60_000);

test("send asked of AWS only what its role allows, and wrote no key into its log", () => {
  const { aws, lambda } = functions.get("send")!;
  expect(aws.requests.length).toBeGreaterThan(20);
  expect(missingRights(template, "SendRole", aws.requests)).toEqual([]);
  expect(missingRights(template, "AccountRole", functions.get("account")!.aws.requests)).toEqual([]);
  expect(missingRights(template, "AccountRole", aws.requests)).not.toEqual([]);
  const lines = readFileSync(host.keyFile, "utf8")
    .split("\n")
    .filter((line) => line.length > 40);
  expect(lines.filter((line) => lambda.log().includes(line))).toEqual([]);
  expect(lambda.log()).toContain('"MessagesSent":2');
});

test("deployed with DELIVERY=spool, nothing calls send, and the next generation goes through the spooler", async () => {
  await deploy("spool");
  // moto keeps the mapping of a stack whose template has none any more.
  expect(template.Resources).not.toHaveProperty("SendEventSourceMappingSQSSpoolQueue");
  expect(template.Resources).not.toHaveProperty("SendSchedule");
  await invoke("plan", { ...(await eventFile<object>("gap")), force: true });
  await work("WORK_QUEUE_URL", "account");
  expect(await deliveryOf(store)).toBe("spool");
  const { lambda } = functions.get("send")!;
  expect(await lambda.invoke(await eventFile("send-sweep"))).toMatchObject({
    kind: "error",
    errorMessage: expect.stringContaining("DELIVERY is spool") as string,
  });
  expect(await spool()).toMatchObject({ code: 0 });
  expect(await bodiesIn("queue")).toEqual(await bodiesIn("reference"));
  expect(taken()).toHaveLength(6);
  expect(await store.list("outgoing/")).toEqual([]);
}, 180_000);

test("and back to ams: the next sweep says so to the bucket, and sends", async () => {
  await deploy("ams");
  await invoke("plan", { ...(await eventFile<object>("gap")), force: true });
  await work("WORK_QUEUE_URL", "account");
  await invoke("send", await eventFile("send-sweep"));
  expect(taken()).toHaveLength(10);
  expect(await spool()).toMatchObject({ code: 2 });
}, 180_000);
