import { existsSync } from "node:fs";
import { readFile, readdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ABOUT } from "../../lib/accounting/settings/table.ts";
import { cfnLint, copyProject } from "../support/deployment.ts";
import type { Deployment, Ended } from "../support/deployment.ts";
import { accountingEnv } from "../support/functions-world.ts";
import { ofType, properties, readTemplate } from "../support/template.ts";
import type { Json, Template } from "../support/template.ts";

const FUNCTIONS = ["plan", "account", "manual", "send", "reap", "check"] as const;
/** Settings that a function has another way: the event, the bucket, or a parameter whose name stands in the environment. */
const ELSEWHERE = [
  "PUBLISHING_MODE",
  "QUERY_START",
  "QUERY_END",
  "OUTPUT_PATH",
  "LEDGER_PATH",
  "TENANTS_FILE",
  "PROMETHEUS_AUTH_HEADER",
  "PROMETHEUS_TOKEN_FILE",
  "PROMETHEUS_CA_FILE",
  "PROMETHEUS_CLIENT_CERT_FILE",
  "PROMETHEUS_CLIENT_KEY_FILE",
  "PUSHGATEWAY_AUTH_HEADER",
  "PUSHGATEWAY_CA_FILE",
  "METRICS_FILE",
];
const SETTINGS = [...ABOUT.keys()].filter((name) => !ELSEWHERE.includes(name) && !name.startsWith("AMS_"));
/** Of sending to AMS; only the function send has them. */
const SENDING = ["AMS_HOST", "AMS_PORT", "AMS_AUTHN_PORT", "AMS_PROJECT", "AMS_TOPIC"];
const SENDING_NAMED = ["AMS_CERTIFICATE", "AMS_KEY", "AMS_TOKEN", "AMS_CA"].map((name) => `${name}_PARAMETER`);
const NAMED = [
  "PROMETHEUS_AUTH_HEADER_PARAMETER",
  "PROMETHEUS_CA_PARAMETER",
  "PROMETHEUS_CLIENT_CERT_PARAMETER",
  "PROMETHEUS_CLIENT_KEY_PARAMETER",
  "PUSHGATEWAY_AUTH_HEADER_PARAMETER",
  "TENANTS_PARAMETER",
  "TENANTS_OBJECT",
  "PUSHGATEWAY_URL",
  "GRIDMETER_REPORT",
];
/** All that a site may leave out. */
const OPTIONAL = {
  ALARM_EMAIL: "grid-admins@example.org",
  KMS_KEY_ARN: "arn:aws:kms:eu-central-1:123456789012:key/0123abcd",
  PROMETHEUS_WORKSPACE_ARN: "arn:aws:aps:eu-central-1:123456789012:workspace/ws-0123abcd",
  VPC_SUBNET_IDS: "subnet-0123abcd,subnet-4567abcd",
  VPC_SECURITY_GROUP_IDS: "sg-0123abcd",
  PLAN_RESERVED_CONCURRENCY: "1",
  DELIVERY: "ams",
  AMS_SECRET_ARNS: "arn:aws:secretsmanager:eu-central-1:123456789012:secret:ams-key-0123ab",
};
/** Settings of which one excludes another of those above; they are packaged on their own. */
const INSTEAD: readonly string[] = ["PROMETHEUS_SIGV4_REGION", "TENANTS_OBJECT"];
const INSTEAD_OF: readonly string[] = ["PROMETHEUS_AUTH_HEADER_PARAMETER", "TENANTS_PARAMETER"];
const OTHER_VALUES: Readonly<Record<string, string>> = {
  TENANTS_OBJECT: "config/tenants.yaml",
  PUSHGATEWAY_URL: "http://pushgateway.example.org:9091",
  GRIDMETER_REPORT: "True",
};
const valueOf = (name: string): string =>
  ABOUT.get(name)?.example ??
  OTHER_VALUES[name] ??
  (name.endsWith("_PARAMETER") ? `/gridmeter/prod/${name.toLowerCase()}` : "");
const SECRET = "Bearer do-not-put-me-into-a-template";

const CONDITIONS = [...NAMED, ...SENDING_NAMED]
  .filter((name) => name.endsWith("_PARAMETER"))
  .map((name) => `Names${titled(name)}`);

