import type { Only, UidPrefixes } from "../model/monitoring.ts";
import type { Selection } from "../model/tenant.ts";

/**
 * One of the two ways in which the labels of a pod are spelled (accounting-rules: Two spellings). Prometheus without
 * `honor_labels: true` renames the labels that its scrape target has itself: namespace, pod and container of kube-state-metrics
 * get a prefix, uid and node only where the target has such labels too.
 */
export type Spelling = {
  /** "" or e.g. "exported_" */
  readonly prefix: string;
  /** select the tenant's namespace in this spelling; no series matches both spellings */
  readonly namespace: readonly string[];
};

/** Both spellings, the plain one first: each is a question of its own, since one question for both costs a quarter more. */
export function spellings(selection: Selection): readonly Spelling[] {
  const prefix = renamedPrefix(selection);
  const namespace = quote(selection.namespace);
  return [
    // A filled prefixed label means that the plain one names the namespace of kube-state-metrics itself.
    { prefix: "", namespace: [`namespace=${namespace}`, `${prefix}namespace=""`] },
    { prefix, namespace: [`${prefix}namespace=${namespace}`] },
  ];
}

/** The prefix of renamed labels: PROMETHEUS_LABEL_PREFIX, else the one that Prometheus itself writes. */
export function renamedPrefix({ labelPrefix }: Selection): string {
  return labelPrefix === "" ? "exported_" : labelPrefix;
}

type PodLabel = "namespace" | "pod" | "container" | "uid" | "node";

/** The labels under which a pod's label may be found, the best first: a query that groups by it names them all. */
export function labelsOf(label: PodLabel, { prefix }: Pick<Spelling, "prefix">): readonly string[] {
  return prefix === "" ? [label] : [`${prefix}${label}`, label];
}

/** The value of a pod's label in a sample: the renamed label where it is filled, else the plain one; "" if there is none. */
export function labelValue(
  labels: Readonly<Record<string, string>>,
  label: PodLabel,
  spelling: Pick<Spelling, "prefix">,
): string {
  for (const name of labelsOf(label, spelling)) {
    const value = labels[name] ?? "";
    if (value !== "") return value;
  }
  return "";
}

/** How kube-state-metrics' own pod is named: two patterns that Prometheus looks up without trying each as a regular expression. */
const OWN_NAMES = [".*kube-state-metrics.*", "ksm-.*"];

/** Matchers of kube-state-metrics' own pod, under either name and in either spelling. */
export function ownPods(selection: Selection): readonly (readonly string[])[] {
  const renamed = `${renamedPrefix(selection)}pod`;
  return OWN_NAMES.flatMap((name) => [
    // Without honor_labels every series has the name of kube-state-metrics' pod in its plain label.
    [`pod=~"${name}"`, `${renamed}=""`],
    [`${renamed}=~"${name}"`],
  ]);
}

/** Selectors of a kube_* metric of the tenant's pods; two disjoint ones where the uid asked for has two places. */
export function podSelectors(
  metric: string,
  selection: Selection,
  spelling: Spelling,
  uids: UidPattern | undefined,
  extra: readonly string[] = [],
): readonly string[] {
  const common = [...spelling.namespace, ...selection.matchers, ...extra];
  if (uids === undefined) return [selector(metric, common)];
  const wanted = quote(uids.pattern);
  const { prefix } = spelling;
  if (prefix === "") return [selector(metric, [...common, `uid=~${wanted}`])];
  return [
    selector(metric, [...common, `${prefix}uid=~${wanted}`]),
    selector(metric, [...common, `${prefix}uid=""`, `uid=~${wanted}`]),
  ];
}

/** A regular expression for the uids asked for. */
type UidPattern = { readonly pattern: string };

/** The uids of the pods asked for; all of them if undefined. */
export function uidPattern(only: Only | undefined): UidPattern | undefined {
  if (only === undefined) return undefined;
  return "uids" in only ? oneOf(only.uids) : { pattern: `${anyOf(only.prefixes)}.*` };
}

/** These uids only. Without any sign around them Prometheus looks them up one by one, instead of trying every uid it has. */
export function oneOf(uids: readonly string[]): UidPattern {
  return { pattern: alternatives(uids) };
}

/**
 * Selectors of a container_* metric of the tenant's containers: neither the copies of whole pods (`container=""`) nor
 * pause containers (`POD`). A renamed container label is used where it is filled.
 */
export function containerSelectors(
  metric: string,
  selection: Selection,
  { prefix, namespace }: Spelling,
  only: Only | undefined,
): readonly string[] {
  const common = [...namespace, ...selection.matchers, only === undefined ? "" : `id=~${quote(idPattern(only))}`];
  const containers = (label: string): readonly string[] => [`${label}!=""`, `${label}!="POD"`];
  if (prefix === "") return [selector(metric, [...common, ...containers("container")])];
  const renamed = `${prefix}container`;
  return [
    selector(metric, [...common, ...containers(renamed)]),
    // Here `container` may be the target's own; the id says whether it is a container or a whole pod.
    selector(metric, [
      ...common,
      `${renamed}=""`,
      ...containers("container"),
      `id=~".+pod[0-9a-f][0-9a-f_-]+(?:[.]slice)?[/:][^/]+"`,
    ]),
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

/**
 * A text as a PromQL string: double-quoted, so that no label value can end it. Backslash, quote and line break are
 * escaped; other control characters have Go's escapes, which PromQL shares.
 */
export function quote(text: string): string {
  let out = "";
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    if (char === "\\" || char === '"') out += `\\${char}`;
    else if (char === "\n") out += "\\n";
    else if (code < 0x20 || code === 0x7f) out += `\\x${code.toString(16).padStart(2, "0")}`;
    else out += char;
  }
  return `"${out}"`;
}

/** A selector out of matchers such as `a="b"`; empty ones are left out. */
export function selector(metric: string, matchers: readonly string[]): string {
  return `${metric}{${matchers.filter((matcher) => matcher !== "").join(",")}}`;
}

/** `fn` over the last `seconds` of each selector, all of them together. Selectors are disjoint, so `or` adds nothing up. */
export function overTime(
  fn: "max_over_time" | "last_over_time",
  selectors: readonly string[],
  seconds: number,
): string {
  return selectors.map((each) => `${fn}(${each}[${seconds}s])`).join(" or ");
}

/**
 * Labels that may hold a pod's uid, the likeliest first. Beside a renamed one, the plain one is the uid of the target
 * itself.
 */
export function uidLabels(selection: Selection): readonly string[] {
  const renamed = `${renamedPrefix(selection)}uid`;
  return selection.labelPrefix === "" ? ["uid", renamed] : [renamed, "uid"];
}

/** The selection narrowed to a part of its pods. @param matchers those of the part */
export function narrowedTo(selection: Selection, matchers: readonly string[]): Selection {
  return { ...selection, matchers: [...selection.matchers, ...matchers] };
}
