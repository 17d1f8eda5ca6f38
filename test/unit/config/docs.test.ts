import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { ABOUT, runSettings, tenantSettings } from "../../../lib/config/settings.ts";
import { parseSettings } from "../../../lib/config/parse-settings.ts";
import { ERRORS } from "../../../lib/errors.ts";
import { generatedDocs } from "../../../scripts/docs.ts";

test.each(generatedDocs())("$path is what the tables say (else: npm run docs)", ({ path, text }) => {
  expect(readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8")).toBe(text);
});

test("every setting and every error code is documented", () => {
  const [configuration, errors] = generatedDocs().map(({ text }) => text);
  const names = [...Object.keys(runSettings.shape), ...Object.keys(tenantSettings.shape)];
  expect([...ABOUT.keys()]).toEqual(names);
  for (const name of names) expect(configuration).toContain(`| \`${name}\``);
  for (const code of Object.keys(ERRORS)) expect(errors).toContain(`| \`${code}\` |`);
});

test("every example and every default can be written as it stands", () => {
  const examples = Object.fromEntries([...ABOUT].map(([name, { example }]) => [name, example]));
  const { TENANTS_FILE: _, PROMETHEUS_AUTH_HEADER, PROMETHEUS_TOKEN_FILE, PROMETHEUS_SIGV4_REGION, ...open } = examples;
  // Of the credentials only one can be sent.
  for (const credentials of [{ PROMETHEUS_AUTH_HEADER }, { PROMETHEUS_TOKEN_FILE }, { PROMETHEUS_SIGV4_REGION }])
    expect(parseSettings({ ...open, ...credentials, PUBLISHING_MODE: "gap" }).tenants).toHaveLength(1);
});
