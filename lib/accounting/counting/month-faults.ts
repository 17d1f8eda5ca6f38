import { GridmeterError } from "../../shared/errors.ts";
import { joined } from "../model/gaps.ts";
import type { Sighting, Window } from "../model/monitoring.ts";
import type { Tenant } from "../model/tenant.ts";
import { DAY, endOfMonth, showDays, showStretches } from "../model/time.ts";
import { type Period } from "../model/periods.ts";
import type { DayFault, MissingFact } from "./missing-metrics.ts";
import type { OpenMonth } from "./month-in-progress.ts";
import { type DayUsage, LEFT_OUT, type LeftOut, jobsOf, leftOutOf } from "./usage.ts";

/** What was found out about a month, once its last piece is counted. */
export type Findings = {
  readonly tenant: Tenant;
  readonly month: OpenMonth;
  readonly days: readonly DayUsage[];
  /** nothing of the monitoring was seen in the month */
  readonly isUnseen: boolean;
  /** whole days on which nothing was seen, and which the ledger does not have either */
  readonly unseenDays: readonly string[];
  /** days whose job records are still to be published, though Prometheus does not have all of their jobs any more */
  readonly lostJobs: readonly string[];
  readonly comparison: Comparison;
};

/** Why a month must not be published, if there is a reason. */
export function refusalOf(findings: Findings): GridmeterError | undefined {
  const { tenant, month, isUnseen, unseenDays, lostJobs, comparison } = findings;
  const { period } = month.plan;
  const faults = faultsOf(month);
  return (
    notSeen(tenant, period, unseenDays, isUnseen) ??
    metricMissing(tenant, period, faults) ??
    answersDisagree(tenant, period, faults) ??
    jobsLost(tenant, period, lostJobs) ??
    comparison.refusal
  );
}

/** The fault of each day that has one. */
function faultsOf({ fresh }: OpenMonth): ReadonlyMap<string, DayFault> {
  return new Map([...fresh].flatMap(([day, { fault }]) => (fault === undefined ? [] : [[day, fault] as const])));
}

function notSeen(
  tenant: Tenant,
  period: Period,
  unseenDays: readonly string[],
  isUnseen: boolean,
): GridmeterError | undefined {
  if (unseenDays.length === 0 && !isUnseen) return undefined;
  const what =
    unseenDays.length > 0
      ? `no pod was seen on whole days of ${period.month}: ${showDays(unseenDays)}; they are not in the ledger either`
      : `there is no sign of kube-state-metrics in ${period.month}`;
  return new GridmeterError(
    "monitoring_not_seen",
    `${tenant.name}: ${what}. The month was not published. If the cluster is younger, set ACCOUNTING_SINCE; if the days are lost for good ` +
      "(outage, retention), publish what there is with --allow-incomplete; if monitoring has another job name, set MONITORING_SELECTOR.",
  );
}

/** The metric of each fact, and where it is known to be dropped. */
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

function jobsLost(tenant: Tenant, period: Period, lost: readonly string[]): GridmeterError | undefined {
  if (lost.length === 0) return undefined;
  return new GridmeterError(
    "monitoring_not_seen",
    `${tenant.name}: the ledger counts jobs of ${period.month} on ${showDays(lost)} that were not yet published as ${tenant.format} ` +
      "and are not all in Prometheus any more. The month was not published, since it would be too low. Keep a summary format for this month, or publish " +
      "the jobs that are left with --allow-incomplete.",
  );
}

/** A month with fewer settled days is not judged as a whole (accounting-rules: A month of 7 settled days or more). */
const ENOUGH_DAYS = 7;
/** A month with less than this share of the core hours a day of the month before gets a warning. */
const FALLEN = 0.1;

