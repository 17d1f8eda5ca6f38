import { describe, expect, test } from "vitest";
import { readEnvFile } from "../../../../lib/accounting/settings/env-file.ts";
import { parseSettings } from "../../../../lib/accounting/settings/load.ts";
import { GridmeterError } from "../../../../lib/shared/errors.ts";

const BASE = {
  PROMETHEUS_SERVER: "http://prometheus:9090",
  NAMESPACE: "jobs",
  SITE_NAME: "EXAMPLE-T2",
  SUBMIT_HOST: "k8s.example.org/jobs",
  VO_NAME: "atlas",
  BENCHMARK_VALUE: "15.0",
};

function refusal(env: Record<string, string | undefined>, file?: string): GridmeterError {
  try {
    parseSettings(env, file);
  } catch (error) {
    if (error instanceof GridmeterError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

function only(env: Record<string, string | undefined>) {
  const settings = parseSettings({ ...BASE, ...env });
  return { ...settings.tenants[0]!, settings };
}

test("what KAPEL needs is enough, and its defaults hold", () => {
  expect(parseSettings(BASE)).toEqual({
    mode: "auto",
    output: "./gridmeter-data/outgoing",
    metrics: {},
    ledger: "./gridmeter-data/ledger",
    warnings: [],
    tenants: [
      {
        connection: { url: "http://prometheus:9090", timeoutSeconds: 1800, concurrency: 4 },
        tenant: {
          name: "jobs",
          server: "http://prometheus:9090",
          selection: { namespace: "jobs", matchers: [], labelPrefix: "" },
          site: "EXAMPLE-T2",
          submitHost: "k8s.example.org/jobs",
          vo: "atlas",
          infrastructureType: "grid",
          nodeCount: 0,
          processors: 0,
          model: "core-seconds",
          format: "summary-0.2",
          serviceLevel: { type: "si2k", value: 3750 },
          settle: 21_600,
        },
      },
    ],
  });
});

test("an env file in the notation of KAPEL's example works as it stands", () => {
  // KAPEL's example.env: blanks around "=", single quotes, a zone written +00:00, a port in the submit host.
  const { values } = readEnvFile(
    `# for a test
PUBLISHING_MODE = 'gap'
QUERY_START = '2022-05-02T00:00:00+00:00'
QUERY_END = '2022-05-30T20:00:00+00:00'

OUTPUT_PATH = '/tmp/messages'
SITE_NAME = 'SOME-T2'
SUBMIT_HOST = 'cluster.example.org:6443/jobs'
VO_NAME = 'cms'

BENCHMARK_VALUE = 12.5
`,
    {},
  );
  const given = { PROMETHEUS_SERVER: "http://p:9090", NAMESPACE: "jobs", ...Object.fromEntries(values) };
  const settings = parseSettings(given);
  expect(settings).toMatchObject({
    mode: "gap",
    queryStart: Date.UTC(2022, 4, 2) / 1000,
    queryEnd: Date.UTC(2022, 4, 30, 20) / 1000,
    output: "/tmp/messages",
    warnings: [],
  });
  expect(settings.tenants[0]!.tenant).toMatchObject({
    site: "SOME-T2",
    submitHost: "cluster.example.org:6443/jobs",
    vo: "cms",
    serviceLevel: { type: "si2k", value: 3125 },
  });
});

test("every setting finds its place", () => {
  const { tenant, connection } = only({
    PROMETHEUS_AUTH_HEADER: " Bearer abc\n",
    PROMETHEUS_CA_FILE: "ca.pem",
    QUERY_TIMEOUT: "2m",
    QUERY_CONCURRENCY: "8",
    PROMETHEUS_LABELS: 'region="x",cluster="a"',
    PROMETHEUS_LABEL_PREFIX: "exported_",
    MONITORING_SELECTOR: 'up{job="ksm"}',
    VO_LABEL: "example.org/vo",
    INFRASTRUCTURE_TYPE: "cloud",
    NODECOUNT: "3",
    PROCESSORS: "2",
    BENCHMARK_TYPE: "hepscore23",
    BENCHMARK_VALUE: "15.3004",
    MESSAGE_FORMAT: "summary-0.4",
    DEFAULT_CORES: "0.5",
    SETTLE: "1h",
    ACCOUNTING_SINCE: "2024-03-01",
  });
  expect(connection).toMatchObject({ authHeader: "Bearer abc", caFile: "ca.pem", timeoutSeconds: 120, concurrency: 8 });
  expect(tenant).toMatchObject({
    selection: {
      matchers: ['cluster="a"', 'region="x"'],
      labelPrefix: "exported_",
      voLabel: "label_example_org_vo",
      monitoringSelector: 'up{job="ksm"}',
    },
    infrastructureType: "cloud",
    nodeCount: 3,
    processors: 2,
    format: "summary-0.4",
    serviceLevel: { type: "hepscore23", value: 15.3 },
    defaultMilliCores: 500,
    settle: 3600,
    since: "2024-03-01",
  });
});

test("only si2k is multiplied by 250", () => {
  for (const [type, value] of [
    ["si2k", 2975],
    ["hepspec", 11.9],
    ["hepscore23", 11.9],
  ] as const) {
    expect(only({ BENCHMARK_TYPE: type, BENCHMARK_VALUE: "11.9" }).tenant.serviceLevel).toEqual({ type, value });
  }
});

test("an empty variable counts as not set", () => {
  expect(only({ PROCESSORS: "", VO_LABEL: " ", QUERY_TIMEOUT: "" }).tenant).toMatchObject({ processors: 0 });
  expect(refusal({ ...BASE, SITE_NAME: "  " }).message).toContain("SITE_NAME: is not set");
});

describe("SUMMARIZE_RECORDS and MESSAGE_FORMAT", () => {
  test.each([
    [{ SUMMARIZE_RECORDS: "True" }, "summary-0.2"],
    [{ SUMMARIZE_RECORDS: "no" }, "individual-0.3"],
    [{ SUMMARIZE_RECORDS: "False", MESSAGE_FORMAT: "individual-0.4" }, "individual-0.4"],
    [{ SUMMARIZE_RECORDS: "1", MESSAGE_FORMAT: "normalised-0.4" }, "normalised-0.4"],
    [{ MESSAGE_FORMAT: "individual-0.3" }, "individual-0.3"],
  ])("%j", (env, format) => {
    expect(only(env).tenant.format).toBe(format);
  });

  test.each([
    { SUMMARIZE_RECORDS: "False", MESSAGE_FORMAT: "summary-0.2" },
    { SUMMARIZE_RECORDS: "True", MESSAGE_FORMAT: "individual-0.4" },
  ])("%j contradict each other", (env) => {
    const error = refusal({ ...BASE, ...env });
    expect(error.code).toBe("config_invalid");
    expect(error.message).toContain(`contradicts MESSAGE_FORMAT=${env.MESSAGE_FORMAT}`);
  });
});

test("in individual mode DEFAULT_CORES inherits PROCESSORS, as in KAPEL", () => {
  expect(only({ SUMMARIZE_RECORDS: "False", PROCESSORS: "4" }).tenant.defaultMilliCores).toBe(4000);
  expect(only({ SUMMARIZE_RECORDS: "False", PROCESSORS: "4", DEFAULT_CORES: "1" }).tenant.defaultMilliCores).toBe(1000);
  expect(only({ SUMMARIZE_RECORDS: "False" }).tenant).not.toHaveProperty("defaultMilliCores");
  expect(only({ PROCESSORS: "4" }).tenant).not.toHaveProperty("defaultMilliCores");
});

test("the benchmark is mandatory for every format but individual-0.3", () => {
  for (const format of ["summary-0.2", "summary-0.4", "normalised-0.4", "individual-0.4"]) {
    const error = refusal({ ...BASE, BENCHMARK_VALUE: undefined, MESSAGE_FORMAT: format });
    expect(error.message).toContain(`BENCHMARK_VALUE: is not set, but ${format} messages need it`);
  }
  const { tenant, settings } = only({ BENCHMARK_VALUE: undefined, MESSAGE_FORMAT: "individual-0.3" });
  expect(tenant).not.toHaveProperty("serviceLevel");
  expect(settings.warnings).toEqual([expect.stringContaining("only Gratia takes them")]);
});

describe("the period of gap mode", () => {
  const gap = { ...BASE, PUBLISHING_MODE: "gap" };
  test.each([
    [{}, ["QUERY_START (--start): is not set", "QUERY_END (--end): is not set"]],
    [
      { QUERY_START: "2024-03-01T00:00:00", QUERY_END: "2024-04-01T00:00:00Z" },
      ['QUERY_START (--start)="2024-03-01T00:00:00": has no time zone'],
    ],
    [
      { QUERY_START: "2024-03-01T00:00:00Z", QUERY_END: "2024-03-01T01:00:00+01:00" },
      ['QUERY_END (--end)="2024-03-01T01:00:00+01:00": is not after QUERY_START="2024-03-01T00:00:00Z"'],
    ],
  ])("%j is refused", (env, texts) => {
    const error = refusal({ ...gap, ...env });
    expect(error.code).toBe("period_invalid");
    expect(error.exit).toBe(2);
    for (const text of texts) expect(error.message).toContain(text);
  });

  test("a leftover period means nothing in auto mode, as in KAPEL", () => {
    const settings = parseSettings({ ...BASE, QUERY_START: "rubbish", QUERY_END: "2024-04-01T00:00:00Z" });
    expect(settings).not.toHaveProperty("queryEnd");
  });
});

test("everything that is wrong is listed at once", () => {
  const wrong = {
    PUBLISHING_MODE: "gap",
    QUERY_START: "2024-03-01",
    OUTPUT_PATH: "-",
    PROMETHEUS_SERVER: "prometheus:9090",
    QUERY_TIMEOUT: "soon",
    QUERY_CONCURRENCY: "0",
    NAMESPACE: "Jobs",
    PROMETHEUS_LABELS: "cluster",
    PROMETHEUS_LABEL_PREFIX: "9",
    MONITORING_SELECTOR: "up >",
    SITE_NAME: "a%%b",
    SUBMIT_HOST: "höst",
    VO_NAME: "a\nb",
    VO_LABEL: "/",
    INFRASTRUCTURE_TYPE: "x".repeat(21),
    INFRASTRUCTURE_DESCRIPTION: "x".repeat(101),
    NODECOUNT: "-1",
    PROCESSORS: "1.5",
    BENCHMARK_VALUE: "nan",
    BENCHMARK_TYPE: "hs06",
    SUMMARIZE_RECORDS: "perhaps",
    MESSAGE_FORMAT: "summary-0.3",
    ACCOUNTING_MODEL: "wall",
    DEFAULT_CORES: "0",
    SETTLE: "1s",
    ACCOUNTING_SINCE: "2024-13-01",
  };
  const { code, message } = refusal(wrong);
  expect(code).toBe("config_invalid");
  for (const [name, value] of Object.entries(wrong)) {
    if (name === "PUBLISHING_MODE") continue;
    expect(message).toMatch(new RegExp(`^  - ${name}( \\(--\\w+\\))?="`, "m"));
    expect(message).toContain(`=${JSON.stringify(value)}: `);
  }
  expect(message).toContain("QUERY_END (--end): is not set");
  expect(message.match(/^ {2}- /gm)).toHaveLength(Object.keys(wrong).length);
  expect(message).toContain("nothing was published");
});

test.each(["SITE_NAME", "SUBMIT_HOST", "VO_NAME"])("%s must fit into an APEL message", (name) => {
  for (const value of ["a\nb", "a\u2028b", "a%%b", "Zürich", "x".repeat(256), "none", "NULL"]) {
    expect(refusal({ ...BASE, [name]: value }).message).toContain(`${name}=`);
  }
  expect(only({ [name]: "x".repeat(255) }).settings.warnings).toEqual([]);
});

test("only one Authorization header can be sent", () => {
  const error = refusal({
    ...BASE,
    PROMETHEUS_SERVER: "http://me:pw@p",
    PROMETHEUS_AUTH_HEADER: "Bearer x",
    PROMETHEUS_TOKEN_FILE: "token",
  });
  expect(error.message).toContain(
    "credentials in PROMETHEUS_SERVER and PROMETHEUS_AUTH_HEADER and PROMETHEUS_TOKEN_FILE",
  );
});

describe("Amazon Managed Service for Prometheus", () => {
  const WORKSPACE = "https://aps-workspaces.eu-west-1.amazonaws.com/workspaces/ws-1";

  test.each([
    [WORKSPACE, {}, "eu-west-1"],
    ["https://vpce-0a1b-c2d3.aps-workspaces.us-gov-west-1.vpce.amazonaws.com/workspaces/ws-1", {}, "us-gov-west-1"],
    ["https://aps-workspaces-fips.us-east-1.api.aws/workspaces/ws-1", {}, "us-east-1"],
    ["https://aps-workspaces.cn-north-1.amazonaws.com.cn/workspaces/ws-1", {}, "cn-north-1"],
    ["https://proxy.example.org/ws-1", { PROMETHEUS_SIGV4_REGION: "eu-north-1" }, "eu-north-1"],
    [WORKSPACE, { PROMETHEUS_SIGV4_REGION: "eu-west-1" }, "eu-west-1"],
    ["https://proxy.example.org/ws-1", {}, undefined],
    ["https://aps-workspaces.eu-west-1.amazonaws.com.example.org", {}, undefined],
    ["https://example.org/aps-workspaces.eu-west-1.amazonaws.com", {}, undefined],
  ])("requests to %s with %j are signed for %s", (PROMETHEUS_SERVER, env, region) => {
    expect(only({ PROMETHEUS_SERVER, ...env }).connection.sigv4Region).toBe(region);
  });

  test.each([
    [{ PROMETHEUS_AUTH_HEADER: "Bearer x" }, "PROMETHEUS_AUTH_HEADER and an address of Amazon"],
    [{ PROMETHEUS_TOKEN_FILE: "t" }, "PROMETHEUS_TOKEN_FILE and an address of Amazon"],
    [{ PROMETHEUS_SIGV4_REGION: "us-east-1" }, "contradicts the region eu-west-1 in PROMETHEUS_SERVER"],
    [{ PROMETHEUS_SIGV4_REGION: "Ireland" }, 'PROMETHEUS_SIGV4_REGION="Ireland": is not the code of an AWS region'],
  ])("%j is refused", (env, said) => {
    expect(refusal({ ...BASE, PROMETHEUS_SERVER: WORKSPACE, ...env }).message).toContain(said);
  });

  test("a tenant with a region of its own does not inherit the others' header", () => {
    const file =
      "tenants: [{name: a}, {name: b, NAMESPACE: m, PROMETHEUS_SERVER: https://p, PROMETHEUS_SIGV4_REGION: eu-west-1}]";
    const { tenants } = parseSettings({ ...BASE, PROMETHEUS_AUTH_HEADER: "Bearer x" }, file);
    expect(tenants[1]!.connection).toMatchObject({ sigv4Region: "eu-west-1" });
    expect(tenants[1]!.connection).not.toHaveProperty("authHeader");
  });
});

describe("Mimir's tenants", () => {
  test.each(["grid-team", "a|b|c", "Team_1.(x)!*'"])("the id %s is sent", (PROMETHEUS_ORG_ID) => {
    expect(only({ PROMETHEUS_ORG_ID }).connection.orgId).toBe(PROMETHEUS_ORG_ID);
  });

  test.each(["a b", "..", "a||b", "x".repeat(151), "é", "a/b"])("the id %s is refused", (PROMETHEUS_ORG_ID) => {
    expect(refusal({ ...BASE, PROMETHEUS_ORG_ID }).message).toContain("PROMETHEUS_ORG_ID=");
  });

  test("have nothing in common but the address: the same namespace of both is not the same pods", () => {
    const file = (second: string): string =>
      `tenants: [{name: a, PROMETHEUS_ORG_ID: one}, {name: b, SUBMIT_HOST: other, PROMETHEUS_ORG_ID: ${second}}]`;
    const { tenants } = parseSettings(BASE, file("two"));
    expect(new Set(tenants.map(({ tenant }) => tenant.server)).size).toBe(2);
    expect(() => parseSettings(BASE, file("one"))).toThrow("selects the same pods");
  });
});

test.each([
  [{ SUMMARIZE_RECORDS: "False", SUBMIT_HOST: "host:6443/ns" }, 'SUBMIT_HOST="host:6443/ns": holds a port'],
  [{ BENCHMARK_VALUE: "2500" }, 'BENCHMARK_VALUE="2500": is more than any core reaches'],
  [{ ACCOUNTING_MODEL: "wallclock", PROCESSORS: "8" }, 'PROCESSORS="8": has no effect'],
  [{ VO_LABEL: "label_vo" }, 'VO_LABEL="label_vo": begins with label'],
  [{ PROMETHEUS_CA_FILE: "ca.pem" }, 'PROMETHEUS_CA_FILE="ca.pem": has no effect'],
  [{ PROMETHEUS_CLIENT_CERT_FILE: "c.pem" }, 'PROMETHEUS_CLIENT_CERT_FILE="c.pem": has no effect'],
])("%j is allowed, with a warning", (env, warning) => {
  expect(only(env).settings.warnings).toEqual([expect.stringContaining(warning)]);
});

test("a port in the submit host is no matter in summaries", () => {
  expect(only({ SUBMIT_HOST: "host:6443/ns" }).settings.warnings).toEqual([]);
});

test("unknown variables of the environment are ignored", () => {
  expect(only({ NAMESPAC: "x", PATH: "/bin" }).tenant.name).toBe("jobs");
});

test("where the run's own metrics go", () => {
  const { metrics } = parseSettings({
    ...BASE,
    PUSHGATEWAY_URL: "https://gateway.example.org",
    PUSHGATEWAY_AUTH_HEADER: "Bearer abc",
    PUSHGATEWAY_CA_FILE: "/ca.pem",
    METRICS_FILE: "gridmeter.prom",
  });
  expect(metrics).toEqual({
    gateway: { url: "https://gateway.example.org", authHeader: "Bearer abc", caFile: "/ca.pem" },
    file: "gridmeter.prom",
  });
});
