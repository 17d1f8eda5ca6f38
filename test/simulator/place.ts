import { makeJob } from "./make-job.ts";
import type { JobPlan } from "./make-job.ts";
import type { Job } from "./job.ts";
import type { Random } from "./random.ts";
import type { Stretch } from "./schedule.ts";

export const MINUTE = 60;
export const HOUR = 3600;
export const DAY = 86_400;

/** The calendar that all kinds of one cluster share. */
export type Calendar = {
  /** firsts of the months, the last one being the first after the last whole month; now is later */
  readonly edges: readonly number[];
  readonly now: number;
  readonly outage: Stretch;
  readonly redeploys: readonly number[];
  readonly secondStack: Stretch;
};

/** Where and when the jobs of a kind are put. */
export class Place {
  readonly kind: string;
  readonly namespace: string;
  readonly calendar: Calendar;
  readonly random: Random;

  constructor(kind: string, namespace: string, calendar: Calendar, random: Random) {
    this.kind = kind;
    this.namespace = namespace;
    this.calendar = calendar;
    this.random = random;
  }

  job(plan: JobPlan, namespace = this.namespace): Job {
    return makeJob(this.kind, namespace, this.random, plan);
  }

  /** Edges between months at which something can be seen on both sides. */
  get borders(): readonly number[] {
    return this.calendar.edges.slice(1).filter((edge) => edge + HOUR <= this.calendar.now);
  }

  /** For each month `count` stretches of 20 minutes to 2 hours, at random times and so that `after` seconds of it follow. */
  inside(count: number, after = 2 * HOUR): { readonly start: number; readonly end: number }[] {
    const { edges, now } = this.calendar;
    return [...edges.keys()].flatMap((index) => {
      const from = edges[index]! + HOUR;
      const to = (edges[index + 1] ?? now) - after;
      if (to - from < 3 * HOUR) return [];
      return Array.from({ length: count }, () => this.between(from, to));
    });
  }

  /** A stretch of 20 minutes to 2 hours in [from, to). */
  between(from: number, to: number): { readonly start: number; readonly end: number } {
    const length = this.random.int(20 * MINUTE, 2 * HOUR);
    const start = this.random.int(from, Math.max(from, to - length));
    return { start, end: start + length };
  }
}