/** PROMETHEUS_CA_PARAMETER is PrometheusCa. */
function titled(name: string): string {
  const words = name.replace("_PARAMETER", "").toLowerCase().split("_");
  return words.map((word) => `${word[0]?.toUpperCase()}${word.slice(1)}`).join("");
}

let project: Deployment;
let bare: Ended;
let full: Ended;
let other: Ended;
let template: Template;
let fullTemplate: Template;
let otherTemplate: Template;

beforeAll(async () => {
  project = await copyProject();
  // Each in a folder of its own: packaging into another one empties .serverless.
  bare = await project.package(["--package", "bare"], project.offline);
  const values = (without: readonly string[]): Record<string, string> =>
    Object.fromEntries(
      [...SETTINGS, ...NAMED, ...SENDING, ...SENDING_NAMED]
        .filter((name) => !without.includes(name))
        .map((name) => [name, valueOf(name)]),
    );
  const env = { ...project.offline, ...OPTIONAL, PROMETHEUS_AUTH_HEADER: SECRET };
  const packaged = (folder: string, without: readonly string[]): Promise<Ended> =>
    project.run("serverless", ["package", "--stage", "prod", "--package", folder], { ...env, ...values(without) });
  full = await packaged("full", INSTEAD);
  const { PROMETHEUS_AUTH_HEADER: _, ...noHeader } = env;
  other = await project.run("serverless", ["package", "--stage", "prod", "--package", "other"], {
    ...noHeader,
    ...values(INSTEAD_OF),
  });
  for (const { code, output } of [bare, full, other]) if (code !== 0) throw new Error(output);
  template = await readTemplate(join(project.folder, "bare"), []);
  otherTemplate = await readTemplate(join(project.folder, "other"), []);
  fullTemplate = await readTemplate(join(project.folder, "full"), [
    "MailsAlarms",
    "UsesKmsKey",
    "UsesAmazonPrometheus",
    "UsesVpc",
    "ReservesConcurrency",
    "SendsToAms",
    "NamesAmsSecrets",
    ...CONDITIONS,
  ]);
}, 300_000);
afterAll(() => project.remove());

const logicalId = (name: string): string => `${name[0]?.toUpperCase()}${name.slice(1)}LambdaFunction`;
const lambda = (of: Template, name: string): Record<string, Json> => properties(of, logicalId(name));
const variables = (of: Template, name: string): Record<string, Json> => lambda(of, name)["Environment"].Variables;

