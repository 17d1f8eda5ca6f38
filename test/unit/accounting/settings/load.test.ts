import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { loadStores, loadSettings } from "../../../../lib/accounting/settings/load.ts";
import { ENV_EXAMPLE, TENANTS_EXAMPLE } from "../../../../scripts/docs.ts";
import { makeAuthority } from "../../../support/tls.ts";

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

test("LEDGER_PATH is --ledger; the option wins, and a relative place stays as it is written", () => {
  write("conf/env", "LEDGER_PATH=here/ledger\nOUTPUT_PATH=dirq:here/queue\n");
  const load = (env: object, ledger?: string) =>
    loadSettings({ env: { ...BASE, ...env }, envFile: "conf/env", overrides: { ledger }, directory });
  expect(load({})).toMatchObject({ ledger: "here/ledger", output: "dirq:here/queue" });
  expect(load({ LEDGER_PATH: "s3://bucket/prefix" }).ledger).toBe("s3://bucket/prefix");
  expect(load({ LEDGER_PATH: "/var" }, "none").ledger).toBe("none");
  expect(load({ LEDGER_PATH: "" }).ledger).toBe("./gridmeter-data/ledger");
  expect(() => load({ LEDGER_PATH: "ftp://x" })).toThrow('LEDGER_PATH (--ledger)="ftp://x": is an unknown URL');
  expect(() => load({}, " ")).toThrow(expect.objectContaining({ code: "usage", exit: 2 }));
  write("tenants.yaml", "tenants: [{name: a, LEDGER_PATH: x}]");
  expect(() => load({ TENANTS_FILE: "tenants.yaml" })).toThrow("LEDGER_PATH (--ledger): applies to the whole run");
});

test("variables of an env file are expanded", () => {
  const text = "HOSTPART=k8s.example.org\nSUBMIT_HOST=${HOSTPART}:6443/batch\nVO_NAME='${VO:-ops}'\n";
  write("conf/env", `${text}PROMETHEUS_AUTH_HEADER=Bearer a$b$c\nPROMETHEUS_CA_FILE=\${CA:-missing}.pem\n`);
  const env = { ...BASE, SUBMIT_HOST: undefined, VO_NAME: undefined, PROMETHEUS_CA_FILE: "" };
  const load = (more: object) => loadSettings({ env: { ...env, ...more }, envFile: "conf/env", directory });
  const { tenants, warnings } = load({});
  expect(tenants[0]).toMatchObject({
    tenant: { submitHost: "k8s.example.org:6443/batch", vo: "ops" },
    connection: { authHeader: "Bearer a$b$c" },
  });
  expect(warnings).toEqual([]);
  expect(load({ HOSTPART: "other", VO: "cms" }).tenants[0]!.tenant).toMatchObject({
    submitHost: "other:6443/batch",
    vo: "cms",
  });
});

test("a ${NAME} that is set nowhere is a warning, and explains a mandatory setting that is empty", () => {
  const env = { ...BASE, SUBMIT_HOST: undefined };
  write("env", "SUBMIT_HOST=${HOSTPART}:6443/batch\n");
  const { tenants, warnings } = loadSettings({ env, envFile: "env", directory });
  expect(tenants[0]!.tenant.submitHost).toBe(":6443/batch");
  expect(warnings).toEqual([expect.stringContaining("SUBMIT_HOST: holds ${HOSTPART}, which is set neither")]);
  write("env", "SUBMIT_HOST=${HOSTPART}\n");
  const load = (): unknown => loadSettings({ env, envFile: "env", directory });
  expect(load).toThrow("SUBMIT_HOST: is not set.");
  expect(load).toThrow("SUBMIT_HOST: holds ${HOSTPART}, which is set neither");
});

test("a misspelt name in an env file is refused with everything else, in the environment only warned of", () => {
  write("env", "NODE_COUNT=2\nHOSTPART=x\n");
  const load = (env: object) => loadSettings({ env: { ...BASE, ...env }, envFile: "env", directory });
  expect(() => load({ PROCESSORS: "many" })).toThrow(
    /2 settings are wrong[^]*NODE_COUNT: is no setting; did you mean NODECOUNT\?\n[^]*PROCESSORS="many"/,
  );
  expect(() => load({})).toThrow(expect.objectContaining({ code: "config_invalid", exit: 2 }));
  const env = { ...BASE, NODE_COUNT: "2", PROMETHEUS_SERVER_PORT: "tcp://10.0.0.1:80", POD_NAMESPACE: "x" };
  expect(loadSettings({ env, directory }).warnings).toEqual([
    "NODE_COUNT: is no setting, so what the environment says there is ignored; did you mean NODECOUNT?",
  ]);
});

test.each(["${HOSTPART}:6443/batch", "k8s/${NS:-a}", "$(HOSTPART)/x", "a${}"])(
  "what nothing has expanded is refused where APEL would take it for a name: %s",
  (value) => {
    for (const name of ["SITE_NAME", "SUBMIT_HOST", "VO_NAME"])
      expect(() => loadSettings({ env: { ...BASE, [name]: value }, directory })).toThrow(
        `${name}=${JSON.stringify(value)}: holds a variable that nothing has expanded`,
      );
    write("tenants.yaml", `tenants: [{name: a, VO_NAME: ${JSON.stringify(value)}}]`);
    expect(() => loadSettings({ env: { ...BASE, TENANTS_FILE: "tenants.yaml" }, directory })).toThrow("VO_NAME=");
    expect(loadSettings({ env: { ...BASE, VO_NAME: "a$b{c}(d)" }, directory }).tenants[0]!.tenant.vo).toBe("a$b{c}(d)");
  },
);

test("a command that needs places only reads those, and no default", () => {
  write("env", "ROOT=/srv\nLEDGER_PATH=${ROOT}/ledger\nSITE_NAME=\n");
  const load = (env: object, overrides = {}, envFile: string | undefined = "env") =>
    loadStores({ env: { ...env }, envFile, overrides, directory });
  expect(load({})).toEqual({ ledger: "/srv/ledger", output: undefined, warnings: [] });
  expect(load({ LEDGER_PATH: "e", OUTPUT_PATH: "dir:q" })).toMatchObject({ ledger: "e", output: "dir:q" });
  expect(load({ LEDGER_PATH: "e", OUTPUT_PATH: " " }, { ledger: "o" })).toMatchObject({
    ledger: "o",
    output: undefined,
  });
  expect(loadStores({ env: {}, directory })).toMatchObject({ ledger: undefined, output: undefined });
  expect(() => load({ OUTPUT_PATH: "dirq:" })).toThrow("OUTPUT_PATH (--output)=");
  write("env", "LEDGER_PAHT=x\n");
  expect(() => load({})).toThrow("LEDGER_PAHT: is no setting; did you mean LEDGER_PATH?");
});
