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

/** The samples of `factQuery(fact)` as rows, one a uid (`cpu` and `memoryUsed`: one a uid and part). */
export function rowsOf(fact: Fact, selection: Selection, samples: readonly Sample[]): readonly Row[] {
  switch (fact) {
    case "cpu":
      return merge(samples.flatMap((sample) => measuredRow(sample, selection, sample.labels["id"] ?? "")));
    case "memoryUsed":
      // A restarted container has several ids: its maximum counts once, and the reader adds the containers up.
      return merge(samples.flatMap((sample) => measuredRow(sample, selection, filled(sample, selection, "container"))));
    case "vo":
      return voRows(samples, selection);
    case "end":
    case "start":
    case "finished":
    case "cores":
    case "memoryRequest":
      return merge(samples.map((sample) => podRow(sample, selection)));
    default:
      return fact satisfies never;
  }
}

function podRow(sample: Sample, selection: Selection): Row {
  const labels = podLabels(selection);
  const uid = sample.labels[labels.uid] ?? "";
  const pod = sample.labels[labels.pod] ?? "";
  if (uid !== "") return { uid, pod, value: sample.value };
  throw new GridmeterError(
    "prometheus_bad_answer",
    `The pod "${pod}" in namespace "${selection.namespace}" has no uid label, so its jobs cannot be told apart. ` +
      "Nothing was published. Use kube-state-metrics 2 or later and do not drop its uid label.",
  );
}

/** A cAdvisor row; none for what is not in a pod. */
function measuredRow(sample: Sample, selection: Selection, part: string): Row[] {
  const uid = uidOfId(sample.labels["id"] ?? "");
  return uid === undefined ? [] : [{ uid, pod: filled(sample, selection, "pod"), value: sample.value, part }];
}

function filled(sample: Sample, { labelPrefix }: Selection, label: "pod" | "container"): string {
  const prefixed = sample.labels[`${labelPrefix}${label}`] ?? "";
  return prefixed === "" ? (sample.labels[label] ?? "") : prefixed;
}

/** One row a uid and part, the greatest. NaN wins, so that the caller sees it. */
function merge(rows: readonly Row[]): readonly Row[] {
  const kept = new Map<string, Row>();
  for (const row of rows) {
    const key = `${row.uid}\n${row.part ?? ""}`;
    const known = kept.get(key);
    if (known === undefined || row.value > known.value || Number.isNaN(row.value)) kept.set(key, row);
  }
  return [...kept.values()];
}

/** A pod that was relabelled while it ran has the greatest text: a rule that does not depend on the pieces asked for. */
function voRows(samples: readonly Sample[], selection: Selection): readonly Row[] {
  const label = voLabel(selection);
  const kept = new Map<string, Row>();
  for (const sample of samples) {
    const text = sample.labels[label] ?? "";
    const row = { ...podRow(sample, selection), value: 1, text };
    if (text > (kept.get(row.uid)?.text ?? "")) kept.set(row.uid, row);
  }
  return [...kept.values()];
}
