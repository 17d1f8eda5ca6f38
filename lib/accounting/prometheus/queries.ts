import { GridmeterError } from "../../shared/errors.ts";
import type { Fact, Only, Presence, Window } from "../model/monitoring.ts";
import type { Selection } from "../model/tenant.ts";
import { DAY } from "../model/time.ts";
import {
  type Spelling,
  containerSelectors,
  labelsOf,
  overTime,
  ownPods,
  podSelectors,
  renamedPrefix,
  selector,
  spellings,
  uidPattern,
} from "./labels.ts";

/** The label in which an answer holds the value of copies, so that copies which disagree have a row each. */
export const VALUE = "gridmeter_value";
/** Steps of subqueries, seconds: how exactly the last sample of a copy, or of a phase, is known. */
const COPY_STEP = 60;
const PHASE_STEP = 300;
/** Facts that are asked in another way: see `rangeQuery` and `copyQueries`. */
export type InstantFact = Exclude<Fact, "lastDay" | "coresAt" | "memoryRequestAt">;

/**
 * The PromQL of one fact in one spelling, to be evaluated at `window.to`. Copies of a series (replicas, nodes, instances,
 * stacks) are merged first: constant facts by max, requests and VO labels by value. Only max_over_time and last_over_time are
 * used, so that overlapping windows and both ways to close a range (Prometheus 2 and 3) give one answer. The answer has no label but those that
 * its reader needs: the namespace is one and the same, and names of pods are half of an answer.
 * Throws `config_invalid` for `vo` without a VO label and for a label that is no Prometheus label name.
 */
export function factQuery(
  fact: InstantFact,
  selection: Selection,
  spelling: Spelling,
  window: Window,
  only?: Only,
): string {
  const seconds = window.to - window.from;
  const uid = labelsOf("uid", spelling);
  const range = (metric: string, extra: readonly string[], fn: "max_over_time" | "last_over_time"): string =>
    overTime(fn, podSelectors(metric, selection, spelling, uidPattern(only), extra), seconds);
  const greatest = (metric: string, extra: readonly string[], by: readonly string[] = uid): string =>
    `max by (${by.join(",")}) (${range(metric, extra, "max_over_time")})`;

  switch (fact) {
    case "end":
      return greatest("kube_pod_completion_time", []);
    case "name":
      return greatest("kube_pod_completion_time", [], [...labelsOf("pod", spelling), ...uid]);
    case "start":
      return greatest("kube_pod_start_time", []);
    case "succeeded":
      return greatest("kube_pod_status_phase", [`phase="Succeeded"`]);
    case "failed":
      return greatest("kube_pod_status_phase", [`phase="Failed"`]);
    case "runningUntil": {
      const phases = podSelectors("kube_pod_status_phase", selection, spelling, uidPattern(only), [
        `phase!~"Succeeded|Failed"`,
      ]);
      const held = phases.map((each) => `(timestamp(${each}) and (${each} == 1))[${seconds}s:${PHASE_STEP}s]`);
      // A pod that ran for less than a step may fall between two: it ran in the window all the same.
      const ever = `((${overTime("max_over_time", phases, seconds)}) == 1) * ${window.from}`;
      return `max by (${uid.join(",")}) (${held.map((each) => `max_over_time(${each})`).join(" or ")} or ${ever})`;
    }
    case "cores":
      return requests("cpu", "scheduled");
    case "unscheduledCores":
      return requests("cpu", "unscheduled");
    case "memoryRequest":
      return requests("memory", "scheduled");
    case "unscheduledMemoryRequest":
      return requests("memory", "unscheduled");
    case "vo": {
      const label = voLabel(selection);
      const labelled = range("kube_pod_labels", [`${label}!=""`], "last_over_time");
      return `max by (${[...uid, label].join(",")}) (${labelled})`;
    }
    case "voAt": {
      const label = voLabel(selection);
      const copies = podSelectors("kube_pod_labels", selection, spelling, uidPattern(only), [`${label}!=""`]);
      return `max by (${[...uid, label].join(",")}) (${lastSamples(copies, seconds)})`;
    }
    case "cpu":
      // Old cAdvisors write one series a CPU; newer ones write `cpu="total"` alone.
      return `sum by (id) (${measured("container_cpu_usage_seconds_total", ["id", "cpu"])})`;
    case "memoryUsed":
      return measured("container_memory_working_set_bytes", [...labelsOf("container", spelling), "id"]);
    default:
      return fact satisfies never;
  }

  /** A native sidecar is an init container that always restarts. Ordinary init containers do not add. */
  function requests(resource: "cpu" | "memory", pods: "scheduled" | "unscheduled"): string {
    const by = [...uid, ...labelsOf("container", spelling)].join(",");
    const inForce = (metric: string): string =>
      ofPods(pods, spelling)
        .map((nodes) => range(metric, [`resource="${resource}"`, ...nodes], "last_over_time"))
        .map((series) => `count_values by (${by}) ("${VALUE}", ${series})`)
        .join(` or on (${by}) `);
    const sidecars = range("kube_pod_init_container_info", [`restart_policy="Always"`], "last_over_time");
    const initial = `(${inForce("kube_pod_init_container_resource_requests")}) and on (${by}) (${sidecars})`;
    return `(${inForce("kube_pod_container_resource_requests")}) or (${initial})`;
  }

  function measured(metric: string, by: readonly string[]): string {
    const series = overTime("max_over_time", containerSelectors(metric, selection, spelling, only), seconds);
    return `max by (${by.join(",")}) (${series})`;
  }
}