describe("packaging", () => {
  test("needs no network, no credentials and no home", async () => {
    expect([bare.code, full.code, other.code, await project.connections()]).toEqual([0, 0, 0, []]);
    // osls notes down there when it last looked for news; nothing else appears.
    expect((await readdir(join(project.folder, "home"))).filter((name) => name !== ".serverless")).toEqual([]);
  });

  test("notes down who connects, so that the test above could fail", async () => {
    const fetching = 'fetch("http://192.0.2.1/").catch(() => process.exit(7))';
    const { code } = await project.run("node", ["-e", fetching], project.offline);
    expect([code, await project.connections()]).toEqual([7, [expect.stringContaining("192.0.2.1")]]);
  });

  test.each(FUNCTIONS)("puts %s alone with its source map into its archive, in at most 2 MB", async (name) => {
    const bundle = join(project.folder, "dist", "functions", `${name}.cjs`);
    expect((await stat(bundle)).size).toBeLessThanOrEqual(2_000_000);
    const archive = join(project.folder, "bare", `${name}.zip`);
    const { stdout } = await project.run("python3", ["-m", "zipfile", "-l", archive]);
    const files = [...stdout.matchAll(/^(\S+\.\S+) /gm)].map(([, file = ""]) => file);
    expect(files.sort()).toEqual([`dist/functions/${name}.cjs`, `dist/functions/${name}.cjs.map`]);
    expect(lambda(template, name)["Handler"]).toBe(`dist/functions/${name}.handler`);
  });

  test("gives templates that cfn-lint has nothing to say about", async () => {
    const file = "cloudformation-template-update-stack.json";
    expect(await cfnLint(project, join(project.folder, "bare", file))).toBe("");
    expect(await cfnLint(project, join(project.folder, "full", file))).toBe("");
  });

  test("builds first, so that a bundle of an older checkout is never sent", async () => {
    const bundle = join(project.folder, "dist", "functions", "plan.cjs");
    await writeFile(bundle, "exports.handler = () => 'of an older checkout';");
    const { code, output } = await project.run("serverless", ["package", "--package", "anew"], project.offline);
    expect([code, output]).toEqual([0, expect.stringContaining("plan.cjs: ")]);
    const { stdout } = await project.run("python3", [
      "-c",
      "import sys, zipfile; print('older checkout' in zipfile.ZipFile(sys.argv[1]).read('dist/functions/plan.cjs').decode())",
      join(project.folder, "anew", "plan.zip"),
    ]);
    expect(stdout.trim()).toBe("False");
  });

  test("without any setting, the stages dev and local are packaged with a schedule that is off", async () => {
    const local = await project.run("serverless", ["package", "--stage", "local", "--package", "local"]);
    expect([local.code, local.output]).toEqual([0, expect.stringContaining("Service packaged")]);
    for (const each of [template, await readTemplate(join(project.folder, "local"), [])]) {
      expect(properties(each, "PlanSchedule")["State"]).toBe("DISABLED");
      expect(properties(each, "ReapSchedule")["State"]).toBe("DISABLED");
    }
    expect(properties(fullTemplate, "PlanSchedule")["State"]).toBe("ENABLED");
    expect(properties(fullTemplate, "ReapSchedule")["State"]).toBe("ENABLED");
  });

  test.each([
    ["no setting", "prod", {}, "SITE_NAME: is not set. Write for example SITE_NAME=EXAMPLE-T2."],
    ["some but not all", "dev", { SITE_NAME: "EXAMPLE-T2" }, "VO_NAME: is not set. Write for example VO_NAME=atlas."],
    ["a wrong value", "dev", { ...accountingEnv("http://p"), NAMESPACE: "a b" }, 'NAMESPACE="a b": '],
    [
      "a secret",
      "dev",
      { ...accountingEnv("http://p"), PROMETHEUS_AUTH_HEADER: SECRET },
      "PROMETHEUS_AUTH_HEADER: is read by",
    ],
    ["a stage with capitals", "Prod", accountingEnv("http://p"), 'stage="Prod": has capitals'],
    [
      "subnets alone",
      "dev",
      { VPC_SUBNET_IDS: "subnet-0123abcd" },
      "VPC_SECURITY_GROUP_IDS: is not set, but VPC_SUBNET_IDS is.",
    ],
    ["an alias", "dev", { KMS_KEY_ARN: "alias/ours" }, 'KMS_KEY_ARN="alias/ours": is an alias'],
  ])("refuses %s, and writes no template", async (_what, stage, env, expected) => {
    const args = ["package", "--stage", stage, "--package", "refused"];
    const { code, output } = await project.run("serverless", args, { ...project.offline, ...env });
    expect([code, output]).toEqual([1, expect.stringContaining(expected)]);
    expect(output).toContain("nothing was packaged or sent");
    expect(output).not.toContain("do-not-put-me");
    expect(existsSync(join(project.folder, "refused"))).toBe(false);
  });

  test("refuses a name that is misspelt in .env.STAGE, and takes a value that is given as a parameter", async () => {
    const lines = Object.entries(accountingEnv("http://p")).map(([name, value]) => `${name}=${value}\n`);
    await writeFile(join(project.folder, ".env.site"), `${lines.join("")}NAMSPACE=jobs\nALARM_MAIL=me@example.org\n`);
    const args = ["package", "--stage", "site", "--package", "refused"];
    const refused = await project.run("serverless", args);
    expect(refused.code).toBe(1);
    expect(refused.output).toContain("NAMSPACE: is no setting; did you mean NAMESPACE?");
    expect(refused.output).toContain("ALARM_MAIL: is no setting; did you mean ALARM_EMAIL?");
    await writeFile(join(project.folder, ".env.site"), `${lines.join("")}NAMESPACE=jobs\n`);
    const wrong = await project.run("serverless", [...args, "--param=alarmEmail=me"]);
    expect([wrong.code, wrong.output]).toEqual([1, expect.stringContaining('ALARM_EMAIL="me": is not an address')]);
    const right = await project.run("serverless", ["package", "--stage", "site", "--package", "right"]);
    expect([right.code, right.output]).toEqual([0, expect.stringContaining("Service packaged")]);
    await rm(join(project.folder, ".env.site"));
  });

  test("a deployment of the stage local, which could not work, is refused before AWS is asked", async () => {
    const { code, output } = await project.run("serverless", ["deploy", "--stage", "local"], project.offline);
    expect([code, output]).toEqual([1, expect.stringContaining('The stage "local" is for `serverless invoke local`')]);
  });

  test.each([
    ["PROMETHEUS_SERVER", "https://me:do-not-put-me@prometheus", "PROMETHEUS_AUTH_HEADER_PARAMETER"],
    ["PROMETHEUS_SERVER", "https//me:do-not-put-me@prometheus", "PROMETHEUS_AUTH_HEADER_PARAMETER"],
    ["PUSHGATEWAY_URL", "http://gateway:9091/?token=do-not-put-me", "PUSHGATEWAY_AUTH_HEADER_PARAMETER"],
  ])("refuses %s=%s, which would be legible, and names %s", async (name, address, instead) => {
    const env = { ...project.offline, ...accountingEnv("http://p"), NAMESPACE: "jobs", [name]: address };
    const { code, output } = await project.run("serverless", ["package", "--package", "refused"], env);
    expect(code).toBe(1);
    expect(output).toMatch(new RegExp(`${name}=.*: holds credentials`));
    expect(output).toContain(instead);
    expect(output).not.toContain("not-put-me");
  });

  test("puts no secret into the template", async () => {
    const text = await readFile(join(project.folder, "full", "cloudformation-template-update-stack.json"), "utf8");
    expect(text).not.toContain("do-not-put-me");
  });
});

