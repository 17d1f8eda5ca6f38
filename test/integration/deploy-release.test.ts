// The template of a release, deployed into moto with CloudFormation's own API as one would without osls.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { PutObjectCommand } from "@aws-sdk/client-s3";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ABOUT } from "../../lib/accounting/settings/table.ts";
import { cfnLint, copyProject } from "../support/deployment.ts";
import type { Deployment } from "../support/deployment.ts";
import { accountingEnv } from "../support/functions-world.ts";
import { startMoto } from "../support/moto.ts";
import type { Moto } from "../support/moto.ts";
import { readWritten } from "../support/template.ts";
import type { Json, Template } from "../support/template.ts";

const NAMES = ["plan", "account", "manual", "reap", "check"];
const SITE: Record<string, string> = { ...accountingEnv("http://prometheus:9090"), NAMESPACE: "jobs" };

let moto: Moto;
let project: Deployment;
let file: string;
let template: Template;
let said: string;

beforeAll(async () => {
  [moto, project] = await Promise.all([startMoto(), copyProject()]);
  // A setting of the shell must not come into a release.
  const { code, output, stdout } = await project.run("node", ["scripts/release.ts"], {
    ...project.offline,
    SITE_NAME: "MINE",
  });
  if (code !== 0) throw new Error(output);
  said = stdout;
  file = join(project.folder, "dist", "release", "gridmeter.yml");
  template = await readWritten(file, []);
}, 180_000);
afterAll(async () => {
  await moto.stop();
  await project.remove();
});

test("has nothing that cfn-lint speaks of, and nothing of the machine that made it", async () => {
  expect(await cfnLint(project, file)).toBe("");
  const text = await readFile(file, "utf8");
  for (const strange of ["MINE", "stageplaceholder", "ServerlessDeployment", project.folder])
    expect(text).not.toContain(strange);
  expect(await project.connections()).toEqual([]);
});

test("explains each parameter, asks for the settings that are mandatory, and has all that the functions read", () => {
  const parameters: readonly (readonly [string, Json])[] = Object.entries(template.Parameters);
  expect(parameters.filter(([, { Description }]) => String(Description ?? "").length < 15)).toEqual([]);
  const asked = parameters.filter(([, each]) => !("Default" in each)).map(([name]) => name);
  expect(asked.toSorted()).toEqual(
    ["CodeBucket", "Namespace", "PrometheusServer", "SiteName", "SubmitHost", "VoName"].toSorted(),
  );
  for (const name of Object.keys(SITE))
    expect(JSON.stringify(template.Parameters)).toContain(`"${name}: ${ABOUT.get(name)!.meaning.replaceAll("`", "")}`);
});

test("is a stack of any stage, with the settings in the functions' environments", { timeout: 120_000 }, async () => {
  const bucket = await moto.bucket();
  const prefix = /s3:\/\/BUCKET\/(\S+)/.exec(said)?.[1] ?? "";
  expect(prefix).toMatch(/^gridmeter\/.*\/$/);
  for (const name of NAMES) {
    const Body = await readFile(join(project.folder, "dist", "release", `${name}.zip`));
    await moto.s3.send(new PutObjectCommand({ Bucket: bucket, Key: `${prefix}${name}.zip`, Body }));
  }
  const parameters = { ...SITE, STAGE: "site", CODE_BUCKET: bucket, QUERY_TIMEOUT: "60s" };
  const form = new URLSearchParams({ Action: "CreateStack", Version: "2010-05-15", StackName: "metering" });
  form.set("TemplateBody", await readFile(file, "utf8"));
  for (const [index, [name, value]] of Object.entries(parameters).entries()) {
    form.set(`Parameters.member.${index + 1}.ParameterKey`, titled(name));
    form.set(`Parameters.member.${index + 1}.ParameterValue`, value);
  }
  const made = await aws("cloudformation", { method: "POST", body: form });
  expect([made.status, await made.text()]).toEqual([200, expect.stringContaining("<StackId>")]);
  for (const name of NAMES) {
    const answer = await aws("lambda", {}, `2015-03-31/functions/gridmeter-site-${name}/configuration`);
    expect(answer.status).toBe(200);
    const { Environment: environment, Handler: handler } = (await answer.json()) as Json;
    expect(handler).toBe(`dist/functions/${name}.handler`);
    if (name === "plan" || name === "account" || name === "check")
      expect(environment.Variables).toMatchObject({
        ...SITE,
        QUERY_TIMEOUT: "60s",
        GRIDMETER_BUCKET: "gridmeter-site-123456789012-eu-central-1",
      });
  }
});

/** SITE_NAME is SiteName. */
function titled(name: string): string {
  const words = name.toLowerCase().split("_");
  return words.map((word) => `${word[0]?.toUpperCase()}${word.slice(1)}`).join("");
}

/** Asks moto, which wants to know the service and checks no signature. */
async function aws(service: string, init: RequestInit, path = ""): Promise<Response> {
  const scope = `Credential=test/20260101/eu-central-1/${service}/aws4_request`;
  const headers = { Authorization: `AWS4-HMAC-SHA256 ${scope}, SignedHeaders=host, Signature=none` };
  return fetch(`${moto.url}/${path}`, { ...init, headers });
}
