import type { AwsRequest } from "./aws-faults.ts";
import { properties, statementsOf } from "./template.ts";
import type { Json, Template } from "./template.ts";

/** What a request asks of IAM. `prefix`: for listings, what S3 compares with a condition on s3:prefix. */
export type Right = { readonly action: string; readonly resource: string; readonly prefix?: string };

/** SQS checks a batch as the single action. */
const withoutBatch = (action: string): string => action.replace(/Batch$/, "");

/**
 * The rights that a request takes. Whether a missing object is "not there" or "access denied" depends on the right to
 * list it, with its key as the prefix, so that is asked for with every read.
 */
export function rightsOf({ method, path, target, body }: AwsRequest): readonly Right[] {
  if (target?.startsWith("AmazonSQS.") === true) {
    const queue = new URL(JSON.parse(body).QueueUrl).pathname.split("/").at(-1);
    return [{ action: `sqs:${withoutBatch(target.slice("AmazonSQS.".length))}`, resource: `queue ${queue}` }];
  }
  if (target?.startsWith("AmazonSSM.") === true) {
    const name: string = JSON.parse(body).Name;
    const resource = `arn:aws:ssm:eu-central-1:123456789012:parameter${name}`;
    return [{ action: `ssm:${target.slice("AmazonSSM.".length)}`, resource }];
  }
  const url = new URL(path, "http://s3");
  const [, bucket = "", ...segments] = url.pathname.split("/");
  const arn = `arn:aws:s3:::${bucket}`;
  const key = decodeURIComponent(segments.join("/"));
  if (key === "") return [{ action: "s3:ListBucket", resource: arn, prefix: url.searchParams.get("prefix") ?? "" }];
  switch (method) {
    case "PUT":
      return [{ action: "s3:PutObject", resource: `${arn}/${key}` }];
    case "DELETE":
      return [{ action: "s3:DeleteObject", resource: `${arn}/${key}` }];
    default:
      return [
        { action: "s3:GetObject", resource: `${arn}/${key}` },
        { action: "s3:ListBucket", resource: arn, prefix: key },
      ];
  }
}

/** Of the rights that requests took, those that the role does not have. */
export function missingRights(template: Template, role: string, requests: readonly AwsRequest[]): readonly Right[] {
  const statements = statementsOf(template, role);
  return requests
    .flatMap(rightsOf)
    .filter((right) => !statements.some((statement) => allows(template, statement, right)));
}

function allows(template: Template, { Action, Resource, Condition }: Json, right: Right): boolean {
  const resources = [Resource].flat().map((resource: string) => named(template, resource));
  const prefixes: readonly string[] | undefined = Condition?.StringLike?.["s3:prefix"];
  return (
    [Action].flat().includes(right.action) &&
    resources.some((resource) => like(resource, right.resource)) &&
    (prefixes === undefined || prefixes.some((prefix) => like(prefix, right.prefix ?? "")))
  );
}

/** `WorkQueue.Arn` stands for the queue of that logical name. */
function named(template: Template, resource: string): string {
  const [logical = "", rest] = resource.split(".");
  const queue = rest === "Arn" && template.Resources[logical]?.Type === "AWS::SQS::Queue";
  return queue ? `queue ${properties(template, logical)["QueueName"]}` : resource;
}

export function like(pattern: string, text: string): boolean {
  const parts = pattern.split("*").map((part) => part.replaceAll(/[.+?^${}()|[\]\\]/g, String.raw`\$&`));
  return new RegExp(`^${parts.join(".*")}$`, "s").test(text);
}
