import { CELL, type Monitoring, type Window } from "../model/monitoring.ts";
import { dayOf } from "../model/time.ts";
import { type LongestWindows, questionLimit } from "../model/split.ts";
import {
  type Facts,
  type PodFacts,
  askGreatest,
  askLastDays,
  askNames,
  askRequests,
  askSums,
  askUnscheduled,
  askVos,
  named,
} from "./facts.ts";

/** A pod that is left out without an end that counts: its day, why, and whether it succeeded. */
export type OpenPod = {
  readonly day: string;
  readonly reason: "not_finished" | "no_end";
  readonly succeeded: boolean;
};
/** A number of each pod that has one. */
export type ByUid = { get(uid: string): number | undefined };

/** Clocks of nodes and of Prometheus differ: a completion may be scraped a little before its own value. Seconds. */
const SKEW = 300;
/** A pod without a sample in this stretch before the last sign of monitoring is gone. Seconds. */
const GONE_AFTER = 3 * CELL;
/** A pod that is in another phase than Succeeded or Failed so long after an end runs on. Seconds. */
const RUNS_ON_AFTER = 300;
/** Where more than this share of the pods did not succeed, all are asked for failures rather than each by name. */
const MOST_BY_NAME = 0.25;
const FEW = 400;

/** A finished pod, as far as the monitoring shows. Times in whole epoch seconds. */
export type FinishedPod = {
  readonly uid: string;
  /** its name, where it was asked for, else "" */
  readonly pod: string;
  readonly end: number;
  readonly succeeded: boolean;
  readonly start?: number | undefined;
  /** sum of its containers' CPU requests, milli-cores; absent if none requests CPU */
  readonly milliCores?: number | undefined;
  /** value of the VO label, if it has one */
  readonly vo?: string | undefined;
};

/**
 * A pod of which kube-state-metrics must have reported more than was answered. The fact is missing somewhere from `first` to `last`,
 * epoch seconds: at its end, or as long as it was seen.
 * - `end`: it succeeded without an end
 * - `phase`: there is no row of its phase
 * - `one phase`: it has an end, a zero row of Succeeded and none of Failed, or the other way round
 * - `outcome`: it is gone without an end, and one of these rows or both were never there; it may just have been deleted
 */
export type LackingPod = {
  readonly uid: string;
  readonly lacks: "end" | "phase" | "one phase" | "outcome";
  readonly first: number;
  readonly last: number;
};

export type PieceOfPods = {
  /** made afresh each time they are asked for, so that not all of them are in memory */
  readonly finished: Iterable<FinishedPod>;
  /** how many those are */
  readonly count: number;
  /** pods that have no end that counts, by uid, with their day */
  readonly open: ReadonlyMap<string, OpenPod>;
  readonly lacking: readonly LackingPod[];
  /** all that were seen */
  readonly facts: Facts;
  /** the day to which a pod belongs as far as the piece shows it: of its end, of its absence, or the last one while it runs on */
  readonly dayOf: (uid: string) => string | undefined;
};

export type PodOptions = {
  /** the last sign of monitoring up to the window's end */
  readonly lastSeen: number | undefined;
  readonly withVo: boolean;
  /** whether pods' names are needed */
  readonly withNames?: boolean;
  readonly longest?: LongestWindows;
};

/**
 * Asks what there is to know about the pods whose end may fall in [window.from, ...): everything scraped from
 * window.from to window.to, which looks past the period's end, because a completion of the last minute is scraped after it.
 * Which day a pod belongs to is decided by the caller, from the *value* of its end, and only after all answers are merged.
 * @param facts what was answered before, where the same is asked once more
 * @throws sample_invalid
 */
export async function askPods(
  monitoring: Monitoring,
  window: Window,
  options: PodOptions,
  facts: Facts = new Map(),
): Promise<PieceOfPods> {
  const asked = { from: window.from - SKEW, to: window.to };
  const { longest, lastSeen } = options;
  const alive: Facts = new Map();
  const turn = questionLimit(asked);
  await Promise.all([
    turn(() =>
      options.withNames === true
        ? askNames(monitoring, asked, facts, longest)
        : askGreatest(monitoring, "end", asked, facts, longest),
    ),
    turn(() => askGreatest(monitoring, "succeeded", asked, facts, longest)),
    turn(() => askGreatest(monitoring, "start", asked, facts, longest)),
    turn(() => askRequests(monitoring, "cores", asked, facts, longest)),
    turn(async () => {
      if (options.withVo) await askVos(monitoring, asked, facts, longest);
    }),
    turn(async () => {
      if (lastSeen === undefined) return;
      await askGreatest(monitoring, "start", { from: lastSeen - GONE_AFTER, to: lastSeen }, alive, longest);
    }),
  ]);
  await askPhases(monitoring, asked, facts, longest);
  const lacking = uidsWhere(facts, (pod) => isFinished(pod) && pod.end !== undefined && pod.cores === undefined);
  await askUnscheduled(monitoring, "cores", asked, lacking, facts, longest);
  // Without any start it is not known which pods were still there.
  const isJudged = lastSeen !== undefined && uidsWhere(facts, ({ start }) => start !== undefined).length > 0;
  const sorted = sortPods(facts, isJudged ? alive : undefined, lastSeen ?? asked.to);
  await dateOpenPods(monitoring, asked, sorted, longest);
  return {
    finished: { [Symbol.iterator]: () => finishedPods(facts) },
    count: sorted.finished,
    open: sorted.open,
    lacking: sorted.lacking,
    facts,
    dayOf: (uid) => dayOfPod(facts, sorted, uid),
  };
}

