import { STACK } from "../cluster.ts";
import type { Cluster } from "../cluster.ts";
import { monthStart } from "../clusters.ts";
import type { Job } from "../job.ts";
import { makeJob } from "../make-job.ts";
import type { JobPlan } from "../make-job.ts";
import { DAY, HOUR, MINUTE } from "../place.ts";
import { Random } from "../random.ts";

/** The namespace whose jobs are counted. */
export const BATCH = "batch";
const JANUARY = monthStart("2025-01");

/** A moment of January 2025; later days than the 31st are of the months that follow. */
export const at = (day: number, hour = 0, minute = 0): number =>
  JANUARY + (day - 1) * DAY + hour * HOUR + minute * MINUTE;

/** The days from one to another, both included. */
export const days = (first: number, last: number): number[] =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index);

/** All of January, and the working days of it: the 1st was a Wednesday. */
export const ALL_DAYS = days(1, 31);
export const WORKING_DAYS = ALL_DAYS.filter((day) => ![4, 5].includes(day % 7));

/** A pod of the namespace. It lingers for 20 minutes after its end, and cAdvisor is not looked at. */
export function pod(start: number, end: number | null, plan: Partial<JobPlan> & { readonly in?: string } = {}): Job {
  const { in: namespace = BATCH, ...more } = plan;
  return makeJob("batch", namespace, new Random(`${namespace} ${start} ${JSON.stringify(plan)}`), {
    lingers: 20 * MINUTE,
    labels: {},
    containers: [{ milliCores: 2000, measured: false }],
    ...more,
    start,
    end,
  });
}

/** Jobs of two hours on each day, the first from eight o'clock on, each other an hour after the one before. */
export function jobsOn(
  which: readonly number[],
  options: { readonly perDay?: number; readonly plan?: (index: number) => Parameters<typeof pod>[2] } = {},
): Job[] {
  const { perDay = 1, plan = () => ({}) } = options;
  return which.flatMap((day, index) =>
    Array.from({ length: perDay }, (_, nth) =>
      pod(at(day, 8 + nth), at(day, 10 + nth), { pod: `job-${day}-${nth}`, ...plan(index * perDay + nth) }),
    ),
  );
}

/** Watched every five minutes from the last day of 2024 to the fourth of February, unless said otherwise. */
export function batch(jobs: readonly Job[], more: Partial<Cluster> = {}): Cluster {
  return {
    from: at(0),
    to: at(35),
    scrapeInterval: 300,
    jobs,
    stacks: [STACK],
    outages: [],
    emptyNamespaces: [BATCH],
    ...more,
  };
}

/** To the fourth of March: two months can be asked for. */
export const TWO_MONTHS = { to: at(63) } as const;
