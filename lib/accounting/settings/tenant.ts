import { type Raw, threeDecimals } from "../../shared/config-values.ts";
import { isInTheClear } from "../../shared/text.ts";
import type { MessageFormat, ServiceLevel, Tenant } from "../model/tenant.ts";
import { workspaceRegion } from "../prometheus/auth.ts";
import type { Connection } from "../prometheus/client.ts";
import type { Problem } from "../../shared/config-problems.ts";
import { hint, quoted, readSettings } from "./problems.ts";
import { type TenantValues, tenantSettings } from "./table.ts";

const partialSettings = tenantSettings.partial();
type PartialValues = Partial<{ [Name in keyof TenantValues]: TenantValues[Name] | undefined }>;

/** What is known of a tenant, be it whole (`made`) or not, for the checks that look at all tenants together. */
type ParsedTenant = {
  readonly name: string;
  readonly values: PartialValues;
  readonly format: MessageFormat | undefined;
  readonly made?: { readonly tenant: Tenant; readonly connection: Connection };
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
};

/** Reads one tenant. Without a name it is called like its namespace. */
export function parseTenant(givenName: string | undefined, raw: Raw): ParsedTenant {
  const { full, part, problems: wrong } = readSettings(tenantSettings, partialSettings, raw);
  const name = givenName ?? part.NAMESPACE ?? "default";
  const failed = new Set(wrong.map(({ setting }) => setting));
  const format = failed.has("MESSAGE_FORMAT") || failed.has("SUMMARIZE_RECORDS") ? undefined : formatOf(part);
  const problems = [...wrong, ...contradictions(part, raw, format, failed)].map((problem) => ({
    ...problem,
    tenant: name,
  }));
  const warnings = doubts(part, raw, format).map((warning) => ({ ...warning, tenant: name }));
  const parsed = { name, values: part, format, problems, warnings };
  return full === undefined || format === undefined || problems.length > 0
    ? parsed
    : { ...parsed, made: { tenant: tenantFrom(name, full, format), connection: connectionFrom(full) } };
}

function formatOf(values: PartialValues): MessageFormat {
  return values.MESSAGE_FORMAT ?? (values.SUMMARIZE_RECORDS === false ? "individual-0.3" : "summary-0.2");
}

function isIndividual(format: MessageFormat | undefined): boolean {
  return format === "individual-0.3" || format === "individual-0.4";
}

function contradictions(
  values: PartialValues,
  raw: Raw,
  format: MessageFormat | undefined,
  failed: ReadonlySet<string>,
): Problem[] {
  const problems: Problem[] = [];
  const summarize = values.SUMMARIZE_RECORDS;
  if (format !== undefined && summarize !== undefined && summarize === isIndividual(format)) {
    problems.push({
      setting: "SUMMARIZE_RECORDS",
      quoted: quoted("SUMMARIZE_RECORDS", raw["SUMMARIZE_RECORDS"] ?? ""),
      text: `contradicts MESSAGE_FORMAT=${format}. Leave one of the two out`,
    });
  }
  // APEL: ServiceLevel is NOT NULL in summaries, and an individual v0.4 record without it stops the central loader.
  const needsBenchmark = format !== undefined && format !== "individual-0.3";
  if (needsBenchmark && values.BENCHMARK_VALUE === undefined && !failed.has("BENCHMARK_VALUE")) {
    problems.push({
      setting: "BENCHMARK_VALUE",
      text: `is not set, but ${format} messages need it. ${hint("BENCHMARK_VALUE")}`,
    });
  }
  const credentials = [
    ...authorizationsOf(values),
    ...(values.PROMETHEUS_SIGV4_REGION === undefined ? [] : ["PROMETHEUS_SIGV4_REGION"]),
    ...(values.PROMETHEUS_SIGV4_REGION === undefined && addressRegion(values) !== undefined
      ? ["an address of Amazon, which takes only signed requests"]
      : []),
  ];
  if (credentials.length > 1) {
    problems.push({
      setting: "PROMETHEUS_AUTH_HEADER",
      text: `only one Authorization header can be sent, but there are ${credentials.join(" and ")}. Keep one of them`,
    });
  }
  const [addressed, region] = [addressRegion(values), values.PROMETHEUS_SIGV4_REGION];
  if (region !== undefined && addressed !== undefined && addressed !== region) {
    problems.push({
      setting: "PROMETHEUS_SIGV4_REGION",
      quoted: quoted("PROMETHEUS_SIGV4_REGION", region),
      text: `contradicts the region ${addressed} in PROMETHEUS_SERVER, where every request would be refused. Leave it out`,
    });
  }
  return problems;
}

const IN_ADDRESS = "credentials in PROMETHEUS_SERVER";

