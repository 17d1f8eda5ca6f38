// `serverless deploy` into moto as an institution's account allows it: under a boundary, with the rights of deploy/iam/deployer.yml,
// and again after `serverless remove`, with the bucket that it left.
import { fileURLToPath } from "node:url";
import { GetObjectCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startAwsFaults } from "../support/aws-faults.ts";
import type { AwsFaults, AwsRequest } from "../support/aws-faults.ts";
import { like } from "../support/aws-rights.ts";
import { copyProject } from "../support/deployment.ts";
import type { Deployment } from "../support/deployment.ts";
import { accountingEnv } from "../support/functions-world.ts";
import { startMoto } from "../support/moto.ts";
import type { Moto } from "../support/moto.ts";
import { readWritten, statementsOf } from "../support/template.ts";
import type { Json } from "../support/template.ts";

const BUCKET = "gridmeter-dev-123456789012-eu-central-1";
const BOUNDARY = "arn:aws:iam::123456789012:policy/grid/gridmeter-boundary-dev";
const KEPT = "state/2026-01/EXAMPLE-T2/x.json";

let moto: Moto;
let aws: AwsFaults;
let project: Deployment;

beforeAll(async () => {
  [moto, project] = await Promise.all([startMoto(), copyProject()]);
  aws = await startAwsFaults(moto.url);
}, 120_000);
afterAll(async () => {
  await Promise.all([aws.stop(), moto.stop()]);
  await project.remove();
});

const env = (more: Record<string, string> = {}): Record<string, string> => ({
  ...moto.env(aws.url),
  ...accountingEnv("http://prometheus:9090"),
  NAMESPACE: "jobs",
  ...more,
});

/** What moto's IAM or Lambda has. It wants to know the service, and checks no signature. */
async function ask(service: string, path: string): Promise<string> {
  const scope = `Credential=test/20260101/eu-central-1/${service}/aws4_request`;
  const headers = { Authorization: `AWS4-HMAC-SHA256 ${scope}, SignedHeaders=host, Signature=none` };
  const answer = await fetch(`${moto.url}/${path}`, { headers });
  return answer.text();
}
async function roles(): Promise<readonly { readonly arn: string; readonly boundary: string | undefined }[]> {
  const listed = await ask("iam", "?Action=ListRoles&Version=2010-05-08");
  const names = [...listed.matchAll(/<RoleName>(gridmeter-dev-[^<]+)</g)].map(([, name = ""]) => name);
  return Promise.all(
    names.map(async (name) => {
      const role = await ask("iam", `?Action=GetRole&Version=2010-05-08&RoleName=${name}`);
      return {
        arn: /<Arn>([^<]+)</.exec(role)?.[1] ?? "",
        boundary: /<PermissionsBoundaryArn>([^<]+)</.exec(role)?.[1],
      };
    }),
  );
}
const bucketOfPlan = async (): Promise<string> =>
  JSON.parse(await ask("lambda", "2015-03-31/functions/gridmeter-dev-plan/configuration")).Environment.Variables
    .GRIDMETER_BUCKET;

test("without a boundary the roles have none", { timeout: 120_000 }, async () => {
  const { code, output } = await project.run("serverless", ["deploy"], env());
  expect([code, output]).toEqual([0, expect.stringContaining("Service deployed to stack gridmeter-dev")]);
  const made = await roles();
  expect(made.length).toBeGreaterThan(4);
  expect(made.map(({ boundary }) => boundary)).toEqual(made.map(() => undefined));
  await moto.s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: KEPT, Body: "figures" }));
  const removed = await project.run("serverless", ["remove"], env());
  expect([removed.code, removed.output]).toEqual([0, expect.stringContaining("successfully removed")]);
  expect(await roles()).toEqual([]);
});

