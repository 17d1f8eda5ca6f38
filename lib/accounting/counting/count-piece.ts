import { greatest } from "../../shared/lists.ts";
import type { Monitoring, Window } from "../model/monitoring.ts";
import { type Tenant, isIndividual } from "../model/tenant.ts";
import { endOfDay, startOf } from "../model/time.ts";
import type { LongestWindows } from "../model/split.ts";
import type { Facts } from "./facts.ts";
import type { Observation } from "./settled-days.ts";
import { JobList } from "./jobs.ts";
import { type JudgedFacts, judgeFacts } from "./missing-metrics.ts";
import type { Piece } from "./pieces.ts";
import {
  type ByUid,
  type FinishedPod,
  type OpenPod,
  type PieceOfPods,
  type PodOptions,
  askCpu,
  askMemoryRequests,
  askMemoryUsed,
  askPods,
} from "./pods.ts";
import { type DayUsage, type Details, toDays } from "./usage.ts";

/** A day that was counted, with its jobs where job records are wanted. */
export type CountedDay = { readonly usage: DayUsage; readonly jobs: JobList };

/** What a piece brought. Its pods are not kept: memory holds those of one piece at a time. */
export type CountedPiece = {
  readonly days: readonly CountedDay[];
  readonly judged: JudgedFacts;
  /** pods of these days without an end that counts, by uid */
  readonly open: ReadonlyMap<string, OpenPod>;
  /** no pod was seen */
  readonly isEmpty: boolean;
  /** how many finished pods were seen, those of other days included */
  readonly finished: number;
  /** the day to which a pod belongs as far as the piece shows it: of its end, of its absence, or the last one while it runs on */
  readonly dayOf: (uid: string) => string | undefined;
};

type PieceOptions = {
  readonly observed: ReadonlyMap<string, Observation>;
  /** the cells in which monitoring was seen, ascending */
  readonly seen: readonly number[];
  /** what the server has answered in one query so far; it learns from each */
  readonly longest: LongestWindows;
  /** the end of all days that the run asks for, epoch seconds: CPU requests are looked for up to here where there are none */
  readonly until: number;
};

/** Counts the days of a piece. Pods are looked for past the last day, until it is settled. */
export async function countPiece(
  tenant: Tenant,
  monitoring: Monitoring,
  days: Piece,
  options: PieceOptions,
): Promise<CountedPiece> {
  const { observed, longest } = options;
  const window = {
    from: startOf(days[0]),
    to: greatest(days.flatMap((day) => observed.get(day)?.until ?? [])),
  };
  const { pods, judged } = await askJudged(tenant, monitoring, window, days, options);
  const details = await askDetails(tenant, monitoring, window, endingOn(days, pods.finished), pods.facts, longest);
  const open = new Map([...pods.open].filter(([, { day }]) => days.includes(day)));
  const counted = toDays(pods.finished, days, {
    defaultMilliCores: tenant.defaultMilliCores,
    gapsOf: (day) => [...(observed.get(day)?.gaps ?? [])],
    details,
    openPods: open.values(),
    withJobs: isIndividual(tenant),
  });
  return {
    days: counted.map(({ usage, jobs }) => ({ usage, jobs: new JobList(jobs) })),
    judged,
    open,
    isEmpty: pods.count === 0 && pods.open.size === 0,
    finished: pods.count,
    dayOf: pods.dayOf,
  };
}

/** Asks for the pods and judges their facts. If answers disagree, it asks once more, and takes both answers together. */
async function askJudged(
  tenant: Tenant,
  monitoring: Monitoring,
  window: Window,
  days: Piece,
  { seen, longest, until }: PieceOptions,
): Promise<{ readonly pods: PieceOfPods; readonly judged: JudgedFacts }> {
  const options: PodOptions = {
    lastSeen: seen.findLast((cell) => cell <= window.to),
    withVo: tenant.selection.voLabel !== undefined,
    withNames: isIndividual(tenant),
    longest,
  };
  const facts: Facts = new Map();
  const ask = async (): Promise<{ readonly pods: PieceOfPods; readonly judged: JudgedFacts }> => {
    const pods = await askPods(monitoring, window, options, facts);
    const judged = await judgeFacts(monitoring, days, pods.finished, pods.lacking, {
      withoutDefaultCores: tenant.defaultMilliCores === undefined,
      until,
    });
    return { pods, judged };
  };
  const first = await ask();
  const disagree = [...first.judged.faults.values()].some(({ kind }) => kind === "answers_disagree");
  return disagree ? ask() : first;
}

/** The pods that end on these days. They are gone through one by one each time, so that no list of them is in memory. */
function endingOn(days: Piece, finished: Iterable<FinishedPod>): Iterable<FinishedPod> {
  const from = startOf(days[0]);
  const to = endOfDay(days.at(-1) ?? days[0]);
  return {
    *[Symbol.iterator]() {
      for (const pod of finished) if (pod.end >= from && pod.end < to) yield pod;
    },
  };
}

/** Asks for the measured use and the memory requests of pods, as far as the tenant's model and format need them. */
async function askDetails(
  tenant: Tenant,
  monitoring: Monitoring,
  asked: Window,
  pods: Iterable<FinishedPod>,
  facts: Facts,
  longest: LongestWindows,
): Promise<Details> {
  const wantsCpu = tenant.model === "wallclock";
  const wantsMemory = isIndividual(tenant);
  const earliest = wantsCpu || wantsMemory ? earliestStart(pods) : undefined;
  const none: ByUid = new Map<string, number>();
  if (earliest === undefined)
    return { ...(wantsCpu ? { cpu: none } : {}), ...(wantsMemory ? { memoryRequest: none, memoryUsed: none } : {}) };
  // The counter of a container that was restarted ends long before its pod, so it is looked for from the earliest start on.
  const window = { from: Math.min(earliest, asked.from), to: asked.to };
  const [cpu, memoryRequest, memoryUsed] = await Promise.all([
    wantsCpu ? askCpu(monitoring, window.from, window.to, facts, longest) : none,
    wantsMemory ? askMemoryRequests(monitoring, window, pods, facts, longest) : none,
    wantsMemory ? askMemoryUsed(monitoring, window, facts, longest) : none,
  ]);
  return { ...(wantsCpu ? { cpu } : {}), ...(wantsMemory ? { memoryRequest, memoryUsed } : {}) };
}

/** The earliest start of the pods (the end of a pod without one), or undefined if there is no pod. */
function earliestStart(pods: Iterable<FinishedPod>): number | undefined {
  let earliest: number | undefined;
  for (const { start, end } of pods) earliest = Math.min(start ?? end, earliest ?? Infinity);
  return earliest;
}
