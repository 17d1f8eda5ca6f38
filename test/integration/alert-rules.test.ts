import { execFile } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import pLimit from "p-limit";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { knownMetricNames, metricNames, promqlFaults } from "../support/promql-names.ts";

const folder = new URL("../../deploy/prometheus/", import.meta.url).pathname;
const PROMTOOL = "/usr/bin/promtool";
const ruleFiles = readdirSync(folder).filter((file) => file.endsWith(".rules.yml"));
const testFiles = readdirSync(join(folder, "tests")).filter((file) => file.endsWith(".test.yml"));

const Rules = z.object({
  groups: z.array(
    z.object({
      rules: z.array(
        z.union([
          z.strictObject({ record: z.string(), expr: z.string() }),
          z.strictObject({
            alert: z.string(),
            expr: z.string(),
            for: z.string().optional(),
            labels: z.strictObject({ severity: z.enum(["critical", "warning", "info"]) }),
            annotations: z.strictObject({ summary: z.string().min(1), description: z.string().min(80) }),
          }),
        ]),
      ),
    }),
  ),
});
const Tests = z.object({
  rule_files: z.array(z.string()),
  tests: z.array(
    z.object({
      alert_rule_test: z.array(z.object({ alertname: z.string(), exp_alerts: z.array(z.unknown()) })),
    }),
  ),
});

const read = (file: string): unknown => parse(readFileSync(join(folder, file), "utf8"));
const rulesOf = (file: string) => Rules.parse(read(file)).groups.flatMap(({ rules }) => rules);
const rules = ruleFiles.flatMap(rulesOf);
const alerts = rules.flatMap((rule) => ("alert" in rule ? [rule] : []));
const records = rules.flatMap((rule) => ("record" in rule ? [rule.record] : []));
const checks = testFiles.flatMap((file) =>
  Tests.parse(read(`tests/${file}`)).tests.flatMap((each) => each.alert_rule_test),
);

const twoAtATime = pLimit(2);
const promtool = (...args: readonly string[]) =>
  twoAtATime(() => promisify(execFile)(PROMTOOL, args, { cwd: join(folder, "tests"), maxBuffer: 2 ** 24 }));

test("there are rules, and promtool takes them", async () => {
  expect(ruleFiles).toEqual(["gridmeter-accounting.rules.yml", "gridmeter-agent.rules.yml"]);
  const { stdout } = await promtool("check", "rules", ...ruleFiles.map((file) => join(folder, file)));
  expect(stdout.match(/SUCCESS/g)).toHaveLength(ruleFiles.length);
});

test.concurrent.each(testFiles)("promtool test rules %s", async (file) => {
  await expect(promtool("test", "rules", file)).resolves.toMatchObject({
    stdout: expect.stringContaining("SUCCESS") as string,
  });
});

test("every alert has a test in which it fires and one in which it does not", () => {
  const names = alerts.map(({ alert }) => alert).sort();
  expect(new Set(names).size).toBe(names.length);
  const fires = new Set(checks.flatMap((check) => (check.exp_alerts.length > 0 ? [check.alertname] : [])));
  const silent = new Set(checks.flatMap((check) => (check.exp_alerts.length === 0 ? [check.alertname] : [])));
  expect([...fires].sort()).toEqual(names);
  expect([...silent].sort()).toEqual(names);
});

test("every alert about a node names the probe, the instance and what to do", () => {
  const agent = rulesOf("gridmeter-agent.rules.yml").flatMap((rule) => ("alert" in rule ? [rule] : []));
  for (const { alert, annotations } of agent) {
    if (alert !== "GridmeterPushgatewayGone") expect(annotations.description, alert).toContain("instance");
    if (!/Agent|Pushgateway|Pushes/.test(alert))
      expect(annotations.description, alert).toMatch(/\$labels\.probe|\.probe /);
    expect(annotations.description, alert).toMatch(/[Rr]un |[Ss]ee |[Dd]rain|[Ii]nstall|[Ll]ook|rename|Remove|Start/);
  }
});

test("rules ask for nothing but metrics that there are", async () => {
  const known = knownMetricNames();
  for (const { expr } of rules) {
    expect(promqlFaults(expr), expr).toEqual([]);
    for (const name of metricNames(expr)) expect([...known, ...records, "ALERTS", "up"], expr).toContain(name);
  }
});

test("queries in what alerts say are PromQL on metrics that there are", async () => {
  const queries = alerts.flatMap(({ annotations }) =>
    [...annotations.description.matchAll(/query \(printf "(?<query>.*?)" \$labels/g)].map((found) =>
      (found.groups?.["query"] ?? "").replaceAll("%q", '"x"'),
    ),
  );
  expect(queries.length).toBeGreaterThanOrEqual(4);
  const known = knownMetricNames();
  for (const query of queries) {
    expect(promqlFaults(query), query).toEqual([]);
    for (const name of metricNames(query)) expect(known, query).toContain(name);
  }
});
