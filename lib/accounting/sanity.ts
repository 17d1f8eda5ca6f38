import { GridmeterError } from "../errors.ts";
import { CELL } from "./ports.ts";
import type { Monitoring, Window } from "./ports.ts";
import type { Tenant } from "./tenant.ts";

/** Names listed in a message; more are only counted. */
const LISTED = 20;

function list(names: readonly string[]): string {
  const more = names.length - LISTED;
  return names.slice(0, LISTED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function once(check: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  return () => (running ??= check());
}

/**
 * No pods at all is not the same as no jobs: a wrong namespace and renamed labels look alike. Asks, at most once, whether
 * the namespace is known.
 * @throws namespace_unknown, labels_exported
 */
export function checkNamespace(
  tenant: Tenant,
  monitoring: Monitoring,
  window: Window | undefined,
  known: boolean,
): () => Promise<void> {
  return once(async () => {
    if (known || window === undefined) return;
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
  });
}

function exported(found: string, prefix: string): GridmeterError {
  return new GridmeterError(
    "labels_exported",
    `${found}, where no query looks for it. ` +
      `Nothing was published. Set honor_labels: true where kube-state-metrics is scraped, or PROMETHEUS_LABEL_PREFIX=${prefix} here.`,
  );
}

/**
 * Pods were counted by their namespace: asks, at most once, whether it is their own, and not that of kube-state-metrics.
 * @throws labels_exported
 */
export function checkOwnLabels(tenant: Tenant, monitoring: Monitoring): (lastEnd: number) => Promise<void> {
  let running: Promise<void> | undefined;
  const look = async (lastEnd: number): Promise<void> => {
    const prefix = await monitoring.strayPrefix?.({ from: lastEnd - 2 * CELL, to: lastEnd });
    if (prefix === undefined) return;
    const { namespace } = tenant.selection;
    throw exported(
      `${tenant.name}: "${namespace}" is the namespace of kube-state-metrics, and that of a pod stands under the label ${prefix}namespace`,
      prefix,
    );
  };
  return (lastEnd) => (running ??= look(lastEnd));
}

/**
 * There are jobs but none has the VO label: asks, at most once, whether the label was ever seen.
 * @throws vo_label_missing (accounting-rules: a VO label that never appears in the data is an error, not the default VO)
 */
export function checkVoLabel(
  tenant: Tenant,
  monitoring: Monitoring,
  window: Window | undefined,
  known: boolean,
): () => Promise<void> {
  return once(async () => {
    const { voLabel } = tenant.selection;
    if (known || window === undefined || voLabel === undefined || (await monitoring.voLabelSeen(window))) return;
    throw new GridmeterError(
      "vo_label_missing",
      `${tenant.name}: no pod of namespace "${tenant.selection.namespace}" has the label ${voLabel} in kube_pod_labels. Nothing was published. ` +
        "Add the label to kube-state-metrics' --metric-labels-allowlist=pods=[...], or remove VO_LABEL.",
    );
  });
}

/** Jobs lack the VO label: looks, at most once, whether kube-state-metrics has split it in two, and gives the warning. */
export function voLabelWarning(
  tenant: Tenant,
  monitoring: Monitoring,
  window: Window | undefined,
): () => Promise<string | undefined> {
  let running: Promise<string | undefined> | undefined;
  const look = async (): Promise<string | undefined> => {
    const { voLabel } = tenant.selection;
    if (voLabel === undefined || window === undefined) return undefined;
    const pods = await monitoring.voLabelSplit(window);
    if (pods === 0) return undefined;
    return (
      `${tenant.name}: ${pods} pods have the label ${voLabel} only as ${voLabel}_conflict1, so they count for VO_NAME. ` +
      "Two labels of these pods have the same name in Prometheus (such as example.org/vo and example_org/vo): remove one of them."
    );
  };
  return () => (running ??= look());
}
