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

/** How rows are read: of answers that have one label, from its text; of others, from the sample. */
export type RowReader =
  | { readonly label: string; readonly ofText: (text: string, value: number) => Row | undefined }
  | { readonly label?: never; readonly ofSample: (sample: Sample) => Row | undefined };

/**
 * How the answer of `factQuery(fact)` is read as rows; undefined for what belongs to no pod.
 * The functions throw `prometheus_bad_answer` for a pod without a uid.
 */
export function rowReader(fact: Fact, selection: Selection): RowReader {
  const { uid: uidLabel, pod } = podLabels(selection);
  switch (fact) {
    case "cpu":
      return {
        label: "id",
        ofText: (part, value) => {
          const uid = uidOfId(part);
          return uid === undefined ? undefined : { uid, value, part };
        },
      };
    case "memoryUsed":
      return {
        ofSample: ({ labels, value }) => {
          const uid = uidOfId(labels["id"] ?? "");
          // A restarted container has several ids: its maximum counts once, and the reader adds the containers up.
          return uid === undefined ? undefined : { uid, value, part: filled(labels, selection, "container") };
        },
      };
    case "vo": {
      const label = voLabel(selection);
      return {
        ofSample: ({ labels }) => ({
          uid: checked(labels[uidLabel], selection),
          value: 1,
          text: labels[label] ?? "",
        }),
      };
    }
    case "name":
      return {
        ofSample: ({ labels, value }) => ({
          uid: checked(labels[uidLabel], selection),
          value,
          text: labels[pod] ?? "",
        }),
      };
    case "end":
    case "start":
    case "finished":
    case "cores":
    case "unscheduledCores":
    case "memoryRequest":
    case "unscheduledMemoryRequest":
      return { label: uidLabel, ofText: (uid, value) => ({ uid: checked(uid, selection), value }) };
    default:
      return fact satisfies never;
  }
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
