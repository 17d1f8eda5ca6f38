import { z } from "zod";
import { voOfLabel } from "../model/tenant.ts";
import { DAY, startOf } from "../model/time.ts";
import type { ByUid, FinishedPod, OpenPod } from "./pods.ts";

/**
 * Why a pod of the day is not counted. `not_finished`: one of its containers ended on that day, the pod runs on. `no_end`: it
 * was evicted, or deleted before its completion was scraped; its day is the one on which it was last seen.
 */
export const LEFT_OUT = ["no_cpu_request", "negative_duration", "no_start", "not_finished", "no_end"] as const;
export type LeftOut = (typeof LEFT_OUT)[number];
/** Why a finished pod is no job. */
type NoJob = Exclude<LeftOut, "not_finished" | "no_end">;

const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

/** Jobs of one VO and one size. Integers throughout: rounding happens once, per published record. */
const usageGroup = z.object({
  /** the VO label's value; null is the tenant's own VO */
  vo: z.string().nullable(),
  milliCores: count,
  jobs: count,
  wallSeconds: count,
  milliCoreSeconds: count,
  /** measured CPU use, where it was asked for: of how many jobs and milli-core-seconds it is known */
  cpu: z.object({ milliseconds: count, jobs: count, milliCoreSeconds: count }).optional(),
  firstEnd: count,
  lastEnd: count,
});
export type UsageGroup = z.infer<typeof usageGroup>;

/** A tenant's usage of one day: what the ledger keeps. Groups are sorted by VO and size, one per (VO, milli-cores). */
export const dayUsage = z.object({
  day: z.string().regex(/^\d{4}-\d{2}-\d{2}$/),
  groups: z.array(usageGroup),
  // Ledgers of version 0.1 do not have the last two, nor the succeeded ones.
  leftOut: z.object({
    no_cpu_request: count,
    negative_duration: count,
    no_start: count,
    not_finished: count.default(0),
    no_end: count.default(0),
  }),
  /** how many of those that are left out have succeeded */
  succeededLeftOut: count.default(0),
  /** stretches without a sign of monitoring, epoch seconds */
  gaps: z.array(z.object({ from: count, to: count })),
  /** whether measured CPU use was asked for */
  cpuAsked: z.boolean(),
});
export type DayUsage = z.infer<typeof dayUsage>;

/** How many pods of the days are left out, by reason. */
export function leftOutOf(days: readonly DayUsage[]): Readonly<Record<LeftOut, number>> {
  const leftOut = { no_cpu_request: 0, negative_duration: 0, no_start: 0, not_finished: 0, no_end: 0 };
  for (const day of days) for (const reason of LEFT_OUT) leftOut[reason] += day.leftOut[reason];
  return leftOut;
}

/** One job that counts. */
export type Job = {
  readonly uid: string;
  readonly pod: string;
  readonly vo: string | null;
  readonly start: number;
  readonly end: number;
  readonly milliCores: number;
  /** measured, only where it was asked for and known */
  readonly cpuMilliseconds?: number;
  /** KiB; sum of its containers' requests, individual formats only */
  readonly memoryRequest?: number;
  /** KiB; measured maximum, individual formats only */
  readonly memoryUsed?: number;
};

/** What is asked of pods beyond what counts them: CPU milliseconds and KiB. */
export type Details = { readonly cpu?: ByUid; readonly memoryRequest?: ByUid; readonly memoryUsed?: ByUid };

/** A pod as a job, or the reason why it is left out. */
export function toJob(pod: FinishedPod, defaultMilliCores: number | undefined, details: Details = {}): Job | NoJob {
  if (pod.start === undefined) return "no_start";
  if (pod.end < pod.start) return "negative_duration";
  const milliCores = pod.milliCores ?? defaultMilliCores;
  if (milliCores === undefined) return "no_cpu_request";
  const cpuMilliseconds = details.cpu?.get(pod.uid);
  const memoryRequest = details.memoryRequest?.get(pod.uid);
  const memoryUsed = details.memoryUsed?.get(pod.uid);
  return {
    uid: pod.uid,
    pod: pod.pod,
    vo: voOfLabel(pod.vo),
    start: pod.start,
    end: pod.end,
    milliCores,
    ...(cpuMilliseconds === undefined ? {} : { cpuMilliseconds }),
    ...(memoryRequest === undefined ? {} : { memoryRequest }),
    ...(memoryUsed === undefined ? {} : { memoryUsed }),
  };
}

const groupKey = (group: { vo: string | null; milliCores: number }): string =>
  JSON.stringify([group.vo, group.milliCores]);

