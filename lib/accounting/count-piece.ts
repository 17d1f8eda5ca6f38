import type { Uids } from "./columns.ts";
import { JobList } from "./job-list.ts";
import type { CountedDay } from "./job-list.ts";
import type { Observation } from "./observation.ts";
import { askCpu, askMemoryRequests, askMemoryUsed, askPods } from "./pods.ts";
import type { FinishedPod, Unfinished } from "./pods.ts";
import type { Monitoring, Window } from "./ports.ts";
import { isIndividual } from "./records.ts";
import type { Tenant } from "./tenant.ts";
import type { Tiling } from "./tiling.ts";
import { endOfDay, startOf } from "./time.ts";
import { toDays } from "./usage.ts";
import type { Details } from "./usage.ts";

/** What a piece brought: pods up to `to`, and its days. The pods themselves are gone: memory holds few pieces of them. */
export type CountedPiece = {
  readonly to: number;
  readonly unfinished: Unfinished;
  /** how many finished pods were seen, those of other days included */
  readonly finished: number;
  readonly days: readonly CountedDay[];
};

/** Whether nothing at all was seen of the tenant's pods. */
export const isEmpty = ({ finished, unfinished }: CountedPiece): boolean =>
  finished === 0 && unfinished.noEnd.size === 0 && unfinished.notFinished.size === 0;

/** Whether there are jobs, and all of them are the tenant's own VO's. */
export const isWithoutVo = ({ days }: CountedPiece): boolean => {
  const groups = days.flatMap((day) => day.usage.groups);
  return groups.length > 0 && groups.every((group) => group.vo === null);
};

/**
 * Counts consecutive days of one month together. Looks past the last day until it is settled.
 * @param observed how the days were watched; @param seen all signs of monitoring
 * @param tiling what the server is known to answer at once; it learns
 */
export async function countPiece(
  tenant: Tenant,
  monitoring: Monitoring,
  days: readonly [string, ...string[]],
  observed: ReadonlyMap<string, Observation>,
  seen: readonly number[],
  tiling: Tiling,
): Promise<CountedPiece> {
  const watched = days.flatMap((day) => observed.get(day) ?? []);
  const from = startOf(days[0]);
  const to = Math.max(...watched.map((day) => day.until));
  const lastSeen = seen.findLast((cell) => cell <= to);
  const withNames = isIndividual(tenant);
  const withVo = tenant.selection.voLabel !== undefined;
  const { finished, count, unfinished, uids } = await askPods(
    monitoring,
    { from, to },
    { lastSeen, withVo, withNames, tiling },
  );
  const last = endOfDay(days.at(-1) ?? days[0]);
  const mine = { [Symbol.iterator]: () => endingIn(finished, from, last) };
  const details = await askDetails(tenant, monitoring, { from, to }, mine, tiling, uids);
  return {
    to,
    unfinished,
    finished: count,
    days: toDays(finished, days, {
      defaultMilliCores: tenant.defaultMilliCores,
      gapsOf: (day) => [...(observed.get(day)?.gaps ?? [])],
      details,
      withJobs: isIndividual(tenant),
    }).map(({ usage, jobs }) => ({ usage, jobs: new JobList(jobs) })),
  };
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
  tiling: Tiling,
  uids: Uids,
): Promise<Details> {
  const none = noDetails(tenant);
  const starts = Object.keys(none).length === 0 ? [] : Array.from(pods, (pod) => pod.start ?? pod.end);
  if (starts.length === 0) return none;
  // A restarted container's counter ends long before its pod, so what was measured is asked from the earliest start on.
  const window = { from: starts.reduce((a, b) => Math.min(a, b), asked.from), to: asked.to };
  const [cpu, memoryRequest, memoryUsed] = await Promise.all([
    none.cpu === undefined ? undefined : askCpu(monitoring, window.from, window.to, tiling, uids),
    none.memoryRequest === undefined ? undefined : askMemoryRequests(monitoring, window, pods, tiling, uids),
    none.memoryUsed === undefined ? undefined : askMemoryUsed(monitoring, window, tiling, uids),
  ]);
  return {
    ...(cpu === undefined ? {} : { cpu }),
    ...(memoryRequest === undefined ? {} : { memoryRequest }),
    ...(memoryUsed === undefined ? {} : { memoryUsed }),
  };
}
