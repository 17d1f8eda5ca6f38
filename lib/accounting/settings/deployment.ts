import { type Problem, quotedValue } from "../../shared/config-problems.ts";
import { type Parsed, type Raw, bad, boolean, filled, filledOnly, good, oneOf } from "../../shared/config-values.ts";
import { holdsCredentials, maskServer, parseServer } from "../../shared/server-url.ts";
import { readEnvFile } from "./env-file.ts";
import { judgeSettings } from "./load.ts";
import { DEPLOYMENT, judgeNames } from "./names.ts";
import { problemLines, readSettings } from "./problems.ts";
import { ABOUT, amsPlaceSettings, tenantSettings } from "./table.ts";

type Parse = (text: string) => Parsed<unknown>;

const matching =
  (pattern: RegExp, problem: string): Parse =>
  (text) =>
    pattern.test(text) ? good(text) : bad(problem);

const KEY = /^arn:[a-z-]+:kms:[a-z0-9-]+:\d{12}:key\/[A-Za-z0-9-]+$/;
const key: Parse = (text) => {
  if (KEY.test(text)) return good(text);
  return /(^|:)alias\//.test(text)
    ? bad(
        "is an alias, and IAM gives rights on keys only. Write the key's ARN, which `aws kms describe-key --key-id alias/NAME --query KeyMetadata.Arn` prints",
      )
    : bad("is not the ARN of a KMS key. Write arn:aws:kms:REGION:ACCOUNT:key/ID");
};
const parameterName = matching(
  /^(?:\/[A-Za-z0-9_.-]+)+$/,
  "is not the whole name of a parameter of AWS Systems Manager. Write for example /gridmeter/prod/NAME, with a slash before it",
);
const listOf = (prefix: string): Parse =>
  matching(
    new RegExp(`^${prefix}-[0-9a-f]+( ?, ?${prefix}-[0-9a-f]+)*$`),
    `is not a list of ids. Write ${prefix}-0123abcd,${prefix}-4567abcd`,
  );

