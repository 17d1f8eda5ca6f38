import type { Fact, Only, Window } from "../accounting/ports.ts";
import type { Selection } from "../accounting/tenant.ts";
import { GridmeterError } from "../errors.ts";
import { containerSelectors, podLabels, podSelectors, uidPattern, withUid } from "./labels.ts";
import type { UidPattern } from "./labels.ts";
import { overTime } from "./promql.ts";

/**
 * The PromQL of one fact, to be evaluated at `window.to`. Copies of a series (replicas, nodes, instances, stacks) are
 * first merged by max. Only max_over_time and last_over_time are used, so that overlapping windows and both ways to close
 * a range (Prometheus 2 and 3) give one answer. The answer has no label but those that its reader needs: the namespace is
 * one and the same, and names of pods are half of an answer.
 * `finished` is only the half that asks for successes; see `failedQuery`.
 * Throws `config_invalid` for `vo` without a VO label and for a label that is no Prometheus label name.
 */
export function factQuery(fact: Fact, selection: Selection, window: Window, only?: Only): string {
  const seconds = window.to - window.from;
  const labels = podLabels(selection);
  const uid = [labels.uid];
  const merged = (metric: string, extra: readonly string[], by: readonly string[], fn?: "last_over_time"): string =>
    mergedBy(by, metric, selection, seconds, uidPattern(only), extra, fn);

  switch (fact) {
    case "end":
      return merged("kube_pod_completion_time", [], uid);
    case "name":
      return merged("kube_pod_completion_time", [], [labels.pod, ...uid]);
    case "start":
      return merged("kube_pod_start_time", [], uid);
    case "finished":
      return merged("kube_pod_status_phase", [`phase="Succeeded"`], uid);
    case "cores":
      return requests("cpu", "scheduled");
    case "unscheduledCores":
      return requests("cpu", "unscheduled");
    case "memoryRequest":
      return requests("memory", "scheduled");
    case "unscheduledMemoryRequest":
      return requests("memory", "unscheduled");
    case "vo":
      return merged("kube_pod_labels", [`${voLabel(selection)}!=""`], [...uid, voLabel(selection)], "last_over_time");
    case "cpu":
      // Old cAdvisors write one series a CPU; newer ones write `cpu="total"` alone.
      return `sum by (id) (${measured("container_cpu_usage_seconds_total", ["id", "cpu"])})`;
    case "memoryUsed": {
      // With a prefix, the label may stand in both places: both are kept, and the reader takes the filled one.
      const container = selection.labelPrefix === "" ? [] : [labels.container];
      return measured("container_memory_working_set_bytes", [...container, "container", "id"]);
    }
    default:
      return fact satisfies never;
  }

  /** Sum over containers; a native sidecar is an init container that always restarts. Ordinary init containers do not add. */
  function requests(resource: "cpu" | "memory", pods: "scheduled" | "unscheduled"): string {
    const by = [...uid, labels.container];
    const inForce = (metric: string): string => {
      const parts = ofPods(pods, selection).map((nodes) =>
        merged(metric, [`resource="${resource}"`, ...nodes], by, "last_over_time"),
      );
      return parts.length > 1 ? `(${parts.join(" or ")})` : parts.join("");
    };
    const containers = inForce("kube_pod_container_resource_requests");
    const initial = inForce("kube_pod_init_container_resource_requests");
    const sidecars = merged("kube_pod_init_container_info", [`restart_policy="Always"`], by, "last_over_time");
    return `sum by (${uid.join(",")}) (${containers} or (${initial} and on (${by.join(",")}) ${sidecars}))`;
  }

  function measured(metric: string, by: readonly string[]): string {
    const series = overTime("max_over_time", containerSelectors(metric, selection, only), seconds);
    return `max by (${by.join(",")}) (${series})`;
  }
}

/**
 * Matchers for requests of pods on nodes, the best first, and of pods before they are scheduled: that copy ends there, and
 * would keep a request that was lowered since. With a prefix, the node stands under the plain label unless the target has
 * one of its own.
 */
function ofPods(pods: "scheduled" | "unscheduled", { labelPrefix }: Selection): readonly (readonly string[])[] {
  const own = `${labelPrefix}node`;
  if (pods === "unscheduled") return [labelPrefix === "" ? [`${own}=""`] : [`${own}=""`, `node=""`]];
  return [[`${own}!=""`], ...(labelPrefix === "" ? [] : [[`${own}=""`, `node!=""`]])];
}

/**
 * The other half of `finished`: of these pods, those that failed. kube-state-metrics writes all phases of a pod, 0 or 1, so
 * a pod that ran on has a row with 0 in the first half. Most pods succeed: asking for their failures too would double what
 * Prometheus must read.
 */
export function failedQuery(selection: Selection, window: Window, uids: UidPattern | undefined): string {
  const { uid } = podLabels(selection);
  return mergedBy([uid], "kube_pod_status_phase", selection, window.to - window.from, uids, [`phase="Failed"`]);
}

function mergedBy(
  by: readonly string[],
  metric: string,
  selection: Selection,
  seconds: number,
  uids: UidPattern | undefined,
  extra: readonly string[],
  fn: "max_over_time" | "last_over_time" = "max_over_time",
): string {
  const series = overTime(fn, podSelectors(metric, selection, uids, extra), seconds);
  return `max by (${by.join(",")}) (${withUid(series, selection)})`;
}

/** The label that names the VO. Throws `config_invalid` where none is set or it cannot be a label. */
export function voLabel({ voLabel: label }: Selection): string {
  if (label !== undefined && /^[a-zA-Z_]\w*$/.test(label)) return label;
  throw new GridmeterError(
    "config_invalid",
    `The VO label ${label === undefined ? "is not set" : `"${label}" is not the name of a Prometheus label`}. ` +
      "Nothing was published. Give it as kube_pod_labels shows it, e.g. label_vo.",
  );
}

/** Whether any pod of the namespace carried the VO label. */
export function voLabelQuery(selection: Selection, window: Window): string {
  const selectors = podSelectors("kube_pod_labels", selection, undefined, [`${voLabel(selection)}!=""`]);
  return `group(${overTime("last_over_time", selectors, window.to - window.from)})`;
}