/** What would be sent as it is in the Authorization header. */
function authorizationsOf(values: PartialValues): readonly string[] {
  return [
    ...(values.PROMETHEUS_SERVER?.authHeader === undefined ? [] : [IN_ADDRESS]),
    ...(values.PROMETHEUS_AUTH_HEADER === undefined ? [] : ["PROMETHEUS_AUTH_HEADER"]),
    ...(values.PROMETHEUS_TOKEN_FILE === undefined ? [] : ["PROMETHEUS_TOKEN_FILE"]),
  ];
}

function addressRegion({ PROMETHEUS_SERVER: server }: PartialValues): string | undefined {
  return server === undefined ? undefined : workspaceRegion(server.url);
}

/** What is allowed and yet seldom meant. */
function doubts(values: PartialValues, raw: Raw, format: MessageFormat | undefined): Problem[] {
  const warnings: Problem[] = [];
  const warn = (setting: string, text: string): void => {
    warnings.push({ setting, quoted: quoted(setting, raw[setting]?.trim() ?? ""), text });
  };
  if (isIndividual(format) && /:\d/.test(values.SUBMIT_HOST ?? "")) {
    warn("SUBMIT_HOST", "holds a port; the Gratia probe drops individual records whose submit host has one");
  }
  if (format === "individual-0.3" && values.BENCHMARK_VALUE === undefined) {
    warnings.push({
      setting: "BENCHMARK_VALUE",
      text: "is not set; APEL rejects such individual records, only Gratia takes them",
    });
  }
  if ((values.BENCHMARK_VALUE ?? 0) > 100) {
    warn(
      "BENCHMARK_VALUE",
      "is more than any core reaches; it is the benchmark of one core, in HS06 or HEPscore23, not in si2k",
    );
  }
  if (values.ACCOUNTING_MODEL === "wallclock" && (values.PROCESSORS ?? 0) > 0 && !isIndividual(format)) {
    warn(
      "PROCESSORS",
      "has no effect with ACCOUNTING_MODEL=wallclock, where every job's own number of cores is published",
    );
  }
  if (values.VO_LABEL?.startsWith("label_label_") === true) {
    warn("VO_LABEL", "begins with label; write the name of the pod's own label, not that of kube_pod_labels");
  }
  const sent = authorizationsOf(values);
  if (
    sent.length > 0 &&
    values.PROMETHEUS_SERVER !== undefined &&
    isInTheClear(new URL(values.PROMETHEUS_SERVER.url))
  ) {
    const which = sent.map((each) => (each === IN_ADDRESS ? "the credentials in it" : each)).join(" and ");
    warn(
      "PROMETHEUS_SERVER",
      `is not https, so ${which} can be read on the way by anyone who reads the network. Write https://`,
    );
  }
  const tls = ["PROMETHEUS_CA_FILE", "PROMETHEUS_CLIENT_CERT_FILE"] as const;
  for (const setting of values.PROMETHEUS_SERVER?.url.startsWith("http:") === true ? tls : []) {
    if (values[setting] !== undefined) warn(setting, "has no effect, since PROMETHEUS_SERVER is not https");
  }
  return warnings;
}

function tenantFrom(name: string, values: TenantValues, format: MessageFormat): Tenant {
  const serviceLevel = serviceLevelFrom(values);
  // KAPEL: in individual mode a pod without a CPU request has PROCESSORS cores.
  const inherited = isIndividual(format) && values.PROCESSORS > 0 ? values.PROCESSORS * 1000 : undefined;
  const defaultMilliCores = values.DEFAULT_CORES ?? inherited;
  return {
    name,
    server: sourceOf(values),
    selection: {
      namespace: values.NAMESPACE,
      matchers: values.PROMETHEUS_LABELS ?? [],
      labelPrefix: values.PROMETHEUS_LABEL_PREFIX ?? "",
      ...(values.VO_LABEL === undefined ? {} : { voLabel: values.VO_LABEL }),
      ...(values.MONITORING_SELECTOR === undefined ? {} : { monitoringSelector: values.MONITORING_SELECTOR }),
    },
    site: values.SITE_NAME,
    submitHost: values.SUBMIT_HOST,
    vo: values.VO_NAME,
    infrastructureType: values.INFRASTRUCTURE_TYPE,
    nodeCount: values.NODECOUNT,
    processors: values.PROCESSORS,
    // KAPEL: a single job has its plain wall clock and its own cores; only summaries multiply.
    model: values.ACCOUNTING_MODEL ?? (isIndividual(format) ? "wallclock" : "core-seconds"),
    format,
    ...(serviceLevel === undefined ? {} : { serviceLevel }),
    ...(defaultMilliCores === undefined ? {} : { defaultMilliCores }),
    settle: values.SETTLE,
    ...(values.ACCOUNTING_SINCE === undefined ? {} : { since: values.ACCOUNTING_SINCE }),
  };
}

