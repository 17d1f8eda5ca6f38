import { DateTime } from "luxon";
import { lastScrape, reports, scrapesOf } from "./cluster.ts";
import type { Cluster } from "./cluster.ts";
import { finishedAt, requestAt, terminations, usedCpuMs } from "./job.ts";
import type { Job } from "./job.ts";
import type { Schedule } from "./schedule.ts";

/** accounting-rules: left out, counted by reason, in the day and month of the end's value. */
export type Reason = "no_cpu_request" | "negative_duration" | "no_start" | "not_finished";

const REASONS: readonly Reason[] = ["no_cpu_request", "negative_duration", "no_start", "not_finished"];

/** Why a pod that monitoring saw has no end at all. */
export type NoEnd = "evicted" | "deleted" | "running";

/** What must come of one pod, given what really happened to it and when monitoring looked. */
export type JobTruth = {
  readonly job: Job;
  readonly verdict: "counted" | Reason | `no_end:${NoEnd}` | "never_seen";
  /** epoch seconds; absent where the verdict is no_end or never_seen */
  readonly end?: number;
  /** where the verdict is no_end: when it was last scraped, epoch seconds */
  readonly lastSeen?: number;
  readonly start?: number;
  readonly milliCores?: number;
  /** CPU milliseconds that cAdvisor showed; absent if it never showed a container of the pod */
  readonly cpuMs?: number;
  /** bytes, summed over containers and native sidecars */
  readonly memoryRequest?: number;
};

/** The figures of one namespace in one month. */
export type Figures = {
  readonly jobs: number;
  readonly wallSeconds: number;
  /** milli-cores x seconds */
  readonly milliCoreSeconds: number;
  readonly cpuMs: number;
  readonly jobsWithoutCpu: number;
  readonly milliCoreSecondsWithoutCpu: number;
  readonly firstEnd?: number;
  readonly lastEnd?: number;
  readonly leftOut: Readonly<Record<Reason, number>>;
};

export type TruthOptions = {
  readonly defaultMilliCores?: number;
  /** only these jobs, e.g. those with a VO label */
  readonly where?: (job: Job) => boolean;
};

/**
 * What must be counted, per namespace, in a UTC month `yyyy-mm`, as of `cluster.to`. Computed from the job descriptions and the
 * times of the scrapes alone, never from series.
 */
export function truth(cluster: Cluster, month: string, options: TruthOptions = {}): Map<string, Figures> {
  const figures = new Map<string, Figures>();
  for (const one of truthOfJobs(cluster, options)) {
    if (one.end === undefined || monthOf(one.end) !== month) continue;
    const { namespace } = one.job;
    figures.set(namespace, add(figures.get(namespace) ?? NONE, one));
  }
  return figures;
}

/** The figures of a namespace in which no job ended. */
export const NONE: Figures = {
  jobs: 0,
  wallSeconds: 0,
  milliCoreSeconds: 0,
  cpuMs: 0,
  jobsWithoutCpu: 0,
  milliCoreSecondsWithoutCpu: 0,
  leftOut: { no_cpu_request: 0, negative_duration: 0, no_start: 0, not_finished: 0 },
};

/** Whether pods finished in a month and none of them counts: such a month is refused once it is over (all that these kinds finish succeeds). */
export const isAllLeftOut = ({ jobs, leftOut }: Figures): boolean =>
  jobs === 0 && leftOut.no_cpu_request + leftOut.negative_duration + leftOut.no_start > 0;

/** Pods without an end, per namespace and kind of absence. */
export function truthWithoutEnd(cluster: Cluster, options: TruthOptions = {}): Map<string, Record<NoEnd, number>> {
  const counts = new Map<string, Record<NoEnd, number>>();
  for (const { job, verdict } of truthOfJobs(cluster, options)) {
    const reason = (["evicted", "deleted", "running"] as const).find((one) => verdict === `no_end:${one}`);
    if (reason === undefined) continue;
    const held = counts.get(job.namespace) ?? { evicted: 0, deleted: 0, running: 0 };
    counts.set(job.namespace, { ...held, [reason]: held[reason] + 1 });
  }
  return counts;
}

