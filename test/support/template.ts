import { readFile } from "node:fs/promises";
import { join } from "node:path";

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
  const template: Template = settle(JSON.parse(await readFile(file, "utf8")), conditions, { ...PSEUDO, ...parameters });
  const there = Object.entries(template.Resources).filter(
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
      case "Fn::Sub":
        return inner.replaceAll(/\$\{([^}]+)\}/g, (_all: string, of: string) => known[of] ?? of);
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