describe("functions", () => {
  test.each(FUNCTIONS)("%s runs on Node 24 and arm64, under a role and with a log of its own", (name) => {
    const title = `${name[0]?.toUpperCase()}${name.slice(1)}`;
    expect(lambda(template, name)).toMatchObject({
      FunctionName: `gridmeter-dev-${name}`,
      Runtime: "nodejs24.x",
      Architectures: ["arm64"],
      Role: `${title}Role.Arn`,
      TracingConfig: { Mode: "Active" },
    });
    expect(properties(template, `${title}LogGroup`)).toEqual({
      LogGroupName: `/aws/lambda/gridmeter-dev-${name}`,
      RetentionInDays: 14,
    });
    expect(properties(fullTemplate, `${title}LogGroup`)["RetentionInDays"]).toBe(400);
  });

  test("use a VPC and reserve concurrency only where they are told to", () => {
    for (const name of FUNCTIONS) {
      expect(lambda(template, name)).not.toHaveProperty("VpcConfig");
      expect(lambda(fullTemplate, name)["VpcConfig"]).toEqual({
        SubnetIds: "VpcSubnetIds",
        SecurityGroupIds: "VpcSecurityGroupIds",
      });
    }
    expect(lambda(template, "plan")).not.toHaveProperty("ReservedConcurrentExecutions");
    expect(lambda(fullTemplate, "plan")["ReservedConcurrentExecutions"]).toBe("PlanReservedConcurrency");
    expect(fullTemplate.Parameters).toMatchObject({
      AlarmEmail: { Default: OPTIONAL.ALARM_EMAIL },
      KmsKeyArn: { Default: OPTIONAL.KMS_KEY_ARN },
      PrometheusWorkspaceArn: { Default: OPTIONAL.PROMETHEUS_WORKSPACE_ARN },
      VpcSubnetIds: { Default: OPTIONAL.VPC_SUBNET_IDS },
      VpcSecurityGroupIds: { Default: OPTIONAL.VPC_SECURITY_GROUP_IDS },
      PlanReservedConcurrency: { Default: "1" },
    });
  });

  test.each(["plan", "account", "check"])(
    "%s has every setting of the command line that its own way does not replace",
    (name) => {
      for (const setting of [...SETTINGS, ...NAMED]) {
        const of = INSTEAD.includes(setting) ? otherTemplate : fullTemplate;
        expect(variables(of, name)).toHaveProperty(setting, valueOf(setting));
        expect(variables(template, name)).not.toHaveProperty(setting);
      }
      expect(variables(template, name)).toMatchObject({
        GRIDMETER_BUCKET: "gridmeter-dev-123456789012-eu-central-1",
        WORK_QUEUE_URL: "WorkQueue",
        WORK_DEAD_LETTER_QUEUE_URL: "WorkDeadLetters",
        SPOOL_QUEUE_URL: "SpoolQueue",
        S3_SSE: "AES256",
      });
      expect(variables(fullTemplate, name)).toMatchObject({ S3_SSE: "aws:kms", S3_KMS_KEY_ID: "KmsKeyArn" });
    },
  );

  test("send has all that sending to AMS takes, and names of parameters in place of secrets; no other has them", () => {
    for (const setting of [...SENDING, ...SENDING_NAMED]) {
      expect(variables(fullTemplate, "send")).toHaveProperty(setting, valueOf(setting));
      expect(variables(template, "send")).not.toHaveProperty(setting);
      expect(variables(fullTemplate, "account")).not.toHaveProperty(setting);
    }
    const of = (which: Template) => ["account", "manual", "send"].map((name) => variables(which, name)["DELIVERY"]);
    expect([of(template), of(fullTemplate)]).toEqual([
      ["Delivery", "Delivery", "Delivery"],
      ["Delivery", "Delivery", "Delivery"],
    ]);
    expect(template.Parameters["Delivery"]).toMatchObject({ Default: "spool", AllowedValues: ["spool", "ams"] });
    expect(fullTemplate.Parameters["Delivery"]).toMatchObject({ Default: "ams" });
  });

  // Not reap and send: they are bundled with the reader of settings but ask it for a few parameters alone.
  test.each(FUNCTIONS.filter((name) => name !== "reap" && name !== "send"))(
    "%s is given every variable that its sources ask for",
    async (name) => {
      const asked = await variablesAskedFor(project.folder, name);
      expect(asked.length).toBeGreaterThan(3);
      const given = [fullTemplate, otherTemplate].flatMap((each) => Object.keys(variables(each, name)));
      // The bucket is gridmeter's own, so there is no prefix in it; a tenants file is an object or a parameter here; the
      // mode is the event's.
      const left = asked.filter(
        (each) => !["GRIDMETER_PREFIX", "TENANTS_FILE", "PUBLISHING_MODE"].includes(each) && !given.includes(each),
      );
      expect(left).toEqual([]);
    },
  );
});

