// `npm run release`: the template as a file of its own with the functions' archives beside it, in dist/release/, for those who deploy
// without osls. It is the template of `serverless package`, in which the stage, the settings and the place of the archives are parameters.
import { createHash } from "node:crypto";
import { spawnSync } from "node:child_process";
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parse, stringify } from "yaml";
import { z } from "zod";
import { ABOUT } from "../lib/accounting/settings/table.ts";

const root = resolve(import.meta.dirname, "..");
const folder = join(root, "dist", "release");
/** The text in place of the stage, until it is a parameter; a name that is nowhere else. */
const STAGE = "stageplaceholder";
/** Enough for `serverless package` to find nothing wrong; none of it is in the result. */
const MANDATORY = ["PROMETHEUS_SERVER", "NAMESPACE", "SITE_NAME", "SUBMIT_HOST", "VO_NAME", "BENCHMARK_VALUE"];
const EXAMPLES = {
  ...Object.fromEntries(MANDATORY.map((name) => [name, ABOUT.get(name)?.example ?? ""])),
  // Without one the schedule of reap is off.
  PUSHGATEWAY_URL: "http://pushgateway.example.org:9091",
};

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
type Fields = Readonly<Record<string, Json>>;

const json: z.ZodType<Json> = z.lazy(() =>
  z.union([z.null(), z.boolean(), z.number(), z.string(), z.array(json), z.record(z.string(), json)]),
);
const fields = z.record(z.string(), json);
const resource = z.looseObject({ Type: z.string(), Properties: fields.optional() });
const packaged = z.object({
  AWSTemplateFormatVersion: z.string(),
  Parameters: z.record(z.string(), fields),
  Conditions: fields,
  Resources: z.record(z.string(), resource),
  Outputs: fields,
});
type Packaged = z.infer<typeof packaged>;

const environment = z.record(z.string(), z.unknown()).default({});
const service = z.object({
  provider: z.object({ environment }),
  functions: z.record(z.string(), z.object({ environment })),
});

/** Settings of which the command line's table knows nothing. */
const DESCRIPTIONS: Readonly<Record<string, string>> = {
  POWERTOOLS_LOG_LEVEL: "How much the functions log: DEBUG, INFO, WARN or ERROR.",
  PUSHGATEWAY_URL:
    "Address of the Pushgateway of the node agents, where account pushes its own metrics; empty for none.",
  GRIDMETER_REPORT:
    "True: account writes the page report/index.html into the bucket after each unit; empty: it does not.",
  AMS_CERTIFICATE_PARAMETER: "Name of the parameter with the PEM text of the host certificate; empty for none.",
  AMS_KEY_PARAMETER: "Name of the parameter with the PEM text of its key; empty for none.",
  AMS_TOKEN_PARAMETER: "Name of the parameter with a token for the messaging service; empty for none.",
  AMS_CA_PARAMETER: "Name of the parameter with the PEM text of an authority to trust; empty for none.",
  TENANTS_OBJECT: "Key of the tenants file in the bucket, such as config/tenants.yaml; empty for none.",
};

/** PROMETHEUS_SERVER is the parameter PrometheusServer. */
function parameterOf(setting: string): string {
  return setting
    .toLowerCase()
    .split("_")
    .map((word) => `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`)
    .join("");
}

/** The settings that serverless.yml gives a function from the environment, in its order. */
function settingsOf(one: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.values(one).flatMap((value) => /^\$\{env:([A-Z0-9_]+)/.exec(String(value))?.[1] ?? []);
}

function settingParameter(setting: string): Fields {
  const about = ABOUT.get(setting);
  if (about === undefined) {
    const Default = setting === "POWERTOOLS_LOG_LEVEL" ? "INFO" : "";
    return { Type: "String", Description: `${setting}: ${DESCRIPTIONS[setting] ?? ""}`, Default };
  }
  const unset = about.default ?? about.otherwise;
  const fallback = unset === undefined ? "" : ` Empty: ${unset.replaceAll("`", "")}.`;
  const Description = `${setting}: ${about.meaning.replaceAll("`", "")} Example: ${about.example}.${fallback}`;
  return { Type: "String", Description, ...(unset === undefined ? {} : { Default: "" }) };
}

/** The same with `${Stage}` where the stage was. */
function staged(value: Json): Json {
  if (typeof value === "string")
    return value.includes(STAGE) ? { "Fn::Sub": value.replaceAll(STAGE, "${Stage}") } : value;
  if (Array.isArray(value)) return value.map(staged);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]): [string, Json] => {
    if (key !== "Fn::Sub") return [key, staged(inner)];
    // What is substituted already takes one more name.
    const [text, names] = Array.isArray(inner) ? inner : [inner, undefined];
    const replaced = typeof text === "string" ? text.replaceAll(STAGE, "${Stage}") : text;
    return [key, names === undefined ? replaced : [replaced, staged(names)]];
  });
  return Object.fromEntries(entries);
}

