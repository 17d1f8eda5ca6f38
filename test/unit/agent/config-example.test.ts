import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parseDocument } from "yaml";
import { loadAgentConfig } from "../../../lib/agent/config.ts";
import { probeKeys } from "../../../lib/agent/config-probes.ts";
import { PROBE_DEFAULTS } from "../../../lib/agent/probes/registry.ts";
import { PROBE_NAMES, isProbeName } from "../../../lib/agent/probes/common/settings.ts";
import { configuredProbes } from "../../../lib/agent/agent.ts";

const file = new URL("../../../deploy/agent.example.yaml", import.meta.url).pathname;
const text = readFileSync(file, "utf8");
const guide = readFileSync(new URL("../../../docs/agent.md", import.meta.url), "utf8");
const SETTINGS = [...new Set([...PROBE_NAMES, "fans"].flatMap(probeKeys))];
const TOP = ["listen", "instance", "job", "pushgateway", "probes", "openpaiNames", "logLevel"];
const GATEWAY = ["url", "interval", "username", "passwordFile", "bearerTokenFile", "caFile"];

it("says what holds without it: as it is copied, it changes nothing", () => {
  const { probes, file: _file, ...rest } = loadAgentConfig({}, { config: file });
  const { probes: _none, file: _nowhere, ...without } = loadAgentConfig({});
  expect(rest).toEqual(without);
  for (const [name, { enabled, ...settings }] of Object.entries(probes)) {
    if (!isProbeName(name)) throw new Error(`${name} is not commented out`);
    const { interval, timeout, maxBytes, command, options } = PROBE_DEFAULTS[name];
    expect({ interval, timeout, maxBytes, command, ...options }, name).toMatchObject(settings);
    expect(enabled ?? true).toBe(true);
  }
});

it("has every probe and every setting, and can be read with all of them", () => {
  const folder = mkdtempSync(join(tmpdir(), "gridmeter-example-"));
  const all = text.replaceAll(/^( *)#(?=\S)/gm, "$1").replace(/^ *bearerTokenFile:.*\n/m, "");
  for (const name of ["agent.yaml", "pushgateway-password", "ca.pem"]) writeFileSync(join(folder, name), all);
  const config = loadAgentConfig({}, { config: join(folder, "agent.yaml") });
  rmSync(folder, { recursive: true });
  expect(Object.keys(config.probes).toSorted()).toEqual([...PROBE_NAMES, "fans"].toSorted());
  const set = Object.values(config.probes).flatMap((probe) => Object.keys(probe));
  expect(new Set(["type", ...set])).toEqual(new Set(SETTINGS));
  expect(configuredProbes(config)).toHaveLength(PROBE_NAMES.length + 1);
  expect(config).toMatchObject({ instance: "gpu-node-17", pushgateway: { username: "gridmeter", interval: 30 } });
  for (const key of GATEWAY) expect(text).toMatch(new RegExp(`^  #${key}: `, "m"));
});

it("is described in the operators' guide, setting by setting", () => {
  for (const name of [...TOP, ...GATEWAY.map((key) => `pushgateway.${key}`), ...SETTINGS, ...PROBE_NAMES]) {
    expect(guide, name).toContain(`\`${name}\``);
  }
});

it("reads every configuration that the guide shows", () => {
  const blocks = [...guide.matchAll(/```yaml\n(.*?)```/gs)].map(([, block]) => block ?? "");
  expect(blocks.length).toBeGreaterThan(0);
  for (const block of blocks) {
    expect(parseDocument(block).errors, block).toEqual([]);
    if (!/^(scrape_configs|rule_files):/m.test(block)) {
      const folder = mkdtempSync(join(tmpdir(), "gridmeter-guide-"));
      writeFileSync(join(folder, "agent.yaml"), block);
      expect(() => loadAgentConfig({}, { config: join(folder, "agent.yaml") }), block).not.toThrow();
      rmSync(folder, { recursive: true });
    }
  }
});
