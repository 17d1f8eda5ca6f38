import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { SELF_METRICS } from "../../../../lib/agent/metrics/self.ts";
import { OPENPAI_METRICS } from "../../../../lib/agent/openpai/catalogue.ts";
import { ABOUT, amsSettings, runSettings, tenantSettings } from "../../../../lib/accounting/settings/table.ts";
import { parseSettings } from "../../../../lib/accounting/settings/load.ts";
import { ERRORS } from "../../../../lib/shared/errors.ts";
import { GPU_METRICS, NODE_METRICS } from "../../../../lib/agent/probes/common/metric-families.ts";
import { isProbeName } from "../../../../lib/agent/probes/common/settings.ts";
import { parseSaved } from "../../../../lib/agent/probes/registry.ts";
import { probesOf } from "../../../../scripts/docs-metrics.ts";
import { generatedDocs } from "../../../../scripts/docs.ts";
import { fixture, printed } from "../../../support/probe-fixtures.ts";

test.each(generatedDocs())("$path is what the tables say (else: npm run docs)", ({ path, text }) => {
  expect(readFileSync(new URL(`../../../../${path}`, import.meta.url), "utf8")).toBe(text);
});

test("every setting and every error code is documented", () => {
  const [configuration, errors] = generatedDocs().map(({ text }) => text);
  const names = [runSettings, tenantSettings, amsSettings].flatMap(({ shape }) => Object.keys(shape));
  expect([...ABOUT.keys()]).toEqual(names);
  for (const name of names) expect(configuration).toContain(`| \`${name}\``);
  for (const code of Object.keys(ERRORS)) {
    expect(errors).toContain(`| [\`${code}\`](#${code}) |`);
    expect(errors).toContain(`\n## ${code}\n`);
  }
});

test("every metric is documented, and its probes are probes", () => {
  const metrics = generatedDocs().find(({ path }) => path === "docs/metrics.md")?.text ?? "";
  const data = [...Object.keys(GPU_METRICS), ...Object.keys(NODE_METRICS)];
  for (const name of [...data, ...Object.keys(SELF_METRICS), ...Object.keys(OPENPAI_METRICS)]) {
    expect(metrics).toContain(`| \`${name}\` |`);
  }
  for (const name of data) {
    expect(probesOf(name), name).not.toEqual([]);
    expect(probesOf(name).every(isProbeName), name).toBe(true);
  }
  for (const { probes, ours } of Object.values(OPENPAI_METRICS)) {
    expect(probes.every(isProbeName)).toBe(true);
    for (const name of ours) expect([...data, ...Object.keys(SELF_METRICS)]).toContain(name);
  }
});

test.each([
  ["docker-daemon", "docker-info.json"],
  ["docker-stats", "docker-stats.jsonl"],
  ["docker-inspect", "docker-inspect.json"],
  ["nvidia-smi", "nvidia-smi-v12-mig.xml"],
  ["nvidia-smi", "nvidia-smi-v13-lost.xml"],
  ["nvidia-smi", "nvidia-smi-v8-bits.xml"],
  ["amd-smi", "amd-smi-7-metric.json"],
  ["rocm-smi", "rocm-smi-3-keys.json"],
  ["iftop", "iftop.txt"],
  ["ps", "ps.txt"],
  ["crictl-stats", "crictl-stats.json"],
])("what %s reads from %s is documented as its own", (probe, file) => {
  const { metrics } = parseSaved(probe, printed(fixture(file)), { expectedGpus: 1 });
  expect(metrics).not.toEqual([]);
  for (const { name } of metrics) expect(probesOf(name), name).toContain(probe);
});

test("every example and every default can be written as it stands", () => {
  const examples = Object.fromEntries([...ABOUT].map(([name, { example }]) => [name, example]));
  const { TENANTS_FILE: _, PROMETHEUS_AUTH_HEADER, PROMETHEUS_TOKEN_FILE, PROMETHEUS_SIGV4_REGION, ...open } = examples;
  // Of the credentials only one can be sent.
  for (const credentials of [{ PROMETHEUS_AUTH_HEADER }, { PROMETHEUS_TOKEN_FILE }, { PROMETHEUS_SIGV4_REGION }])
    expect(parseSettings({ ...open, ...credentials, PUBLISHING_MODE: "gap" }).tenants).toHaveLength(1);
});