/** The truth pod by pod. */
export function truthOfJobs(cluster: Cluster, options: TruthOptions = {}): JobTruth[] {
  const watching = cluster.stacks.map((stack) => ({ stack, schedule: scrapesOf(cluster, stack) }));
  return cluster.jobs
    .filter((job) => options.where?.(job) ?? true)
    .map((job) => {
      const schedules = watching.filter(({ stack }) => reports(stack, job)).map(({ schedule }) => schedule);
      return judge(job, cluster.to, schedules, options.defaultMilliCores);
    });
}

function judge(job: Job, now: number, schedules: readonly Schedule[], defaultMilliCores?: number): JobTruth {
  const gone = Math.min(job.deleted ?? Infinity, now);
  const scraped = (from: number, to: number): boolean => lastScrape(schedules, from, Math.min(to, gone)) !== undefined;
  const lastSeen = lastScrape(schedules, job.created, gone);
  if (lastSeen === undefined) return { job, verdict: "never_seen" };

  const ends = terminations(job).filter(({ from, to }) => scraped(from, to));
  if (ends.length === 0) return { job, verdict: `no_end:${whyNoEnd(job, now)}`, lastSeen };
  const end = Math.max(...ends.map(({ value }) => value));

  const counting = [...job.containers, ...job.sidecars];
  const requested = counting.map((container) => requestAt(container, end)).filter((cores) => cores !== undefined);
  const milliCores = requested.length > 0 ? sum(requested) : defaultMilliCores;
  const memory = counting.map((container) => container.memory).filter((bytes) => bytes !== undefined);
  const cpuMs = measuredCpuMs(job, gone, schedules);
  const starts = job.starts.filter(({ from }) => scraped(from, gone)).map(({ value }) => value);
  const start = starts.length > 0 ? Math.max(...starts) : undefined;

  const finished = finishedAt(job);
  const verdict =
    finished === undefined || !scraped(finished, gone)
      ? "not_finished"
      : start === undefined
        ? "no_start"
        : end < start
          ? "negative_duration"
          : milliCores === undefined
            ? "no_cpu_request"
            : "counted";
  return {
    job,
    verdict,
    end,
    ...(start === undefined ? {} : { start }),
    ...(milliCores === undefined ? {} : { milliCores }),
    ...(cpuMs === undefined ? {} : { cpuMs }),
    ...(memory.length === 0 ? {} : { memoryRequest: sum(memory) }),
  };
}

function whyNoEnd(job: Job, now: number): NoEnd {
  if (job.evicted !== undefined && job.evicted < now) return "evicted";
  return (job.deleted ?? Infinity) <= now ? "deleted" : "running";
}

/** What the counters of all the pod's containers, restarts included, showed when they were last scraped. */
function measuredCpuMs(job: Job, gone: number, schedules: readonly Schedule[]): number | undefined {
  const shown = [...job.initContainers, ...job.sidecars, ...job.containers].flatMap(({ runs }) =>
    runs.map((run) => {
      const until = Math.min(run.to ?? Infinity, job.evicted ?? Infinity, gone);
      const last = run.cpuMs === undefined ? undefined : lastScrape(schedules, run.from, until);
      return last === undefined ? undefined : usedCpuMs(run, last);
    }),
  );
  const known = shown.filter((value) => value !== undefined);
  return known.length === 0 ? undefined : sum(known);
}

function add(held: Figures, one: JobTruth): Figures {
  const { verdict, end, start, milliCores, cpuMs } = one;
  if (verdict !== "counted" || end === undefined || start === undefined || milliCores === undefined) {
    const reason = REASONS.find((one) => one === verdict);
    if (reason === undefined) return held;
    return { ...held, leftOut: { ...held.leftOut, [reason]: held.leftOut[reason] + 1 } };
  }
  const wall = end - start;
  const without = cpuMs === undefined;
  return {
    ...held,
    jobs: held.jobs + 1,
    wallSeconds: held.wallSeconds + wall,
    milliCoreSeconds: held.milliCoreSeconds + wall * milliCores,
    cpuMs: held.cpuMs + (cpuMs ?? 0),
    jobsWithoutCpu: held.jobsWithoutCpu + (without ? 1 : 0),
    milliCoreSecondsWithoutCpu: held.milliCoreSecondsWithoutCpu + (without ? wall * milliCores : 0),
    firstEnd: Math.min(held.firstEnd ?? end, end),
    lastEnd: Math.max(held.lastEnd ?? end, end),
  };
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

const monthOf = (epoch: number): string => DateTime.fromSeconds(epoch, { zone: "utc" }).toFormat("yyyy-MM");
