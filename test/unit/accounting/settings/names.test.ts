import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { readEnvFile } from "../../../../lib/accounting/settings/env-file.ts";
import { DEPLOYMENT, judgeNames } from "../../../../lib/accounting/settings/names.ts";
import { problemLines } from "../../../../lib/accounting/settings/problems.ts";
import { ABOUT } from "../../../../lib/accounting/settings/table.ts";
import { misspelt } from "../../../../lib/shared/config-values.ts";

const judge = (text: string, env: Record<string, string> = {}) => {
  const { problems, unset, warnings } = judgeNames(readEnvFile(text, env), env);
  return { refused: problemLines(problems, []), unset: problemLines(unset, []), warned: problemLines(warnings, []) };
};
const quiet = { refused: [], unset: [], warned: [] };
const read = (path: string): string => readFileSync(new URL(`../../../../${path}`, import.meta.url), "utf8");

const wordsIn = (text: string): readonly string[] => text.trim().split(/\s+/);

/** What people write, and what they meant. */
const SLIPS = [
  ["NAMSPACE", "NAMESPACE"],
  ["NAMESAPCE", "NAMESPACE"],
  ["NAMESPACES", "NAMESPACE"],
  ["DEFAULT_CORE", "DEFAULT_CORES"],
  ["DEFUALT_CORES", "DEFAULT_CORES"],
  ["DEFAULTCORES", "DEFAULT_CORES"],
  ["NODE_COUNT", "NODECOUNT"],
  ["SITENAME", "SITE_NAME"],
  ["site_name", "SITE_NAME"],
  ["SITE-NAME", "SITE_NAME"],
  ["SITE_NMAE", "SITE_NAME"],
  ["SUBMITHOST", "SUBMIT_HOST"],
  ["VO_LABLE", "VO_LABEL"],
  ["VO_LABELS", "VO_LABEL"],
  ["VOLABEL", "VO_LABEL"],
  ["PROCESSOR", "PROCESSORS"],
  ["PROCESORS", "PROCESSORS"],
  ["BENCHMARK_VALU", "BENCHMARK_VALUE"],
  ["BENCMARK_VALUE", "BENCHMARK_VALUE"],
  ["BENCHMARK_TYP", "BENCHMARK_TYPE"],
  ["ACCOUNTING_MODE", "ACCOUNTING_MODEL"],
  ["ACOUNTING_SINCE", "ACCOUNTING_SINCE"],
  ["SUMMARISE_RECORDS", "SUMMARIZE_RECORDS"],
  ["SUMMARIZE_RECORD", "SUMMARIZE_RECORDS"],
  ["MESSAGE_FORMATS", "MESSAGE_FORMAT"],
  ["SETTEL", "SETTLE"],
  ["PUBLISHING_MOD", "PUBLISHING_MODE"],
  ["QUERY_TIMOUT", "QUERY_TIMEOUT"],
  ["TENANT_FILE", "TENANTS_FILE"],
  ["LEDGERPATH", "LEDGER_PATH"],
  ["OUTPUT_PAHT", "OUTPUT_PATH"],
  ["PROMETHEUS_LABLES", "PROMETHEUS_LABELS"],
  ["PROMETHEUS_LABEL", "PROMETHEUS_LABELS"],
  ["PROMETEUS_SERVER", "PROMETHEUS_SERVER"],
  ["PROMETHEUS_AUTH_HEADERS", "PROMETHEUS_AUTH_HEADER"],
  ["PROMETHEUS_AUTHHEADER", "PROMETHEUS_AUTH_HEADER"],
] as const;

/** What stands in the env files and environments of sites that did nothing wrong. */
const ORDINARY = wordsIn(`
  HOSTPART HOST HOSTNAME HOST_NAME CLUSTER CLUSTER_NAME SITE VO VM_NAME JOB_NAME
  NODE_NAME POD_NAME POD_NAMESPACE JOB_NAMESPACE FILE_NAME LOGNAME USER USERNAME NAME
  TZ PATH HOME LANG LC_ALL SHELL PWD OLDPWD SHLVL TERM MAIL EDITOR _
  TMPDIR PYTHONUNBUFFERED PIP_NO_WARN_SCRIPT_LOCATION PYTHON_DOTENV_DISABLED NODE_OPTIONS
  HTTPS_PROXY https_proxy NO_PROXY X509_USER_PROXY X509_CERT_DIR KUBECONFIG SSL_CERT_FILE
  PROMETHEUS_URL PROMETHEUS_HOST PROMETHEUS_PORT PROMETHEUS_USER PROMETHEUS_PASSWORD
  PROMETHEUS_TOKEN PROMETHEUS_NAMESPACE TOKEN PASSWORD SERVER PORT TIMEOUT DEBUG MODE
  AWS_REGION AWS_ACCESS_KEY_ID AWS_ENDPOINT_URL_S3 S3_SSE SLURM_SUBMIT_HOST SLURM_JOB_NAME
  GRATIA_PROBE BENCHMARK QUERY_STEP OUTPUT_DIR INPUT_PATH LOG_LEVEL PROCESSOR_IDENTIFIER
  GRIDMETER_AGENT_CONFIG CI GITLAB_CI INVOCATION_ID JOURNAL_STREAM SUDO_USER
`);

