import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "dotenv";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MOST_PARTS } from "../../functions/common/work-item.ts";
import { accountingEnv } from "../support/functions-world.ts";
import { copyProject } from "../support/deployment.ts";
import type { Deployment } from "../support/deployment.ts";
import { ofType, properties, readTemplate, rightsIn, statementsOf } from "../support/template.ts";
import type { Json, Template } from "../support/template.ts";

const BUCKET = "arn:aws:s3:::gridmeter-dev-123456789012-eu-central-1";
const NAMED = ["PrometheusAuthHeader", "PrometheusCa", "PrometheusClientCert", "PrometheusClientKey", "Tenants"];
const SENDING = ["AmsCertificate", "AmsKey", "AmsToken", "AmsCa"];
const EVERYTHING = [
  "MailsAlarms",
  "UsesKmsKey",
  "UsesParameterKey",
  "HasBoundary",
  "EncryptsAlarms",
  "UsesAmazonPrometheus",
  "UsesVpc",
  "ReservesConcurrency",
  "SendsToAms",
  "NamesAmsSecrets",
  ...[...NAMED, ...SENDING, "PushgatewayAuthHeader"].map((name) => `Names${name}`),
];

let project: Deployment;
/** with nothing that is optional, and with all of it */
let template: Template;
let fullTemplate: Template;

beforeAll(async () => {
  project = await copyProject();
  const { code, output } = await project.package();
  if (code !== 0) throw new Error(output);
  template = await readTemplate(join(project.folder, ".serverless"), []);
  fullTemplate = await readTemplate(join(project.folder, ".serverless"), EVERYTHING);
}, 300_000);
afterAll(() => project.remove());

/** What a role may do, sorted by nothing. It has no managed policies. */
function rights(of: Template, role: string): readonly string[] {
  expect(properties(of, role)).not.toHaveProperty("ManagedPolicyArns");
  return rightsIn(statementsOf(of, role));
}

const logs = (role: string): string[] => [
  `logs:CreateLogStream ${role}LogGroup.Arn`,
  `logs:PutLogEvents ${role}LogGroup.Arn`,
];
const TRACES = ["xray:PutTraceSegments *", "xray:PutTelemetryRecords *"];
const INTERFACES = [
  "ec2:CreateNetworkInterface *",
  "ec2:DescribeNetworkInterfaces *",
  "ec2:DescribeSubnets *",
  "ec2:DeleteNetworkInterface *",
  "ec2:AssignPrivateIpAddresses *",
  "ec2:UnassignPrivateIpAddresses *",
];
const KEY = ["kms:Decrypt KmsKeyArn", "kms:GenerateDataKey KmsKeyArn"];
const METRICS = ["aps:QueryMetrics PrometheusWorkspaceArn"];
/** The parameter's name begins with a slash. */
const parameter = (name: string): string =>
  `ssm:GetParameter arn:aws:ssm:eu-central-1:123456789012:parameter${name}Parameter`;
/** The parameters that each function reads, where they are named. */
const PARAMETERS: Readonly<Record<string, readonly string[]>> = {
  PlanRole: NAMED,
  AccountRole: [...NAMED, "PushgatewayAuthHeader"],
  ManualRole: [],
  SendRole: SENDING,
  ReapRole: ["PrometheusCa", "PushgatewayAuthHeader"],
  CheckRole: [...NAMED, "PushgatewayAuthHeader"],
};
const s3 = (action: string, ...prefixes: readonly string[]): string[] =>
  prefixes.map((prefix) => `s3:${action} ${BUCKET}/${prefix}/*`);
