import { createHash } from "node:crypto";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { GetObjectCommand, ListBucketsCommand } from "@aws-sdk/client-s3";
import { type AwsFaults, startAwsFaults } from "./aws-faults.ts";
import type { Deployment } from "./deployment.ts";
import { type LambdaFunction, startLambda } from "./lambda-runtime.ts";
import type { Moto } from "./moto.ts";
import type { Json } from "./template.ts";

/** A function as `serverless deploy` left it in moto: running, with its configuration, and with a proxy before AWS. */
export type DeployedFunction = {
  readonly lambda: LambdaFunction;
  readonly configuration: Json;
  readonly aws: AwsFaults;
};

/** Asks moto's Lambda API. It wants to know service and region, and checks no signature. */
export async function askLambda(moto: Moto, path: string): Promise<Json> {
  const scope = "Credential=test/20260101/eu-central-1/lambda/aws4_request";
  const headers = { Authorization: `AWS4-HMAC-SHA256 ${scope}, SignedHeaders=host, Signature=none` };
  const answer = await fetch(`${moto.url}/2015-03-31/${path}`, { headers });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

/** What was deployed: the archive from the deployment bucket, the environment and the limits as Lambda has them. */
export async function fetchFunction(moto: Moto, project: Deployment, name: string): Promise<DeployedFunction> {
  const { Configuration: configuration, Code: code } = await askLambda(moto, `functions/gridmeter-dev-${name}`);
  const archive = await archiveOf(moto, new URL(code.Location).pathname.slice(1));
  const hash = createHash("sha256").update(archive).digest("base64");
  if (hash !== configuration.CodeSha256) throw new Error(`the archive of ${name} is not what Lambda has`);
  const folder = join(project.folder, `deployed-${name}`);
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder);
  await writeFile(join(folder, "code.zip"), archive);
  const unpacked = await project.run("python3", ["-m", "zipfile", "-e", join(folder, "code.zip"), folder]);
  if (unpacked.code !== 0) throw new Error(unpacked.output);
  const aws = await startAwsFaults(moto.url);
  const lambda = await startLambda({
    bundle: join(folder, "dist", "functions", `${name}.cjs`),
    env: { ...moto.env(aws.url), ...configuration.Environment.Variables },
    memoryMb: configuration.MemorySize,
    timeoutSeconds: configuration.Timeout,
  });
  return { lambda, configuration, aws };
}

/** An archive by its key, from the bucket that `serverless deploy` made for them. */
async function archiveOf(moto: Moto, Key: string): Promise<Buffer> {
  const { Buckets = [] } = await moto.s3.send(new ListBucketsCommand({}));
  const Bucket = Buckets.map(({ Name }) => Name!).find((name) => name.includes("serverlessdeploymentbucket"));
  const { Body } = await moto.s3.send(new GetObjectCommand({ Bucket, Key }));
  return Buffer.from(await Body!.transformToByteArray());
}