/** The names in `variable(env, "NAME")` and the like, in the sources that esbuild put into the bundle. */
async function variablesAskedFor(folder: string, name: string): Promise<readonly string[]> {
  const map: Json = JSON.parse(await readFile(join(folder, "dist", "functions", `${name}.cjs.map`), "utf8"));
  const sources: readonly string[] = map.sources;
  const own = sources
    .filter((source) => !source.includes("node_modules") && !/^\w+:/.test(source))
    .map((source) => join(folder, "dist", "functions", source));
  const texts = await Promise.all(own.map((source) => readFile(source, "utf8")));
  const asks = /(?:variable|needed|parameterText|objectText)\([^()"]*"([A-Z][A-Z0-9_]+)"|env\["([A-Z][A-Z0-9_]+)"\]/g;
  const found = texts.flatMap((text) => [...text.matchAll(asks)].map(([, one, other]) => one ?? other ?? ""));
  return [...new Set(found)].filter((each) => !each.startsWith("AWS_") && !each.startsWith("POWERTOOLS_")).sort();
}

describe("queues", () => {
  const queue = (name: string): Record<string, Json> => properties(template, name);

  test("the spool queue waits long enough for a round, and no function may run longer than Lambda lets it", () => {
    expect(queue("SpoolQueue")["VisibilityTimeout"]).toBe(300);
    expect(properties(fullTemplate, "SpoolQueue")["VisibilityTimeout"]).toBe(
      6 * lambda(fullTemplate, "send")["Timeout"],
    );
    expect(Math.max(...FUNCTIONS.map((name) => lambda(template, name)["Timeout"]))).toBeLessThanOrEqual(900);
  });

  test.each([
    ["WorkQueue", "WorkDeadLetters", 5],
    ["SpoolQueue", "SpoolDeadLetters", 1000],
  ])("%s is FIFO, and so are its dead letters in %s", (name, deadLetters, maxReceiveCount) => {
    expect(queue(name)).toMatchObject({
      FifoQueue: true,
      QueueName: expect.stringMatching(/\.fifo$/),
      RedrivePolicy: { deadLetterTargetArn: `${deadLetters}.Arn`, maxReceiveCount },
    });
    expect(queue(deadLetters)).toMatchObject({
      FifoQueue: true,
      QueueName: expect.stringMatching(/\.fifo$/),
      MessageRetentionPeriod: 14 * 86_400,
    });
  });

  test("what fails for good ends in a standard queue, which destinations and schedules need", () => {
    expect(queue("FailedInvocations")).not.toHaveProperty("FifoQueue");
    expect(queue("FailedInvocations")["QueueName"]).toBe("gridmeter-dev-failed-invocations");
    const found = ofType(template, "AWS::Lambda::EventInvokeConfig").map(([, each]) => [each["FunctionName"], each]);
    const expected = {
      DestinationConfig: { OnFailure: { Destination: "FailedInvocations.Arn" } },
      MaximumRetryAttempts: 2,
    };
    expect(found).toHaveLength(4);
    expect(Object.fromEntries(found)).toMatchObject({
      [logicalId("plan")]: expected,
      [logicalId("manual")]: expected,
      [logicalId("send")]: expected,
      [logicalId("reap")]: expected,
    });
  });

  test("account takes one unit at a time, answers by item, and has no destination, since a queue calls it", () => {
    expect(ofType(template, "AWS::Lambda::EventSourceMapping").map(([, each]) => each)).toEqual([
      {
        BatchSize: 1,
        EventSourceArn: "WorkQueue.Arn",
        FunctionName: "AccountLambdaFunction.Arn",
        Enabled: true,
        FunctionResponseTypes: ["ReportBatchItemFailures"],
        ScalingConfig: { MaximumConcurrency: 2 },
      },
    ]);
  });

  test("a unit that fails is not held up for hours, and never given to two invocations", () => {
    const seconds: number = queue("WorkQueue")["VisibilityTimeout"];
    expect(seconds).toBeGreaterThan(lambda(template, "account")["Timeout"]);
    expect(seconds * queue("WorkQueue")["RedrivePolicy"].maxReceiveCount).toBeLessThanOrEqual(90 * 60);
  });

  test("account may call itself, which Lambda ends after 16 times if it is not told", () => {
    expect(lambda(template, "account")["RecursiveLoop"]).toBe("Allow");
    for (const name of FUNCTIONS.filter((each) => each !== "account"))
      expect(lambda(template, name)).not.toHaveProperty("RecursiveLoop");
  });

  test("send takes the spooler's place at the spool queue with delivery: ams, and only then", () => {
    const mappings = ofType(fullTemplate, "AWS::Lambda::EventSourceMapping").map(([, each]) => each);
    expect(mappings).toContainEqual({
      BatchSize: 1,
      EventSourceArn: "SpoolQueue.Arn",
      FunctionName: "SendLambdaFunction.Arn",
      Enabled: true,
      FunctionResponseTypes: ["ReportBatchItemFailures"],
      ScalingConfig: { MaximumConcurrency: 2 },
    });
    expect(mappings).toHaveLength(2);
  });

  test("all are encrypted", () => {
    const queues = ofType(template, "AWS::SQS::Queue");
    expect(queues.map(([, each]) => each["SqsManagedSseEnabled"])).toEqual(queues.map(() => true));
    expect(queues).toHaveLength(5);
  });
});

describe("schedules", () => {
  test.each([
    ["PlanSchedule", "cron(0 6 * * ? *)", "plan", "auto.json"],
    ["ReapSchedule", "rate(1 hour)", "reap", "reap.json"],
    ["SendSchedule", "rate(15 minutes)", "send", "send-sweep.json"],
  ])("%s starts its function, tries again, and keeps what failed", async (name, expression, target, file) => {
    expect(name in template.Resources).toBe(name !== "SendSchedule");
    const schedule = properties(fullTemplate, name);
    expect(schedule).toMatchObject({
      ScheduleExpression: `${name}Expression`,
      ScheduleExpressionTimezone: "UTC",
      FlexibleTimeWindow: { Mode: "OFF" },
      Target: {
        Arn: `${logicalId(target)}.Arn`,
        RoleArn: "ScheduleRole.Arn",
        DeadLetterConfig: { Arn: "FailedInvocations.Arn" },
      },
    });
    expect(template.Parameters[`${name}Expression`]).toMatchObject({ Default: expression });
    const { RetryPolicy: policy, Input: input } = schedule["Target"];
    expect(policy.MaximumRetryAttempts).toBeGreaterThan(0);
    expect(policy.MaximumEventAgeInSeconds).toBeLessThanOrEqual(86_400);
    const sample = await readFile(join(project.folder, "events", file), "utf8");
    expect(JSON.parse(input)).toEqual(JSON.parse(sample));
  });
});