const list = (...prefixes: readonly string[]): string =>
  `s3:ListBucket ${BUCKET} under ${prefixes.map((prefix) => `${prefix}/*`).join(" ")}`;
const send = (...queues: readonly string[]): string[] => queues.map((queue) => `sqs:SendMessage ${queue}.Arn`);

const ROLES = {
  PlanRole: [
    ...logs("Plan"),
    ...TRACES,
    ...s3("GetObject", "ledger", "state", "outgoing", "spooled", "sent", "config", "damaged"),
    list("ledger", "state", "outgoing", "spooled", "sent", "config", "damaged"),
    ...send("WorkQueue", "FailedInvocations"),
  ],
  AccountRole: [
    ...logs("Account"),
    ...TRACES,
    ...s3("GetObject", "ledger", "state", "outgoing", "spooled", "sent", "delivery"),
    ...s3("GetObject", "config", "scratch", "damaged", "report"),
    ...s3("PutObject", "ledger", "state", "outgoing", "scratch", "damaged", "report", "delivery"),
    ...s3("DeleteObject", "scratch"),
    list("ledger", "state", "outgoing", "spooled", "sent", "delivery", "config", "scratch", "damaged", "report"),
    "sqs:ReceiveMessage WorkQueue.Arn",
    "sqs:DeleteMessage WorkQueue.Arn",
    "sqs:GetQueueAttributes WorkQueue.Arn",
    ...send("WorkQueue", "WorkDeadLetters", "SpoolQueue"),
  ],
  ManualRole: [
    ...logs("Manual"),
    ...TRACES,
    ...s3("GetObject", "state", "outgoing", "spooled", "sent", "delivery", "damaged", "manual"),
    ...s3("PutObject", "state", "outgoing", "damaged", "delivery", "manual"),
    ...s3("DeleteObject", "manual/incoming"),
    list("state", "outgoing", "spooled", "sent", "delivery", "damaged", "manual"),
    ...send("SpoolQueue", "FailedInvocations"),
  ],
  CheckRole: [
    ...logs("Check"),
    ...TRACES,
    ...s3("GetObject", "config"),
    list("state", "config"),
    ...["WorkQueue", "WorkDeadLetters", "SpoolQueue"].map((queue) => `sqs:GetQueueAttributes ${queue}.Arn`),
  ],
  SendRole: [
    ...logs("Send"),
    ...TRACES,
    ...s3("GetObject", "outgoing", "spooled", "sent", "delivery", "lease", "refused"),
    ...s3("PutObject", "sent", "delivery", "lease", "refused"),
    ...s3("DeleteObject", "outgoing", "sent"),
    list("outgoing", "spooled", "sent", "delivery", "lease", "refused"),
    "sqs:ReceiveMessage SpoolQueue.Arn",
    "sqs:DeleteMessage SpoolQueue.Arn",
    "sqs:GetQueueAttributes SpoolQueue.Arn",
    ...send("FailedInvocations"),
  ],
  ReapRole: [...logs("Reap"), ...TRACES, ...send("FailedInvocations")],
} as const;

describe("roles", () => {
  test.each(Object.entries(ROLES))("%s may do this and nothing else", (role, expected) => {
    expect([...rights(template, role)].sort()).toEqual([...expected].sort());
    const withKey = role === "ReapRole" ? [] : KEY;
    const parameterKey = role === "ManualRole" ? [] : ["kms:Decrypt ParameterKmsKeyArn"];
    const asking = ["PlanRole", "AccountRole", "CheckRole"].includes(role) ? METRICS : [];
    const secrets = role === "SendRole" ? ["secretsmanager:GetSecretValue AmsSecretArns"] : [];
    const parameters = [...(PARAMETERS[role] ?? []).map(parameter), ...secrets];
    expect([...rights(fullTemplate, role)].sort()).toEqual(
      [...expected, ...INTERFACES, ...withKey, ...parameterKey, ...asking, ...parameters].sort(),
    );
    expect(properties(template, role)["AssumeRolePolicyDocument"].Statement).toEqual([
      { Effect: "Allow", Principal: { Service: "lambda.amazonaws.com" }, Action: "sts:AssumeRole" },
    ]);
  });

  test("no name of a parameter opens others", () => {
    const all = [...NAMED, ...SENDING, "PushgatewayAuthHeader"].map(
      (name) => fullTemplate.Parameters[`${name}Parameter`],
    );
    for (const { AllowedPattern: pattern, Default: unset } of all) {
      const allowed = new RegExp(pattern);
      expect([unset, "/gridmeter/prod/prometheus-auth-header", "/a"].map((name) => allowed.test(name))).toEqual([
        true,
        true,
        true,
      ]);
      expect(
        ["*", "/gridmeter/*", "/gridmeter/?", "name", "/a/../b*", "/${AWS::Region}"].some((name) => allowed.test(name)),
      ).toBe(false);
    }
  });

  test("the schedules' role may start plan, reap and, where it is used, send, and keep what failed", () => {
    expect([...rights(fullTemplate, "ScheduleRole")].sort()).toEqual([
      "lambda:InvokeFunction PlanLambdaFunction.Arn",
      "lambda:InvokeFunction ReapLambdaFunction.Arn",
      "lambda:InvokeFunction SendLambdaFunction.Arn",
      "sqs:SendMessage FailedInvocations.Arn",
    ]);
  });

  test("there are no others, and none may act on everything but for traces and network interfaces", () => {
    const roles = ofType(fullTemplate, "AWS::IAM::Role").map(([name]) => name);
    expect(roles.sort()).toEqual([...Object.keys(ROLES), "ScheduleRole"].sort());
    const wild = roles.flatMap((role) => rights(fullTemplate, role)).filter((right) => / \*|^\S*\*/.test(right));
    expect(new Set(wild)).toEqual(new Set([...TRACES, ...INTERFACES]));
  });
});

