import type { Fact, Row } from "../accounting/ports.ts";
import type { Selection } from "../accounting/tenant.ts";
import { GridmeterError } from "../errors.ts";
import type { Sample } from "./answer.ts";
import { podLabels } from "./labels.ts";
import { voLabel } from "./queries.ts";

/**
 * The pod's uid in a cAdvisor id, or undefined where there is none (a node's own slices).
 * cgroupfs: `/kubepods/burstable/pod<uid>/<container>`; systemd: `...-pod<uid with underscores>.slice/<container>.scope`.
 */
export function uidOfId(id: string): string | undefined {
  // The last one: a kubelet inside a pod of another kubelet has both in its path.
  const segment = id
    .split("/")
    .findLast((part) => /^pod[0-9a-f][0-9a-f-]+$|-pod[0-9a-f][0-9a-f_]+\.slice$/i.test(part));
  if (segment === undefined) return undefined;
  const systemd = /-pod(?<uid>.+)\.slice$/.exec(segment)?.groups?.["uid"];
  return systemd === undefined ? segment.slice("pod".length) : systemd.replaceAll("_", "-");
}

/** Rows by uid and part. */
export type Rows = Map<string, Row>;

/**
 * Takes samples of `factQuery(fact)` one by one into rows, one a uid (`cpu` and `memoryUsed`: one a uid and part). Of
 * copies the greatest stays, and NaN wins, so that the caller sees it.
 * The function throws `prometheus_bad_answer` for a pod without a uid.
 */
export function rowTaker(fact: Fact, selection: Selection): (into: Rows, sample: Sample) => void {
  const { uid: uidLabel, pod } = podLabels(selection);
  switch (fact) {
    case "cpu":
      return (into, { labels, value }) => {
        const part = labels["id"] ?? "";
        const uid = uidOfId(part);
        if (uid !== undefined) keep(into, `${uid} ${part}`, { uid, value, part });
      };
    case "memoryUsed":
      return (into, { labels, value }) => {
        const uid = uidOfId(labels["id"] ?? "");
        // A restarted container has several ids: its maximum counts once, and the reader adds the containers up.
        const part = filled(labels, selection, "container");
        if (uid !== undefined) keep(into, `${uid} ${part}`, { uid, value, part });
      };
    case "vo": {
      const label = voLabel(selection);
      return (into, { labels }) => {
        const uid = checked(labels[uidLabel], selection);
        const text = labels[label] ?? "";
        // A pod that was relabelled while it ran has the greatest text: a rule that does not depend on the pieces asked for.
        if (text > (into.get(uid)?.text ?? "")) into.set(uid, { uid, value: 1, text });
      };
    }
    case "name":
      return (into, { labels, value }) => {
        const uid = checked(labels[uidLabel], selection);
        keep(into, uid, { uid, value, text: labels[pod] ?? "" });
      };
    case "end":
    case "start":
    case "finished":
    case "cores":
    case "memoryRequest":
      return (into, { labels, value }) => {
        const uid = checked(labels[uidLabel], selection);
        keep(into, uid, { uid, value });
      };
    default:
      return fact satisfies never;
  }
}

/** The samples of `factQuery(fact)` as rows. */
export function rowsOf(fact: Fact, selection: Selection, samples: readonly Sample[]): readonly Row[] {
  const rows: Rows = new Map();
  const take = rowTaker(fact, selection);
  for (const sample of samples) take(rows, sample);
  return [...rows.values()];
}

function checked(uid: string | undefined, { namespace }: Selection): string {
  if (uid !== undefined && uid !== "") return uid;
  throw new GridmeterError(
    "prometheus_bad_answer",
    `Pods in namespace "${namespace}" have no uid label, so their jobs cannot be told apart. ` +
      "Nothing was published. Use kube-state-metrics 2 or later and do not drop its uid label.",
  );
}

function filled(labels: Sample["labels"], { labelPrefix }: Selection, label: "container"): string {
  const prefixed = labels[`${labelPrefix}${label}`] ?? "";
  return prefixed === "" ? (labels[label] ?? "") : prefixed;
}

function keep(into: Rows, key: string, row: Row): void {
  const known = into.get(key);
  if (known === undefined || row.value > known.value || Number.isNaN(row.value)) into.set(key, row);
}