/** What each setting of the deployment may hold. Their names are in `DEPLOYMENT`, their meaning in docs/deploy.md. */
const PARSERS: ReadonlyMap<string, Parse> = new Map<string, Parse>([
  ["ALARM_EMAIL", matching(/^\S+@\S+$/, "is not an address of mail. Write NAME@HOST")],
  ["ALARM_KMS_KEY_ARN", key],
  ["AMS_CA_PARAMETER", parameterName],
  ["AMS_CERTIFICATE_PARAMETER", parameterName],
  ["AMS_KEY_PARAMETER", parameterName],
  [
    "AMS_SECRET_ARNS",
    matching(
      /^arn:[a-z-]+:secretsmanager:[^\s,*]+(?: ?, ?arn:[a-z-]+:secretsmanager:[^\s,*]+)*$/,
      "is not a list of ARNs of secrets. Write arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME-ID, several with commas between them",
    ),
  ],
  ["AMS_TOKEN_PARAMETER", parameterName],
  ["DELIVERY", oneOf("spool", "ams")],
  [
    "EXISTING_BUCKET",
    matching(
      /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/,
      "is not the name of a bucket. Write the name alone, without s3:// and a prefix",
    ),
  ],
  ["GRIDMETER_REPORT", boolean],
  ["KMS_KEY_ARN", key],
  ["PARAMETER_KMS_KEY_ARN", key],
  [
    "PERMISSIONS_BOUNDARY_ARN",
    matching(
      /^arn:[a-z-]+:iam::(?:aws|\d{12}):policy\/[\w+=,.@/-]+$/,
      "is not the ARN of a managed policy. Write arn:aws:iam::ACCOUNT:policy/NAME",
    ),
  ],
  [
    "PLAN_RESERVED_CONCURRENCY",
    matching(/^[01]$/, "is neither 0 nor 1. Write 1 to keep plan from running beside itself, or 0"),
  ],
  ["POWERTOOLS_LOG_LEVEL", oneOf("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "CRITICAL", "SILENT")],
  ["PROMETHEUS_AUTH_HEADER_PARAMETER", parameterName],
  ["PROMETHEUS_CA_PARAMETER", parameterName],
  ["PROMETHEUS_CLIENT_CERT_PARAMETER", parameterName],
  ["PROMETHEUS_CLIENT_KEY_PARAMETER", parameterName],
  [
    "PROMETHEUS_WORKSPACE_ARN",
    matching(
      /^arn:[a-z-]+:aps:[a-z0-9-]+:\d{12}:workspace\/ws-[A-Za-z0-9-]+$/,
      "is not the ARN of a workspace. Write arn:aws:aps:REGION:ACCOUNT:workspace/ws-ID",
    ),
  ],
  ["PUSHGATEWAY_AUTH_HEADER_PARAMETER", parameterName],
  ["PUSHGATEWAY_URL", parseServer],
  [
    "ROLE_PATH",
    matching(/^\/(?:[A-Za-z0-9+=,.@_-]+\/)*$/, "is not a path of IAM. Write / or /NAME/, with a slash at both ends"),
  ],
  ["TENANTS_OBJECT", matching(/^config\/./, "is not a key that the functions may read. Write config/NAME")],
  ["TENANTS_PARAMETER", parameterName],
  ["VPC_SECURITY_GROUP_IDS", listOf("sg")],
  ["VPC_SUBNET_IDS", listOf("subnet")],
]);

/** What the functions read under the name of a parameter, and the command line as it is or from a file. */
const FROM_PARAMETER: ReadonlyMap<string, string> = new Map([
  ["PROMETHEUS_AUTH_HEADER", "PROMETHEUS_AUTH_HEADER_PARAMETER"],
  ["PROMETHEUS_TOKEN_FILE", "PROMETHEUS_AUTH_HEADER_PARAMETER"],
  ["PROMETHEUS_CA_FILE", "PROMETHEUS_CA_PARAMETER"],
  ["PROMETHEUS_CLIENT_CERT_FILE", "PROMETHEUS_CLIENT_CERT_PARAMETER"],
  ["PROMETHEUS_CLIENT_KEY_FILE", "PROMETHEUS_CLIENT_KEY_PARAMETER"],
  ["PUSHGATEWAY_AUTH_HEADER", "PUSHGATEWAY_AUTH_HEADER_PARAMETER"],
  ["PUSHGATEWAY_CA_FILE", "PROMETHEUS_CA_PARAMETER"],
  ["TENANTS_FILE", "TENANTS_PARAMETER"],
]);
/** The event says what a run covers, and the bucket is where its messages and its ledger are. */
const FROM_EVENT = ["PUBLISHING_MODE", "QUERY_START", "QUERY_END", "OUTPUT_PATH", "LEDGER_PATH"];
/** Of a single invocation or of the ssmsend host: none of them says that this deployment is configured. */
const OF_OTHERS =
  /^(?:GRIDMETER_|SPOOL_|WORK_|POWERTOOLS_LOG_LEVEL$|(?:PUBLISHING_MODE|QUERY_START|QUERY_END|OUTPUT_PATH|LEDGER_PATH)$)/;
/** What osls and the AWS SDK read, so that a stage's file may hold it. */
const OF_AWS = [
  "AWS_ACCESS_KEY_ID",
  "AWS_DEFAULT_REGION",
  "AWS_ENDPOINT_URL",
  "AWS_ENDPOINT_URL_S3",
  "AWS_ENDPOINT_URL_SQS",
  "AWS_PROFILE",
  "AWS_REGION",
  "AWS_SECRET_ACCESS_KEY",
  "AWS_SESSION_TOKEN",
  "S3_KMS_KEY_ID",
  "S3_SSE",
];
/** Stages that may be packaged with no setting at all, to see that it works. */
const BARE_STAGES = ["dev", "local"];
/** S3 takes no longer name; an account's id has 12 digits. */
const LONGEST_BUCKET = 63;

/** What is about to be packaged, with all of it resolved. */
export type Deployment = {
  readonly stage: string;
  readonly region: string;
  /** the environment of osls: the shell's variables, and those of the stage's file */
  readonly env: Raw;
  /** the text of .env.STAGE, "" where there is none */
  readonly envFile: string;
  /** the texts in the functions' environments */
  readonly environment: Raw;
  /** the defaults of the template's parameters, by the name of their setting */
  readonly parameters: Raw;
};

export type JudgedDeployment = {
  /** a line each; with one, nothing may be packaged */
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
};

/** Says all that is wrong with the settings of a deployment, with the command line's texts, before anything is sent. */
export function judgeDeployment(deployment: Deployment): JudgedDeployment {
  const { stage, env, envFile } = deployment;
  const texts = filledOnly({ ...deployment.environment, ...deployment.parameters });
  const file = readEnvFile(envFile, env);
  const shell = Object.fromEntries(Object.entries(env).filter(([name]) => !file.values.has(name)));
  const names = judgeNames(file, shell, [...DEPLOYMENT, ...OF_AWS]);
  const own = [
    ...stageProblems(deployment),
    ...names.problems,
    ...formProblems(texts),
    ...networkProblems(texts),
    ...sendingProblems(texts),
  ];
  const isConfigured = hasSettings(env, texts) || own.length > 0;
  const settings =
    !isConfigured && BARE_STAGES.includes(stage) ? undefined : accountingSettings(deployment, filledOnly(env), texts);
  const problems = [...own, ...(settings?.problems ?? [])];
  const warnings = [...names.warnings, ...(problems.length > 0 ? [] : names.unset), ...(settings?.warnings ?? [])];
  return {
    problems: problemLines(problems.length > 0 ? [...problems, ...names.unset] : [], [], false),
    warnings: problemLines(warnings, [], false),
  };
}

/** Whether anybody has begun to configure the deployment. */
function hasSettings(env: Raw, texts: Raw): boolean {
  const isSet = (name: string): boolean => filled(env[name] ?? texts[name]) !== undefined;
  return [...ABOUT.keys(), ...DEPLOYMENT].some(
    (name) => !OF_OTHERS.test(name) && isSet(name) && texts[name] !== DEFAULTS.get(name),
  );
}
/** What serverless.yml puts where nothing is set. */
const DEFAULTS: ReadonlyMap<string, string> = new Map([
  ["DELIVERY", "spool"],
  ["PLAN_RESERVED_CONCURRENCY", "0"],
  ["ROLE_PATH", "/"],
]);

function stageProblems({ stage, region, parameters }: Deployment): Problem[] {
  const problem = (text: string): Problem[] => [{ setting: "stage", quoted: quotedValue(stage), text }];
  if (/[A-Z]/.test(stage))
    return problem(
      `has capitals, which the name of a bucket cannot have. Write --stage ${stage.toLowerCase()}, and .env.${stage.toLowerCase()}`,
    );
  if (!/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(stage))
    return problem("is not made of small letters, digits and hyphens in between. Write for example --stage prod");
  const longest = LONGEST_BUCKET - `gridmeter--123456789012-${region}`.length;
  const isAdopted = filled(parameters["EXISTING_BUCKET"]) !== undefined;
  if (isAdopted || stage.length <= longest) return [];
  const bucket = `gridmeter-${stage}-ACCOUNT-${region}`;
  return problem(
    `has ${stage.length} characters, too many for the name of the bucket (${bucket}), which has ${LONGEST_BUCKET} at most. Write at most ${longest}`,
  );
}

/** Each setting of the deployment for itself. An address with a password is not quoted. */
function formProblems(texts: Raw): Problem[] {
  const legible = [
    ["PROMETHEUS_SERVER", "PROMETHEUS_AUTH_HEADER_PARAMETER"],
    ["PUSHGATEWAY_URL", "PUSHGATEWAY_AUTH_HEADER_PARAMETER"],
  ].flatMap(([setting = "", instead = ""]): Problem[] => {
    const text = texts[setting];
    if (text === undefined || !holdsCredentials(text)) return [];
    const problem =
      "holds credentials, which would be legible in the template and in the functions' environment. Take them out of it, " +
      'store the header (Basic and the base64 of user:password) as a SecureString with "aws ssm put-parameter", and name ' +
      `that in ${instead}`;
    return [{ setting, quoted: quotedValue(maskServer(text)), text: problem }];
  });
  const wrong = [...PARSERS].flatMap(([setting, parse]): Problem[] => {
    const text = texts[setting];
    if (text === undefined || legible.some((one) => one.setting === setting)) return [];
    const parsed = parse(text);
    return parsed.ok ? [] : [{ setting, quoted: quotedValue(text), text: parsed.problem }];
  });
  return [...legible, ...wrong];
}

function networkProblems(texts: Raw): Problem[] {
  const pairs = [
    ["VPC_SUBNET_IDS", "VPC_SECURITY_GROUP_IDS", "The functions' network interfaces need both. Set it"],
    ["VPC_SECURITY_GROUP_IDS", "VPC_SUBNET_IDS", "The functions' network interfaces need both. Set it"],
    [
      "PROMETHEUS_CLIENT_CERT_PARAMETER",
      "PROMETHEUS_CLIENT_KEY_PARAMETER",
      "A certificate is of no use without its key",
    ],
    [
      "PROMETHEUS_CLIENT_KEY_PARAMETER",
      "PROMETHEUS_CLIENT_CERT_PARAMETER",
      "A key is of no use without its certificate",
    ],
  ];
  return pairs.flatMap(([set = "", unset = "", why = ""]): Problem[] =>
    texts[set] === undefined || texts[unset] !== undefined
      ? []
      : [{ setting: unset, text: `is not set, but ${set} is. ${why}` }],
  );
}

/** What the function send needs, where it is to send. */
function sendingProblems(texts: Raw): Problem[] {
  if (texts["DELIVERY"] !== "ams") return [];
  const unset = ["AMS_CERTIFICATE_PARAMETER", "AMS_KEY_PARAMETER"].filter((name) => texts[name] === undefined);
  const problem =
    'is not set, but DELIVERY is ams. Store the PEM text with "aws ssm put-parameter --type SecureString", and name the parameter here';
  return [
    ...readSettings(amsPlaceSettings, amsPlaceSettings.partial(), texts).problems,
    ...unset.map((setting) => ({ setting, text: problem })),
  ];
}

/** The settings of the accounting as the functions will read them; `texts` are filled ones. */
function accountingSettings(
  { stage }: Deployment,
  env: Raw,
  texts: Raw,
): { readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] } {
  const isLocal = stage === "local";
  const left = isLocal ? [] : notTaken(env, texts);
  const raw = isLocal ? env : { ...texts, ...stoodFor(texts) };
  // The Pushgateway is judged with the settings of the deployment.
  const settings = Object.fromEntries(
    Object.entries(raw).filter(([name]) => !FROM_EVENT.includes(name) && !name.startsWith("PUSHGATEWAY_")),
  );
  const many = ["TENANTS_PARAMETER", "TENANTS_OBJECT", "TENANTS_FILE"].filter((name) => settings[name] !== undefined);
  const ambiguous: Problem[] =
    many.length < 2
      ? []
      : [{ setting: many.join(" and "), text: "are set, and it is not clear which holds. Set one of them" }];
  const given = settings["PROMETHEUS_SERVER"];
  // Said already, without quoting it.
  const shown =
    given !== undefined && holdsCredentials(given) ? { ...settings, PROMETHEUS_SERVER: "http://x" } : settings;
  const judged = many.length > 0 ? commonOnly(shown) : judgeSettings(shown);
  return {
    problems: [...left.filter(({ isRefused }) => isRefused), ...ambiguous, ...judged.problems.map(renamed)],
    warnings: [...left.filter(({ isRefused }) => !isRefused), ...judged.warnings.map(renamed)],
  };
}

/** Where the tenants are in a file that the functions alone can read, what is missing here may be there. */
function commonOnly(settings: Raw): { readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] } {
  const { problems } = readSettings(tenantSettings, tenantSettings.partial(), settings);
  return { problems: problems.filter(({ quoted }) => quoted !== undefined), warnings: [] };
}

