import { GridmeterError } from "../../shared/errors.ts";
import { greatest } from "../../shared/lists.ts";
import type { Monitoring, Sighting, Window } from "../model/monitoring.ts";
import { type Tenant, isIndividual } from "../model/tenant.ts";
import { DAY, type Period, endOfDay, endOfMonth, showDays, showStretches, startOf } from "../model/time.ts";
import type { Tiling } from "../prometheus/split.ts";
import { type Observation, joined } from "./coverage.ts";
import { JobList } from "./jobs.ts";
import type { Facts } from "./facts.ts";
import type { CountedPiece, FreshDay } from "./ledger.ts";
import { factsFault, monthDoubt } from "./month-faults.ts";
import {
  type FinishedPod,
  type PieceOfPods,
  type PodOptions,
  askCpu,
  askMemoryRequests,
  askMemoryUsed,
  askPods,
} from "./pods.ts";
import type { MonthPlan, PlanOptions } from "./schedule.ts";
import { type DayUsage, type Details, toDays } from "./usage.ts";
import { type CpuSeen, type Vouched, vouch } from "./vouch.ts";

/** A month this young without any sign of monitoring is not yet judged, seconds. */
const TOO_YOUNG = 3600;

/** One tenant's month, counted. `error` set: it must not be published, though its settled days are in the ledger. */
export type CountedMonth = {
  readonly tenant: Tenant;
  readonly period: Period;
  readonly days: readonly DayUsage[];
  /** days after which nothing changes; only their individual records may be published */
  readonly settled: ReadonlySet<string>;
  /** the single jobs of the days asked for in this run, individual formats only */
  readonly jobs: ReadonlyMap<string, JobList>;
  readonly warnings: readonly string[];
  /** nothing to say yet: the month is minutes old, or lies before ACCOUNTING_SINCE */
  readonly empty: boolean;
  /** where too much measured CPU use is missing: what cAdvisor shows of the day that lacks most of it */
  readonly cpuSeen?: { readonly day: string; readonly seen: CpuSeen };
  readonly error?: unknown;
};

/** What the pieces of a month have brought so far. */
export type OpenMonth = {
  readonly plan: MonthPlan;
  readonly observed: ReadonlyMap<string, Observation>;
  readonly fresh: Map<string, FreshDay>;
  error?: unknown;
};

/** How long monitoring was not seen of a day, seconds. */
export const gapSeconds = (usage: DayUsage): number => usage.gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0);
/** The jobs of a day. */
export const jobsOf = (usage: DayUsage): number => usage.groups.reduce((sum, group) => sum + group.jobs, 0);

type MonthOptions = {
  readonly now: number;
  readonly allowIncomplete: boolean;
  readonly jobsWanted: PlanOptions["jobsWanted"];
};

/**
 * A tenant's month from what its pieces have brought, with what speaks against publishing it.
 * @param sighting all signs of monitoring that were looked for
 * @param before the days of the month before, as far as they are known
 */
export function countedMonth(
  tenant: Tenant,
  month: OpenMonth,
  options: MonthOptions,
  sighting: Pick<Sighting, "cells" | "upOnly">,
  before: readonly DayUsage[],
): CountedMonth {
  const { plan, observed, fresh } = month;
  const { period } = plan;
  const days = plan.days.flatMap((day) => fresh.get(day)?.usage ?? plan.known.get(day) ?? []);
  const settled = new Set(
    plan.days.filter(
      (day) => plan.known.has(day) || observed.get(day)?.settled === true || fresh.get(day)?.settled === true,
    ),
  );
  const jobs = new Map([...fresh].map(([day, { jobs: held }]) => [day, held]));
  const noSign =
    days.every((day) => !plan.known.has(day.day)) &&
    !sighting.cells.some((cell) => cell > period.from && cell <= period.to);
  const tooYoung = noSign && options.now - period.from < TOO_YOUNG;
  const empty = plan.days.length === 0 || tooYoung;
  const unseen = plan.days.filter((day) => observed.get(day)?.unseen === true && !plan.known.has(day));
  const lost = days
    .filter((usage) => options.jobsWanted(period.month, usage.day))
    .filter((usage) => jobsOf(usage) > (jobs.get(usage.day)?.length ?? 0))
    .map(({ day }) => day);
  const faults = new Map(
    [...fresh].flatMap(([day, { fault }]) => (fault === undefined ? [] : [[day, fault] as const])),
  );
  const doubt = monthDoubt(tenant, period, days, settled.size, before);
  const fault = (): GridmeterError | undefined =>
    notSeen(tenant, period, unseen, noSign) ??
    factsFault(tenant, period, faults) ??
    singlesLost(tenant, period, lost) ??
    doubt.error;
  const error = month.error ?? (empty || options.allowIncomplete ? undefined : fault());
  const warnings = [
    ...gapWarning(tenant, month, days, options.allowIncomplete ? unseen : []),
    ...upOnlyWarning(tenant, period, sighting.upOnly),
    ...dayWarnings(tenant, month),
    ...(doubt.warning === undefined ? [] : [doubt.warning]),
    ...(options.allowIncomplete ? leftOutWarnings(tenant, lost, [...faults.keys()], doubt.error) : []),
  ];
  return { tenant, period, days, settled, jobs, warnings, empty, ...(error === undefined ? {} : { error }) };
}