describe("the bucket", () => {
  test("is versioned, encrypted, owned and closed, and stays when the stack goes", () => {
    expect(template.Resources["DataBucket"]).toMatchObject({
      DeletionPolicy: "RetainExceptOnCreate",
      UpdateReplacePolicy: "Retain",
      Properties: {
        BucketName: "gridmeter-dev-123456789012-eu-central-1",
        VersioningConfiguration: { Status: "Enabled" },
        OwnershipControls: { Rules: [{ ObjectOwnership: "BucketOwnerEnforced" }] },
        PublicAccessBlockConfiguration: {
          BlockPublicAcls: true,
          BlockPublicPolicy: true,
          IgnorePublicAcls: true,
          RestrictPublicBuckets: true,
        },
      },
    });
    const encryption = (of: Template): Json =>
      properties(of, "DataBucket")["BucketEncryption"].ServerSideEncryptionConfiguration[0]
        .ServerSideEncryptionByDefault;
    expect(encryption(template)).toEqual({ SSEAlgorithm: "AES256" });
    expect(encryption(fullTemplate)).toEqual({ SSEAlgorithm: "aws:kms", KMSMasterKeyID: "KmsKeyArn" });
  });

  test("is spoken to over TLS only", () => {
    expect(properties(template, "DataBucketPolicy")["PolicyDocument"].Statement).toEqual([
      {
        Sid: "OnlyOverTls",
        Effect: "Deny",
        Principal: "*",
        Action: "s3:*",
        Resource: ["DataBucket.Arn", "DataBucket.Arn/*"],
        Condition: { Bool: { "aws:SecureTransport": "false" } },
      },
    ]);
  });

  test("lets go of scratch after 2 days, of leases after 30 and of delivered messages after 400, and of nothing of ledger and state", () => {
    const rules: readonly Json[] = properties(template, "DataBucket")["LifecycleConfiguration"].Rules;
    expect(rules.every((rule) => rule.Status === "Enabled")).toBe(true);
    const expiring = rules.flatMap((rule) =>
      "ExpirationInDays" in rule ? [[rule.Prefix, rule.ExpirationInDays]] : [],
    );
    expect(expiring).toEqual([
      ["scratch/", 2],
      ["spooled/", 400],
      ["sent/", 400],
      ["lease/", 30],
    ]);
    const others = rules.filter((rule) => !("ExpirationInDays" in rule));
    expect(others).toEqual([
      expect.objectContaining({ NoncurrentVersionExpiration: { NoncurrentDays: 30 } }),
      expect.objectContaining({ AbortIncompleteMultipartUpload: { DaysAfterInitiation: 2 } }),
    ]);
  });

  test("tells manual, and only manual, of files under manual/incoming/", () => {
    expect(properties(template, "DataBucket")["NotificationConfiguration"]).toEqual({
      LambdaConfigurations: [
        {
          Event: "s3:ObjectCreated:*",
          Function: "ManualLambdaFunction.Arn",
          Filter: { S3Key: { Rules: [{ Name: "prefix", Value: "manual/incoming/" }] } },
        },
      ],
    });
    expect(ofType(template, "AWS::Lambda::Permission")).toEqual([
      [
        "ManualMayBeInvoked",
        {
          Action: "lambda:InvokeFunction",
          FunctionName: "ManualLambdaFunction.Arn",
          Principal: "s3.amazonaws.com",
          SourceAccount: "123456789012",
          SourceArn: BUCKET,
        },
      ],
    ]);
    expect(template.Resources["DataBucket"]?.["DependsOn"]).toContain("ManualMayBeInvoked");
  });
});

