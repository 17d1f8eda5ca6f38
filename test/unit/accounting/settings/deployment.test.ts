import { describe, expect, test } from "vitest";
import { type Deployment, judgeDeployment } from "../../../../lib/accounting/settings/deployment.ts";
import { DEPLOYMENT } from "../../../../lib/accounting/settings/names.ts";

const SITE = {
  PROMETHEUS_SERVER: "https://prometheus.example.org",
  NAMESPACE: "jobs",
  SITE_NAME: "EXAMPLE-T2",
  SUBMIT_HOST: "k8s.example.org/jobs",
  VO_NAME: "atlas",
  BENCHMARK_VALUE: "15.0",
};
/** What serverless.yml puts where nothing is set. */
const DEFAULTS = { DELIVERY: "spool", PLAN_RESERVED_CONCURRENCY: "0", ROLE_PATH: "/", KMS_KEY_ARN: "" };

/** What osls hands over when the shell has these variables: the accounting's in the functions, the others as parameters. */
function given(env: Record<string, string>, more: Partial<Deployment> = {}): Deployment {
  const parameters = Object.fromEntries(Object.entries(env).filter(([name]) => DEPLOYMENT.includes(name)));
  return {
    stage: "prod",
    region: "eu-central-1",
    env,
    envFile: "",
    environment: Object.fromEntries(Object.entries(env).filter(([name]) => !/_(HEADER|FILE)$/.test(name))),
    parameters: { ...DEFAULTS, ...parameters },
    ...more,
  };
}
const problems = (env: Record<string, string>, more: Partial<Deployment> = {}): readonly string[] =>
  judgeDeployment(given(env, more)).problems;

test("the settings of a site are right", () => {
  expect(judgeDeployment(given(SITE))).toEqual({ problems: [], warnings: [] });
});

