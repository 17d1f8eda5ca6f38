import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { ACCOUNTING_JOB, ACCOUNTING_METRICS } from "../../../lib/accounting/metrics.ts";
import { ABOUT } from "../../../lib/accounting/settings/table.ts";
import { ROOT, read } from "./markdown.ts";

const PAGE = read("docs/moving-from-kapel.md");
const CHART = join(ROOT, "deploy/chart/gridmeter");
const values = z.record(z.string(), z.unknown()).parse(parse(readFileSync(join(CHART, "values.yaml"), "utf8")));

/** The values of Kuantifier's chart 1.3.2 (KAPEL 1.0.0's has all but two of them), and its settings below processor.config. */
const KUANTIFIER = [
  ...["schedule", "priorityClassName", "ttlSecondsAfterFinished", "nodeSelector", "tolerations"].map(
    (key) => `cronjob.${key}`,
  ),
  "outputFormat",
  "gridSecurityHostPath",
  "pspName",
  "user.uid",
  "user.gid",
  "dataVolumeSize",
  "containerSecurityContext",
  ...[
    "image_repository",
    "image_tag",
    "image_pull_policy",
    "resources",
    "config",
    "prometheus_auth.secret",
    "prometheus_auth.key",
  ].map((key) => `processor.${key}`),
  ...["enabled", "resources", "image_repository", "image_tag", "host", "existingSecret", "x509cert", "x509key"].map(
    (key) => `ssmsend.${key}`,
  ),
  ...["resources", "image_repository", "image_tag", "config"].map((key) => `gratia.${key}`),
  "nameOverride",
  "fullnameOverride",
  "extraObjects",
];
const KAPEL = [
  "PROMETHEUS_SERVER",
  "PROMETHEUS_AUTH_HEADER",
  "PUBLISHING_MODE",
  "NAMESPACE",
  "SUMMARIZE_RECORDS",
  "QUERY_START",
  "QUERY_END",
  "QUERY_TIMEOUT",
  "OUTPUT_PATH",
  "SITE_NAME",
  "SUBMIT_HOST",
  "BENCHMARK_VALUE",
  "VO_NAME",
  "INFRASTRUCTURE_TYPE",
  "INFRASTRUCTURE_DESCRIPTION",
  "NODECOUNT",
  "PROCESSORS",
];

/** The rows of the table below a heading, cell by cell. */
function rows(heading: string): readonly (readonly string[])[] {
  const [, after = ""] = PAGE.split(`## ${heading}\n`);
  const [section = ""] = after.split("\n## ");
  const lines = section.split("\n").filter((line) => line.startsWith("| "));
  return lines.slice(1).map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}
const names = (cells: readonly (readonly string[])[]): readonly string[] =>
  cells.map(([first = ""]) => first.replaceAll("`", ""));

const has = (path: string): boolean => {
  const found = path
    .split(".")
    .reduce<unknown>((value, key) => z.record(z.string(), z.unknown()).safeParse(value).data?.[key], values);
  return found !== undefined;
};

describe("docs/moving-from-kapel.md", () => {
  test("has every setting of KAPEL, which are those that the code calls KAPEL's", () => {
    expect(names(rows("Every setting")).toSorted()).toEqual(KAPEL.toSorted());
    const ours = [...ABOUT].flatMap(([name, { kapel }]) => (kapel === true ? [name] : []));
    expect(ours.toSorted()).toEqual(KAPEL.toSorted());
  });

  test("has every value of Kuantifier's chart", () => {
    expect(names(rows("Every value of Kuantifier's chart"))).toEqual(KUANTIFIER);
  });

  test("names only values that our chart has", () => {
    const named = [...PAGE.matchAll(/`((?:accounting|agent)\.[\w.]+)`/g)].map(([, path = ""]) => path);
    expect(named.length).toBeGreaterThan(20);
    expect(named.filter((path) => !has(path))).toEqual([]);
  });

  test("says of Gratia that it is not supported, as README does", () => {
    expect(PAGE).toMatch(/\*\*Gratia is not supported\.\*\*/);
    expect(read("README.md")).toMatch(/Gratia[^.]* not supported/);
  });
});

test("docs/accounting-in-the-cluster.md names only values that the chart has", () => {
  const page = read("docs/accounting-in-the-cluster.md");
  const named = [...page.matchAll(/`((?:accounting|agent)\.[\w.]+)(?::[^`]*)?`/g)].map(([, path = ""]) => path);
  expect(named.length).toBeGreaterThan(15);
  expect(named.filter((path) => !has(path) && !path.startsWith("accounting.config."))).toEqual([]);
});

test("docs/monitoring-the-accounting.md has every metric and every alert of the accounting, and no others", () => {
  const page = read("docs/monitoring-the-accounting.md");
  const metrics = [...page.matchAll(/^\| `(gridmeter_\w+)` \|/gm)].map(([, name = ""]) => name);
  expect(metrics.toSorted()).toEqual(
    Object.keys(ACCOUNTING_METRICS)
      .map((name) => `${ACCOUNTING_JOB}_${name}`)
      .toSorted(),
  );
  const alerts = [...page.matchAll(/^\| `(Gridmeter\w+)` \|/gm)].map(([, name = ""]) => name);
  const rules = [...read("deploy/prometheus/gridmeter-accounting.rules.yml").matchAll(/- alert: (\w+)/g)].map(
    ([, name = ""]) => name,
  );
  expect(alerts).toEqual(rules);
});