/** The uids of the pods for which a test holds. */
function uidsWhere(facts: Facts, test: (pod: PodFacts) => boolean): string[] {
  const found: string[] = [];
  for (const pod of facts.values()) if (test(pod)) found.push(pod.uid);
  return found;
}

const isSet = (value: number | undefined): boolean => (value ?? 0) >= 1;
const isFinished = ({ succeeded, failed }: PodFacts): boolean => isSet(succeeded) || isSet(failed);

/** Whether any fact of the pod itself was answered: a phase, an end, a start, or a request on a node. */
const isKnown = ({ succeeded, end, start, cores }: PodFacts): boolean =>
  succeeded !== undefined || end !== undefined || start !== undefined || cores !== undefined;

/**
 * Asks who failed among those that did not succeed, and of those that have no row of either phase whether they run on:
 * kube-state-metrics may write only the phase that holds. Most pods succeed, so asking all for their failures would double what
 * Prometheus must read.
 */
async function askPhases(monitoring: Monitoring, asked: Window, facts: Facts, longest?: LongestWindows): Promise<void> {
  const open = uidsWhere(facts, (pod) => !isSet(pod.succeeded) && isKnown(pod));
  const judged = uidsWhere(facts, (pod) => pod.succeeded !== undefined).length;
  const all = open.length > FEW && open.length > MOST_BY_NAME * (judged + open.length);
  if (open.length > 0) await askGreatest(monitoring, "failed", asked, facts, longest, all ? undefined : open);
  const silent = uidsWhere(facts, (pod) => lackingRows(pod) !== undefined && !isFinished(pod) && isKnown(pod));
  // Always by name: each pod has a step for every five minutes of the window.
  if (silent.length > 0) await askGreatest(monitoring, "runningUntil", asked, facts, longest, silent);
}

/** A pod that is no job, before its day is known. */
type Undated = { readonly pod: PodFacts; readonly lacks: LackingPod["lacks"] | undefined };

/** The pods of a piece, sorted by what is known of them. */
type Sorted = {
  finished: number;
  readonly open: Map<string, OpenPod>;
  readonly lacking: LackingPod[];
  readonly undated: Undated[];
  /** the last sign of monitoring, or the end of what was asked */
  readonly latest: number;
  /** whether the pod was there at the last sign of monitoring; undefined where that is not known */
  readonly isAlive: (uid: string) => boolean | undefined;
};

/**
 * Sorts the pods into those that finished, those that are left open, and those that lack what they must have.
 * @param alive the pods that were there at the last sign of monitoring, where that is known
 */
function sortPods(facts: Facts, alive: Facts | undefined, latest: number): Sorted {
  const isAlive = (uid: string): boolean | undefined => alive?.has(uid);
  const sorted: Sorted = { finished: 0, open: new Map(), lacking: [], undated: [], latest, isAlive };
  for (const [uid, pod] of facts) {
    const { end } = pod;
    if (isFinished(pod)) {
      if (end !== undefined) sorted.finished += 1;
      else sorted.undated.push({ pod, lacks: isSet(pod.succeeded) ? "end" : undefined });
    } else if (end !== undefined) {
      sorted.open.set(uid, { day: dayOf(end), reason: "not_finished", succeeded: false });
      const lacks = lackingAtEnd(pod, end, latest);
      if (lacks !== undefined) sorted.lacking.push({ uid, lacks, first: end, last: end });
    } else if (isKnown(pod)) {
      const lacks = lackingWithoutEnd(pod);
      // Pods that were never started are no jobs.
      const isGone = pod.start !== undefined && isAlive(uid) === false;
      if (lacks === "phase" || isGone) sorted.undated.push({ pod, lacks });
    }
  }
  return sorted;
}

