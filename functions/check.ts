import { ListObjectsV2Command } from "@aws-sdk/client-s3";
import { GetQueueAttributesCommand } from "@aws-sdk/client-sqs";
import type { Context } from "aws-lambda";
import { z } from "zod";
import { type Finding, checkPrometheus } from "../lib/accounting/check.ts";
import { clientOf, namespacesOf } from "../lib/accounting/ports.ts";
import type { LoadedSettings } from "../lib/accounting/settings/load.ts";
import { awsRemedy, failureText } from "../lib/accounting/store/aws.ts";
import { GridmeterError } from "../lib/shared/errors.ts";
import { shapeText } from "../lib/shared/text.ts";
import { within } from "../lib/shared/time-limit.ts";
import { type Parts, invocation, lambdaParts, logger, variable } from "./common/runtime.ts";
import { lambdaSettings, objectText, parameterText, withQueryLimit } from "./common/settings.ts";

const parts = lambdaParts(process.env);

/** Answers from where the functions run what else shows at 06:00 only. `npx serverless invoke -f check` prints it. */
export const handler = async (event: unknown, context: Context) =>
  invocation(context, () =>
    checkDeployment(event, Math.floor(Date.now() / 1000), () => context.getRemainingTimeInMillis(), parts),
  );

/** `about`: what of the deployment it is, or the tenant. */
type Answered = Finding & { readonly about: string };
type Answer = Omit<Finding, "question">;
/** As `gridmeter check` prints it: `BAD` keeps the functions from their work, `WARN` is worth a look. */
type Judged = Omit<Answered, "ok"> & { readonly verdict: "ok" | "WARN" | "BAD" };

const REACHABLE = "Is Prometheus reachable?";

function judged({ ok, ...finding }: Answered): Judged {
  const isAside = finding.about.startsWith("tenant ") && finding.question !== REACHABLE;
  return { ...finding, verdict: ok ? "ok" : isAside ? "WARN" : "BAD" };
}

const checkEvent = z.strictObject({
  /** how long each part may be silent, seconds */
  patience: z.number().min(1).max(60).default(20),
});

/** Kept for the answer itself, milliseconds. */
const MARGIN = 5_000;
/** How many times as long the questions about one tenant's monitoring may take together. */
const QUESTIONS = 6;

const SETTINGS_OF_PARAMETERS = [
  "PROMETHEUS_AUTH_HEADER_PARAMETER",
  "PROMETHEUS_CA_PARAMETER",
  "PROMETHEUS_CLIENT_CERT_PARAMETER",
  "PROMETHEUS_CLIENT_KEY_PARAMETER",
  "PUSHGATEWAY_AUTH_HEADER_PARAMETER",
  "TENANTS_PARAMETER",
];
const QUEUES = [
  { setting: "WORK_QUEUE_URL", question: "Can the work queue be reached?", isDead: false },
  { setting: "WORK_DEAD_LETTER_QUEUE_URL", question: "Is the queue of dead letters empty?", isDead: true },
  { setting: "SPOOL_QUEUE_URL", question: "Can the spool queue be reached?", isDead: false },
] as const;

/**
 * `check`: asks the parameters, the bucket, the queues and, for each tenant, Prometheus, and stores nothing. A question that fails or
 * is not answered in time is itself a finding, so one that hangs does not hide the others.
 * @param now epoch seconds
 * @param remaining milliseconds that are left
 * @throws GridmeterError `config_invalid` for a wrong event
 */
export async function checkDeployment(event: unknown, now: number, remaining: () => number, parts: Parts) {
  const parsed = checkEvent.safeParse(event ?? {});
  if (!parsed.success) {
    throw new GridmeterError(
      "config_invalid",
      `The event of check is wrong: ${shapeText(parsed.error)}. Nothing was asked. Give {} or {"patience":20}, in seconds.`,
    );
  }
  const { patience } = parsed.data;
  const named = SETTINGS_OF_PARAMETERS.filter((setting) => variable(parts.env, setting) !== undefined);
  const aws = await Promise.all([
    ...named.map((setting) => asked("parameters", patience, parameter(parts, setting))),
    ...(variable(parts.env, "TENANTS_OBJECT") === undefined ? [] : [asked("bucket", patience, tenantsObject(parts))]),
    asked("bucket", patience, bucket(parts)),
    ...QUEUES.map((queue) => asked("queues", patience, queueAnswer(parts, queue))),
  ]);
  const { settings, finding } = await settingsFinding(parts, patience);
  const monitoring = settings === undefined ? [] : await askPrometheus(settings, now, remaining, patience);
  const findings = [...aws, finding, ...monitoring].map(judged);
  const notOk = findings.filter(({ verdict }) => verdict !== "ok");
  for (const { about, question, verdict, answer, remedy } of notOk)
    logger.warn(`${about}: ${question} ${answer}`, { verdict, remedy });
  return { ok: findings.every(({ verdict }) => verdict !== "BAD"), findings };
}

type Question = { readonly question: string; readonly ask: () => Promise<Answer> };

const SILENCE =
  "Where the functions are in a VPC (VPC_SUBNET_IDS), give its subnets a NAT gateway, or endpoints for s3, sqs and ssm, and let the " +
  "security groups of both sides pass it.";

