import type { Fact, UidPrefixes, Window } from "../accounting/ports.ts";
import type { Selection } from "../accounting/tenant.ts";
import { GridmeterError } from "../errors.ts";
import { containerSelectors, podLabels, podSelectors, withUid } from "./labels.ts";
import { overTime } from "./promql.ts";

/**
 * The PromQL of one fact, to be evaluated at `window.to`. Copies of a series (replicas, nodes, instances, stacks) are
 * first merged by max. Only max_over_time and last_over_time are used, so that overlapping windows and both ways to close
 * a range (Prometheus 2 and 3) give one answer.
 * Throws `config_invalid` for `vo` without a VO label and for a label that is no Prometheus label name.
 */
export function factQuery(fact: Fact, selection: Selection, window: Window, prefixes?: UidPrefixes): string {
  const seconds = window.to - window.from;
  const labels = podLabels(selection);
  const pod = [labels.namespace, labels.pod, labels.uid];

  const merged = (
    fn: "max_over_time" | "last_over_time",
    metric: string,
    extra: readonly string[],
    by: readonly string[],
  ): string => {
    const series = overTime(fn, podSelectors(metric, selection, prefixes, extra), seconds);
    return `max by (${by.join(",")}) (${withUid(series, selection)})`;
  };

  switch (fact) {
    case "end":
      return merged("max_over_time", "kube_pod_completion_time", [], pod);
    case "start":
      return merged("max_over_time", "kube_pod_start_time", [], pod);
    case "finished":
      // kube-state-metrics writes all five phases of a pod, 0 or 1, so a running pod has rows with 0.
      return merged("max_over_time", "kube_pod_status_phase", [`phase=~"Succeeded|Failed"`], pod);
    case "cores":
      return requests("cpu");
    case "memoryRequest":
      return requests("memory");
    case "vo":
      return merged("last_over_time", "kube_pod_labels", [`${voLabel(selection)}!=""`], [...pod, voLabel(selection)]);
    case "cpu":
      // Old cAdvisors write one series a CPU; newer ones write `cpu="total"` alone.
      return `sum by (${found("pod")},id) (${measured("container_cpu_usage_seconds_total", [found("pod"), "id", "cpu"])})`;
    case "memoryUsed":
      return measured("container_memory_working_set_bytes", [found("pod"), found("container"), "id"]);
    default:
      return fact satisfies never;
  }

  /** Sum over containers; a native sidecar is an init container that always restarts. Ordinary init containers do not add. */
  function requests(resource: "cpu" | "memory"): string {
    const by = [...pod, labels.container];
    const containers = inForce("kube_pod_container_resource_requests");
    const initial = inForce("kube_pod_init_container_resource_requests");
    const always = [`restart_policy="Always"`];
    const sidecars = merged("last_over_time", "kube_pod_init_container_info", always, by);
    return `sum by (${pod.join(",")}) (${containers} or (${initial} and on (${by.join(",")}) ${sidecars}))`;

    // The copy without a node is from before scheduling: it ends there, and would keep a request that was lowered since.
    function inForce(metric: string): string {
      const node = `${selection.labelPrefix}node`;
      const [scheduled, before] = [`${node}!=""`, `${node}=""`].map((matcher) =>
        merged("last_over_time", metric, [`resource="${resource}"`, matcher], by),
      );
      return `(${scheduled ?? ""} or ${before ?? ""})`;
    }
  }

  function measured(metric: string, by: readonly string[]): string {
    const series = overTime("max_over_time", containerSelectors(metric, selection, prefixes), seconds);
    return `max by (${by.join(",")}) (${series})`;
  }

  /** With a prefix, a label of cAdvisor may stand in both places: both are kept, and the reader takes the filled one. */
  function found(label: "pod" | "container"): string {
    return selection.labelPrefix === "" ? label : `${selection.labelPrefix}${label},${label}`;
  }
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
