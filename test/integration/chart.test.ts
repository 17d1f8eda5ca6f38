import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { made, onDisk } from "../../scripts/manifests.ts";
import { ensureTools } from "../../scripts/setup.ts";
import { FULL, SAMPLES, at, leaves, withValue } from "../support/chart-values.ts";
import { CHART, type KubernetesObject, type Values, helm, objectsOf, render, schemaFaults } from "../support/helm.ts";

const ci = readdirSync(join(CHART, "ci")).map((name) => join(CHART, "ci", name));
const defaults = parse(readFileSync(join(CHART, "values.yaml"), "utf8")) as Values;
const faultsOf = async (objects: readonly KubernetesObject[]): Promise<readonly string[]> =>
  (await Promise.all(objects.map(schemaFaults))).flat();

describe("helm", () => {
  test.for(ci)("lints the chart with %s, without a warning", async (file) => {
    const { code, stdout, stderr } = await helm(["lint", CHART, "--strict", "--values", file]);
    expect(`${stdout}${stderr}`).not.toMatch(/\[(?:WARNING|ERROR)\]/);
    expect(code).toBe(0);
  });

  test("packs the chart, and renders the package as it renders the folder", async () => {
    const folder = mkdtempSync(join(tmpdir(), "gridmeter-chart-"));
    try {
      execFileSync(ensureTools(["helm"]).get("helm") ?? "", ["package", CHART, "--destination", folder]);
      const [archive = ""] = readdirSync(folder);
      expect(archive).toBe("gridmeter-0.1.0.tgz");
      const both = await Promise.all(
        [CHART, join(folder, archive)].map((chart) => helm(["template", "site", chart], FULL)),
      );
      expect(both[1]).toEqual(both[0]);
      expect(both[0]?.code).toBe(0);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

describe("values", () => {
  test("all at once give objects that Kubernetes and the operator take, no two of one name", async () => {
    const objects = await render(FULL);
    expect(await faultsOf(objects)).toEqual([]);
    const names = objects.map(({ apiVersion, kind, metadata }) => `${apiVersion} ${kind} ${metadata.name}`);
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
    expect(names).toEqual(expect.arrayContaining(["batch/v1 CronJob site-gridmeter-accounting"]));
    for (const { metadata } of objects) expect(metadata.name.length).toBeLessThanOrEqual(52);
  });

  const all = leaves(defaults);

  test.for(all)("%s has an effect, and the result fits the schemas", async (path) => {
    const base = SAMPLES[path]?.base === undefined ? FULL : SAMPLES[path].base(FULL);
    const sample = SAMPLES[path];
    const found = at(base, path);
    const now = found === undefined ? at(defaults, path) : found;
    const other = sample?.value ?? (typeof now === "boolean" ? !now : undefined);
    expect(other, `test/support/chart-values.ts has no sample of ${path}`).toBeDefined();
    const [before, after] = await Promise.all([render(base), render(withValue(base, path, other))]);
    expect(after).not.toEqual(before);
    expect(await faultsOf(after)).toEqual([]);
  });

  test("are all in the schema, with a text, and the schema has no others", () => {
    type Schema = { readonly description?: string; readonly properties?: Readonly<Record<string, Schema>> };
    const schema = JSON.parse(readFileSync(join(CHART, "values.schema.json"), "utf8")) as Schema;
    const missing: string[] = [];
    const visit = (value: unknown, part: Schema | undefined, path: string): void => {
      if (path !== "" && (part?.description ?? "").length < 8) missing.push(path);
      if (part?.properties === undefined || typeof value !== "object" || value === null) return;
      const own = value as Readonly<Record<string, unknown>>;
      for (const key of Object.keys(own)) visit(own[key], part.properties[key], path === "" ? key : `${path}.${key}`);
      const more = Object.keys(part.properties).filter((key) => !(key in own) && key !== "global");
      if (path !== "accounting.config") missing.push(...more.map((key) => `${path}.${key} is not in values.yaml`));
    };
    visit(defaults, schema, "");
    expect(missing).toEqual([]);
  });

  test.for<readonly [string, Values, RegExp]>([
    ["a misspelt value", { acounting: {} }, /additional properties 'acounting' not allowed/],
    ["an unknown way to send", withValue(FULL, "accounting.send.method", "smtp"), /method.*must be one of 'ams'/s],
    ["a schedule that is none", withValue(FULL, "accounting.schedule", "daily at 7"), /schedule/],
    ["missing settings, all at once", {}, /SITE_NAME is missing[^]*PROMETHEUS_SERVER is missing[^]*existingSecret/],
    [
      "a header in the ConfigMap",
      withValue(FULL, "accounting.config.PROMETHEUS_AUTH_HEADER", "Bearer abc"),
      /would stand in a ConfigMap/,
    ],
    [
      "a password in an address",
      withValue(FULL, "accounting.config.PROMETHEUS_SERVER", "https://u:p@prometheus.example.org"),
      /holds credentials/,
    ],
    [
      "a tenant's password",
      withValue(FULL, "accounting.tenants", [{ name: "east", PROMETHEUS_SERVER: "https://u:p@east.example.org" }]),
      /tenant east .* holds credentials/,
    ],
    ["no volume and no bucket", withValue(FULL, "accounting.storage.enabled", false), /must be s3:/],
    ["ssmsend without an image", withValue(FULL, "accounting.send.method", "ssmsend"), /ssmsend.image.repository/],
    ["two secrets", withValue(FULL, "accounting.send.x509cert", "YWJj"), /which of them counts/],
    ["both monitors", withValue(FULL, "agent.podMonitor.enabled", true), /twice/],
    ["a monitor without a port", withValue(FULL, "agent.config.listen", "off"), /nothing for agent.serviceMonitor/],
    ["a monitor without a port, as YAML reads off", withValue(FULL, "agent.config.listen", false), /nothing for agent/],
    ["a port for the pod alone", withValue(FULL, "agent.config.listen", "127.0.0.1:9102"), /nothing outside the pod/],
    [
      "a gateway's password",
      withValue(FULL, "agent.config.pushgateway.url", "http://u:p@gateway.example.org"),
      /agent.existingSecret/,
    ],
  ])("refuses %s", async ([, values, message]) => {
    await expect(render(values)).rejects.toThrow(message);
  });

  test("keep large and broken numbers, and texts that look like others", async () => {
    const config = {
      NODECOUNT: 12_345_678,
      BENCHMARK_VALUE: 10.25,
      SUMMARIZE_RECORDS: false,
      VO_NAME: "yes",
      SITE_NAME: "1e3",
    };
    const values = Object.entries(config).reduce(
      (all, [name, value]) => withValue(all, `accounting.config.${name}`, value),
      FULL,
    );
    const objects = await render(values);
    const map = objects.find(
      ({ kind, metadata }) => kind === "ConfigMap" && metadata.name === "site-gridmeter-accounting",
    );
    expect(map?.["data"]).toMatchObject({
      NODECOUNT: "12345678",
      BENCHMARK_VALUE: "10.25",
      SUMMARIZE_RECORDS: "false",
      VO_NAME: "yes",
      SITE_NAME: "1e3",
    });
  });
});

describe("the plain manifests and the copies in the chart", () => {
  const helmPath = ensureTools(["helm"]).get("helm") ?? "";

  test("are those of today", () => {
    const stale = made(helmPath).filter(({ path, text }) => onDisk(path) !== text);
    expect(
      stale.map(({ path }) => path),
      "run `npm run manifests`",
    ).toEqual([]);
  });

  test("are taken by kubectl, and by the schemas", async () => {
    const folder = mkdtempSync(join(tmpdir(), "gridmeter-manifests-"));
    afterAll(() => rmSync(folder, { recursive: true, force: true }));
    const files = ["accounting.yaml", "agent.yaml"];
    for (const [index, name] of files.entries()) {
      const file = new URL(`../../deploy/kubernetes/${name}`, import.meta.url).pathname;
      copyFileSync(file, join(folder, name));
      writeFileSync(join(folder, "kustomization.yaml"), stringify({ resources: [basename(files[index] ?? "")] }));
      const built = execFileSync(ensureTools(["kubectl"]).get("kubectl") ?? "", ["kustomize", folder], {
        encoding: "utf8",
      });
      const written = objectsOf(readFileSync(file, "utf8"));
      expect(await faultsOf(written)).toEqual([]);
      const names = (objects: readonly KubernetesObject[]) =>
        objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`).toSorted();
      expect(names(objectsOf(built))).toEqual(names(written));
      expect(readFileSync(file, "utf8")).not.toMatch(/helm\.sh|managed-by: Helm/);
    }
  });
});