/** Beside the two that each function has. */
const OF_SENDING = ["send-refused", "certificate-ends", "unsent-age"];

describe("alarms", () => {
  const alarm = (name: string): Record<string, Json> => properties(template, name);

  test("there is one for each of these, and all go to the topic", () => {
    const alarms = ofType(fullTemplate, "AWS::CloudWatch::Alarm");
    expect(alarms.map(([, each]) => String(each["AlarmName"]).slice("gridmeter-dev-".length)).sort()).toEqual(
      [
        ...["plan", "account", "manual", "send", "reap"].flatMap((name) => [`${name}-errors`, `${name}-throttles`]),
        "account-failed",
        "work-dead-letters",
        "spool-dead-letters",
        "failed-invocations",
        "spool-age",
        "refused-months",
        "no-success",
        "long-runs",
        ...OF_SENDING,
      ].sort(),
    );
    const without = ofType(template, "AWS::CloudWatch::Alarm").map(([, each]) => each["AlarmName"]);
    expect(without).toHaveLength(alarms.length - OF_SENDING.length - 2);
    for (const [, each] of alarms)
      expect([each["AlarmActions"], each["OKActions"]]).toEqual([["AlarmTopic"], ["AlarmTopic"]]);
  });

  test("a run that goes on and on is one, long before it is given up", () => {
    expect(alarm("LongRuns")).toMatchObject({ MetricName: "Continued", Statistic: "Maximum" });
    expect(alarm("LongRuns")["Threshold"]).toBeLessThan(MOST_PARTS / 2);
    // What a run keeps between its invocations is kept longer than it may take.
    const { Rules: rules } = properties(template, "DataBucket")["LifecycleConfiguration"];
    const days = rules.find(({ Prefix }: Json) => Prefix === "scratch/").ExpirationInDays;
    expect(MOST_PARTS * 15 * 60).toBeLessThan(days * 86_400);
  });

  test.each([
    ["the daily schedule", [], 26],
    ["another schedule", ["--param=planSchedule=cron(0 6 ? * MON-FRI *)"], 74],
    ["one that is rarer than CloudWatch looks back", ["--param=planSchedule=cron(0 6 4 * ? *)"], 0],
  ])("no success follows %s", async (_what, args, hours) => {
    const env = { ...accountingEnv("http://prometheus:9090"), NAMESPACE: "jobs" };
    const packaged = await project.run("serverless", ["package", "--package", "scheduled", ...args], env);
    expect([packaged.code, packaged.output]).toEqual([0, expect.stringContaining("Service packaged")]);
    expect(packaged.output.includes("so there is none")).toBe(hours === 0);
    const scheduled = await readTemplate(join(project.folder, "scheduled"), []);
    expect(scheduled.Parameters["NoSuccessHours"]).toMatchObject({ Default: hours });
    expect(scheduled.Resources["NoSuccess"]).toMatchObject({ Condition: "WatchesSuccess" });
  });

  test("no success is one, also if nothing at all is heard", () => {
    expect(alarm("NoSuccess")).toMatchObject({
      Namespace: "gridmeter",
      Dimensions: [{ Name: "service", Value: "gridmeter-dev" }],
      Statistic: "Sum",
      Period: 3600,
      EvaluationPeriods: "NoSuccessHours",
      ComparisonOperator: "LessThanThreshold",
      Threshold: 1,
      TreatMissingData: "breaching",
    });
  });

  test.each([
    ["WorkDeadLettersAlarm", "WorkDeadLetters"],
    ["SpoolDeadLettersAlarm", "SpoolDeadLetters"],
    ["FailedInvocationsAlarm", "FailedInvocations"],
  ])("%s watches %s", (name, queue) => {
    expect(alarm(name)).toMatchObject({
      Namespace: "AWS/SQS",
      MetricName: "ApproximateNumberOfMessagesVisible",
      Dimensions: [{ Name: "QueueName", Value: `${queue}.QueueName` }],
      ComparisonOperator: "GreaterThanThreshold",
      Threshold: 0,
    });
  });

  test("the spooler is missed after 6 hours", () => {
    expect(alarm("SpoolAge")).toMatchObject({
      MetricName: "ApproximateAgeOfOldestMessage",
      Dimensions: [{ Name: "QueueName", Value: "SpoolQueue.QueueName" }],
      Threshold: 21_600,
    });
  });

  test.each([
    ["CertificateEnds", "CertificateDaysLeft", "Minimum", "LessThanThreshold", 14],
    ["UnsentAge", "OldestUnsentSeconds", "Maximum", "GreaterThanThreshold", 21_600],
    ["SendRefused", "SendRefused", "Sum", "GreaterThanThreshold", 0],
  ])("%s of the sending", (name, metric, statistic, operator, threshold) => {
    expect(properties(fullTemplate, name)).toMatchObject({
      Namespace: "gridmeter",
      MetricName: metric,
      Dimensions: [{ Name: "service", Value: "gridmeter-dev" }],
      Statistic: statistic,
      ComparisonOperator: operator,
      Threshold: threshold,
    });
  });

  test("are mailed only where there is an address", () => {
    expect(fullTemplate.Resources["AlarmMail"]).toMatchObject({
      Condition: "MailsAlarms",
      Properties: { TopicArn: "AlarmTopic", Protocol: "email", Endpoint: "AlarmEmail" },
    });
  });
});

