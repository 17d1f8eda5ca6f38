import type { IndividualRecord } from "../apel/record.ts";
import type { CountedMonth } from "../counting/count-month.ts";
import { type Tenant, voOf } from "../model/tenant.ts";
import { type JobList, inOrder } from "../counting/jobs.ts";
import type { Job } from "../counting/usage.ts";
import { type Publication, sourceOf } from "./state.ts";

/**
 * One job as APEL's individual record: LocalJobId is the pod's uid (APEL keys jobs by Site, LocalJobId, EndTime, and a pod
 * name comes back), MachineName the pod's name. Durations follow the tenant's model.
 */
export function individualRecord(tenant: Tenant, job: Job): IndividualRecord {
  const coreSeconds = ((job.end - job.start) * job.milliCores) / 1000;
  const processors = tenant.model === "wallclock" ? Math.max(1, Math.ceil(job.milliCores / 1000)) : tenant.processors;
  const wallclock = tenant.model === "wallclock";
  return {
    kind: "individual",
    site: tenant.site,
    vo: voOf(job.vo, tenant),
    submitHost: tenant.submitHost,
    machineName: job.pod,
    localJobId: job.uid,
    infrastructureType: tenant.infrastructureType,
    wallDuration: Math.round(wallclock ? coreSeconds / processors : coreSeconds),
    cpuDuration: Math.round(wallclock ? (job.cpuMilliseconds ?? 0) / 1000 : coreSeconds),
    ...(job.memoryUsed === undefined ? {} : { memoryReal: job.memoryUsed }),
    ...(job.memoryRequest === undefined ? {} : { memoryVirtual: job.memoryRequest }),
    processors,
    nodeCount: tenant.nodeCount,
    startTime: job.start,
    endTime: job.end,
    ...(tenant.serviceLevel === undefined ? {} : { serviceLevel: tenant.serviceLevel }),
  };
}

export type IndividualWant = {
  /** in the order of their APEL keys; made again each time they are asked for, so that not all of them are in memory */
  readonly records: Iterable<IndividualRecord>;
  /** source -> day -> how many jobs of it are among the records */
  readonly days: Publication["individual"];
};

/**
 * The single jobs to publish now: settled days only, each day once (accounting-rules).
 * @param published source -> day -> jobs, what was published before
 */
export function individualWant(months: readonly CountedMonth[], published: Publication["individual"]): IndividualWant {
  const days: Publication["individual"] = {};
  const byDay = new Map<string, JobsOf[]>();
  for (const { tenant, settled, jobs: all } of months) {
    const source = sourceOf(tenant);
    for (const [day, jobs] of all) {
      if (!settled.has(day) || published[source]?.[day] !== undefined) continue;
      byDay.set(day, [...(byDay.get(day) ?? []), { tenant, jobs }]);
      days[source] = { ...days[source], [day]: jobs.length };
    }
  }
  const ascending = [...byDay].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, each]) => each);
  return { records: { [Symbol.iterator]: () => recordsOf(ascending) }, days };
}

/** A tenant's jobs of one day. */
type JobsOf = { readonly tenant: Tenant; readonly jobs: JobList };

function* recordsOf(days: readonly (readonly JobsOf[])[]): Generator<IndividualRecord> {
  for (const day of days) for (const { tenant, job } of merged(day)) yield individualRecord(tenant, job);
}

/** The jobs of several tenants as one list in order. */
function* merged(lists: readonly JobsOf[]): Generator<{ readonly tenant: Tenant; readonly job: Job }> {
  const heads = lists.flatMap(({ tenant, jobs }) => headOf(tenant, jobs[Symbol.iterator]()));
  for (let [first, ...others] = heads; first !== undefined; [first, ...others] = heads) {
    const least = others.reduce((a, b) => (inOrder(b.job, a.job) < 0 ? b : a), first);
    yield least;
    heads.splice(heads.indexOf(least), 1, ...headOf(least.tenant, least.rest));
  }
}

type Head = { readonly tenant: Tenant; readonly job: Job; readonly rest: Iterator<Job> };

/** The next job, or none. */
function headOf(tenant: Tenant, rest: Iterator<Job>): readonly Head[] {
  const next = rest.next();
  return next.done === true ? [] : [{ tenant, job: next.value, rest }];
}
