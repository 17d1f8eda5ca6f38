// Writes what is made from elsewhere around the Helm chart: its copies of rules and dashboards, the settings in its schema, and the
// plain manifests for those without Helm. `--check` only compares and exits 1 if a file differs.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { z } from "zod";
import { ABOUT } from "../lib/accounting/settings/table.ts";
import { errorText } from "../lib/shared/errors.ts";
import { ensureTools } from "./setup.ts";

const root = resolve(import.meta.dirname, "..");
export const CHART = join(root, "deploy", "chart", "gridmeter");
const SCHEMA = "deploy/chart/gridmeter/values.schema.json";

/** A file that is made: its path from the root of the project, and what it must hold. */
export type Made = { readonly path: string; readonly text: string };

/** Helm reads only what lies inside the chart, so rules and dashboards are there a second time. */
function copies(): readonly Made[] {
  const of = (from: string, ending: string, to: string): readonly Made[] =>
    readdirSync(join(root, from))
      .filter((name) => name.endsWith(ending))
      .toSorted()
      .map((name) => ({ path: join(to, name), text: readFileSync(join(root, from, name), "utf8") }));
  const files = "deploy/chart/gridmeter/files";
  return [...of("deploy/prometheus", ".rules.yml", files), ...of("deploy/grafana", ".json", join(files, "dashboards"))];
}

const Settings = z.looseObject({ properties: z.record(z.string(), z.unknown()) });
const Accounting = z.looseObject({ properties: z.looseObject({ config: Settings }) });
const Schema = z.looseObject({ properties: z.looseObject({ accounting: Accounting }) });

/** The chart's schema with the settings of today under accounting.config. */
function schema(): Made {
  const read = Schema.parse(JSON.parse(readFileSync(join(root, SCHEMA), "utf8")));
  read.properties.accounting.properties.config.properties = Object.fromEntries(
    [...ABOUT].map(([name, { meaning }]) => [name, { description: meaning }]),
  );
  return { path: SCHEMA, text: `${JSON.stringify(read, null, 2)}\n` };
}

/** The plain manifests: of each the values that it is rendered with, what is to be edited in it, and its namespace's security. */
const PLAIN = [
  {
    name: "accounting",
    head: [
      "# The accounting in the cluster, for those without Helm. Edit the settings in the first ConfigMap (docs/configuration.md) and the",
      "# image; make the Secret with the host certificate; then apply. docs/accounting-in-the-cluster.md goes through all of it.",
      "#   kubectl create namespace gridmeter",
      "#   kubectl --namespace gridmeter create secret generic gridmeter-host-certificate \\",
      "#     --from-file=x509cert.pem=hostcert.pem --from-file=x509key.pem=hostkey.pem",
      "#   kubectl apply -f deploy/kubernetes/accounting.yaml",
    ],
    security: "restricted",
  },
  {
    name: "agent",
    head: [
      "# The gridmeter agent on every node, for those without Helm. Build the image (deploy/docker/Dockerfile, target agent), set `image`",
      "# and the Pushgateway below, then:",
      "#   kubectl apply -f deploy/kubernetes/agent.yaml",
    ],
    security: "privileged",
  },
] as const;

/** Lines that mean something to Helm only. */
const HELMS = /^(?:# Source:|\s+(?:helm\.sh\/\w|app\.kubernetes\.io\/managed-by:))/;

/** Renders one plain manifest. Throws if helm fails. */
function manifest(helm: string, { name, head, security }: (typeof PLAIN)[number]): Made {
  const values = join(CHART, "ci", `${name}-values.yaml`);
  const args = ["template", "gridmeter", CHART, "--namespace", "gridmeter", "--skip-tests", "--values", values];
  const rendered = execFileSync(helm, args, { encoding: "utf8" });
  const lines = rendered.split("\n").map((line) => line.trimEnd());
  const kept = lines.filter((line, index) => line !== "" && !HELMS.test(line) && !isEmptied(lines, index));
  const text = [
    "# Rendered from deploy/chart/gridmeter by `npm run manifests`. Change the chart, not this file.",
    ...head,
    "apiVersion: v1",
    "kind: Namespace",
    "metadata:",
    "  name: gridmeter",
    "  labels:",
    `    pod-security.kubernetes.io/enforce: ${security}`,
    ...kept,
  ];
  return { path: `deploy/kubernetes/${name}.yaml`, text: `${text.join("\n")}\n` };
}

/** Whether a line is part of annotations of which all are Helm's: the key itself, or the comment on what follows. */
function isEmptied(lines: readonly string[], index: number): boolean {
  const [line = "", next = "", after = ""] = lines.slice(index);
  if (line.trim() === "annotations:") return HELMS.test(next.trimStart().startsWith("#") ? after : next);
  return line.trimStart().startsWith("#") && /^\s+helm\.sh\//.test(next);
}

/** All files that are made, as they must be. */
export function made(helm: string): readonly Made[] {
  return [...copies(), schema(), ...PLAIN.map((each) => manifest(helm, each))];
}

/** The text of a made file as it is on disk; undefined if it is not there. */
export function onDisk(path: string): string | undefined {
  try {
    return readFileSync(join(root, path), "utf8");
  } catch {
    return undefined;
  }
}

/** Writes the files or, with `--check`, compares; returns the exit code. */
function main(args: readonly string[]): number {
  const helm = ensureTools(["helm"]).get("helm") ?? "";
  // Helm renders what is on disk, so the copies are written before it is asked.
  const before = [...copies(), schema()].filter(({ path, text }) => onDisk(path) !== text);
  if (!args.includes("--check")) for (const each of before) write(each);
  const stale = made(helm).filter(({ path, text }) => onDisk(path) !== text);
  if (args.includes("--check")) {
    for (const { path } of stale)
      console.error(`${path} differs from what it is made from. Run \`npm run manifests\`.`);
    return stale.length > 0 ? 1 : 0;
  }
  for (const each of stale) write(each);
  return 0;
}

function write({ path, text }: Made): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
  console.log(`wrote ${path}`);
}

if (import.meta.main) {
  try {
    process.exitCode = main(process.argv.slice(2));
  } catch (error) {
    console.error(`The manifests could not be written: ${errorText(error)}`);
    process.exitCode = 1;
  }
}
