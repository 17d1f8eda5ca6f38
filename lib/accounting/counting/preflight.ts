import { GridmeterError } from "../../shared/errors.ts";
import { greatest } from "../../shared/lists.ts";
import { CELL, type Monitoring, type Window } from "../model/monitoring.ts";
import type { Tenant } from "../model/tenant.ts";
import type { CountedPiece } from "./count-piece.ts";
import type { DayUsage } from "./usage.ts";

/** What is known before any piece is counted. */
type Asked = {
  /** the days in the ledger */
  readonly known: readonly DayUsage[];
  /** all months of the run, so that a daily run refuses what a run over all days would refuse; undefined if nothing is asked */
  readonly months: Window | undefined;
  /** the days that are asked for, and some time around them */
  readonly window: Window | undefined;
};

/**
 * Checks a tenant's settings against the monitoring, before anything is published: a wrong NAMESPACE, VO_LABEL or label prefix
 * looks just like a month without jobs. Each check asks at most once, and only if a piece gives reason to.
 */
export class Preflight {
  /** a warning for each month of the run */
  warning: string | undefined;
  readonly #checkNamespace: () => Promise<void>;
  readonly #checkLabels: (lastEnd: number) => Promise<void>;
  readonly #checkVoLabel: () => Promise<void>;
  readonly #voLabelWarning: () => Promise<string | undefined>;

  constructor(tenant: Tenant, monitoring: Monitoring, { known, months, window }: Asked) {
    const groups = known.flatMap((day) => day.groups);
    this.#checkNamespace = once(async () => {
      if (months !== undefined && groups.length === 0) await checkNamespace(tenant, monitoring, months);
    });
    this.#checkLabels = once((lastEnd) => checkLabels(tenant, monitoring, lastEnd));
    this.#checkVoLabel = once(async () => {
      if (months !== undefined && groups.every(({ vo }) => vo === null)) await checkVoLabel(tenant, monitoring, months);
    });
    this.#voLabelWarning = once(async () =>
      window === undefined ? undefined : voLabelWarning(tenant, monitoring, window),
    );
  }

  /** @throws namespace_unknown, labels_exported, vo_label_missing */
  async check({ isEmpty, days }: CountedPiece): Promise<void> {
    const groups = days.flatMap(({ usage }) => usage.groups);
    if (isEmpty) await this.#checkNamespace();
    if (groups.length === 0) return;
    await this.#checkLabels(greatest(groups.map(({ lastEnd }) => lastEnd)));
    if (groups.every(({ vo }) => vo === null)) await this.#checkVoLabel();
    if (groups.some(({ vo }) => vo === null)) this.warning = await this.#voLabelWarning();
  }
}

/** The same check, made once: later calls have its result or its error. */
function once<Args extends readonly unknown[], T>(check: (...args: Args) => Promise<T>): (...args: Args) => Promise<T> {
  let made: Promise<T> | undefined;
  return (...args) => (made ??= check(...args));
}

/** No pod was found: is the namespace known at all? */
async function checkNamespace(tenant: Tenant, monitoring: Monitoring, window: Window): Promise<void> {
  const { namespace } = tenant.selection;
  const { names, prefixes } = await monitoring.namespaces(window);
  if (names.includes(namespace)) return;
  const [prefix] = prefixes;
  if (prefix !== undefined)
    throw exported(`${tenant.name}: namespace "${namespace}" is found under the label ${prefix}namespace`, prefix);
  throw new GridmeterError(
    "namespace_unknown",
    `${tenant.name}: Prometheus knows no namespace "${namespace}" in this period. Nothing was published. ` +
      `Correct NAMESPACE (or PROMETHEUS_LABELS); known are: ${names.length === 0 ? "none" : list(names)}.`,
  );
}

/** Names listed in a message; more are only counted. */
const LISTED = 20;

function list(names: readonly string[]): string {
  const more = names.length - LISTED;
  return names.slice(0, LISTED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function exported(found: string, prefix: string): GridmeterError {
  return new GridmeterError(
    "labels_exported",
    `${found}, where no query looks for it. ` +
      `Nothing was published. Set honor_labels: true where kube-state-metrics is scraped, or PROMETHEUS_LABEL_PREFIX=${prefix} here.`,
  );
}

/** Jobs were found: is the label `namespace` that of their pods, or that of kube-state-metrics? */
async function checkLabels(tenant: Tenant, monitoring: Monitoring, lastEnd: number): Promise<void> {
  const prefix = await monitoring.strayPrefix?.({ from: lastEnd - 2 * CELL, to: lastEnd });
  if (prefix === undefined) return;
  const { namespace } = tenant.selection;
  throw exported(
    `${tenant.name}: "${namespace}" is the namespace of kube-state-metrics, and that of a pod is under the label ${prefix}namespace`,
    prefix,
  );
}

/** No job has the VO label: was it ever seen? (accounting-rules: a VO label that never appears in the data is an error) */
async function checkVoLabel(tenant: Tenant, monitoring: Monitoring, window: Window): Promise<void> {
  const { voLabel, namespace } = tenant.selection;
  if (voLabel === undefined || (await monitoring.voLabelSeen(window))) return;
  throw new GridmeterError(
    "vo_label_missing",
    `${tenant.name}: no pod of namespace "${namespace}" has the label ${voLabel} in kube_pod_labels. Nothing was published. ` +
      "Add the label to kube-state-metrics' --metric-labels-allowlist=pods=[...], or remove VO_LABEL.",
  );
}

/** Some jobs lack the VO label: has kube-state-metrics renamed it, because two labels of a pod have the same name in Prometheus? */
async function voLabelWarning(tenant: Tenant, monitoring: Monitoring, window: Window): Promise<string | undefined> {
  const { voLabel } = tenant.selection;
  if (voLabel === undefined) return undefined;
  const pods = await monitoring.voLabelSplit(window);
  if (pods === 0) return undefined;
  return (
    `${tenant.name}: ${pods} pods have the label ${voLabel} only as ${voLabel}_conflict1, so they count for VO_NAME. ` +
    "Two labels of these pods have the same name in Prometheus (such as example.org/vo and example_org/vo): remove one of them."
  );
}
