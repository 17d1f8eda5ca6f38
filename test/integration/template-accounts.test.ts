// What accounts of institutions ask for: a boundary and a path for all roles, keys of one's own, a bucket that is there already, and
// rights for spooler and deployer that nobody writes by hand.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { like } from "../support/aws-rights.ts";
import { cfnLint, copyProject } from "../support/deployment.ts";
import type { Deployment } from "../support/deployment.ts";
import { accountingEnv } from "../support/functions-world.ts";
import { ofType, properties, readTemplate, readWritten, rightsIn, statementsOf } from "../support/template.ts";
import type { Json, Template } from "../support/template.ts";

const ACCOUNT = "123456789012";
const KEY = `arn:aws:kms:eu-central-1:${ACCOUNT}:key/0123abcd`;
const SETTINGS = {
  PERMISSIONS_BOUNDARY_ARN: `arn:aws:iam::${ACCOUNT}:policy/gridmeter-boundary-dev`,
  ROLE_PATH: "/grid/",
  EXISTING_BUCKET: "bucket-of-last-year",
  PARAMETER_KMS_KEY_ARN: KEY,
  ALARM_KMS_KEY_ARN: KEY,
};
const DEPLOYER = fileURLToPath(new URL("../../deploy/iam/deployer.yml", import.meta.url));
const OPTIONAL = ["HasBoundary", "UsesParameterKey", "EncryptsAlarms", "UsesKmsKey", "UsesVpc", "UsesAmazonPrometheus"];
const NAMES = ["PrometheusAuthHeader", "PrometheusCa", "PrometheusClientCert", "PrometheusClientKey", "Tenants"];

let project: Deployment;
/** with no optional part, and with all but the adopted bucket */
let plain: Template;
let full: Template;
let adopted: Template;
let deployer: Template;

beforeAll(async () => {
  project = await copyProject();
  const env = { ...accountingEnv("http://prometheus:9090"), NAMESPACE: "jobs", ...SETTINGS };
  const { code, output } = await project.package([], env);
  if (code !== 0) throw new Error(output);
  const folder = join(project.folder, ".serverless");
  const named = [...NAMES, "PushgatewayAuthHeader"];
  const conditions = [...OPTIONAL, ...named.map((name) => `Names${name}`)];
  const parameters = Object.fromEntries(named.map((name) => [`${name}Parameter`, `/gridmeter/${name}`]));
  plain = await readTemplate(folder, []);
  full = await readTemplate(folder, conditions, {
    ...parameters,
    KmsKeyArn: KEY,
    ParameterKmsKeyArn: KEY,
    PrometheusWorkspaceArn: `arn:aws:aps:eu-central-1:${ACCOUNT}:workspace/ws-0123abcd`,
  });
  adopted = await readTemplate(folder, ["AdoptsBucket"], { ExistingBucket: SETTINGS.EXISTING_BUCKET });
  deployer = await readWritten(DEPLOYER, ["MakesBoundary"], {
    Stage: "dev",
    RolePath: "/grid/",
    ParameterPrefix: "/gridmeter/",
  });
}, 180_000);
afterAll(() => project.remove());

const roles = (of: Template): readonly string[] => ofType(of, "AWS::IAM::Role").map(([name]) => name);
/** Where in a template this text is. */
const count = (of: unknown, text: string): number => JSON.stringify(of).split(text).length - 1;

describe("roles and policies", () => {
  test("have the path, and the boundary where there is one", () => {
    expect(roles(full).length).toBeGreaterThan(4);
    for (const role of roles(full)) {
      expect(properties(full, role)).toMatchObject({ Path: "RolePath", PermissionsBoundary: "PermissionsBoundaryArn" });
      expect(properties(plain, role)).not.toHaveProperty("PermissionsBoundary");
    }
    expect(ofType(full, "AWS::IAM::ManagedPolicy").map(([name, each]) => [name, each["Path"]])).toEqual([
      ["SpoolerPolicy", "RolePath"],
    ]);
    expect(full.Parameters).toMatchObject({
      PermissionsBoundaryArn: { Default: SETTINGS.PERMISSIONS_BOUNDARY_ARN },
      RolePath: { Default: "/grid/" },
      ExistingBucket: { Default: SETTINGS.EXISTING_BUCKET },
    });
  });

  test("the key of the parameters may be used through Systems Manager only", () => {
    const statements = roles(full).flatMap((role) => statementsOf(full, role));
    const used = statements.filter(({ Sid }) => Sid === "ParameterKey");
    expect(used).toHaveLength(roles(full).filter((role) => !["ManualRole", "ScheduleRole"].includes(role)).length);
    for (const one of used)
      expect(one).toEqual({
        Sid: "ParameterKey",
        Effect: "Allow",
        Action: "kms:Decrypt",
        Resource: KEY,
        Condition: { StringEquals: { "kms:ViaService": "ssm.eu-central-1.amazonaws.com" } },
      });
  });
});