const SERVICES = wordsIn(`
  PROMETHEUS_SERVER_PORT PROMETHEUS_SERVER_SERVICE_HOST PROMETHEUS_SERVER_SERVICE_PORT
  PROMETHEUS_SERVER_SERVICE_PORT_HTTP PROMETHEUS_SERVER_PORT_80_TCP PROMETHEUS_SERVER_PORT_80_TCP_ADDR
  PROMETHEUS_SERVER_PORT_80_TCP_PORT PROMETHEUS_SERVER_PORT_80_TCP_PROTO PROMETHEUS_PORT_9090_TCP
  KUBERNETES_SERVICE_HOST KUBERNETES_PORT_443_TCP_ADDR NAMESPACE_PORT SUBMIT_HOST_SERVICE_HOST
`);

describe("in an env file", () => {
  test.each(SLIPS)("%s is refused: did you mean %s?", (written, meant) => {
    expect(judge(`${written}=x\n`)).toEqual({
      ...quiet,
      refused: [`${written}: is no setting; did you mean ${meant}?`],
    });
  });

  test("a misspelt name that a ${NAME} looks up, or that is empty, is not refused", () => {
    expect(
      judge("SITENAME=A\nSITE_NAME=${SITENAME}\nVO_LABLE=\nPROMETHEUS_TOKENFILE=t\nX=${PROMETHEUS_TOKENFILE}"),
    ).toEqual({ ...quiet, warned: ["env file: no settings, and ignored: X."] });
  });

  test.each(ORDINARY)("%s is no misspelt setting", (name) => {
    expect(judge(`${name}=x\n`).refused).toEqual([]);
  });

  test("all other names are in one warning, with what may have been meant", () => {
    expect(judge("HOSTPART=a\nDEFAULT_CPU_CORES=2\nTZ=UTC\nSITE_NAME=b\nKMS_KEY_ARN=c\n").warned).toEqual([
      "env file: no settings, and ignored: HOSTPART, DEFAULT_CPU_CORES (did you mean DEFAULT_CORES?), TZ.",
    ]);
    const many = Array.from({ length: 30 }, (_, index) => `ZZZ_${index}=1`).join("\n");
    expect(judge(many).warned).toEqual([expect.stringMatching(/ZZZ_0, .*ZZZ_19, 10 more\.$/)]);
  });

  test("a key that was pasted in is not shown", () => {
    const key = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC+x/\nq7Zk9wAAAAABBB==\nA=1\n";
    expect(judge(key).warned).toEqual([
      "env file: no settings, and ignored: A, 1 more.",
      "env file: line 1 is not NAME=value and left out, as in KAPEL.",
    ]);
  });
});

describe("in the environment", () => {
  test.each(SLIPS)("%s is warned of, not refused", (written, meant) => {
    expect(judge("", { [written]: "x" })).toEqual({
      ...quiet,
      warned: [expect.stringMatching(new RegExp(`^${written}: is no setting, .*; did you mean ${meant}\\?$`))],
    });
  });

  test("what others put there is passed over without a word", () => {
    expect(judge("", Object.fromEntries([...ORDINARY, ...SERVICES, ...DEPLOYMENT].map((name) => [name, "x"])))).toEqual(
      quiet,
    );
  });

  test("what Kubernetes says of services is no matter in an env file either", () => {
    expect(judge(SERVICES.map((name) => `${name}=x`).join("\n"))).toEqual(quiet);
  });
});

describe("a ${NAME} that is set nowhere", () => {
  test("is named, with what to do", () => {
    expect(judge("SUBMIT_HOST=${HOSTPART}:6443/batch\n").unset).toEqual([
      "SUBMIT_HOST: holds ${HOSTPART}, which is set neither in the environment nor above in the env file; it was read as empty, as in KAPEL. Set HOSTPART, or write ${HOSTPART:-default}.",
    ]);
  });

  test("does not matter where its value does not", () => {
    expect(judge("PS1=${CHROOT}\nSITE_NAME=${X}\n", { SITE_NAME: "A" }).unset).toEqual([]);
    expect(judge("PART=${X}\nSITE_NAME=${PART}\n").unset).toEqual([expect.stringContaining("PART: holds ${X}")]);
  });

  test("is not shown of a secret, whose piece it may be", () => {
    const { unset } = judge("PROMETHEUS_AUTH_HEADER=Bearer a${hunter2}b\nPROMETHEUS_SERVER=https://me:${s3cret}@p\n");
    expect(unset).toHaveLength(2);
    expect(unset.join()).not.toMatch(/hunter2|s3cret/);
    expect(unset[0]).toContain("set PROMETHEUS_AUTH_HEADER in the environment, where nothing is expanded");
  });
});

test("the deployment's names are those of serverless.yml and of the spooler's unit", () => {
  const template = [...read("serverless.yml").matchAll(/\$\{(?:[^}]*, ?)?env:(\w+)/g)].map(([, name = ""]) => name);
  const unit = [...read("deploy/systemd/gridmeter-spool.env.example").matchAll(/^#?(\w+)=/gm)].map(
    ([, name = ""]) => name,
  );
  expect(template.length).toBeGreaterThan(40);
  // The command line reads these too, from the environment.
  const both = [...new Set([...template, ...unit])].filter((name) => !/^(AWS|S3)_/.test(name));
  expect(both.filter((name) => !ABOUT.has(name) && !DEPLOYMENT.includes(name))).toEqual([]);
});

test("no setting and no name of the deployment is a misspelt setting", () => {
  for (const name of [...ABOUT.keys(), ...DEPLOYMENT]) {
    const others = [...ABOUT.keys()].filter((other) => other !== name);
    expect([name, misspelt(name, others)]).toEqual([name, undefined]);
  }
});
