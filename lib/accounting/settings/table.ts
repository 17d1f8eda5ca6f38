import { z } from "zod";
import {
  type Parsed,
  boolean,
  decimal,
  duration,
  good,
  milliCores,
  oneOf,
  parsedBy,
  utcDay,
  wholeNumber,
} from "../../shared/config-values.ts";
import { maskServer, parseAuthorization, parseOrgId, parseRegion, parseServer } from "../../shared/server-url.ts";
import {
  DEFAULT_LEDGER,
  DEFAULT_OUTPUT,
  amsName,
  apelText,
  parseDestination,
  parseHost,
  parseInstant,
  parseLabelPrefix,
  parseLedgerPlace,
  parseMatchers,
  parseNamespace,
  parseSelector,
  parseVoLabel,
} from "./formats.ts";

/** What a person reads about a setting; docs/configuration.md and the hints in error messages are made from it. */
export type About = {
  readonly meaning: string;
  readonly example: string;
  /** the text that is used when nothing is set */
  readonly default?: string;
  /** what happens when nothing is set, where that is not simply a text that is used */
  readonly otherwise?: string;
  readonly unit?: string;
  /** true: the value is never shown */
  readonly secret?: true;
  /** how the value is quoted, where a part of it is secret */
  readonly quote?: (text: string) => string;
  /** the command line option that overrides it */
  readonly option?: string;
  /** true for the variables of KAPEL, which keep name and meaning */
  readonly kapel?: true;
};

const about = z.registry<About>();
const fileName = parsedBy(good<string>);
/** Checks a text that is kept as it is written. */
const asWritten = (parse: (text: string) => Parsed<unknown>) =>
  parsedBy((text) => {
    const parsed = parse(text);
    return parsed.ok ? good(text) : parsed;
  });
const INT32 = 2_147_483_647;

/** Settings of the whole run; a tenant cannot override them. */
export const runSettings = z.object({
  PUBLISHING_MODE: parsedBy(oneOf("auto", "gap")).register(about, {
    meaning:
      "`auto` publishes the previous month and the current one up to now; `gap` the months that QUERY_START to QUERY_END touch, as whole months.",
    example: "auto",
    default: "auto",
    option: "--mode",
    kapel: true,
  }),
  QUERY_START: parsedBy(parseInstant).optional().register(about, {
    meaning: "Start of the period in `gap` mode, with its time zone. Ignored in `auto` mode.",
    example: "2024-03-01T00:00:00Z",
    otherwise: "mandatory in `gap` mode",
    unit: "ISO 8601 time with zone",
    option: "--start",
    kapel: true,
  }),
  QUERY_END: parsedBy(parseInstant).optional().register(about, {
    meaning: "End of the period in `gap` mode, with its time zone; it must lie after QUERY_START.",
    example: "2024-04-01T00:00:00Z",
    otherwise: "mandatory in `gap` mode",
    unit: "ISO 8601 time with zone",
    option: "--end",
    kapel: true,
  }),
  OUTPUT_PATH: asWritten(parseDestination).register(about, {
    meaning:
      "Where messages go: `dirq:DIR` (ssmsend's `path_type: dirq`) or `dir:DIR` (`path_type: directory`), or `s3://BUCKET/PREFIX`, from where `gridmeter spool` takes them; a bare path is a dirq. The default is not KAPEL's /srv/kapel.",
    example: "/srv/kapel",
    default: DEFAULT_OUTPUT,
    option: "--output",
    kapel: true,
  }),
  LEDGER_PATH: asWritten(parseLedgerPlace).register(about, {
    meaning:
      "Where counted days and what was published are kept: a directory, `s3://BUCKET/PREFIX`, or `none`: a run that remembers nothing. Of the command line; the functions have their bucket.",
    example: "/var/lib/gridmeter/ledger",
    default: DEFAULT_LEDGER,
    option: "--ledger",
  }),
  TENANTS_FILE: fileName.optional().register(about, {
    meaning:
      "A YAML or JSON file with several tenants, see below. A relative path is looked up beside the env file that names it, else in the working directory.",
    example: "tenants.yaml",
    otherwise: "one tenant, named after its namespace",
  }),
  PUSHGATEWAY_URL: asWritten(parseServer).optional().register(about, {
    meaning: "A Pushgateway that gets the accounting's own metrics after each run of `gridmeter account`.",
    example: "http://pushgateway.example.org:9091",
    otherwise: "nothing is pushed",
    unit: "http(s) URL",
    quote: maskServer,
    option: "--pushgateway",
  }),
  PUSHGATEWAY_AUTH_HEADER: parsedBy(parseAuthorization).optional().register(about, {
    meaning: "Value of the `Authorization` header for the Pushgateway.",
    example: "Bearer TOKEN",
    otherwise: "no such header",
    secret: true,
  }),
  PUSHGATEWAY_CA_FILE: fileName.optional().register(about, {
    meaning: "PEM file with the certificates of a further authority to trust at the Pushgateway.",
    example: "/etc/ssl/certs/site-ca.pem",
    otherwise: "only Node's built-in authorities",
  }),
  METRICS_FILE: fileName.optional().register(about, {
    meaning:
      "A file that gets the same metrics, for the textfile collector of node_exporter; its name ends in `.prom`. Used as written, like OUTPUT_PATH.",
    example: "/var/lib/prometheus/node-exporter/gridmeter.prom",
    otherwise: "no file is written",
    option: "--metrics-file",
  }),
});

