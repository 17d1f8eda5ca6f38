/** Benchmarks APEL knows. `si2k` is HS06 x 250, and only si2k is divided by 250 by the server. */
export type BenchmarkType = "si2k" | "hepspec" | "hepscore23";

export type MessageFormat = "summary-0.2" | "summary-0.4" | "normalised-0.4" | "individual-0.3" | "individual-0.4";
/** `value` has at most 3 decimals (APEL: ServiceLevel is DECIMAL(10,3)). */
export type ServiceLevel = { readonly type: BenchmarkType; readonly value: number };

/** `core-seconds` as KAPEL (durations already multiplied by cores), or `wallclock` (APEL multiplies by Processors). */
export type AccountingModel = "core-seconds" | "wallclock";

/** Which pods are a tenant's: the namespace and the extra label matchers that distinguish clusters. */
export type Selection = {
  readonly namespace: string;
  /** PROMETHEUS_LABELS as PromQL matchers, e.g. `cluster="prod"`; sorted, so that their order changes no fingerprint */
  readonly matchers: readonly string[];
  /** PROMETHEUS_LABEL_PREFIX, "" or e.g. "exported_" */
  readonly labelPrefix: string;
  /** name of the `kube_pod_labels` label that names the VO, e.g. `label_vo` */
  readonly voLabel?: string;
  /** MONITORING_SELECTOR, a PromQL selector whose value is 1 where monitoring worked */
  readonly monitoringSelector?: string;
};

/** One tenant: what is counted, and how it is published. Names are unique within a configuration. */
export type Tenant = {
  readonly name: string;
  /** address of its Prometheus: two clusters may have the same namespace, and their days must never be taken for each other's */
  readonly server?: string;
  readonly selection: Selection;
  readonly site: string;
  readonly submitHost: string;
  /** VO of pods without a VO label */
  readonly vo: string;
  readonly infrastructureType: string;
  readonly nodeCount: number;
  readonly processors: number;
  readonly model: AccountingModel;
  readonly format: MessageFormat;
  /** si2k already multiplied by 250; absent only with individual-0.3 */
  readonly serviceLevel?: ServiceLevel;
  /** DEFAULT_CORES in milli-cores, for pods of which no container requests CPU */
  readonly defaultMilliCores?: number;
  /** SETTLE, seconds */
  readonly settle: number;
  /** ACCOUNTING_SINCE, a UTC day yyyy-mm-dd: earlier days are not asked for */
  readonly since?: string;
};

/**
 * The VO that a pod's label names, or null where it names none: APEL reads `none`, `null` (in any case of letters), the empty
 * text and blanks as nothing, and drops spaces around a name.
 */
export function voOfLabel(label: string | null | undefined): string | null {
  const name = label?.trim() ?? "";
  return isNull(name) ? null : name;
}

/** The VO of jobs with that label: VO_NAME where it names none. */
export function voOf(label: string | null | undefined, { vo }: Pick<Tenant, "vo">): string {
  return voOfLabel(label) ?? vo;
}

/** The unit of publishing (accounting-rules: APEL's keys and the sync record span tenants). */
export type Unit = {
  readonly site: string;
  readonly submitHost: string;
  /** yyyy-mm */
  readonly month: string;
};

/** How messages and logs call a unit. */
export const unitName = ({ site, submitHost, month }: Unit): string => `${site} ${submitHost} ${month}`;

/** Whether a tenant publishes single jobs. */
export function isIndividual({ format }: Pick<Tenant, "format">): boolean {
  return format === "individual-0.3" || format === "individual-0.4";
}

/** APEL: `none`, `null` and the empty string read as null, in any case of letters. */
export function isNull(value: string | undefined): boolean {
  return value === undefined || ["", "none", "null"].includes(value.toLowerCase());
}