/** Adds one group to another of the same VO and size. */
function addGroups(a: UsageGroup, b: UsageGroup): UsageGroup {
  const cpu =
    a.cpu === undefined || b.cpu === undefined
      ? (a.cpu ?? b.cpu)
      : {
          milliseconds: a.cpu.milliseconds + b.cpu.milliseconds,
          jobs: a.cpu.jobs + b.cpu.jobs,
          milliCoreSeconds: a.cpu.milliCoreSeconds + b.cpu.milliCoreSeconds,
        };
  return {
    vo: a.vo,
    milliCores: a.milliCores,
    jobs: a.jobs + b.jobs,
    wallSeconds: a.wallSeconds + b.wallSeconds,
    milliCoreSeconds: a.milliCoreSeconds + b.milliCoreSeconds,
    ...(cpu === undefined ? {} : { cpu }),
    firstEnd: Math.min(a.firstEnd, b.firstEnd),
    lastEnd: Math.max(a.lastEnd, b.lastEnd),
  };
}

/** Groups added up to one per (VO, milli-cores), sorted. */
export function mergeGroups(groups: Iterable<UsageGroup>): UsageGroup[] {
  const merged = new Map<string, UsageGroup>();
  for (const group of groups) {
    const held = merged.get(groupKey(group));
    merged.set(groupKey(group), held === undefined ? group : addGroups(held, group));
  }
  return [...merged].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, group]) => group);
}

/** Jobs added up one by one, without keeping them: there may be ten thousand a day, and few sizes among them. */
class DaySum {
  readonly leftOut = { no_cpu_request: 0, negative_duration: 0, no_start: 0, not_finished: 0, no_end: 0 };
  succeededLeftOut = 0;
  readonly jobs: Job[] = [];
  readonly #groups = new Map<string, UsageGroup>();
  readonly #cpuAsked: boolean;

  constructor(cpuAsked: boolean) {
    this.#cpuAsked = cpuAsked;
  }

  add(job: Job): void {
    const key = `${job.milliCores} ${job.vo ?? ""} ${job.vo === null}`;
    const held = this.#groups.get(key);
    const group = groupOf(job, this.#cpuAsked);
    this.#groups.set(key, held === undefined ? group : addGroups(held, group));
  }

  leaveOut(reason: LeftOut, succeeded: boolean): void {
    this.leftOut[reason] += 1;
    if (succeeded) this.succeededLeftOut += 1;
  }

  groups(): UsageGroup[] {
    return mergeGroups(this.#groups.values());
  }
}

function groupOf(job: Job, cpuAsked: boolean): UsageGroup {
  const wallSeconds = job.end - job.start;
  const milliCoreSeconds = wallSeconds * job.milliCores;
  const used = job.cpuMilliseconds;
  const known =
    used === undefined
      ? { milliseconds: 0, jobs: 0, milliCoreSeconds: 0 }
      : { milliseconds: used, jobs: 1, milliCoreSeconds };
  return {
    vo: job.vo,
    milliCores: job.milliCores,
    jobs: 1,
    wallSeconds,
    milliCoreSeconds,
    ...(cpuAsked ? { cpu: known } : {}),
    firstEnd: job.end,
    lastEnd: job.end,
  };
}

type DayOfJobs = { readonly usage: DayUsage; readonly jobs: readonly Job[] };

/**
 * Puts finished pods into the days in which the value of their end falls. One and the same set of jobs feeds every figure.
 * @param days the days wanted; pods of other days are passed over
 * @param gapsOf gaps of monitoring to note with a day
 * @param options.details what was asked beyond the count
 * @param options.openPods pods that have no end that counts; they are left out, and counted as such
 * @param options.withJobs whether the single jobs are wanted too (default); a month of them is what would fill the memory
 */
export function toDays(
  pods: Iterable<FinishedPod>,
  days: readonly string[],
  options: {
    readonly defaultMilliCores: number | undefined;
    readonly gapsOf: (day: string) => DayUsage["gaps"];
    readonly details?: Details;
    readonly openPods?: Iterable<OpenPod>;
    readonly withJobs?: boolean;
  },
): readonly DayOfJobs[] {
  const { defaultMilliCores, gapsOf, details, openPods = [], withJobs = true } = options;
  const cpuAsked = details?.cpu !== undefined;
  const byDay = new Map(days.map((day): [number, DaySum] => [startOf(day) / DAY, new DaySum(cpuAsked)]));
  for (const pod of pods) {
    const sum = byDay.get(Math.floor(pod.end / DAY));
    if (sum === undefined) continue;
    const job = toJob(pod, defaultMilliCores, details);
    if (typeof job === "string") {
      sum.leaveOut(job, pod.succeeded);
      continue;
    }
    sum.add(job);
    if (withJobs) sum.jobs.push(job);
  }
  for (const { day, reason, succeeded } of openPods) byDay.get(startOf(day) / DAY)?.leaveOut(reason, succeeded);
  return [...byDay.values()].map((sum, index) => {
    const day = days[index] ?? "";
    const { leftOut, succeededLeftOut } = sum;
    const usage = { day, groups: sum.groups(), leftOut, succeededLeftOut, gaps: gapsOf(day), cpuAsked };
    return { usage, jobs: sum.jobs };
  });
}