/** What the functions do not take over. It is refused unless the parameter is named, too: then the file serves both. */
function notTaken(env: Raw, texts: Raw): readonly (Problem & { readonly isRefused: boolean })[] {
  return [...FROM_PARAMETER].flatMap(([setting, instead]) => {
    if (env[setting] === undefined) return [];
    const isRefused =
      texts[instead] === undefined && !(setting === "TENANTS_FILE" && texts["TENANTS_OBJECT"] !== undefined);
    const text = isRefused
      ? `is read by the command line only; the functions read a parameter of AWS Systems Manager. Store it with \`aws ssm put-parameter --type SecureString\`, name that in ${instead}, and take ${setting} away`
      : `is not taken over into the functions, which read what ${instead} names`;
    return [{ setting, text, isRefused }];
  });
}

/** Something in place of what is in the parameters, so that it is seen which settings exclude each other. */
function stoodFor(texts: Raw): Raw {
  const named = [...FROM_PARAMETER].filter(
    ([setting, instead]) =>
      texts[instead] !== undefined && setting !== "PROMETHEUS_TOKEN_FILE" && setting !== "TENANTS_FILE",
  );
  const value = (setting: string): string => (setting === "PROMETHEUS_AUTH_HEADER" ? "Bearer parameter" : "/parameter");
  return Object.fromEntries(named.map(([setting]) => [setting, value(setting)]));
}

/** A problem of what is set in place of a parameter is one of the parameter. */
function renamed(problem: Problem): Problem {
  const { tenant: _tenant, ...rest } = problem;
  const instead = FROM_PARAMETER.get(problem.setting);
  return instead === undefined || problem.quoted !== undefined ? rest : { ...rest, setting: instead };
}
