import type { Only, UidPrefixes } from "../accounting/ports.ts";
import type { Selection } from "../accounting/tenant.ts";
import { quote, selector } from "./promql.ts";

/** Holds the pod's uid in queries where it may stand under two labels; no exporter has a label of this name. */
const FOUND_UID = "gridmeter_uid";

/** Under which labels a tenant's pods are found. */
export type PodLabels = {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  /** after `withUid` */
  readonly uid: string;
};

/**
 * honor_labels: false renames the labels that clash with the target's own: namespace, pod and container of
 * kube-state-metrics do, its uid only where the target has a uid too.
 */
export function podLabels({ labelPrefix }: Selection): PodLabels {
  return {
    namespace: `${labelPrefix}namespace`,
    pod: `${labelPrefix}pod`,
    container: `${labelPrefix}container`,
    uid: labelPrefix === "" ? "uid" : FOUND_UID,
  };
}

/** Selectors of a kube_* metric of the tenant's pods; two disjoint ones where the uid asked for has two places. */
export function podSelectors(
  metric: string,
  selection: Selection,
  uids: UidPattern | undefined,
  extra: readonly string[] = [],
): readonly string[] {
  const { labelPrefix, namespace, matchers } = selection;
  const common = [`${podLabels(selection).namespace}=${quote(namespace)}`, ...matchers, ...extra];
  if (uids === undefined) return [selector(metric, common)];
  const wanted = quote(uids.pattern);
  if (labelPrefix === "") return [selector(metric, [...common, `uid=~${wanted}`])];
  return [
    selector(metric, [...common, `${labelPrefix}uid=~${wanted}`]),
    selector(metric, [...common, `${labelPrefix}uid=""`, `uid=~${wanted}`]),
  ];
}

/** A regular expression for the uids asked for. */
export type UidPattern = { readonly pattern: string };

/** The uids of the pods asked for; all of them if undefined. */
export function uidPattern(only: Only | undefined): UidPattern | undefined {
  if (only === undefined) return undefined;
  return "uids" in only ? oneOf(only.uids) : { pattern: `${anyOf(only.prefixes)}.*` };
}

/** These uids only. Without any sign around them Prometheus looks them up one by one, instead of trying every uid it has. */
export function oneOf(uids: readonly string[]): UidPattern {
  return { pattern: alternatives(uids) };
}

/** Puts the uid where `PodLabels.uid` says: the prefixed label where it is filled, else the plain one. */
export function withUid(expression: string, { labelPrefix }: Selection): string {
  if (labelPrefix === "") return expression;
  // A label of its own: writing over `uid` could make two copies of a series equal, which PromQL refuses.
  const plain = `label_replace(${expression}, "${FOUND_UID}", "$1", "uid", "(.*)")`;
  return `label_replace(${plain}, "${FOUND_UID}", "$1", "${labelPrefix}uid", "(.+)")`;
}

/**
 * Selectors of a container_* metric of the tenant's containers: neither the copies of whole pods (`container=""`) nor
 * pause containers (`POD`). cAdvisor's job often honours labels where that of kube-state-metrics does not, so with a
 * prefix each label is looked for in both places.
 */
export function containerSelectors(metric: string, selection: Selection, only: Only | undefined): readonly string[] {
  const { labelPrefix, namespace, matchers } = selection;
  const name = quote(namespace);
  const common = [...matchers, only === undefined ? "" : `id=~${quote(idPattern(only))}`];
  const containers = (label: string): readonly string[] => [`${label}!=""`, `${label}!="POD"`];
  if (labelPrefix === "") return [selector(metric, [`namespace=${name}`, ...common, ...containers("container")])];
  const prefixed = `${labelPrefix}container`;
  return [
    selector(metric, [`${labelPrefix}namespace=${name}`, ...common, ...containers(prefixed)]),
    selector(metric, [
      `${labelPrefix}namespace=${name}`,
      ...common,
      `${prefixed}=""`,
      ...containers("container"),
      // Here `container` may be the target's own; the id tells containers from whole pods.
      `id=~".+pod[^/]+/.+"`,
    ]),
    selector(metric, [`${labelPrefix}namespace=""`, `namespace=${name}`, ...common, ...containers("container")]),
  ];
}

/** cAdvisor's id holds `pod<uid>`; systemd's cgroup driver writes the uid's dashes as underscores. */
function idPattern(only: Only): string {
  return `.*[/-]pod${anyOf("uids" in only ? only.uids : only.prefixes).replaceAll("-", "[-_]")}.*`;
}

function anyOf(prefixes: UidPrefixes): string {
  return `(?:${alternatives(prefixes)})`;
}

function alternatives(texts: readonly string[]): string {
  return texts.map((text) => text.replace(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`)).join("|");
}
