import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { loadSettings } from "../../../lib/config/load.ts";
import { ENV_EXAMPLE, TENANTS_EXAMPLE } from "../../../scripts/docs.ts";
import { makeAuthority } from "../../support/tls.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "gridmeter-config-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true });
});

const BASE = {
  PROMETHEUS_SERVER: "https://p",
  NAMESPACE: "n",
  SITE_NAME: "T2",
  SUBMIT_HOST: "h",
  VO_NAME: "v",
  BENCHMARK_VALUE: "10",
};

function write(path: string, text: string): void {
  mkdirSync(join(directory, path, ".."), { recursive: true });
  writeFileSync(join(directory, path), text);
}

test("the command line wins over the environment, which wins over the env file", () => {
  write("conf/env", "SITE_NAME=FILE\nVO_NAME=file\nOUTPUT_PATH=/file\nPUBLISHING_MODE=auto\n");
  const settings = loadSettings({
    env: { ...BASE, SITE_NAME: "ENV", VO_NAME: undefined },
    envFile: "conf/env",
    overrides: {
      mode: "gap",
      start: "2024-03-01T00:00Z",
      end: "2024-04-01T00:00Z",
      output: "dir:/option",
      ledger: "none",
    },
    directory,
  });
  expect(settings).toMatchObject({ mode: "gap", queryStart: 1_709_251_200, output: "dir:/option", ledger: "none" });
  expect(settings.tenants[0]!.tenant).toMatchObject({ site: "ENV", vo: "file" });
});

test("the documentation's example is read from its two files", () => {
  write("conf/gridmeter.env", ENV_EXAMPLE);
  write("conf/tenants.yaml", TENANTS_EXAMPLE);
  const settings = loadSettings({ env: {}, envFile: "conf/gridmeter.env", directory });
  expect(settings.warnings).toEqual([]);
  expect(settings.ledger).toBe("./gridmeter-data/ledger");
  expect(settings.tenants.map(({ tenant }) => [tenant.name, tenant.selection.namespace])).toEqual([
    ["atlas", "atlas-jobs"],
    ["shared", "shared-jobs"],
    ["atlas-east", "atlas-jobs"],
  ]);
});

test("a relative path starts where it is written", () => {
  write("conf/env", "TENANTS_FILE=more/tenants.yaml\nPROMETHEUS_CA_FILE=ca.pem\n");
  write("token", "");
  const pair = "PROMETHEUS_CLIENT_CERT_FILE: own-me-cert.pem, PROMETHEUS_CLIENT_KEY_FILE: own-me-key.pem";
  write(
    "conf/more/tenants.yaml",
    `tenants: [{name: a}, {name: b, NAMESPACE: m, PROMETHEUS_CA_FILE: own.pem, ${pair}}]`,
  );
  makeAuthority(join(directory, "conf"), "ca");
  makeAuthority(join(directory, "conf/more"), "own").issue("me");
  const { tenants } = loadSettings({
    env: { ...BASE, PROMETHEUS_TOKEN_FILE: "token" },
    envFile: "conf/env",
    directory,
  });
  expect(tenants.map(({ connection }) => [connection.caFile, connection.tokenFile])).toEqual([
    [join(directory, "conf/ca.pem"), join(directory, "token")],
    [join(directory, "conf/more/own.pem"), join(directory, "token")],
  ]);
  expect(tenants[0]!.connection).not.toHaveProperty("clientCertFile");
  expect(tenants[1]!.connection).toMatchObject({
    clientCertFile: join(directory, "conf/more/own-me-cert.pem"),
    clientKeyFile: join(directory, "conf/more/own-me-key.pem"),
  });
});

test.each([
  ["an env file", { envFile: "missing.env" }, {}, "env file="],
  ["a tenants file", {}, { TENANTS_FILE: "missing.yaml" }, "TENANTS_FILE="],
  ["a CA file", {}, { PROMETHEUS_CA_FILE: "missing.pem" }, "PROMETHEUS_CA_FILE="],
  ["a token file", {}, { PROMETHEUS_TOKEN_FILE: "missing" }, "PROMETHEUS_TOKEN_FILE="],
])("%s that is not there is named, with what to do", (_, request, env, text) => {
  const load = (): unknown => loadSettings({ env: { ...BASE, ...env }, directory, ...request });
  expect(load).toThrow(expect.objectContaining({ code: "config_invalid", exit: 2 }));
  expect(load).toThrow(text);
  expect(load).toThrow(/cannot be read \(ENOENT.*Write the path of a readable file/);
});

test("a directory in the place of a file is refused", () => {
  expect(() => loadSettings({ env: { ...BASE, PROMETHEUS_CA_FILE: "." }, directory })).toThrow("it is a directory");
});

test("certificates that are no good are told with everything else, before anything is asked", () => {
  write("ca.pem", "hello");
  const authority = makeAuthority(directory, "site");
  const files = {
    PROMETHEUS_CA_FILE: "ca.pem",
    PROMETHEUS_CLIENT_CERT_FILE: authority.issue("one").certFile,
    PROMETHEUS_CLIENT_KEY_FILE: authority.issue("two").keyFile,
  };
  const load = (): unknown => loadSettings({ env: { ...BASE, ...files }, directory });
  expect(load).toThrow(/2 settings are wrong; Prometheus was not asked and nothing was published/);
  expect(load).toThrow(/PROMETHEUS_CA_FILE=.*holds no certificate in PEM form/);
  expect(load).toThrow(/PROMETHEUS_CLIENT_KEY_FILE=.*holds another key than/);
});

test("--start outside gap mode is not passed over", () => {
  expect(() => loadSettings({ env: BASE, overrides: { start: "2024-03-01T00:00Z" }, directory })).toThrow(
    expect.objectContaining({ code: "usage" }),
  );
});