/** Settings of one tenant; each may be set in the environment for all tenants and in the tenants file for one. */
export const tenantSettings = z.object({
  PROMETHEUS_SERVER: parsedBy(parseServer).register(about, {
    meaning:
      "Address of Prometheus (or of what speaks its API). Credentials in it (`https://user:password@host`) are sent as Basic authentication.",
    example: "https://prometheus.example.org:9090",
    unit: "http(s) URL",
    quote: maskServer,
    kapel: true,
  }),
  PROMETHEUS_AUTH_HEADER: parsedBy(parseAuthorization).optional().register(about, {
    meaning: "Value of the `Authorization` header; a bare JSON Web Token becomes `Bearer ...`.",
    example: "Bearer TOKEN",
    otherwise: "no such header",
    secret: true,
    kapel: true,
  }),
  PROMETHEUS_TOKEN_FILE: fileName.optional().register(about, {
    meaning:
      "A file that holds a bearer token, read afresh for each run (such as a projected service account token). Not together with PROMETHEUS_AUTH_HEADER.",
    example: "/var/run/secrets/kubernetes.io/serviceaccount/token",
    otherwise: "no token",
  }),
  PROMETHEUS_CA_FILE: fileName.optional().register(about, {
    meaning: "PEM file with the certificates of a further authority to trust, such as the site's own.",
    example: "/etc/ssl/certs/site-ca.pem",
    otherwise: "only Node's built-in authorities",
  }),
  PROMETHEUS_CLIENT_CERT_FILE: fileName.optional().register(about, {
    meaning:
      "PEM file with the certificate (or its chain) that this program shows to a server which asks for one; only with PROMETHEUS_CLIENT_KEY_FILE.",
    example: "/etc/gridmeter/client.pem",
    otherwise: "no certificate is shown",
  }),
  PROMETHEUS_CLIENT_KEY_FILE: fileName.optional().register(about, {
    meaning: "PEM file with the private key of PROMETHEUS_CLIENT_CERT_FILE, not encrypted.",
    example: "/etc/gridmeter/client-key.pem",
    otherwise: "no certificate is shown",
  }),
  PROMETHEUS_SIGV4_REGION: parsedBy(parseRegion).optional().register(about, {
    meaning:
      "Signs requests with AWS Signature Version 4 for Amazon Managed Service for Prometheus in this region, with the credentials that the AWS SDK finds. Only needed where the region is not in the address.",
    example: "eu-central-1",
    otherwise:
      "the region in a workspace's address (`aps-workspaces.REGION.amazonaws.com`); other servers get no signature",
    unit: "AWS region",
  }),
  PROMETHEUS_ORG_ID: parsedBy(parseOrgId).optional().register(about, {
    meaning: "Tenant of Mimir or Cortex, sent as `X-Scope-OrgID`; several are joined with `|`.",
    example: "grid-team",
    otherwise: "no such header",
  }),
  QUERY_TIMEOUT: parsedBy(duration(1, 86_400)).register(about, {
    meaning: "How long Prometheus may work on one query.",
    example: "1800s",
    default: "1800s",
    unit: "Prometheus duration",
    kapel: true,
  }),
  QUERY_CONCURRENCY: parsedBy(wholeNumber(1, 100)).register(about, {
    meaning: "How many queries run side by side (a Prometheus takes 20 by default).",
    example: "4",
    default: "4",
    unit: "queries",
  }),
  NAMESPACE: parsedBy(parseNamespace).register(about, {
    meaning: "The Kubernetes namespace whose pods are counted.",
    example: "atlas-jobs",
    kapel: true,
  }),
  PROMETHEUS_LABELS: parsedBy(parseMatchers).optional().register(about, {
    meaning: "Further label matchers for every query, which distinguish several clusters behind one address.",
    example: 'cluster="prod",region!="test"',
    otherwise: "no further matchers",
  }),
  PROMETHEUS_LABEL_PREFIX: parsedBy(parseLabelPrefix).optional().register(about, {
    meaning:
      "Prefix that Prometheus gives to the labels namespace, pod, uid and container of kube-state-metrics where it is scraped without `honor_labels: true`; labels without a prefix are read too.",
    example: "orig_",
    otherwise: "`exported_`",
  }),
  MONITORING_SELECTOR: parsedBy(parseSelector).optional().register(about, {
    meaning: "A PromQL selector whose value is 1 where the monitoring worked.",
    example: 'up{job="kube-state-metrics"}',
    otherwise: "kube-state-metrics' own pod, else any pod in its series",
  }),
  SITE_NAME: parsedBy(apelText(255)).register(about, {
    meaning: "The site's name in GOCDB.",
    example: "EXAMPLE-T2",
    kapel: true,
  }),
  SUBMIT_HOST: parsedBy(apelText(255)).register(about, {
    meaning:
      "A name for the cluster that is unique in the site, such as `host:port/namespace` (the Gratia probe drops names with a port).",
    example: "k8s.example.org/atlas-jobs",
    kapel: true,
  }),
  VO_NAME: parsedBy(apelText(255)).register(about, {
    meaning: "The virtual organisation of the jobs; with VO_LABEL, of the pods that do not carry that label.",
    example: "atlas",
    kapel: true,
  }),
  VO_LABEL: parsedBy(parseVoLabel).optional().register(about, {
    meaning:
      "A pod label whose value is the job's VO; it splits a namespace. kube-state-metrics must export it (`--metric-labels-allowlist=pods=[...]`).",
    example: "example.org/vo",
    otherwise: "all jobs belong to VO_NAME",
  }),
  INFRASTRUCTURE_TYPE: parsedBy(apelText(20)).register(about, {
    meaning: "APEL's InfrastructureType, at most 20 characters.",
    example: "grid",
    default: "grid",
    kapel: true,
  }),
  INFRASTRUCTURE_DESCRIPTION: parsedBy(apelText(100)).register(about, {
    meaning: "Taken and checked for KAPEL's sake; the messages hold no such field.",
    example: "APEL-KUBERNETES",
    default: "APEL-KUBERNETES",
    kapel: true,
  }),
  NODECOUNT: parsedBy(wholeNumber(0, INT32)).register(about, {
    meaning: "APEL's NodeCount.",
    example: "0",
    default: "0",
    unit: "nodes",
    kapel: true,
  }),
  PROCESSORS: parsedBy(wholeNumber(0, INT32)).register(about, {
    meaning:
      "APEL's Processors in summaries of the core-seconds model. In individual records, where it is greater than 0, also the cores of pods without a CPU request.",
    example: "0",
    default: "0",
    unit: "cores",
    kapel: true,
  }),
  BENCHMARK_VALUE: parsedBy(decimal(0.001, 10_000)).optional().register(about, {
    meaning: "Benchmark of one core, in HS06 or HEPscore23. For si2k it is multiplied by 250, as KAPEL does.",
    example: "15.0",
    otherwise: "mandatory for every format but `individual-0.3`",
    unit: "HS06 or HEPscore23 per core",
    kapel: true,
  }),
  BENCHMARK_TYPE: parsedBy(oneOf("si2k", "hepspec", "hepscore23")).register(about, {
    meaning: "What the benchmark is called in the messages: `si2k` (HS06 x 250), `hepspec` or `hepscore23`.",
    example: "hepscore23",
    default: "si2k",
  }),
  SUMMARIZE_RECORDS: parsedBy(boolean).optional().register(about, {
    meaning: "True publishes monthly summaries, False one record per job. MESSAGE_FORMAT says the same more exactly.",
    example: "True",
    otherwise: "True, or what MESSAGE_FORMAT says",
    kapel: true,
  }),
  MESSAGE_FORMAT: parsedBy(oneOf("summary-0.2", "summary-0.4", "normalised-0.4", "individual-0.3", "individual-0.4"))
    .optional()
    .register(about, {
      meaning:
        "The APEL message: `summary-0.2`, `summary-0.4`, `normalised-0.4`, `individual-0.3` or `individual-0.4`. All tenants of one site publish the same kind.",
      example: "summary-0.4",
      otherwise: "`summary-0.2`; `individual-0.3` with SUMMARIZE_RECORDS=False",
    }),
  ACCOUNTING_MODEL: parsedBy(oneOf("core-seconds", "wallclock")).optional().register(about, {
    meaning:
      "`core-seconds`: durations are multiplied by the cores, as in KAPEL. `wallclock`: plain durations, one record per number of cores, measured CPU time.",
    example: "wallclock",
    otherwise: "`core-seconds`; `wallclock` for individual records. Both as in KAPEL",
  }),
  DEFAULT_CORES: parsedBy(milliCores).optional().register(about, {
    meaning: "Cores of pods of which no container requests CPU.",
    example: "1",
    otherwise: "such pods are left out, and counted as left out (individual records: PROCESSORS, if greater than 0)",
    unit: "cores, at most 3 decimals",
  }),
  SETTLE: parsedBy(duration(300, 14 * 86_400)).register(about, {
    meaning: "How long kube-state-metrics must have been seen after a day's end before the day counts as settled.",
    example: "6h",
    default: "6h",
    unit: "Prometheus duration",
  }),
  ACCOUNTING_SINCE: parsedBy(utcDay).optional().register(about, {
    meaning: "First day of accounting, for a cluster younger than the month; earlier days are not asked for.",
    example: "2024-03-01",
    otherwise: "all days of a month are asked for",
    unit: "UTC day, yyyy-mm-dd",
  }),
});