function serviceLevelFrom(values: TenantValues): ServiceLevel | undefined {
  if (values.BENCHMARK_VALUE === undefined) return undefined;
  const type = values.BENCHMARK_TYPE;
  // APEL: si2k = HS06 x 250, and only si2k is divided by 250 by the server.
  return { type, value: threeDecimals(type === "si2k" ? values.BENCHMARK_VALUE * 250 : values.BENCHMARK_VALUE) };
}

/** The address and, behind it, whose data: Mimir's tenants have nothing in common but the address. */
function sourceOf({
  PROMETHEUS_SERVER: server,
  PROMETHEUS_ORG_ID: orgId,
}: Pick<TenantValues, "PROMETHEUS_SERVER" | "PROMETHEUS_ORG_ID">): string {
  return orgId === undefined ? server.url : `${server.url} ${orgId}`;
}

function connectionFrom(values: TenantValues): Connection {
  const authHeader = values.PROMETHEUS_AUTH_HEADER ?? values.PROMETHEUS_SERVER.authHeader;
  const { PROMETHEUS_CLIENT_CERT_FILE: clientCertFile, PROMETHEUS_CLIENT_KEY_FILE: clientKeyFile } = values;
  const sigv4Region = values.PROMETHEUS_SIGV4_REGION ?? workspaceRegion(values.PROMETHEUS_SERVER.url);
  const orgId = values.PROMETHEUS_ORG_ID;
  return {
    url: values.PROMETHEUS_SERVER.url,
    ...(authHeader === undefined ? {} : { authHeader }),
    ...(values.PROMETHEUS_TOKEN_FILE === undefined ? {} : { tokenFile: values.PROMETHEUS_TOKEN_FILE }),
    ...(values.PROMETHEUS_CA_FILE === undefined ? {} : { caFile: values.PROMETHEUS_CA_FILE }),
    ...(clientCertFile === undefined ? {} : { clientCertFile }),
    ...(clientKeyFile === undefined ? {} : { clientKeyFile }),
    ...(sigv4Region === undefined ? {} : { sigv4Region }),
    ...(orgId === undefined ? {} : { orgId }),
    timeoutSeconds: values.QUERY_TIMEOUT,
    concurrency: values.QUERY_CONCURRENCY,
  };
}

/** What can only be seen with all tenants side by side: each of these would count jobs twice at APEL. */
export function checkTogether(tenants: readonly ParsedTenant[]): Problem[] {
  return tenants.flatMap((parsed, index) => {
    const earlier = tenants.slice(0, index);
    return [...samePods(parsed, earlier), ...otherFormat(parsed, earlier)];
  });
}

function samePods(parsed: ParsedTenant, earlier: readonly ParsedTenant[]): Problem[] {
  const { NAMESPACE: namespace, PROMETHEUS_SERVER: server } = parsed.values;
  if (namespace === undefined || server === undefined) return [];
  const twin = earlier.find((other) => selection(other) === selection(parsed));
  if (twin === undefined) return [];
  return [
    {
      setting: "NAMESPACE",
      tenant: parsed.name,
      quoted: JSON.stringify(namespace),
      text:
        `selects the same pods as the tenant ${JSON.stringify(twin.name)}, so every job would count twice. ` +
        "Give them different namespaces, PROMETHEUS_LABELS or servers, or split one tenant with VO_LABEL",
    },
  ];
}

function selection({ values }: ParsedTenant): string {
  const {
    NAMESPACE,
    PROMETHEUS_SERVER,
    PROMETHEUS_ORG_ID,
    PROMETHEUS_LABELS = [],
    PROMETHEUS_LABEL_PREFIX = "",
  } = values;
  const source = PROMETHEUS_SERVER === undefined ? "" : sourceOf({ PROMETHEUS_SERVER, PROMETHEUS_ORG_ID });
  return JSON.stringify([NAMESPACE, source, PROMETHEUS_LABELS, PROMETHEUS_LABEL_PREFIX]);
}

/** APEL: mixing message kinds for one site and month counts double; and a unit's tenants share its messages. */
function otherFormat(parsed: ParsedTenant, earlier: readonly ParsedTenant[]): Problem[] {
  const { format } = parsed;
  const site = parsed.values.SITE_NAME;
  if (format === undefined || site === undefined) return [];
  const other = earlier.find(
    (candidate) => candidate.values.SITE_NAME === site && candidate.format !== undefined && candidate.format !== format,
  );
  if (other === undefined) return [];
  return [
    {
      setting: "MESSAGE_FORMAT",
      tenant: parsed.name,
      quoted: JSON.stringify(format),
      text:
        `is the format for the site ${JSON.stringify(site)}, for which the tenant ${JSON.stringify(other.name)} publishes ` +
        `${other.format}; APEL would count the site twice. Use one format for all tenants of a site`,
    },
  ];
}