/** One line a month, also of gaps that go on over midnight, and of whole days that --allow-incomplete leaves out. */
function gapWarning(
  tenant: Tenant,
  { plan, observed }: OpenMonth,
  days: readonly DayUsage[],
  unseen: readonly string[],
): readonly string[] {
  const counted = new Set(days.map(({ day }) => day));
  const others = plan.days.filter((day) => !counted.has(day)).flatMap((day) => observed.get(day)?.gaps ?? []);
  const gaps = joined([...days.flatMap((day) => day.gaps), ...others]);
  if (gaps.length === 0) return [];
  const whole =
    unseen.length === 0 ? "" : `, published without ${unseen.length} whole ${unseen.length === 1 ? "day" : "days"}`;
  return [
    `${tenant.name}: monitoring was not seen in ${plan.period.month} from ${showStretches(gaps)}${whole}; jobs that were deleted meanwhile are missing.`,
  ];
}

/** Where kube-state-metrics was up and showed no pod for over a day, nothing but `up` says that there were none. */
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

/** What is known of days beyond their figures. */
function dayWarnings(tenant: Tenant, { plan, fresh }: OpenMonth): readonly string[] {
  const older = plan.days.filter(
    (day) => plan.older.has(day) && (fresh.get(day)?.usage ?? plan.known.get(day)) === plan.known.get(day),
  );
  const unproven = [...fresh].filter(([, day]) => day.unproven === true).map(([day]) => day);
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

/** What is missing in a month that --allow-incomplete publishes. */
function leftOutWarnings(
  tenant: Tenant,
  lost: readonly string[],
  faulty: readonly string[],
  doubt: GridmeterError | undefined,
): readonly string[] {
  return [
    ...(faulty.length === 0
      ? []
      : [`${tenant.name}: published without pods of which a fact is missing, on ${showDays(faulty)}.`]),
    ...(lost.length === 0
      ? []
      : [`${tenant.name}: published without single jobs that are lost, of ${showDays(lost)}.`]),
    ...(doubt === undefined
      ? []
      : [`${doubt.message.replace(/ The month was not published.*$/, "")} It was published all the same.`]),
  ];
}

function notSeen(
  tenant: Tenant,
  period: Period,
  unseen: readonly string[],
  noSign: boolean,
): GridmeterError | undefined {
  if (unseen.length === 0 && !noSign) return undefined;
  const what =
    unseen.length > 0
      ? `no pod was seen on whole days of ${period.month}: ${showDays(unseen)}; they are not in the ledger either`
      : `there is no sign of kube-state-metrics in ${period.month}`;
  return new GridmeterError(
    "monitoring_not_seen",
    `${tenant.name}: ${what}. The month was not published. If the cluster is younger, set ACCOUNTING_SINCE; if the days are lost for good ` +
      "(outage, retention), publish what there is with --allow-incomplete; if monitoring has another job name, set MONITORING_SELECTOR.",
  );
}

/** The ledger knows of jobs that were never published one by one, and Prometheus has them no more. */
function singlesLost(tenant: Tenant, period: Period, lost: readonly string[]): GridmeterError | undefined {
  if (lost.length === 0) return undefined;
  return new GridmeterError(
    "monitoring_not_seen",
    `${tenant.name}: the ledger counts jobs of ${period.month} on ${showDays(lost)} that were not yet published as ${tenant.format} ` +
      "and are not all in Prometheus any more. The month was not published, since it would be too low. Keep a summary format for this month, or publish " +
      "the jobs that are left with --allow-incomplete.",
  );
}

/** Whether there are jobs, and all of them are the tenant's own VO's. */
export const isWithoutVo = ({ days }: CountedPiece): boolean => {
  const groups = days.flatMap((day) => day.usage.groups);
  return groups.length > 0 && groups.every((group) => group.vo === null);
};

type PieceOptions = {
  /** how the days were watched */
  readonly observed: ReadonlyMap<string, Observation>;
  /** all signs of monitoring */
  readonly seen: readonly number[];
  /** what the server is known to answer at once; it learns */
  readonly tiling: Tiling;
  /** the end of all that is asked for, seconds: requests that are missing are looked for up to here */
  readonly until: number;
};

/** Counts consecutive days of one month together. Looks past the last day until it is settled. */
export async function countPiece(
  tenant: Tenant,
  monitoring: Monitoring,
  days: readonly [string, ...string[]],
  options: PieceOptions,
): Promise<CountedPiece> {
  const { observed, seen, tiling } = options;
  const watched = days.flatMap((day) => observed.get(day) ?? []);
  const from = startOf(days[0]);
  const to = greatest(watched.map((day) => day.until));
  const lastSeen = seen.findLast((cell) => cell <= to);
  const withNames = isIndividual(tenant);
  const withVo = tenant.selection.voLabel !== undefined;
  const { pods, vouched } = await askVouched(
    tenant,
    monitoring,
    { from, to },
    days,
    { lastSeen, withVo, withNames, tiling },
    options,
  );
  const { finished, count, facts } = pods;
  const last = endOfDay(days.at(-1) ?? days[0]);
  const mine = { [Symbol.iterator]: () => endingIn(finished, from, last) };
  const details = await askDetails(tenant, monitoring, { from, to }, mine, facts, tiling);
  const open = new Map([...pods.open].filter(([, { day }]) => days.includes(day)));
  return {
    open,
    isEmpty: count === 0 && pods.open.size === 0,
    finished: count,
    vouched,
    dayOf: pods.dayOf,
    days: toDays(finished, days, {
      defaultMilliCores: tenant.defaultMilliCores,
      gapsOf: (day) => [...(observed.get(day)?.gaps ?? [])],
      details,
      openPods: open.values(),
      withJobs: isIndividual(tenant),
    }).map(({ usage, jobs }) => ({ usage, jobs: new JobList(jobs) })),
  };
}

/** Asks for the pods and judges them; where answers disagree, all is asked once more and added to what is known. */
async function askVouched(
  tenant: Tenant,
  monitoring: Monitoring,
  window: Window,
  days: readonly [string, ...string[]],
  podOptions: PodOptions,
  { until }: PieceOptions,
): Promise<{ readonly pods: PieceOfPods; readonly vouched: Vouched }> {
  const facts: Facts = new Map();
  const judge = (pods: PieceOfPods): Promise<Vouched> =>
    vouch(monitoring, days, pods.finished, pods.lacking, {
      withoutDefaultCores: tenant.defaultMilliCores === undefined,
      until,
    });
  const pods = await askPods(monitoring, window, podOptions, facts);
  const vouched = await judge(pods);
  if (![...vouched.faults.values()].some(({ kind }) => kind === "answers_disagree")) return { pods, vouched };
  const again = await askPods(monitoring, window, podOptions, facts);
  return { pods: again, vouched: await judge(again) };
}

const endsIn = ({ end }: FinishedPod, from: number, to: number): boolean => end >= from && end < to;

function* endingIn(finished: Iterable<FinishedPod>, from: number, to: number): Generator<FinishedPod> {
  for (const pod of finished) if (endsIn(pod, from, to)) yield pod;
}

function noDetails(tenant: Tenant): Details {
  const none = new Map<string, number>();
  return {
    ...(tenant.model === "wallclock" ? { cpu: none } : {}),
    ...(isIndividual(tenant) ? { memoryRequest: none, memoryUsed: none } : {}),
  };
}

/**
 * Asks only what the model and the format need.
 * @param pods those that the details are wanted of
 */
async function askDetails(
  tenant: Tenant,
  monitoring: Monitoring,
  asked: Window,
  pods: Iterable<FinishedPod>,
  facts: Facts,
  tiling: Tiling,
): Promise<Details> {
  const none = noDetails(tenant);
  const starts = Object.keys(none).length === 0 ? [] : Array.from(pods, (pod) => pod.start ?? pod.end);
  if (starts.length === 0) return none;
  // A restarted container's counter ends long before its pod, so what was measured is asked from the earliest start on.
  const window = { from: starts.reduce((a, b) => Math.min(a, b), asked.from), to: asked.to };
  const [cpu, memoryRequest, memoryUsed] = await Promise.all([
    none.cpu === undefined ? undefined : askCpu(monitoring, window.from, window.to, facts, tiling),
    none.memoryRequest === undefined ? undefined : askMemoryRequests(monitoring, window, pods, facts, tiling),
    none.memoryUsed === undefined ? undefined : askMemoryUsed(monitoring, window, facts, tiling),
  ]);
  return {
    ...(cpu === undefined ? {} : { cpu }),
    ...(memoryRequest === undefined ? {} : { memoryRequest }),
    ...(memoryUsed === undefined ? {} : { memoryUsed }),
  };
}