/** Settings of sending to APEL's messaging service (AMS); only what sends reads them. */
export const amsSettings = z.object({
  AMS_HOST: parsedBy(parseHost).register(about, {
    meaning: "Host of APEL's messaging service: `msg.argo.grnet.gr`; for test data `msg-devel.argo.grnet.gr`.",
    example: "msg.argo.grnet.gr",
    otherwise: "mandatory for sending",
    option: "--ams-host",
  }),
  AMS_PORT: parsedBy(wholeNumber(1, 65_535)).register(about, {
    meaning: "Its port.",
    example: "443",
    default: "443",
    option: "--ams-port",
  }),
  AMS_AUTHN_PORT: parsedBy(wholeNumber(1, 65_535)).register(about, {
    meaning: "Port on the same host that gives a token for a certificate.",
    example: "8443",
    default: "8443",
    option: "--ams-authn-port",
  }),
  AMS_PROJECT: parsedBy(amsName).register(about, {
    meaning: "Project of the messaging service.",
    example: "accounting",
    default: "accounting",
    option: "--ams-project",
  }),
  AMS_TOPIC: parsedBy(amsName).register(about, {
    meaning: "Topic of the messaging service.",
    example: "gLite-APEL",
    default: "gLite-APEL",
    option: "--ams-topic",
  }),
  AMS_CERTIFICATE: fileName.register(about, {
    meaning:
      "PEM file with the certificate whose name GOCDB holds for the site's endpoint of the type gLite-APEL; a chain may follow it, and is not sent.",
    example: "/etc/grid-security/hostcert.pem",
    otherwise: "mandatory for sending",
    option: "--ams-certificate",
  }),
  AMS_KEY: fileName.register(about, {
    meaning: "PEM file with its private key, RSA or EC, not encrypted.",
    example: "/etc/grid-security/hostkey.pem",
    otherwise: "mandatory for sending",
    option: "--ams-key",
  }),
  AMS_TOKEN_FILE: fileName.optional().register(about, {
    meaning: "File with a token for the messaging service, where its operators gave you one.",
    example: "/etc/gridmeter/ams-token",
    otherwise: "the certificate gets a token",
    option: "--ams-token-file",
  }),
  AMS_CA_FILE: fileName.optional().register(about, {
    meaning: "PEM file with the certificates of further authorities to trust.",
    example: "/etc/ssl/certs/grid-ca.pem",
    otherwise: "only Node's built-in authorities",
    option: "--ams-ca-file",
  }),
});

/** Those that say where AMS is; a function has certificate and key another way. */
export const amsPlaceSettings = amsSettings.pick({
  AMS_HOST: true,
  AMS_PORT: true,
  AMS_AUTHN_PORT: true,
  AMS_PROJECT: true,
  AMS_TOPIC: true,
});

export type TenantValues = z.output<typeof tenantSettings>;

/** All settings by name, with what a person reads about them, in the order of the documentation. */
export const ABOUT: ReadonlyMap<string, About> = new Map(
  Object.entries({ ...runSettings.shape, ...tenantSettings.shape, ...amsSettings.shape }).flatMap(([name, schema]) => {
    const entry = about.get(schema);
    return entry === undefined ? [] : [[name, entry] as const];
  }),
);