describe("a bucket that is there already", () => {
  test("is the one of the functions, of their roles, of the spooler and of the output", () => {
    const own = "gridmeter-dev-123456789012-eu-central-1";
    const { DataBucket: _, DataBucketPolicy: __, ...others } = adopted.Resources;
    expect(count(others, own)).toBe(0);
    expect(count(adopted.Outputs, SETTINGS.EXISTING_BUCKET)).toBe(1);
    for (const role of ["PlanRole", "AccountRole", "ManualRole"])
      expect(rightsIn(statementsOf(adopted, role)).join("\n")).toContain(
        `s3:GetObject arn:aws:s3:::${SETTINGS.EXISTING_BUCKET}/state/*`,
      );
    expect(rightsIn(statementsOf(adopted, "SpoolerPolicy"))).toContain(
      `s3:GetObject arn:aws:s3:::${SETTINGS.EXISTING_BUCKET}/outgoing/*`,
    );
    expect(properties(adopted, "ManualMayBeInvoked")["SourceArn"]).toBe(`arn:aws:s3:::${SETTINGS.EXISTING_BUCKET}`);
    expect(count(plain.Resources, SETTINGS.EXISTING_BUCKET)).toBe(0);
  });

  test("is not made again, and what the stack makes stays with all its settings when it goes", () => {
    for (const name of ["DataBucket", "DataBucketPolicy"])
      expect(plain.Resources[name]).toMatchObject({
        Condition: "MakesBucket",
        DeletionPolicy: "RetainExceptOnCreate",
        UpdateReplacePolicy: "Retain",
      });
  });
});

describe("the topic", () => {
  test("is encrypted with a key that is named for it, and with no other", () => {
    expect(properties(full, "AlarmTopic")["KmsMasterKeyId"]).toBe("AlarmKmsKeyArn");
    expect(properties(plain, "AlarmTopic")).not.toHaveProperty("KmsMasterKeyId");
    const pattern = new RegExp(plain.Parameters["AlarmKmsKeyArn"].AllowedPattern);
    expect([KEY, "", "alias/aws/sns"].map((key) => pattern.test(key))).toEqual([true, true, false]);
  });
});

test("the spooler's rights are a policy of the stack, with the key where there is one", () => {
  expect(full.Outputs["SpoolerPolicyArn"]).toMatchObject({ Value: "SpoolerPolicy" });
  const added = rightsIn(statementsOf(full, "SpoolerPolicy")).filter(
    (right) => !rightsIn(statementsOf(plain, "SpoolerPolicy")).includes(right),
  );
  expect(added).toEqual([`kms:Decrypt ${KEY}`, `kms:GenerateDataKey ${KEY}`]);
});

/** Whether some statement allows it; conditions are left to the tests that look at them. */
function allows(statements: readonly Json[], action: string, resource: string): boolean {
  return statements.some(
    (one) =>
      [one.Action].flat().some((each: string) => like(each, action)) &&
      [one.Resource].flat().some((each: string) => like(each, resource)),
  );
}

