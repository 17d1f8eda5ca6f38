import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";

// oxlint-disable-next-line typescript/no-explicit-any
export type Json = any;
export type Resource = { readonly Type: string; readonly Properties: Record<string, Json> } & Record<string, Json>;
export type Template = {
  readonly Resources: Record<string, Resource>;
  readonly Outputs: Record<string, { readonly Value: Json }>;
  readonly Parameters: Record<string, Json>;
};

const PSEUDO: Record<string, string> = {
  "AWS::Partition": "aws",
  "AWS::AccountId": "123456789012",
  "AWS::Region": "eu-central-1",
};
const GONE = Symbol("no value");

/**
 * The template that `serverless package` wrote, as CloudFormation sees it under the given conditions: pseudo parameters
 * and given parameters are filled in, references stand as text (`WorkQueue`, `WorkQueue.Arn`), and what is conditional is there or not.
 */
export async function readTemplate(
  folder: string,
  conditions: readonly string[],
  parameters: Readonly<Record<string, string>> = {},
): Promise<Template> {
  const file = join(folder, "cloudformation-template-update-stack.json");
  return settled(JSON.parse(await readFile(file, "utf8")), conditions, parameters);
}

/** A template that is written by hand, or a part of one, for the stage dev; otherwise as `readTemplate`. */
export async function readWritten(
  file: string | URL,
  conditions: readonly string[],
  parameters: Readonly<Record<string, string>> = {},
): Promise<Template> {
  const text = (await readFile(file, "utf8")).replaceAll("${sls:stage}", "dev");
  return settled(parse(text, { merge: true }), conditions, parameters);
}

function settled(raw: Json, given: readonly string[], parameters: Readonly<Record<string, string>>): Template {
  // What holds where nothing else is said.
  const conditions = ["WatchesSuccess", ...given, ...(given.includes("AdoptsBucket") ? [] : ["MakesBucket"])];
  const template: Template = settle(raw, conditions, { ...PSEUDO, ...parameters });
  const there = Object.entries(template.Resources ?? {}).filter(
    ([, { Condition }]) => Condition === undefined || conditions.includes(Condition),
  );
  return { ...template, Resources: Object.fromEntries(there) };
}

function settle(value: Json, conditions: readonly string[], known: Readonly<Record<string, string>>): Json {
  if (Array.isArray(value)) return value.map((each) => settle(each, conditions, known)).filter((each) => each !== GONE);
  if (typeof value !== "object" || value === null) return value;
  const [name, ...more] = Object.keys(value);
  if (more.length === 0 && name !== undefined) {
    const inner = value[name];
    switch (name) {
      case "Ref":
        return inner === "AWS::NoValue" ? GONE : (known[inner] ?? inner);
      case "Fn::GetAtt":
        return inner.join(".");
      case "Fn::Sub": {
        const [text, given] = Array.isArray(inner) ? inner : [inner, {}];
        const names = { ...known, ...settle(given, conditions, known) };
        return text.replaceAll(/\$\{([^}]+)\}/g, (_all: string, of: string) => names[of] ?? of);
      }
      case "Fn::If":
        return settle(conditions.includes(inner[0]) ? inner[1] : inner[2], conditions, known);
    }
  }
  const entries = Object.entries(value).map(([key, each]) => [key, settle(each, conditions, known)]);
  return Object.fromEntries(entries.filter(([, each]) => each !== GONE));
}

/** All resources of a type. */
export function ofType(template: Template, type: string): readonly (readonly [string, Record<string, Json>])[] {
  return Object.entries(template.Resources).flatMap(([name, each]) =>
    each.Type === type ? [[name, each.Properties] as const] : [],
  );
}

/** A resource's properties. Throws if there is no such resource. */
export function properties(template: Template, name: string): Record<string, Json> {
  const resource = template.Resources[name];
  if (resource === undefined) throw new Error(`The template has no resource ${name}.`);
  return resource.Properties;
}

/** The statements of a role's own policies, or of a managed policy. */
export function statementsOf(template: Template, name: string): readonly Json[] {
  const { Policies: policies, PolicyDocument: managed } = properties(template, name);
  return managed === undefined ? policies.flatMap((each: Json) => each.PolicyDocument.Statement) : managed.Statement;
}

/** What statements allow, as `action resource` with the condition of a listing. No other condition is spelt out. */
export function rightsIn(statements: readonly Json[]): readonly string[] {
  return statements.flatMap(({ Effect, Action, Resource, Condition }) => {
    if (Effect !== "Allow") throw new Error(`Only what is allowed can be listed, not ${Effect}.`);
    const prefixes = Condition?.StringLike?.["s3:prefix"];
    const under = prefixes === undefined ? "" : ` under ${prefixes.join(" ")}`;
    return [Action].flat().flatMap((action) => [Resource].flat().map((resource) => `${action} ${resource}${under}`));
  });
}
