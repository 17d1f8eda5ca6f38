import { z } from "zod";
import { voOfLabel } from "../model/tenant.ts";
import { DAY, startOf } from "../model/time.ts";
import type { ByUid, FinishedPod, OpenPod } from "./pods.ts";

/**
 * Why a pod is not counted. `not_finished`: a container of it ended on that day, but the pod runs on. `no_end`: it was
 * evicted, or deleted before its completion was scraped; its day is the one on which it was last seen.
 */
export const LEFT_OUT = ["no_cpu_request", "negative_duration", "no_start", "not_finished", "no_end"] as const;
export type LeftOut = (typeof LEFT_OUT)[number];
/** Why a finished pod is not counted. */
type NoJob = Exclude<LeftOut, "not_finished" | "no_end">;

const noneLeftOut = (): Record<LeftOut, number> => ({
  no_cpu_request: 0,
  negative_duration: 0,
  no_start: 0,
  not_finished: 0,
  no_end: 0,
});

const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

/** The jobs of one VO and one size. All numbers are integers: rounding happens once, in the record that is published. */
const usageGroup = z.object({
  /** the value of the VO label; null: VO_NAME */
  vo: z.string().nullable(),
  milliCores: count,
  jobs: count,
  wallSeconds: count,
  milliCoreSeconds: count,
  /** measured CPU use, where it was asked for, and for how many of the jobs and milli-core-seconds it is known */
  cpu: z.object({ milliseconds: count, jobs: count, milliCoreSeconds: count }).optional(),
  firstEnd: count,
  lastEnd: count,
});
export type UsageGroup = z.infer<typeof usageGroup>;

/** A tenant's usage of one day, as the ledger keeps it. There is one group a (VO, milli-cores); they are sorted by these. */
export const dayUsage = z.object({
  day: z.string().regex(/^\d{4}-\d{2}-\d{2}$/),
  groups: z.array(usageGroup),
  // Ledgers of version 0.1 have neither the last two reasons nor `succeededLeftOut`.
  leftOut: z.object({
    no_cpu_request: count,
    negative_duration: count,
    no_start: count,
    not_finished: count.default(0),
    no_end: count.default(0),
  }),
  /** how many of the pods that are left out have succeeded */
  succeededLeftOut: count.default(0),
  /** gaps of the monitoring, epoch seconds */
  gaps: z.array(z.object({ from: count, to: count })),
  /** whether measured CPU use was asked for */
  cpuAsked: z.boolean(),
});
export type DayUsage = z.infer<typeof dayUsage>;

/** How many jobs a day has. */
export function jobsOf({ groups }: DayUsage): number {
  return groups.reduce((sum, { jobs }) => sum + jobs, 0);
}

/** How many pods of the days are left out, by reason. */
export function leftOutOf(days: readonly DayUsage[]): Readonly<Record<LeftOut, number>> {
  const leftOut = noneLeftOut();
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
  /** measured; absent where it was not asked for or is not known */
  readonly cpuMilliseconds?: number;
  /** KiB, the sum of its containers' requests; only for job records */
  readonly memoryRequest?: number;
  /** KiB, the measured maximum; only for job records */
  readonly memoryUsed?: number;
};

/** What was asked of pods beyond what counts them, where it was: CPU milliseconds and KiB. */
export type Details = { readonly cpu?: ByUid; readonly memoryRequest?: ByUid; readonly memoryUsed?: ByUid };

/** A finished pod as a job, or the reason why it is left out. */
function toJob(pod: FinishedPod, defaultMilliCores: number | undefined, details: Details): Job | NoJob {
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

/** The sums of a day. Jobs are added one by one and not kept: there may be ten thousand, but they have few sizes. */
class DaySum {
  readonly leftOut = noneLeftOut();
  succeededLeftOut = 0;
  readonly jobs: Job[] = [];
  readonly #groups = new Map<string, UsageGroup>();
  readonly #cpuAsked: boolean;

  constructor(cpuAsked: boolean) {
    this.#cpuAsked = cpuAsked;
  }

  add(job: Job): void {
    const key = JSON.stringify([job.vo, job.milliCores]);
    const held = this.#groups.get(key);
    const group = groupOf(job, this.#cpuAsked);
    this.#groups.set(key, held === undefined ? group : addGroups(held, group));
  }

  leaveOut(reason: LeftOut, succeeded: boolean): void {
    this.leftOut[reason] += 1;
    if (succeeded) this.succeededLeftOut += 1;
  }

  groups(): UsageGroup[] {
    return [...this.#groups].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, group]) => group);
  }
}

function groupOf(job: Job, cpuAsked: boolean): UsageGroup {
  const wallSeconds = job.end - job.start;
  const milliCoreSeconds = wallSeconds * job.milliCores;
  const used = job.cpuMilliseconds;
  const cpu =
    used === undefined
      ? { milliseconds: 0, jobs: 0, milliCoreSeconds: 0 }
      : { milliseconds: used, jobs: 1, milliCoreSeconds };
  return {
    vo: job.vo,
    milliCores: job.milliCores,
    jobs: 1,
    wallSeconds,
    milliCoreSeconds,
    ...(cpuAsked ? { cpu } : {}),
    firstEnd: job.end,
    lastEnd: job.end,
  };
}

/** The sum of two groups of the same VO and size. */
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

type DayOfJobs = { readonly usage: DayUsage; readonly jobs: readonly Job[] };

/**
 * Puts finished pods into the days in which the value of their end falls. All figures come from one and the same set of jobs.
 * @param days the days that are wanted; pods of other days are passed over
 * @param options.gapsOf the gaps of the monitoring on a day, which its usage notes
 * @param options.details what was asked of the pods beyond what counts them
 * @param options.openPods pods without an end that counts; they are left out of their day
 * @param options.withJobs whether the jobs themselves are wanted too (default): those of a month would fill the memory
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
  const { defaultMilliCores, gapsOf, details = {}, openPods = [], withJobs = true } = options;
  const cpuAsked = details.cpu !== undefined;
  const byNumber = new Map(days.map((day): [number, DaySum] => [startOf(day) / DAY, new DaySum(cpuAsked)]));
  for (const pod of pods) {
    const sum = byNumber.get(Math.floor(pod.end / DAY));
    if (sum === undefined) continue;
    const job = toJob(pod, defaultMilliCores, details);
    if (typeof job === "string") {
      sum.leaveOut(job, pod.succeeded);
      continue;
    }
    sum.add(job);
    if (withJobs) sum.jobs.push(job);
  }
  for (const { day, reason, succeeded } of openPods) byNumber.get(startOf(day) / DAY)?.leaveOut(reason, succeeded);
  return [...byNumber.values()].map((sum, index) => {
    const day = days[index] ?? "";
    const { leftOut, succeededLeftOut } = sum;
    const usage = { day, groups: sum.groups(), leftOut, succeededLeftOut, gaps: gapsOf(day), cpuAsked };
    return { usage, jobs: sum.jobs };
  });
}