/** What an administrator can do about pods that are left out for a reason. */
const REASONS: Readonly<Record<LeftOut, string>> = {
  no_cpu_request: "no container of the pod requests CPU; set DEFAULT_CORES, or let the jobs request CPU",
  negative_duration: "the end lies before the start; see the clocks of the nodes",
  no_start: "the pod has no start time; see that kube-state-metrics exports kube_pod_start_time",
  not_finished: "a container ended, but the pod runs on",
  no_end: "the pod was evicted, or deleted before its completion was scraped; keep finished pods for some minutes",
};

/** What a month looks like beside the month before: a refusal (without --allow-incomplete), a warning, or nothing. */
type Comparison = { readonly refusal?: GridmeterError; readonly warning?: string };

/**
 * Compares a month with the month before (accounting-rules: A month of 7 settled days or more in which ...).
 * @param daysBefore the days of the month before; read only if the month has enough settled days
 * @param settled how many days of the month are settled
 */
export async function comparedWith(
  daysBefore: () => Promise<readonly DayUsage[]>,
  tenant: Tenant,
  period: Period,
  days: readonly DayUsage[],
  settled: number,
): Promise<Comparison> {
  if (settled < ENOUGH_DAYS) return {};
  const before = await daysBefore();
  const succeeded = days.reduce((sum, day) => sum + day.succeededLeftOut, 0);
  if (jobsIn(days) === 0 && succeeded > 0) return allLeftOut(tenant, period, days, before);
  const warning = fallen(tenant, period, days, before);
  return warning === undefined ? {} : { warning };
}

const jobsIn = (days: readonly DayUsage[]): number => days.reduce((sum, day) => sum + jobsOf(day), 0);

/** A month in which pods succeeded, and none counts: refused, unless the month before counted jobs beside such pods. */
function allLeftOut(
  tenant: Tenant,
  period: Period,
  days: readonly DayUsage[],
  before: readonly DayUsage[],
): Comparison {
  const leftOut = leftOutOf(days);
  const reason = LEFT_OUT.toSorted((a, b) => leftOut[b] - leftOut[a])[0] ?? "no_cpu_request";
  const pods = LEFT_OUT.reduce((sum, each) => sum + leftOut[each], 0);
  const what = `${tenant.name}: all ${pods} pods of ${period.month} are left out, most of them for ${reason} (${REASONS[reason]})`;
  const jobsBefore = jobsIn(before);
  if (jobsBefore > 0 && leftOutOf(before)[reason] > 0)
    return { warning: `${what}; the month before counted ${jobsBefore} jobs beside such pods.` };
  return {
    refusal: new GridmeterError(
      "all_left_out",
      `${what}. The month was not published. If it is right that none of them counts, publish it with --allow-incomplete.`,
    ),
  };
}

/** The warning of a month with far fewer core hours a day than the month before. */
function fallen(
  tenant: Tenant,
  period: Period,
  days: readonly DayUsage[],
  before: readonly DayUsage[],
): string | undefined {
  const workBefore = milliCoreSecondsOf(before);
  if (days.length === 0 || before.length < ENOUGH_DAYS || workBefore === 0) return undefined;
  const share = milliCoreSecondsOf(days) / days.length / (workBefore / before.length);
  if (share >= FALLEN) return undefined;
  return (
    `${tenant.name}: ${period.month} has ${(100 * share).toFixed(1)} % of the core hours a day of the month before. ` +
    "If no work was taken away, see whether NAMESPACE, PROMETHEUS_LABELS and the monitoring are still right."
  );
}

function milliCoreSecondsOf(days: readonly DayUsage[]): number {
  return days.flatMap(({ groups }) => groups).reduce((sum, group) => sum + group.milliCoreSeconds, 0);
}

/** All warnings of a month. @param upOnly see `Sighting` */
export function warningsOf(
  findings: Findings,
  upOnly: Sighting["upOnly"],
  allowIncomplete: boolean,
): readonly string[] {
  const { tenant, month, comparison } = findings;
  return [
    ...gapWarning(findings, allowIncomplete),
    ...upOnlyWarning(tenant, month.plan.period, upOnly),
    ...dayWarnings(tenant, month),
    ...(comparison.warning === undefined ? [] : [comparison.warning]),
    ...(allowIncomplete ? incompleteWarnings(findings) : []),
  ];
}