/** A pod without an end belongs to the day on which it was last seen. */
async function dateOpenPods(
  monitoring: Monitoring,
  asked: Window,
  { undated, open, lacking, latest, isAlive }: Sorted,
  longest?: LongestWindows,
): Promise<void> {
  const gone = undated.map(({ pod }) => pod.uid).filter((uid) => isAlive(uid) !== true);
  const lastDays = gone.length === 0 ? undefined : await askLastDays(monitoring, asked, longest, named(gone));
  for (const { pod, lacks } of undated) {
    const { uid } = pod;
    const last = isAlive(uid) === true ? latest : (lastDays?.get(uid) ?? pod.start ?? latest);
    open.set(uid, { day: dayOf(last), reason: "no_end", succeeded: isSet(pod.succeeded) });
    if (lacks === undefined) continue;
    lacking.push({ uid, lacks, first: lacks === "outcome" ? last : (pod.start ?? last), last });
  }
}

/** See `PieceOfPods.dayOf`. */
function dayOfPod(facts: Facts, { open, latest, isAlive }: Sorted, uid: string): string | undefined {
  const pod = facts.get(uid);
  if (pod === undefined) return undefined;
  if (pod.end === undefined) return open.get(uid)?.day ?? (isAlive(uid) === true ? dayOf(latest) : undefined);
  return open.get(uid)?.day ?? dayOf(pod.end);
}

/** Which rows of Succeeded and Failed a pod lacks that has finished in neither. Zero rows are kept of both or of none. */
function lackingRows({ succeeded, failed }: PodFacts): "phase" | "one phase" | undefined {
  if (succeeded !== undefined && failed !== undefined) return undefined;
  return succeeded === undefined && failed === undefined ? "phase" : "one phase";
}

/** The rows that a pod lacks that ended and runs on in no other phase. An end of the last minutes may have been scraped before its phase. */
function lackingAtEnd(pod: PodFacts, end: number, latest: number): LackingPod["lacks"] | undefined {
  const until = pod.runningUntil;
  if (end > latest - GONE_AFTER || (until !== undefined && until > end + RUNS_ON_AFTER)) return undefined;
  return lackingRows(pod);
}

/** The rows that a pod without an end lacks. If it was ever in another phase, it matters only once it is gone. */
function lackingWithoutEnd(pod: PodFacts): LackingPod["lacks"] | undefined {
  const lacks = lackingRows(pod);
  if (lacks === undefined) return undefined;
  return lacks === "one phase" || pod.runningUntil !== undefined ? "outcome" : "phase";
}

function* finishedPods(facts: Facts): Generator<FinishedPod> {
  for (const [uid, pod] of facts) {
    const { end, start, cores = 0, name = "", vo } = pod;
    if (end === undefined || !isFinished(pod)) continue;
    const milliCores = Math.round(cores * 1000);
    yield {
      uid,
      pod: name,
      end: Math.floor(end),
      succeeded: isSet(pod.succeeded),
      start: start === undefined ? undefined : Math.floor(start),
      milliCores: milliCores > 0 ? milliCores : undefined,
      vo,
    };
  }
}

/** One fact by uid, in another unit. */
function byUid(facts: Facts, fact: "cpu" | "memoryUsed" | "memoryRequest", unit: (value: number) => number): ByUid {
  return {
    get: (uid) => {
      const value = facts.get(uid)?.[fact];
      return value === undefined ? undefined : unit(value);
    },
  };
}

/**
 * CPU milliseconds used by each pod's containers: per container instance the latest counter, restarts added. Pods without
 * any sample are absent; nothing is put in their place.
 * @param from the earliest start of the pods that matter, since a restarted container's counter ends long before the pod
 */
export async function askCpu(
  monitoring: Monitoring,
  from: number,
  to: number,
  facts: Facts,
  longest?: LongestWindows,
): Promise<ByUid> {
  await askSums(monitoring, "cpu", { from: from - SKEW, to }, facts, longest);
  return byUid(facts, "cpu", (used) => Math.round(used * 1000));
}

const kibibytes = (bytes: number): number => Math.ceil(bytes / 1024);

/** Measured maximum of each pod's memory, whole KiB. */
export async function askMemoryUsed(
  monitoring: Monitoring,
  window: Window,
  facts: Facts,
  longest?: LongestWindows,
): Promise<ByUid> {
  await askSums(monitoring, "memoryUsed", { from: window.from - SKEW, to: window.to }, facts, longest);
  return byUid(facts, "memoryUsed", kibibytes);
}

/** Memory requests of these pods, whole KiB; pods without one are absent. */
export async function askMemoryRequests(
  monitoring: Monitoring,
  window: Window,
  pods: Iterable<FinishedPod>,
  facts: Facts,
  longest?: LongestWindows,
): Promise<ByUid> {
  const asked = { from: window.from - SKEW, to: window.to };
  await askRequests(monitoring, "memory", asked, facts, longest);
  const lacking: string[] = [];
  for (const { uid } of pods) if (facts.get(uid)?.memoryRequest === undefined) lacking.push(uid);
  await askUnscheduled(monitoring, "memory", asked, lacking, facts, longest);
  return byUid(facts, "memoryRequest", kibibytes);
}
