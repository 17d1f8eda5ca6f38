import { expect, test } from "vitest";
import { parseSettings } from "../../../../lib/accounting/settings/load.ts";

const ENV = {
  PROMETHEUS_SERVER: "http://p:9090",
  SITE_NAME: "EXAMPLE-T2",
  SUBMIT_HOST: "k8s/jobs",
  VO_NAME: "ops",
  BENCHMARK_VALUE: "10",
  VO_LABEL: "vo",
};

const TWO = `tenants:
  - name: a
    NAMESPACE: ns-a
    VO_LABEL:
    NODECOUNT: 7
  - name: b
    NAMESPACE: 0123
    VO_NAME: cms
`;

test("a tenant overrides what it sets, inherits the rest, and an empty value puts back the default", () => {
  const { tenants } = parseSettings(ENV, TWO);
  expect(tenants.map(({ tenant }) => tenant)).toMatchObject([
    { name: "a", vo: "ops", nodeCount: 7, selection: { namespace: "ns-a" } },
    { name: "b", vo: "cms", nodeCount: 0, selection: { namespace: "0123", voLabel: "label_vo" } },
  ]);
  expect(tenants[0]!.tenant.selection).not.toHaveProperty("voLabel");
});

test("JSON and YAML say the same", () => {
  const json = JSON.stringify({
    tenants: [
      { name: "a", NAMESPACE: "ns-a", VO_LABEL: null, NODECOUNT: 7 },
      { name: "b", NAMESPACE: "0123", VO_NAME: "cms" },
    ],
  });
  expect(parseSettings(ENV, json)).toEqual(parseSettings(ENV, TWO));
});

test("a tenant that sets one of a kind does not inherit the other", () => {
  const env = { ...ENV, SUMMARIZE_RECORDS: "True", PROMETHEUS_AUTH_HEADER: "Bearer x" };
  const file = "tenants: [{name: a, NAMESPACE: n, MESSAGE_FORMAT: individual-0.4, PROMETHEUS_TOKEN_FILE: t}]";
  const [only] = parseSettings(env, file).tenants;
  expect(only!.tenant.format).toBe("individual-0.4");
  expect(only!.connection).toMatchObject({ tokenFile: "t" });
  expect(only!.connection).not.toHaveProperty("authHeader");
});

test("a file that is named but was not read is not passed over in silence", () => {
  expect(() => parseSettings({ ...ENV, NAMESPACE: "n", TENANTS_FILE: "t.yaml" })).toThrow(
    'TENANTS_FILE="t.yaml": was not read',
  );
});

const tenant = (fields: string): string => `{name: t, NAMESPACE: n, ${fields}}`;

