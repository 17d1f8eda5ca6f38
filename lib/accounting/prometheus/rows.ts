import { GridmeterError } from "../../shared/errors.ts";
import type { Row } from "../model/monitoring.ts";
import type { Selection } from "../model/tenant.ts";
import { type Spelling, labelValue } from "./labels.ts";
import { type InstantFact, VALUE, voLabel } from "./queries.ts";
import { type Sample, numberOf } from "./response.ts";

/** Reads a sample as a row; undefined for what belongs to no pod. Throws `prometheus_bad_answer` for a pod without a uid. */
export type RowReader = (sample: Sample) => Row | undefined;

/** How the answer of `factQuery(fact)` is read. */
export function rowReader(fact: InstantFact, selection: Selection, spelling: Spelling): RowReader {
  const uidOf = ({ labels }: Sample): string => checkedUid(labelValue(labels, "uid", spelling), selection);
  const containerOf = ({ labels }: Sample): string => labelValue(labels, "container", spelling);
  const idOf = ({ labels }: Sample): string => labels["id"] ?? "";
  const voOf = ({ labels }: Sample): string => labels[voLabel(selection)] ?? "";
  switch (fact) {
    case "end":
    case "start":
    case "succeeded":
    case "failed":
    case "runningUntil":
      return (sample) => ({ uid: uidOf(sample), value: sample.value });
    case "name":
      return (sample) => ({
        uid: uidOf(sample),
        value: sample.value,
        text: labelValue(sample.labels, "pod", spelling),
      });
    case "vo":
      return (sample) => ({ uid: uidOf(sample), value: 1, text: voOf(sample) });
    case "voAt":
      return (sample) => ({ uid: uidOf(sample), value: 1, text: voOf(sample), at: sample.value });
    case "cores":
    case "unscheduledCores":
    case "memoryRequest":
    case "unscheduledMemoryRequest":
      return (sample) => ({
        uid: uidOf(sample),
        value: numberOf(sample.labels[VALUE] ?? "") ?? Number.NaN,
        part: containerOf(sample),
      });
    case "cpu":
      return (sample) => ({ uid: uidOfId(idOf(sample)) ?? "", value: sample.value, part: idOf(sample) });
    case "memoryUsed":
      return (sample) => {
        const uid = uidOfId(idOf(sample));
        // A restarted container has several ids: its maximum counts once, and the reader adds the containers up.
        return uid === undefined ? undefined : { uid, value: sample.value, part: containerOf(sample) };
      };
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