/**
 * Matchers for requests of pods on nodes, the best first, and of pods before they are scheduled: that copy ends there, and
 * would keep a request that was lowered since. With a prefix, the node has the plain label unless the target has a node too.
 */
function ofPods(pods: "scheduled" | "unscheduled", { prefix }: Spelling): readonly (readonly string[])[] {
  const own = `${prefix}node`;
  if (pods === "unscheduled") return [prefix === "" ? [`node=""`] : [`${own}=""`, `node=""`]];
  return [[`${own}!=""`], ...(prefix === "" ? [] : [[`${own}=""`, `node!=""`]])];
}

/** The moments of the last samples of series; a series that ended since is known to the step. */
function lastSamples(series: readonly string[], seconds: number): string {
  return series.map((each) => `max_over_time(timestamp(${each})[${seconds}s:${COPY_STEP}s])`).join(" or ");
}

/**
 * The requests of these pods copy by copy: the last value of every series, and the moment of its last sample. Both answers have
 * all labels of the series, by which they are joined.
 */
export function copyQueries(
  resource: "cpu" | "memory",
  selection: Selection,
  spelling: Spelling,
  window: Window,
  only: Only | undefined,
): { readonly values: string; readonly moments: string } {
  const seconds = window.to - window.from;
  const series = ["kube_pod_container_resource_requests", "kube_pod_init_container_resource_requests"].flatMap(
    (metric) => podSelectors(metric, selection, spelling, uidPattern(only), [`resource="${resource}"`]),
  );
  return { values: overTime("last_over_time", series, seconds), moments: lastSamples(series, seconds) };
}

/** Whether a pod was seen in the seconds before: of a day, a range query with a point at the end of each day. */
export function sightQuery(
  selection: Selection,
  spelling: Spelling,
  only: Only | undefined,
  seconds: number = DAY,
): string {
  const series = ["kube_pod_status_phase", "kube_pod_start_time"].flatMap((metric) =>
    podSelectors(metric, selection, spelling, uidPattern(only)),
  );
  return `group by (${labelsOf("uid", spelling).join(",")}) (${overTime("last_over_time", series, seconds)})`;
}

/** What is looked for in one series: both phases are two. */
export type SeriesOf = Exclude<Presence, "both phases"> | "Succeeded" | "Failed";

/** Whether anybody reported the metric in the seconds before, in any visible namespace: a range query has a point for each day. */
export function presenceQueries(of: SeriesOf, selection: Selection, seconds: number = DAY): readonly string[] {
  const { matchers } = selection;
  const prefix = renamedPrefix(selection);
  const daily = (metric: string, more: readonly string[]): string =>
    `group(${overTime("last_over_time", [selector(metric, [...more, ...matchers])], seconds)})`;
  const inKubeSystem = [[`namespace="kube-system"`, `${prefix}namespace=""`], [`${prefix}namespace="kube-system"`]];
  switch (of) {
    case "ends":
      return [daily("kube_pod_completion_time", [])];
    case "starts":
      // kube-state-metrics' own pod is one series, so that the others are rarely asked for.
      return [...ownPods(selection).map((own) => daily("kube_pod_start_time", own)), daily("kube_pod_start_time", [])];
    case "phases":
      return [daily("kube_pod_status_phase", [`phase=~"Succeeded|Failed"`])];
    case "requests": {
      const requests = (more: readonly string[]): string =>
        daily("kube_pod_container_resource_requests", [`resource="cpu"`, ...more]);
      // Pods of kube-system are few and request CPU, so that the others are rarely asked for.
      return [...inKubeSystem.map(requests), requests([])];
    }
    case "Succeeded":
    case "Failed":
      return [daily("kube_pod_status_phase", [`phase="${of}"`])];
    case "zero phases":
      return [...ownPods(selection), []].map(
        (pods) =>
          `group(${overTime("last_over_time", [selector("kube_pod_status_phase", [`phase="Pending"`, ...pods, ...matchers])], seconds)} == 0)`,
      );
    case "own pods":
      return spellings(selection).flatMap((spelling) =>
        ["kube_pod_info", "kube_pod_container_resource_requests"].map((metric) => daily(metric, spelling.namespace)),
      );
    case "kube-system":
      return ["kube_pod_info", "kube_pod_status_phase"].flatMap((metric) =>
        inKubeSystem.map((namespace) => daily(metric, namespace)),
      );
    default:
      return of satisfies never;
  }
}

/** Some uids of the window: those that started last. */
export function sampleQuery(selection: Selection, spelling: Spelling, window: Window, most: number): string {
  const started = podSelectors("kube_pod_start_time", selection, spelling, undefined);
  const latest = overTime("last_over_time", started, window.to - window.from);
  return `topk(${most}, max by (${labelsOf("uid", spelling).join(",")}) (${latest}))`;
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
  return `group(${labelled(selection, window, voLabel(selection))})`;
}

/** The pods that have the VO label under the name that kube-state-metrics gives to a label whose name another one has too. */
export function splitLabelQuery(selection: Selection, window: Window): string {
  const uid = labelsOf("uid", { prefix: renamedPrefix(selection) }).join(",");
  return `group by (${uid}) (${labelled(selection, window, `${voLabel(selection)}_conflict1`)})`;
}

function labelled(selection: Selection, window: Window, label: string): string {
  const selectors = spellings(selection).flatMap((spelling) =>
    podSelectors("kube_pod_labels", selection, spelling, undefined, [`${label}!=""`]),
  );
  return overTime("last_over_time", selectors, window.to - window.from);
}
