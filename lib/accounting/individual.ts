import type { IndividualRecord } from "../apel/records.ts";
import type { CountedMonth } from "./counted-month.ts";
import { sourceOf } from "./state.ts";
import type { Publication } from "./state.ts";
import type { Tenant } from "./tenant.ts";
import type { Job } from "./usage.ts";

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
    vo: job.vo ?? tenant.vo,
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
  readonly records: readonly IndividualRecord[];
  readonly days: Publication["individual"];
};

/**
 * The single jobs to publish now: settled days only, each day once (accounting-rules).
 * @param published source -> day -> jobs, what was published before
 */
export function individualWant(months: readonly CountedMonth[], published: Publication["individual"]): IndividualWant {
  const records: IndividualRecord[] = [];
  const days: Publication["individual"] = {};
  for (const month of months) {
    const { tenant } = month;
    const source = sourceOf(tenant);
    for (const [day, jobs] of month.jobs) {
      if (!month.settled.has(day) || published[source]?.[day] !== undefined) continue;
      records.push(...jobs.map((job) => individualRecord(tenant, job)));
      days[source] = { ...days[source], [day]: jobs.length };
    }
  }
  return { records, days };
}