/** The answer, or that none came in time. */
async function asked(about: string, patience: number, { question, ask }: Question): Promise<Answered> {
  return { about, question, ...(await within(patience, answerOf(ask), silent(patience))) };
}

const silent = (patience: number): Answer => ({
  ok: false,
  answer: `no answer within ${patience} seconds`,
  remedy: SILENCE,
});

/** The answer to a question. What is thrown as an error of ours is an answer. */
async function answerOf(ask: () => Promise<Answer>): Promise<Answer> {
  try {
    return await ask();
  } catch (thrown) {
    if (thrown instanceof GridmeterError) return { ok: false, answer: `no: ${thrown.code}: ${thrown.message}` };
    throw thrown;
  }
}

function parameter(parts: Parts, setting: string): Question {
  const ask = async (): Promise<Answer> => {
    await parameterText(parts, setting);
    return { ok: true, answer: `yes, ${variable(parts.env, setting)}` };
  };
  return { question: `Can the parameter that ${setting} names be read?`, ask };
}

function tenantsObject(parts: Parts): Question {
  const ask = async (): Promise<Answer> => {
    await objectText(parts, "TENANTS_OBJECT");
    return { ok: true, answer: `yes, ${variable(parts.env, "TENANTS_OBJECT")}` };
  };
  return { question: "Can the tenants file in the bucket be read?", ask };
}

function bucket({ env, s3 }: Parts): Question {
  const Bucket = variable(env, "GRIDMETER_BUCKET");
  const ask = async (): Promise<Answer> => {
    if (Bucket === undefined)
      return { ok: false, answer: "GRIDMETER_BUCKET is not set", remedy: "serverless.yml sets it." };
    try {
      const { KeyCount } = await s3.send(new ListObjectsV2Command({ Bucket, Prefix: "state/", MaxKeys: 1 }));
      const published = KeyCount === 0 ? "nothing was published yet" : "there are published months in it";
      return { ok: true, answer: `yes, ${Bucket}; ${published}` };
    } catch (thrown) {
      const remedy = awsRemedy(thrown, `s3:ListBucket on arn:aws:s3:::${Bucket}`);
      return { ok: false, answer: `no: ${Bucket}: ${failureText(thrown)}`, remedy };
    }
  };
  return { question: "Can the bucket be read?", ask };
}

function queueAnswer({ env, sqs }: Parts, { setting, question, isDead }: (typeof QUEUES)[number]): Question {
  const QueueUrl = variable(env, setting);
  const ask = async (): Promise<Answer> => {
    if (QueueUrl === undefined)
      return { ok: false, answer: `${setting} is not set`, remedy: "serverless.yml sets it." };
    try {
      const AttributeNames = ["ApproximateNumberOfMessages" as const];
      const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames }));
      return waiting(Number(Attributes?.["ApproximateNumberOfMessages"] ?? 0), isDead);
    } catch (thrown) {
      const remedy = awsRemedy(thrown, `sqs:GetQueueAttributes on ${QueueUrl}`);
      return { ok: false, answer: `no: ${QueueUrl}: ${failureText(thrown)}`, remedy };
    }
  };
  return { question, ask };
}

function waiting(messages: number, isDead: boolean): Answer {
  if (!isDead) return { ok: true, answer: `yes; ${messages} messages wait in it` };
  if (messages === 0) return { ok: true, answer: "yes" };
  return {
    ok: false,
    answer: `no: ${messages} units of publishing failed for good`,
    remedy: "docs/run.md, Dead letters, says how to read and move them.",
  };
}

async function settingsFinding(
  parts: Parts,
  patience: number,
): Promise<{ readonly settings?: LoadedSettings; readonly finding: Answered }> {
  let settings: LoadedSettings | undefined;
  const ask = async (): Promise<Answer> => {
    settings = await lambdaSettings(parts);
    return { ok: true, answer: `yes, of ${settings.tenants.map(({ tenant }) => tenant.name).join(", ")}` };
  };
  const finding = await asked("settings", patience, { question: "Are the settings right?", ask });
  return finding.ok && settings !== undefined ? { settings, finding } : { finding };
}

/** What `gridmeter check` asks of the monitoring of each tenant. */
async function askPrometheus(
  settings: LoadedSettings,
  now: number,
  remaining: () => number,
  patience: number,
): Promise<readonly Answered[]> {
  const limited = withQueryLimit(settings, patience);
  const client = clientOf(limited);
  const all: Answered[] = [];
  for (const { tenant } of limited.tenants) {
    const about = `tenant ${tenant.name}`;
    const seconds = Math.max(0, Math.min(patience * QUESTIONS, (remaining() - MARGIN) / 1000));
    let findings: readonly Finding[] = [];
    const ask = async (): Promise<Answer> => {
      findings = await checkPrometheus(client(tenant), tenant, now, namespacesOf(settings));
      return { ok: true, answer: "" };
    };
    const answer = await within(seconds, answerOf(ask), silent(Math.round(seconds)));
    all.push(
      ...(answer.ok ? findings.map((finding) => ({ about, ...finding })) : [{ about, question: REACHABLE, ...answer }]),
    );
  }
  return all;
}