/** All gaps of the month, ascending. A gap over midnight is one. */
export function gapsOf({ month: { plan, observed }, days }: Pick<Findings, "month" | "days">): readonly Window[] {
  const counted = new Set(days.map(({ day }) => day));
  const others = plan.days.filter((day) => !counted.has(day)).flatMap((day) => observed.get(day)?.gaps ?? []);
  return joined([...days.flatMap((day) => day.gaps), ...others]);
}

/** One line a month for all gaps. Whole days that --allow-incomplete leaves out are counted. */
function gapWarning(findings: Findings, allowIncomplete: boolean): readonly string[] {
  const { tenant, month, unseenDays } = findings;
  const { plan } = month;
  const gaps = gapsOf(findings);
  if (gaps.length === 0) return [];
  const missing = allowIncomplete ? unseenDays.length : 0;
  const without = missing === 0 ? "" : `, published without ${missing} whole ${missing === 1 ? "day" : "days"}`;
  return [
    `${tenant.name}: monitoring was not seen in ${plan.period.month} from ${showStretches(gaps)}${without}; jobs that were deleted meanwhile are missing.`,
  ];
}

/** Stretches of over a day in which only `up` shows that kube-state-metrics worked: perhaps it could not see the pods. */
function upOnlyWarning(tenant: Tenant, period: Period, upOnly: Sighting["upOnly"]): readonly string[] {
  const end = endOfMonth(period.month);
  const long = upOnly
    .map(({ from, to }) => ({ from: Math.max(from, period.from), to: Math.min(to, end) }))
    .filter(({ from, to }) => to - from > DAY);
  if (long.length === 0) return [];
  return [
    `${tenant.name}: kube-state-metrics was up but showed no pod of any namespace from ${showStretches(long)}; these days count as days without jobs. ` +
      "If pods ran there, see its rights and its list of namespaces.",
  ];
}

/** Days whose figures are from an older version, days whose CPU requests may be missing, and pods that lack a fact. */
function dayWarnings(tenant: Tenant, { plan, fresh }: OpenMonth): readonly string[] {
  const older = plan.days.filter(
    (day) => plan.older.has(day) && (fresh.get(day)?.usage ?? plan.known.get(day)) === plan.known.get(day),
  );
  const unproven = [...fresh].filter(([, day]) => day.unproven).map(([day]) => day);
  const few = [...fresh].reduce((sum, [, day]) => sum + (day.few ?? 0), 0);
  return [
    ...(older.length === 0
      ? []
      : [
          `${tenant.name}: ${showDays(older)} were counted under the rules of an older version, and Prometheus does not have them any more; their figures stay.`,
        ]),
    ...(unproven.length === 0
      ? []
      : [
          `${tenant.name}: no pod of any visible namespace has a CPU request on ${showDays(unproven)}. The metric kube_pod_container_resource_requests may be missing; ` +
            "these days are published but not stored, and refused (metric_missing) after 7 such days.",
        ]),
    ...(few === 0
      ? []
      : [
          `${tenant.name}: ${few} pods of ${plan.period.month} are left out because Prometheus gives an end or a phase of them, but not both.`,
        ]),
  ];
}

/** What is missing in a month that is published only because of --allow-incomplete. */
function incompleteWarnings({ tenant, month, lostJobs, comparison }: Findings): readonly string[] {
  const faulty = [...faultsOf(month).keys()];
  return [
    ...(faulty.length === 0
      ? []
      : [`${tenant.name}: published without pods of which a fact is missing, on ${showDays(faulty)}.`]),
    ...(lostJobs.length === 0
      ? []
      : [`${tenant.name}: published without single jobs that are lost, of ${showDays(lostJobs)}.`]),
    ...(comparison.refusal === undefined
      ? []
      : [
          `${comparison.refusal.message.replace(/ The month was not published.*$/, "")} It was published all the same.`,
        ]),
  ];
}