const OWN = {
  Stage: {
    Type: "String",
    Description:
      "Part of all names, so that several deployments may be in one account; small letters, digits and hyphens",
    Default: "prod",
    AllowedPattern: "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
    // The name of a bucket has 63 characters at most; the longest names of regions have 14.
    MaxLength: 25,
  },
  CodeBucket: { Type: "String", Description: "Name of a bucket in this region that holds the functions' archives" },
  LogRetentionDays: { Type: "Number", Description: "Days for which the functions' logs are kept", Default: 400 },
} as const;

/** The template of a release. @param version where the archives lie in the bucket, with a slash at its end */
function released(template: Packaged, functions: ReadonlyMap<string, readonly string[]>, version: string): Fields {
  const settings = [...new Set([...functions.values()].flat())].filter(
    (name) => !(parameterOf(name) in template.Parameters),
  );
  const added = Object.fromEntries(settings.map((setting) => [parameterOf(setting), settingParameter(setting)]));
  const CodePrefix = {
    Type: "String",
    Description: "Where in that bucket they lie, with a slash at its end",
    Default: version,
  };
  const Resources = Object.entries(template.Resources)
    .filter(([name]) => !name.startsWith("ServerlessDeploymentBucket"))
    .map(([name, each]): [string, Json] => [name, json.parse(withParameters(name, each, functions))]);
  const { ServerlessDeploymentBucketName: _, ...Outputs } = template.Outputs;
  const labels = {
    Accounting: Object.keys(added),
    "Account of AWS": Object.keys(template.Parameters),
    Deployment: [...Object.keys(OWN), "CodePrefix"],
  };
  const ParameterGroups = Object.entries(labels)
    .toReversed()
    .map(([text, Parameters]) => ({ Label: { default: text }, Parameters }));
  return {
    AWSTemplateFormatVersion: template.AWSTemplateFormatVersion,
    Description: "gridmeter: APEL accounting of a Kubernetes cluster from Prometheus",
    Metadata: { "AWS::CloudFormation::Interface": { ParameterGroups } },
    Parameters: { ...OWN, CodePrefix, ...added, ...template.Parameters },
    Conditions: template.Conditions,
    Resources: staged(Object.fromEntries(Resources)),
    Outputs: staged(Outputs),
  };
}

function withParameters(
  name: string,
  each: z.infer<typeof resource>,
  functions: ReadonlyMap<string, readonly string[]>,
): unknown {
  const Properties = each.Properties ?? {};
  if (each.Type === "AWS::Logs::LogGroup")
    return { ...each, Properties: { ...Properties, RetentionInDays: { Ref: "LogRetentionDays" } } };
  if (each.Type !== "AWS::Lambda::Function") return each;
  const own = name.replace("LambdaFunction", "").toLowerCase();
  const settings = functions.get(own);
  if (settings === undefined) throw new Error(`serverless.yml has no function ${own}, which the template has.`);
  const { Variables } = z.object({ Variables: fields }).parse(Properties["Environment"]);
  const given = Object.fromEntries(settings.map((setting) => [setting, { Ref: parameterOf(setting) }]));
  const Code = { S3Bucket: { Ref: "CodeBucket" }, S3Key: { "Fn::Sub": `\${CodePrefix}${own}.zip` } };
  return { ...each, Properties: { ...Properties, Code, Environment: { Variables: { ...Variables, ...given } } } };
}

async function main(): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const work = join(folder, "packaged");
  // Of the shell only what a program needs: a setting that is there by chance would be in the release.
  const { PATH, HOME } = process.env;
  const { status } = spawnSync("serverless", ["package", "--stage", STAGE, "--package", work], {
    cwd: root,
    stdio: ["ignore", 2, 2],
    env: { PATH, HOME, AWS_REGION: "eu-central-1", ...EXAMPLES },
  });
  if (status !== 0) throw new Error("`serverless package` failed, see above. There is no release.");
  const template = packaged.parse(
    JSON.parse(await readFile(join(work, "cloudformation-template-update-stack.json"), "utf8")),
  );
  const { provider, functions } = service.parse(
    parse(await readFile(join(root, "serverless.yml"), "utf8"), { merge: true }),
  );
  const common = settingsOf(provider.environment);
  const settings = new Map(
    Object.entries(functions).map(([name, each]) => [name, [...new Set([...common, ...settingsOf(each.environment)])]]),
  );
  const hash = createHash("sha256");
  for (const name of settings.keys()) {
    hash.update(await readFile(join(root, "dist", "functions", `${name}.cjs`)));
    await cp(join(work, `${name}.zip`), join(folder, `${name}.zip`));
  }
  const { version } = z
    .object({ version: z.string() })
    .parse(JSON.parse(await readFile(join(root, "package.json"), "utf8")));
  const prefix = `gridmeter/${version}-${hash.digest("hex").slice(0, 12)}/`;
  // YAML 1.1, which CloudFormation reads: there OFF is no text and 2012-10-17 is a day, unless they are quoted.
  await writeFile(
    join(folder, "gridmeter.yml"),
    stringify(released(template, settings, prefix), { version: "1.1", aliasDuplicateObjects: false }),
  );
  await rm(work, { recursive: true });
  console.log(`dist/release/gridmeter.yml and ${settings.size} archives, for s3://BUCKET/${prefix}`);
}

await main();