describe("deploy/iam/deployer.yml", () => {
  const own = (): readonly Json[] => statementsOf(deployer, "Deployer");
  const role = `arn:aws:iam::${ACCOUNT}:role/grid/gridmeter-dev-PlanRole-0123`;

  test("has nothing that cfn-lint speaks of, and fits into a policy", async () => {
    expect(await cfnLint(project, DEPLOYER)).toBe("");
    for (const name of ["Deployer", "Boundary"])
      expect(JSON.stringify(properties(deployer, name)["PolicyDocument"]).length).toBeLessThan(6144);
  });

  test("makes roles and changes their policies only under the boundary, and never takes it away", () => {
    for (const action of ["CreateRole", "PutRolePolicy", "DeleteRolePolicy", "PutRolePermissionsBoundary"]) {
      const allowing = own().filter((one) => allows([one], `iam:${action}`, role));
      expect(allowing.map(({ Condition }) => Condition)).toEqual([
        { StringEquals: { "iam:PermissionsBoundary": "Boundary" } },
      ]);
    }
    const never = ["DeleteRolePermissionsBoundary", "AttachRolePolicy", "DetachRolePolicy", "UpdateAssumeRolePolicy"];
    for (const action of never) expect([action, allows(own(), `iam:${action}`, role)]).toEqual([action, false]);
    const passing = own().filter((one) => allows([one], "iam:PassRole", role));
    expect(passing.map(({ Condition }) => Condition)).toEqual([
      { StringEquals: { "iam:PassedToService": ["lambda.amazonaws.com", "scheduler.amazonaws.com"] } },
    ]);
  });

  test("has no rights on its own policy, on the boundary, on another's roles or on itself", () => {
    const iam = own().flatMap(({ Action }) => [Action].flat().filter((action: string) => /^(iam:|\*)/.test(action)));
    expect(iam.length).toBeGreaterThan(10);
    const others = [
      `arn:aws:iam::${ACCOUNT}:policy/grid/${properties(deployer, "Deployer")["ManagedPolicyName"]}`,
      `arn:aws:iam::${ACCOUNT}:policy/grid/${properties(deployer, "Boundary")["ManagedPolicyName"]}`,
      `arn:aws:iam::${ACCOUNT}:role/grid/somebody`,
      `arn:aws:iam::${ACCOUNT}:user/deployer`,
    ];
    for (const action of iam)
      for (const other of others) expect([action, other, allows(own(), action, other)]).toEqual([action, other, false]);
    const stack = `arn:aws:cloudformation:eu-central-1:${ACCOUNT}:stack/gridmeter-rights-dev/0`;
    expect(allows(own(), "cloudformation:UpdateStack", stack)).toBe(false);
  });

  test("gives a * for resources only to looking, and to the mapping of its own functions", () => {
    const wild = own().filter(({ Resource }) => Resource === "*");
    expect(wild.map(({ Sid }) => Sid)).toEqual(["QueueBeforeAccount", "Look"]);
    expect(wild[0].Condition.ArnLike["lambda:FunctionArn"]).toContain(":function:gridmeter-dev-*");
    const looking = /:(Describe|List|Get|ValidateTemplate)/;
    expect(wild[1].Action.filter((action: string) => !looking.test(action))).toEqual([]);
  });

  test("the boundary takes nothing away from any role, nor from the spooler", () => {
    const boundary = statementsOf(deployer, "Boundary");
    const arns: Record<string, string> = {
      "AWS::SQS::Queue": `arn:aws:sqs:eu-central-1:${ACCOUNT}:gridmeter-dev-x`,
      "AWS::Lambda::Function": `arn:aws:lambda:eu-central-1:${ACCOUNT}:function:gridmeter-dev-x`,
      "AWS::Logs::LogGroup": `arn:aws:logs:eu-central-1:${ACCOUNT}:log-group:/aws/lambda/gridmeter-dev-x:*`,
    };
    const arnOf = (resource: string): string => {
      const type = full.Resources[resource.split(".")[0] ?? ""]?.Type;
      return type === undefined ? resource : (arns[type] ?? resource);
    };
    const rights = [...roles(full), "SpoolerPolicy"].flatMap((name) =>
      statementsOf(full, name).flatMap(({ Action, Resource }) =>
        [Action]
          .flat()
          .flatMap((action: string) => [Resource].flat().map((on: string) => [action, arnOf(on)] as const)),
      ),
    );
    expect(rights.length).toBeGreaterThan(80);
    expect(rights.filter(([action, on]) => !allows(boundary, action, on))).toEqual([]);
    expect(allows(boundary, "iam:CreateRole", role)).toBe(false);
  });
});