test(
  "after removal the bucket is there, and a deployment that adopts it works, under a boundary",
  { timeout: 120_000 },
  async () => {
    const settings = { EXISTING_BUCKET: BUCKET, PERMISSIONS_BOUNDARY_ARN: BOUNDARY, ROLE_PATH: "/grid/" };
    const { code, output } = await project.run("serverless", ["deploy"], env(settings));
    expect([code, output]).toEqual([0, expect.stringContaining("Service deployed to stack gridmeter-dev")]);
    const made = await roles();
    expect(made.length).toBeGreaterThan(4);
    for (const { arn, boundary } of made) {
      expect(arn).toContain(":role/grid/gridmeter-dev-");
      expect(boundary).toBe(BOUNDARY);
    }
    expect(await bucketOfPlan()).toBe(BUCKET);
    const { Body } = await moto.s3.send(new GetObjectCommand({ Bucket: BUCKET, Key: KEPT }));
    expect(await Body!.transformToString()).toBe("figures");
    const removed = await project.run("serverless", ["remove"], env(settings));
    expect([removed.code, removed.output]).toEqual([0, expect.stringContaining("successfully removed")]);
    expect((await moto.s3.send(new GetObjectCommand({ Bucket: BUCKET, Key: KEPT }))).ETag).toBeDefined();
  },
);

test("a bucket to adopt that is not there is refused before anything is sent", { timeout: 60_000 }, async () => {
  const { code, output } = await project.run("serverless", ["deploy"], env({ EXISTING_BUCKET: "gridmeter-dev-none" }));
  expect([code, output]).toEqual([
    1,
    expect.stringContaining('EXISTING_BUCKET="gridmeter-dev-none": there is no such bucket.'),
  ]);
  expect(await roles()).toEqual([]);
});

test("osls asked for nothing that the deployer's policy does not allow", async () => {
  const file = fileURLToPath(new URL("../../deploy/iam/deployer.yml", import.meta.url));
  const statements = statementsOf(
    await readWritten(file, ["MakesBoundary"], { Stage: "dev", RolePath: "/grid/", ParameterPrefix: "/gridmeter/" }),
    "Deployer",
  );
  // The policy names the bucket that is to be adopted; this one was a mistake.
  const requests = aws.requests.filter(({ path }) => !path.includes("gridmeter-dev-none"));
  const asked = [...new Set(requests.flatMap(rightOf).map((right) => right.join(" ")))];
  expect(asked.length).toBeGreaterThan(8);
  expect(asked.filter((right) => !allows(statements, right.split(" ")))).toEqual([]);
});

function allows(statements: readonly Json[], [action = "", resource = ""]: readonly string[]): boolean {
  return statements.some(
    ({ Action, Resource }) =>
      [Action].flat().some((each: string) => like(each, action)) &&
      [Resource].flat().some((each: string) => like(each, resource)),
  );
}

/** The action and the resource of a request of osls, as IAM names them; none for what needs no right. */
function rightOf({ method, path, target, body }: AwsRequest): readonly (readonly [action: string, resource: string])[] {
  const form = new URLSearchParams(body);
  const asked = form.get("Action");
  // `remove` looks for images, and does without that right.
  if (target?.endsWith(".DescribeRepositories") === true) return [];
  if (target !== undefined) throw new Error(`osls asks for ${target}, which this test does not know`);
  if (asked === "GetCallerIdentity") return [];
  if (asked !== null) {
    const stack = form
      .get("StackName")
      ?.split("/")
      .at(form.get("StackName")?.startsWith("arn:") === true ? 1 : 0);
    const resource = `arn:aws:cloudformation:eu-central-1:123456789012:stack/${stack}/0`;
    return [[`cloudformation:${asked}`, stack === undefined ? "*" : resource]];
  }
  const url = new URL(path, "http://s3");
  const [, bucket = "", ...key] = url.pathname.split("/");
  if (/^\d{4}-\d\d-\d\d$/.test(bucket))
    return [[`lambda:${method}`, `arn:aws:lambda:eu-central-1:123456789012:function:${key[1]}`]];
  const arn = `arn:aws:s3:::${bucket}`;
  if (key.join("") !== "")
    return [
      [
        `s3:${method === "PUT" ? "PutObject" : method === "GET" || method === "HEAD" ? "GetObject" : "DeleteObject"}`,
        `${arn}/${key.join("/")}`,
      ],
    ];
  if (url.searchParams.has("delete")) return [["s3:DeleteObject", `${arn}/any`]];
  if (url.searchParams.has("location")) return [["s3:GetBucketLocation", arn]];
  return [["s3:ListBucket", arn]];
}