test.each([
  ["not YAML", "tenants:\n  - name: [a\n", "is not valid YAML"],
  ["a key twice", "tenants:\n  - {name: a, name: b}\n", "line 2, column 15 is not valid YAML (DUPLICATE_KEY)"],
  ["empty", "", "has another shape"],
  ["no tenant", "tenants: []", "has another shape"],
  ["a list at the top", "- name: a", "has another shape"],
  [
    "an unknown key at the top",
    "tenants: []\ntenant: []",
    "tenant: is not a setting of the file's top level; did you mean tenants?",
  ],
  [
    "a run's setting at the top",
    "tenants: [{name: a}]\nOUTPUT_PATH: x",
    "OUTPUT_PATH (--output): applies to the whole run",
  ],
  [
    "a run's setting in a tenant",
    `tenants: [${tenant("PUBLISHING_MODE: gap")}]`,
    "PUBLISHING_MODE (--mode): applies to the whole run",
  ],
  [
    "an unknown key",
    `tenants: [${tenant("NAMSPACE: x")}]`,
    "NAMSPACE: is not a setting of a tenant; did you mean NAMESPACE?",
  ],
  [
    "a camelCase key",
    `tenants: [${tenant("siteName: x")}]`,
    "siteName: is not a setting of a tenant; did you mean SITE_NAME?",
  ],
  ["a list as a value", `tenants: [${tenant("VO_NAME: [a, b]")}]`, "VO_NAME: is a list or a mapping"],
  ["no name", "tenants: [{NAMESPACE: n}]", "name: is not set"],
  [
    "a name that is no path segment",
    "tenants: [{name: a/b, NAMESPACE: n}]",
    'name="a/b": is not usable as a file name',
  ],
  ["a name of dots", "tenants: [{name: .., NAMESPACE: n}]", 'name="..": is not usable as a file name'],
  ["a name twice", "tenants: [{name: a, NAMESPACE: n}, {name: a, NAMESPACE: m}]", 'name="a": names two tenants'],
  [
    "the same pods twice",
    "tenants: [{name: a, NAMESPACE: n, PROMETHEUS_LABELS: 'x=1,y=2'}, {name: b, NAMESPACE: n, PROMETHEUS_LABELS: 'y=\"2\",x=\"1\"'}]",
    'NAMESPACE="n" (tenant "b"): selects the same pods as the tenant "a"',
  ],
  [
    "two kinds of messages for one site",
    "tenants: [{name: a, NAMESPACE: n}, {name: b, NAMESPACE: m, MESSAGE_FORMAT: normalised-0.4}]",
    'MESSAGE_FORMAT="normalised-0.4" (tenant "b"): is the format for the site "EXAMPLE-T2", for which the tenant "a" publishes summary-0.2',
  ],
  [
    "individual records and summaries for one site",
    "tenants: [{name: a, NAMESPACE: n, SUMMARIZE_RECORDS: 'False'}, {name: b, NAMESPACE: m}]",
    'MESSAGE_FORMAT="summary-0.2" (tenant "b"): is the format for the site "EXAMPLE-T2", for which the tenant "a" publishes individual-0.3',
  ],
  [
    "two versions of summaries for one site",
    "tenants: [{name: a, NAMESPACE: n}, {name: b, NAMESPACE: m, MESSAGE_FORMAT: summary-0.4}]",
    'MESSAGE_FORMAT="summary-0.4" (tenant "b"): is the format for the site "EXAMPLE-T2", for which the tenant "a" publishes summary-0.2',
  ],
  [
    "aliases without end",
    `a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\ntenants: [*c]`,
    "has another shape",
  ],
])("refused: %s", (_, file, text) => {
  expect(() => parseSettings(ENV, file)).toThrow(text);
});

test.each([
  ["another server", "PROMETHEUS_SERVER: 'http://q:9090'"],
  ["other matchers", "PROMETHEUS_LABELS: cluster=b"],
  ["another prefix", "PROMETHEUS_LABEL_PREFIX: exported_"],
])("the same namespace is taken with %s", (_, field) => {
  const file = `tenants: [{name: a, NAMESPACE: n}, {name: b, NAMESPACE: n, ${field}}]`;
  expect(parseSettings(ENV, file).tenants).toHaveLength(2);
});

test("different formats for different sites may stand side by side", () => {
  const file = `tenants:
  - {name: a, NAMESPACE: n}
  - {name: b, NAMESPACE: m}
  - {name: c, NAMESPACE: o, MESSAGE_FORMAT: individual-0.4, SITE_NAME: OTHER}`;
  expect(parseSettings(ENV, file).tenants).toHaveLength(3);
});

test("what all tenants share is said once; what is one tenant's own carries its name", () => {
  const env = { ...ENV, SITE_NAME: "", NODECOUNT: "x" };
  const file =
    "tenants: [{name: a, NAMESPACE: n, PROCESSORS: y}, {name: b, NAMESPACE: m}, {name: c, NAMESPACE: o, NODECOUNT: '1'}]";
  let message = "";
  try {
    parseSettings(env, file);
  } catch (error) {
    message = String(error);
  }
  const lines = message.split("\n").filter((line) => line.startsWith("  - "));
  expect(lines.map((line) => line.slice(4).split(": ")[0])).toEqual([
    "SITE_NAME",
    'NODECOUNT="x" (tenants "a", "b")',
    'PROCESSORS="y" (tenant "a")',
  ]);
});

test("single jobs have their plain wall clock unless told otherwise, summaries are multiplied, both as in KAPEL", () => {
  const models = (more: Record<string, string>) =>
    parseSettings({ ...ENV, ...more }).tenants.map(({ tenant }) => tenant.model);
  expect(models({ NAMESPACE: "n" })).toEqual(["core-seconds"]);
  expect(models({ NAMESPACE: "n", SUMMARIZE_RECORDS: "False" })).toEqual(["wallclock"]);
  expect(models({ NAMESPACE: "n", SUMMARIZE_RECORDS: "False", ACCOUNTING_MODEL: "core-seconds" })).toEqual([
    "core-seconds",
  ]);
});
