import type { Row } from "../accounting/ports.ts";
import type { Selection } from "../accounting/tenant.ts";
import { GridmeterError } from "../errors.ts";
import { numberOf } from "./answer.ts";
import type { Sample } from "./answer.ts";
import { labelValue } from "./labels.ts";
import type { Spelling } from "./labels.ts";
import { VALUE, voLabel } from "./queries.ts";
import type { InstantFact } from "./queries.ts";

/** No path of Linux is longer. A longer id is not looked at. */
const LONGEST_ID = 4096;
/** A uid, or the 32 digits of a static pod. systemd's cgroup driver writes the dashes as underscores. */
const POD_UID = /pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?![0-9a-z])/iy;

/**
 * The pod's uid in a cAdvisor id, or undefined where there is none (a node's own slices). Kubelets and runtimes write it in
 * many paths, and in all of them it follows the word `pod`:
 * cgroupfs `/kubepods/burstable/pod<uid>/<container>`; systemd `...-pod<uid>.slice/cri-containerd-<container>.scope`; a
 * runtime without the systemd driver under a kubelet with it `...-pod<uid>.slice:cri-containerd:<container>`.
 */
export function uidOfId(id: string): string | undefined {
  if (id.length > LONGEST_ID) return undefined;
  // From the end: a kubelet inside a pod of another kubelet has both in its path, and the last is the pod's own.
  for (let at = id.lastIndexOf("pod"); at >= 0; at = at === 0 ? -1 : id.lastIndexOf("pod", at - 1)) {
    if (at > 0 && /[0-9a-z]/i.test(id.charAt(at - 1))) continue;
    POD_UID.lastIndex = at;
    const uid = POD_UID.exec(id)?.[1];
    if (uid !== undefined) return uid.replaceAll("_", "-");
  }
  return undefined;
}

/** How rows are read: of answers that have one label, from its text; of others, from the sample. */
export type RowReader =
  | { readonly label: string; readonly ofText: (text: string, value: number) => Row | undefined }
  | { readonly label?: never; readonly ofSample: (sample: Sample) => Row | undefined };

/**
 * How the answer of `factQuery(fact)` is read as rows; undefined for what belongs to no pod.
 * The functions throw `prometheus_bad_answer` for a pod without a uid.
 */
export function rowReader(fact: InstantFact, selection: Selection, spelling: Spelling): RowReader {
  const uidOf = (labels: Sample["labels"]): string => checkedUid(labelValue(labels, "uid", spelling), selection);
  switch (fact) {
    case "cpu":
      return {
        label: "id",
        ofText: (part, value) => ({ uid: uidOfId(part) ?? "", value, part }),
      };
    case "memoryUsed":
      return {
        ofSample: ({ labels, value }) => {
          const uid = uidOfId(labels["id"] ?? "");
          // A restarted container has several ids: its maximum counts once, and the reader adds the containers up.
          return uid === undefined ? undefined : { uid, value, part: labelValue(labels, "container", spelling) };
        },
      };
    case "vo":
      return { ofSample: ({ labels }) => ({ uid: uidOf(labels), value: 1, text: labels[voLabel(selection)] ?? "" }) };
    case "voAt":
      return {
        ofSample: ({ labels, value }) => ({
          uid: uidOf(labels),
          value: 1,
          text: labels[voLabel(selection)] ?? "",
          at: value,
        }),
      };
    case "name":
      return {
        ofSample: ({ labels, value }) => ({ uid: uidOf(labels), value, text: labelValue(labels, "pod", spelling) }),
      };
    case "cores":
    case "unscheduledCores":
    case "memoryRequest":
    case "unscheduledMemoryRequest":
      return {
        ofSample: ({ labels }) => ({
          uid: uidOf(labels),
          value: numberOf(labels[VALUE] ?? "") ?? Number.NaN,
          part: labelValue(labels, "container", spelling),
        }),
      };
    case "end":
    case "start":
    case "succeeded":
    case "failed":
    case "runningUntil":
      return spelling.prefix === ""
        ? { label: "uid", ofText: (uid, value) => ({ uid: checkedUid(uid, selection), value }) }
        : { ofSample: ({ labels, value }) => ({ uid: uidOf(labels), value }) };
    default:
      return fact satisfies never;
  }
}

/** Throws `prometheus_bad_answer` for an empty uid. */
export function checkedUid(uid: string, { namespace }: Selection): string {
  if (uid !== "") return uid;
  throw new GridmeterError(
    "prometheus_bad_answer",
    `Pods in namespace "${namespace}" have no uid label, so their jobs cannot be told apart. ` +
      "Nothing was published. Use kube-state-metrics 2 or later and do not drop its uid label.",
  );
}
