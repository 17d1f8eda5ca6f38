import { greatest } from "../lists.ts";
import type { Uids } from "./columns.ts";
import { JobList } from "./job-list.ts";
import type { CountedDay } from "./job-list.ts";
import type { Observation } from "./observation.ts";
import { askCpu, askMemoryRequests, askMemoryUsed, askPods, noColumns } from "./pods.ts";
import type { FinishedPod, PieceOfPods, PodOptions } from "./pods.ts";
import type { Monitoring, Window } from "./ports.ts";
import { isIndividual } from "./records.ts";
import type { Tenant } from "./tenant.ts";
import type { Tiling } from "./tiling.ts";
import { endOfDay, startOf } from "./time.ts";
import { toDays } from "./usage.ts";
import type { Details, OpenPod } from "./usage.ts";
import { vouch } from "./vouch.ts";
import type { Vouched } from "./vouch.ts";

/** What a piece brought. The pods themselves are gone: memory holds few pieces of them. */
export type CountedPiece = {
  /** pods that have no end that counts, by uid: those of the piece's days */
  readonly open: ReadonlyMap<string, OpenPod>;
  /** whether any pod was seen */
  readonly isEmpty: boolean;
  /** how many finished pods were seen, those of other days included */
  readonly finished: number;
  readonly days: readonly CountedDay[];
  readonly vouched: Vouched;
  /** the day to which a pod belongs as far as the piece shows it: of its end, of its absence, or the last one while it runs on */
  readonly dayOf: (uid: string) => string | undefined;
};

/** Whether there are jobs, and all of them are the tenant's own VO's. */
export const isWithoutVo = ({ days }: CountedPiece): boolean => {
  const groups = days.flatMap((day) => day.usage.groups);
  return groups.length > 0 && groups.every((group) => group.vo === null);
};

export type PieceOptions = {
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
  const { finished, count, uids } = pods;
  const last = endOfDay(days.at(-1) ?? days[0]);
  const mine = { [Symbol.iterator]: () => endingIn(finished, from, last) };
  const details = await askDetails(tenant, monitoring, { from, to }, mine, tiling, uids);
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
  const columns = noColumns();
  const judge = (pods: PieceOfPods): Promise<Vouched> =>
    vouch(monitoring, days, pods.finished, pods.lacking, {
      withoutDefaultCores: tenant.defaultMilliCores === undefined,
      until,
    });
  const pods = await askPods(monitoring, window, podOptions, columns);
  const vouched = await judge(pods);
  if (![...vouched.faults.values()].some(({ kind }) => kind === "answers_disagree")) return { pods, vouched };
  const again = await askPods(monitoring, window, podOptions, columns);
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
