import { LineCounter, parseDocument, visit } from "yaml";
import { z } from "zod";
import { type Raw, didYouMean } from "../../shared/config-values.ts";
import type { Problem } from "../../shared/config-problems.ts";

import { runSettings, tenantSettings } from "./table.ts";

/** A tenant as it is in the file: its name, and the settings it sets ("" puts a setting back to its default). */
export type ListedTenant = { readonly name: string; readonly raw: Raw };

const FILE = z.strictObject({ tenants: z.array(z.record(z.string(), z.unknown())).min(1) });
const TENANT_KEYS = Object.keys(tenantSettings.shape);
const RUN_KEYS = Object.keys(runSettings.shape);

export type TenantsFile = { readonly tenants: readonly ListedTenant[]; readonly problems: readonly Problem[] };

/** Reads a tenants file, YAML or JSON (`tenants: [{name, <settings>}]`). Values are never quoted: they may be secrets. */
export function parseTenantsFile(text: string): TenantsFile {
  const lines = new LineCounter();
  // "failsafe" leaves every scalar the text that was written: a namespace 0123 stays 0123, and no stays no.
  const document = parseDocument(text, { schema: "failsafe", lineCounter: lines, prettyErrors: false });
  const [error] = document.errors;
  if (error !== undefined) {
    const { line, col } = lines.linePos(error.pos[0]);
    return { tenants: [], problems: [fileProblem(`line ${line}, column ${col} is not valid YAML (${error.code})`)] };
  }
  const alias = firstUnknownAlias(document);
  if (alias !== undefined) {
    const { line, col } = lines.linePos(alias);
    const text = `line ${line}, column ${col} has an alias of YAML (*) that names nothing. Put a value that begins with * in quotes`;
    return { tenants: [], problems: [fileProblem(text)] };
  }
  const file = FILE.safeParse(contents(document));
  if (!file.success) {
    const shape = "The file must hold one list, tenants, of at least one tenant, each with a name and its settings";
    const extra = file.error.issues.flatMap((issue) => (issue.code === "unrecognized_keys" ? issue.keys : []));
    const problems = extra.map((key) => unknownKey(key, "the file's top level", ["tenants"]));
    return { tenants: [], problems: problems.length > 0 ? problems : [fileProblem(`has another shape. ${shape}`)] };
  }
  const problems: Problem[] = [];
  const tenants = file.data.tenants.map((entry, index) => listedTenant(entry, index + 1, problems));
  return { tenants, problems: [...problems, ...nameProblems(tenants)] };
}

/** Where the first alias is that names nothing: a value that begins with `*` and has no quotes. */
function firstUnknownAlias(document: ReturnType<typeof parseDocument>): number | undefined {
  let at: number | undefined;
  visit(document, {
    Alias: (_key, node) => {
      if (node.resolve(document) !== undefined) return undefined;
      at = node.range?.[0];
      return visit.BREAK;
    },
  });
  return at;
}

function contents(document: ReturnType<typeof parseDocument>): unknown {
  try {
    return document.toJS();
  } catch {
    // Aliases that multiply without end are the one thing that fails only here.
    return undefined;
  }
}

function listedTenant(entry: Record<string, unknown>, position: number, problems: Problem[]): ListedTenant {
  const name = typeof entry["name"] === "string" ? entry["name"].trim() : "";
  const tenant = name === "" ? `number ${position}` : name;
  const raw: Record<string, string> = {};
  for (const [key, value] of Object.entries(entry)) {
    if (key === "name") continue;
    if (!TENANT_KEYS.includes(key)) problems.push({ ...unknownKey(key, "a tenant", TENANT_KEYS), tenant });
    else if (typeof value !== "string") {
      problems.push({ setting: key, tenant, text: "is a list or a mapping. Write one plain value" });
    } else raw[key] = ["null", "~"].includes(value) ? "" : value;
  }
  if (name === "") problems.push({ setting: "name", tenant, text: "is not set. Give every tenant a name of its own" });
  return { name: tenant, raw };
}

function nameProblems(tenants: readonly ListedTenant[]): Problem[] {
  const first = new Map(tenants.map(({ name }, index): [string, number] => [name, index]).toReversed());
  return tenants.flatMap(({ name }, index): Problem[] => {
    if ((first.get(name) ?? index) < index) {
      return [
        {
          setting: "name",
          quoted: JSON.stringify(name),
          text: "names two tenants. Give every tenant a name of its own",
        },
      ];
    }
    // The name is a segment of the ledger's keys and an argument of the command line.
    return /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$/.test(name) || /^number \d+$/.test(name)
      ? []
      : [
          {
            setting: "name",
            quoted: JSON.stringify(name),
            text: "is not usable as a file name. Write letters, digits, ., _ or -",
          },
        ];
  });
}

function unknownKey(key: string, where: string, known: readonly string[]): Problem {
  const shown = /^\w{1,60}$/.test(key) ? key : JSON.stringify(key.slice(0, 60));
  const text = RUN_KEYS.includes(key)
    ? "applies to the whole run. Set it in the environment, not in the tenants file"
    : `is not a setting of ${where}${didYouMean(shown, [...known, "name"])}`;
  return { setting: shown, text };
}

function fileProblem(text: string): Problem {
  return { setting: "TENANTS_FILE", text };
}