describe("sending to AMS", () => {
  const SENDING = {
    ...SITE,
    DELIVERY: "ams",
    AMS_HOST: "msg.argo.grnet.gr",
    AMS_CERTIFICATE_PARAMETER: "/gridmeter/prod/ams-certificate",
    AMS_KEY_PARAMETER: "/gridmeter/prod/ams-key",
  };

  test("needs host, certificate and key, and nothing else", () => {
    expect(problems(SENDING)).toEqual([]);
    const { AMS_HOST: _, AMS_KEY_PARAMETER: _key, ...rest } = SENDING;
    expect(problems(rest)).toEqual([
      "AMS_HOST: is not set. Write for example AMS_HOST=msg.argo.grnet.gr.",
      expect.stringMatching(/^AMS_KEY_PARAMETER: is not set, but DELIVERY is ams\. Store the PEM text/),
    ]);
    expect(problems({ ...rest, DELIVERY: "spool" })).toEqual([]);
  });

  test.each([
    ["DELIVERY", "both", /is not one of spool, ams/],
    ["AMS_HOST", "https://msg.argo.grnet.gr", /is no host's name/],
    ["AMS_PORT", "https", /is not a whole number/],
    ["AMS_KEY_PARAMETER", "ams-key", /is not the whole name of a parameter/],
    ["AMS_SECRET_ARNS", "ams-key", /is not a list of ARNs of secrets/],
    [
      "AMS_SECRET_ARNS",
      "arn:aws:secretsmanager:eu-central-1:123456789012:secret:*",
      /is not a list of ARNs of secrets/,
    ],
  ])("%s=%s is refused", (name, text, message) => {
    expect(problems({ ...SENDING, [name]: text })).toEqual([expect.stringMatching(message)]);
  });
});

describe("without all settings", () => {
  test.each(["dev", "local"])("%s needs none", (stage) => {
    expect(problems({}, { stage })).toEqual([]);
    expect(problems({ POWERTOOLS_LOG_LEVEL: "DEBUG", GRIDMETER_BUCKET: "b" }, { stage })).toEqual([]);
  });

  test("any other stage is refused, with what is missing in the command line's words", () => {
    expect(problems({})).toEqual([
      "PROMETHEUS_SERVER: is not set. Write for example PROMETHEUS_SERVER=https://prometheus.example.org:9090.",
      "NAMESPACE: is not set. Write for example NAMESPACE=atlas-jobs.",
      "SITE_NAME: is not set. Write for example SITE_NAME=EXAMPLE-T2.",
      "SUBMIT_HOST: is not set. Write for example SUBMIT_HOST=k8s.example.org/atlas-jobs.",
      "VO_NAME: is not set. Write for example VO_NAME=atlas.",
      "BENCHMARK_VALUE: is not set, but summary-0.2 messages need it. Write for example BENCHMARK_VALUE=15.0.",
    ]);
  });

  test.each(Object.keys(SITE))("all but %s is refused, in dev too", (name) => {
    const { [name as keyof typeof SITE]: _, ...rest } = SITE;
    expect(problems(rest, { stage: "dev" })).toEqual([expect.stringMatching(new RegExp(`^${name}: is not set`))]);
  });

  test("what a tenants file may hold, which only the functions can read, is not missed", () => {
    expect(problems({ TENANTS_PARAMETER: "/gridmeter/tenants" })).toEqual([]);
    expect(problems({ TENANTS_OBJECT: "config/t.yaml", QUERY_TIMEOUT: "soon" })).toEqual([
      expect.stringMatching(/^QUERY_TIMEOUT="soon": is not a duration/),
    ]);
    expect(problems({ TENANTS_OBJECT: "config/t.yaml", TENANTS_PARAMETER: "/t" })).toEqual([
      "TENANTS_PARAMETER and TENANTS_OBJECT: are set, and it is not clear which holds. Set one of them.",
    ]);
  });
});

describe("names", () => {
  test("that are misspelt in the stage's file are refused, those of the deployment too", () => {
    const envFile = "NAMSPACE=x\nVPC_SUBNET_ID=subnet-1\nAWS_REGION=eu-central-1\nOTHER_THING=1\n";
    const judged = judgeDeployment(given(SITE, { envFile }));
    expect(judged.problems).toEqual([
      "NAMSPACE: is no setting; did you mean NAMESPACE?",
      "VPC_SUBNET_ID: is no setting; did you mean VPC_SUBNET_IDS?",
    ]);
    expect(judged.warnings).toEqual(["env file: no settings, and ignored: OTHER_THING."]);
  });

  test("that are misspelt in the shell are warned of", () => {
    const judged = judgeDeployment(given(SITE, { env: { ...SITE, SITE_NAM: "x" } }));
    expect(judged).toEqual({
      problems: [],
      warnings: [expect.stringMatching(/^SITE_NAM: .*did you mean SITE_NAME\?/)],
    });
  });
});

describe("secrets", () => {
  test.each([
    ["PROMETHEUS_AUTH_HEADER", "PROMETHEUS_AUTH_HEADER_PARAMETER"],
    ["PROMETHEUS_TOKEN_FILE", "PROMETHEUS_AUTH_HEADER_PARAMETER"],
    ["PROMETHEUS_CA_FILE", "PROMETHEUS_CA_PARAMETER"],
    ["TENANTS_FILE", "TENANTS_PARAMETER"],
  ])("%s, which the functions do not take over, is refused unless %s is named", (name, parameter) => {
    const env = { ...SITE, [name]: "hidden" };
    const [problem = "", ...more] = problems(env);
    expect(problem).toContain(`${name}: is read by the command line only`);
    expect(problem).toContain(`name that in ${parameter}`);
    expect([problem.includes("hidden"), more]).toEqual([false, []]);
    const both = judgeDeployment(given({ ...env, [parameter]: "/gridmeter/p" }));
    expect(both).toEqual({ problems: [], warnings: [expect.stringContaining("is not taken over")] });
  });

  test("serve as they are in the stage local, which has no parameters", () => {
    expect(problems({ ...SITE, PROMETHEUS_AUTH_HEADER: "Bearer x" }, { stage: "local" })).toEqual([]);
  });

  test("what a parameter holds excludes what the command line's setting excludes", () => {
    const env = { ...SITE, PROMETHEUS_AUTH_HEADER_PARAMETER: "/h", PROMETHEUS_SIGV4_REGION: "eu-central-1" };
    expect(problems(env)).toEqual([expect.stringMatching(/^PROMETHEUS_AUTH_HEADER_PARAMETER: /)]);
  });
});

describe("the stage", () => {
  test.each([
    ["Prod", /^stage="Prod": has capitals.*--stage prod/],
    ["-a", /^stage="-a": is not made of small letters/],
    ["s".repeat(28), /has 28 characters.*Write at most 27/],
  ])("%s is refused", (stage, text) => {
    expect(problems(SITE, { stage })).toEqual([expect.stringMatching(text)]);
  });

  test("may have 27 characters in eu-central-1, and any number with a bucket of one's own", () => {
    expect(`gridmeter-${"s".repeat(27)}-123456789012-eu-central-1`).toHaveLength(63);
    expect(problems(SITE, { stage: "s".repeat(27) })).toEqual([]);
    expect(problems({ ...SITE, EXISTING_BUCKET: "ours" }, { stage: "s".repeat(30) })).toEqual([]);
  });
});

test.each([
  ["ALARM_EMAIL", "me", "is not an address of mail"],
  ["KMS_KEY_ARN", "alias/ours", "is an alias"],
  ["KMS_KEY_ARN", "arn:aws:kms:eu-central-1:123456789012:alias/ours", "is an alias"],
  ["PARAMETER_KMS_KEY_ARN", "0123abcd", "is not the ARN of a KMS key"],
  ["ALARM_KMS_KEY_ARN", "alias/aws/sns", "is an alias"],
  ["PERMISSIONS_BOUNDARY_ARN", "ours", "is not the ARN of a managed policy"],
  ["ROLE_PATH", "grid", "is not a path of IAM"],
  ["EXISTING_BUCKET", "s3://ours/prefix", "is not the name of a bucket"],
  ["PROMETHEUS_WORKSPACE_ARN", "ws-1", "is not the ARN of a workspace"],
  ["PROMETHEUS_CA_PARAMETER", "ca", "is not the whole name of a parameter"],
  ["PROMETHEUS_CA_PARAMETER", "/gridmeter/*", "is not the whole name of a parameter"],
  ["TENANTS_OBJECT", "tenants.yaml", "is not a key that the functions may read"],
  ["PLAN_RESERVED_CONCURRENCY", "2", "is neither 0 nor 1"],
  ["PUSHGATEWAY_URL", "gateway", "is not a URL"],
])("%s=%s is refused", (name, value, text) => {
  const [problem = ""] = problems({ ...SITE, [name]: value });
  expect(problem).toContain(`${name}=${JSON.stringify(value)}: ${text}`);
  expect(problem).toContain("Write");
});

test.each([
  ["VPC_SUBNET_IDS", "subnet-0123abcd, subnet-4567abcd", "VPC_SECURITY_GROUP_IDS"],
  ["VPC_SECURITY_GROUP_IDS", "sg-0123abcd", "VPC_SUBNET_IDS"],
  ["PROMETHEUS_CLIENT_CERT_PARAMETER", "/c", "PROMETHEUS_CLIENT_KEY_PARAMETER"],
])("%s without its other half is refused", (name, value, other) => {
  expect(problems({ ...SITE, [name]: value })[0]).toContain(`${other}: is not set, but ${name} is.`);
});

test.each([
  ["https://me:do-not-show-me@prometheus"],
  ["https//me:do-not-show-me@prometheus"],
  ["https://prometheus/?token=do-not-show-me"],
])("an address that holds credentials is refused and not shown: %s", (address) => {
  const [problem = "", ...more] = problems({ ...SITE, PROMETHEUS_SERVER: address });
  expect(problem).toContain("holds credentials, which would be legible");
  expect([problem.includes("do-not-show-me"), more]).toEqual([false, []]);
});
