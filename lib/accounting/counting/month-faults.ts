import { GridmeterError } from "../../shared/errors.ts";
import type { Tenant } from "../model/tenant.ts";
import { type Period, showDays } from "../model/time.ts";
import { type DayUsage, LEFT_OUT, type LeftOut, leftOutOf } from "./usage.ts";
import type { DayFault, MissingFact } from "./missing-metrics.ts";

/** Fewer settled days say nothing about a month as a whole (accounting-rules: A month of 7 settled days or more). */
const ENOUGH_DAYS = 7;
/** A month that falls below this share of the one before, day by day, is worth a warning. */
const FALLEN = 0.1;

/** What each metric is called, and who is known not to deliver it. */
const METRICS: Readonly<Record<MissingFact, { readonly metric: string; readonly dropped: string }>> = {
  ends: {
    metric: "kube_pod_completion_time",
    dropped: "kube-prometheus' ksm-lite addon and OpenShift's minimal collection profile drop it",
  },
  starts: { metric: "kube_pod_start_time", dropped: "lists of metrics to keep or to drop often forget it" },
  phases: {
    metric: "kube_pod_status_phase of Succeeded, of Failed or of both",
    dropped: "some charts keep only the phases of running pods",
  },
  requests: {
    metric: 'kube_pod_container_resource_requests{resource="cpu"}',
    dropped: "lists of metrics to keep or to drop often forget it",
  },
};

const REASONS: Readonly<Record<LeftOut, string>> = {
  no_cpu_request: "no container of the pod requests CPU; set DEFAULT_CORES, or let the jobs request CPU",
  negative_duration: "the end lies before the start; see the clocks of the nodes",
  no_start: "the pod has no start time; see that kube-state-metrics exports kube_pod_start_time",
  not_finished: "a container ended, but the pod runs on",
  no_end: "the pod was evicted, or deleted before its completion was scraped; keep finished pods for some minutes",
};

/** Days of which the monitoring does not vouch for the facts: the refusal of their month. */
export function factsFault(
  tenant: Tenant,
  period: Period,
  faults: ReadonlyMap<string, DayFault>,
): GridmeterError | undefined {
  return metricMissing(tenant, period, faults) ?? answersDisagree(tenant, period, faults);
}

function metricMissing(
  tenant: Tenant,
  period: Period,
  faults: ReadonlyMap<string, DayFault>,
): GridmeterError | undefined {
  const facts = new Map<MissingFact, string[]>();
  for (const [day, fault] of faults)
    if (fault.kind === "metric_missing") facts.set(fault.fact, [...(facts.get(fault.fact) ?? []), day]);
  if (facts.size === 0) return undefined;
  const code = [...facts.keys()].every((fact) => fact === "phases") ? "phase_missing" : "metric_missing";
  const lines = [...facts].map(([fact, days]) => {
    const { metric, dropped } = METRICS[fact];
    return `${metric} has no series in any namespace on ${showDays(days)}, though pods finished then (${dropped})`;
  });
  return new GridmeterError(
    code,
    `${tenant.name}: ${lines.join("; ")}. Nothing of ${period.month} was published. Let kube-state-metrics export the metric ` +
      "(--metric-allowlist, --metric-denylist) and Prometheus keep it (metric_relabel_configs), or publish without these days with --allow-incomplete.",
  );
}

function answersDisagree(
  tenant: Tenant,
  period: Period,
  faults: ReadonlyMap<string, DayFault>,
): GridmeterError | undefined {
  for (const [day, fault] of faults) {
    if (fault.kind !== "answers_disagree") continue;
    const lack = fault.lacks === "end" ? "have succeeded but have no completion time" : "have no phase";
    const percent = ((100 * fault.pods) / fault.of).toFixed(1);
    return new GridmeterError(
      "answers_disagree",
      `${tenant.name}: ${fault.pods} of ${fault.of} pods of ${day} (${percent} %) ${lack}, e.g. uid ${fault.example}, also when asked once more. Nothing of ${period.month} was published. ` +
        "Replicas of Prometheus with different data behind one address answer so: ask one of them, or a Thanos or VictoriaMetrics that merges them. " +
        "--allow-incomplete publishes without these pods.",
    );
  }
  return undefined;
}

type Totals = {
  readonly jobs: number;
  readonly milliCoreSeconds: number;
  readonly leftOut: Readonly<Record<LeftOut, number>>;
  readonly succeeded: number;
};

function totalsOf(days: readonly DayUsage[]): Totals {
  const groups = days.flatMap((day) => day.groups);
  const leftOut = leftOutOf(days);
  return {
    jobs: groups.reduce((sum, group) => sum + group.jobs, 0),
    milliCoreSeconds: groups.reduce((sum, group) => sum + group.milliCoreSeconds, 0),
    leftOut,
    succeeded: days.reduce((sum, day) => sum + day.succeededLeftOut, 0),
  };
}

/** What a month's figures say against themselves: a refusal, or a warning. */
type MonthDoubt = { readonly error?: GridmeterError; readonly warning?: string };

/**
 * Judges a month by itself and by the one before (accounting-rules: A month of 7 settled days or more in which ...).
 * @param settled how many of its days are settled
 * @param before the days of the month before, as far as they are known
 */
export function monthDoubt(
  tenant: Tenant,
  period: Period,
  days: readonly DayUsage[],
  settled: number,
  before: readonly DayUsage[],
): MonthDoubt {
  if (settled < ENOUGH_DAYS) return {};
  const now = totalsOf(days);
  const then = totalsOf(before);
  const reason = LEFT_OUT.toSorted((a, b) => now.leftOut[b] - now.leftOut[a])[0] ?? "no_cpu_request";
  if (now.jobs === 0 && now.succeeded > 0) {
    const what = `all ${LEFT_OUT.reduce((sum, each) => sum + now.leftOut[each], 0)} pods of ${period.month} are left out, most of them for ${reason} (${REASONS[reason]})`;
    if (then.jobs > 0 && then.leftOut[reason] > 0)
      return { warning: `${tenant.name}: ${what}; the month before counted ${then.jobs} jobs beside such pods.` };
    return {
      error: new GridmeterError(
        "all_left_out",
        `${tenant.name}: ${what}. The month was not published. If it is right that none of them counts, publish it with --allow-incomplete.`,
      ),
    };
  }
  return { ...fallen(tenant, period, now, days.length, then, before.length) };
}

function fallen(
  tenant: Tenant,
  period: Period,
  now: Totals,
  days: number,
  then: Totals,
  daysBefore: number,
): MonthDoubt {
  if (daysBefore < ENOUGH_DAYS || then.milliCoreSeconds === 0) return {};
  const share = now.milliCoreSeconds / days / (then.milliCoreSeconds / daysBefore);
  if (share >= FALLEN) return {};
  return {
    warning:
      `${tenant.name}: ${period.month} has ${(100 * share).toFixed(1)} % of the core hours a day of the month before. ` +
      "If no work was taken away, see whether NAMESPACE, PROMETHEUS_LABELS and the monitoring are still right.",
  };
}
