import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";

export const ROOT = resolve(import.meta.dirname, "../../..");

/** The documents that are written by hand. */
export const WRITTEN = [
  "README.md",
  "CHANGELOG.md",
  "SECURITY.md",
  "docs/architecture.md",
  "docs/accounting-in-the-cluster.md",
  "docs/accounting-semantics.md",
  "docs/monitoring-the-accounting.md",
  "docs/moving-from-kapel.md",
  "docs/correct.md",
  "docs/deploy.md",
  "docs/rights.md",
  "docs/run.md",
  "docs/report.md",
  "docs/security.md",
  "docs/sending.md",
  "docs/ssmsend-host.md",
];

export const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

/** The anchors of a document's headings, made as GitHub makes them. */
export function anchors(text: string): readonly string[] {
  return [...withoutCode(text).matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, "")
      .replaceAll(" ", "-"),
  );
}

/** Targets of the links that do not lead out of the repository. */
export function links(text: string): readonly string[] {
  const targets = [...withoutCode(text).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
  return targets.filter((target) => !/^[a-z]+:/.test(target));
}

/** What stands between single backticks, and the lines of fenced blocks of the given languages. */
export function code(text: string, languages: readonly string[]): readonly string[] {
  const fenced = [...text.matchAll(FENCE)];
  const lines = fenced.flatMap(([, language = "", body = ""]) =>
    languages.includes(language) ? body.split("\n") : [],
  );
  const inline = [...withoutFences(text).matchAll(/`([^`]+)`/g)].map(([, one = ""]) => one.replaceAll("\n", " "));
  return [...lines, ...inline].map((line) => line.trim()).filter((line) => line !== "");
}

/** A fenced block; those within a list are indented. */
const FENCE = /^ *```(\w*)\n([^]*?)^ *```$/gm;
const withoutFences = (text: string): string => text.replaceAll(FENCE, "");
const withoutCode = (text: string): string => withoutFences(text).replaceAll(/`[^`]*`/g, "");
