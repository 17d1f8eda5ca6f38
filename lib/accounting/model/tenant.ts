import { type BenchmarkType, isNull } from "../apel/values.ts";

export type MessageFormat = "summary-0.2" | "summary-0.4" | "normalised-0.4" | "individual-0.3" | "individual-0.4";
/** `value` has at most 3 decimals (APEL: ServiceLevel is DECIMAL(10,3)). */
export type ServiceLevel = { readonly type: BenchmarkType; readonly value: number };

/** Durations are either multiplied by the cores here (`core-seconds`, as in KAPEL), or by Processors at APEL (`wallclock`). */
type AccountingModel = "core-seconds" | "wallclock";

/** Which pods are a tenant's, and how Prometheus labels them. */
export type Selection = {
  readonly namespace: string;
  /** PROMETHEUS_LABELS as PromQL matchers, e.g. `cluster="prod"`; sorted, so that the ledger's fingerprint does not depend on their order */
  readonly matchers: readonly string[];
  /** PROMETHEUS_LABEL_PREFIX, "" or e.g. "exported_" */
  readonly labelPrefix: string;
  /** the label of `kube_pod_labels` that holds the VO, e.g. `label_vo` */
  readonly voLabel?: string;
  /** MONITORING_SELECTOR, a PromQL selector whose value is 1 where monitoring worked */
  readonly monitoringSelector?: string;
};

/** One tenant: what is counted, and how it is published. */
export type Tenant = {
  /** unique within a configuration */
  readonly name: string;
  /** the address of its Prometheus; it tells clusters apart that have a namespace of the same name */
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
  /** DEFAULT_CORES in milli-cores: the size of pods of which no container requests CPU */
  readonly defaultMilliCores?: number;
  /** SETTLE, seconds */
  readonly settle: number;
  /** ACCOUNTING_SINCE, a UTC day yyyy-mm-dd: earlier days are not asked for */
  readonly since?: string;
};

/**
 * The VO that a pod's label names, or null if it names none. As at APEL, `none` and `null` (in upper or lower case) and blank
 * texts name none, and spaces around a name do not count.
 */
export function voOfLabel(label: string | null | undefined): string | null {
  const name = label?.trim() ?? "";
  return isNull(name) ? null : name;
}

/** The VO of jobs with that label: VO_NAME if it names none. */
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

/** Whether a tenant publishes a record for each job. */
export function isIndividual({ format }: Pick<Tenant, "format">): boolean {
  return format === "individual-0.3" || format === "individual-0.4";
}