test("the spooler's example settings name the bucket and the queue as a deployment does, and the units read no others", async () => {
  const folder = join(project.folder, "deploy", "systemd");
  const example = parse(await readFile(join(folder, "gridmeter-spool.env.example")));
  const named = (name: unknown): string => String(name).replace("gridmeter-dev-", "gridmeter-prod-");
  expect(example["SPOOL_SOURCE"]).toBe(`s3://${named(properties(template, "DataBucket")["BucketName"])}`);
  expect(example["SPOOL_QUEUE_URL"]?.split("/").at(-1)).toBe(named(properties(template, "SpoolQueue")["QueueName"]));
  for (const unit of ["gridmeter-spool.service", "gridmeter-spool-once.service"]) {
    const text = await readFile(join(folder, unit), "utf8");
    const read = [...text.matchAll(/\$\{(\w+)\}/g)].map(([, name]) => name);
    expect(read.length).toBeGreaterThan(2);
    expect(Object.keys(example)).toEqual(expect.arrayContaining(read));
  }
});

test("outputs tell where things are", () => {
  const values = Object.entries(template.Outputs).map(([name, { Value: value }]) => [name, value]);
  expect(Object.fromEntries(values)).toMatchObject({
    DataBucketName: "DataBucket",
    WorkQueueUrl: "WorkQueue",
    WorkDeadLettersUrl: "WorkDeadLetters",
    SpoolQueueUrl: "SpoolQueue",
    SpoolerPolicyArn: "SpoolerPolicy",
    SpoolDeadLettersUrl: "SpoolDeadLetters",
    FailedInvocationsUrl: "FailedInvocations",
    AlarmTopicArn: "AlarmTopic",
  });
});
