import { CELL, type Monitoring, type Window } from "../model/monitoring.ts";
import { type LongestWindows, questionLimit } from "../model/split.ts";
import { dayOf } from "../model/time.ts";
import { Column, Uids } from "./columns.ts";
import { askColumn, askNames, askRequests, askSums, askUnscheduled, askVos, named } from "./facts.ts";

/** A pod that is left out without an end that counts: its day, why, and whether it succeeded. */
export type OpenPod = {
  readonly day: string;
  readonly reason: "not_finished" | "no_end";
  readonly succeeded: boolean;
};
/** Something about pods: a Map, or a column of what was asked. */
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
  readonly uids: Uids;
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

/** What is known of a piece's pods. Asking once more adds to it: two replicas behind one address may know different pods. */
type Columns = {
  readonly uids: Uids;
  readonly ends: Column;
  readonly starts: Column;
  readonly succeeded: Column;
  readonly failed: Column;
  readonly runningUntil: Column;
  requests: Column;
  readonly names: Map<string, string>;
  readonly vos: Map<string, string>;
};

export function noColumns(): Columns {
  return {
    uids: new Uids(),
    ends: new Column(),
    starts: new Column(),
    succeeded: new Column(),
    failed: new Column(),
    runningUntil: new Column(),
    requests: new Column(),
    names: new Map(),
    vos: new Map(),
  };
}

/**
 * Asks what there is to know about the pods whose end may fall in [window.from, ...): everything scraped from
 * window.from to window.to, which looks past the period's end, because a completion of the last minute is scraped after it.
 * Which day a pod belongs to is decided by the caller, from the *value* of its end, and only after all tiles are merged.
 * @param known what was answered before, where the same is asked once more
 * @throws sample_invalid
 */
export async function askPods(
  monitoring: Monitoring,
  window: Window,
  options: PodOptions,
  known: Columns = noColumns(),
): Promise<PieceOfPods> {
  const asked = { from: window.from - SKEW, to: window.to };
  const { longest, lastSeen } = options;
  const { uids, ends, starts, succeeded } = known;
  const limited = questionLimit(asked);
  const alive = new Uids();
  await Promise.all([
    limited(async () => {
      if (options.withNames === true) await askNames(monitoring, asked, uids, ends, known.names, longest);
      else await askColumn(monitoring, "end", asked, uids, longest, ends);
    }),
    limited(() => askColumn(monitoring, "succeeded", asked, uids, longest, succeeded)),
    limited(() => askColumn(monitoring, "start", asked, uids, longest, starts)),
    limited(async () => {
      const before = known.requests;
      known.requests = await askRequests(monitoring, "cores", asked, uids, longest);
      known.requests.fillFrom(before);
    }),
    limited(async () => {
      if (options.withVo) await askVos(monitoring, asked, known.vos, longest);
    }),
    limited(async () => {
      if (lastSeen === undefined) return;
      await askColumn(monitoring, "start", { from: lastSeen - GONE_AFTER, to: lastSeen }, alive, longest);
    }),
  ]);
  await askPhases(monitoring, asked, known, longest);
  const lacksRequest = (place: number): boolean =>
    isFinished(known, place) && ends.get(place) !== undefined && known.requests.get(place) === undefined;
  const lacking = listOf(known, lacksRequest);
  await askUnscheduled(monitoring, "cores", asked, lacking, uids, known.requests, longest);
  // Without any start it is not known which pods were still there.
  const judged = lastSeen !== undefined && starts.size > 0;
  const isAlive = judged ? (uid: string): boolean => alive.find(uid) !== undefined : undefined;
  return judgedPods(monitoring, asked, known, isAlive, options);
}

/** The uids of places for which a test holds. */
function listOf({ uids }: Columns, test: (place: number) => boolean): string[] {
  const found: string[] = [];
  for (const [uid, place] of uids) if (test(place)) found.push(uid);
  return found;
}

const isSet = (column: Column, place: number): boolean => (column.get(place) ?? 0) >= 1;
const isFinished = ({ succeeded, failed }: Columns, place: number): boolean =>
  isSet(succeeded, place) || isSet(failed, place);

/**
 * Asks who failed among those that did not succeed, and of those that have no row of either phase whether they run on:
 * kube-state-metrics may write only the phase that holds. Most pods succeed, so asking all for their failures would double what
 * Prometheus must read.
 */
async function askPhases(
  monitoring: Monitoring,
  asked: Window,
  known: Columns,
  longest?: LongestWindows,
): Promise<void> {
  const { uids, succeeded, failed, runningUntil } = known;
  const open = listOf(known, (place) => !isSet(succeeded, place) && isKnown(known, place));
  const all = open.length > FEW && open.length > MOST_BY_NAME * (succeeded.size + open.length);
  if (open.length > 0) await askColumn(monitoring, "failed", asked, uids, longest, failed, all ? undefined : open);
  const silent = listOf(
    known,
    (place) => lackingRows(known, place) !== undefined && !isFinished(known, place) && isKnown(known, place),
  );
  // Always by name: each pod has a step for every five minutes of the window.
  if (silent.length > 0) await askColumn(monitoring, "runningUntil", asked, uids, longest, runningUntil, silent);
}

/** Whether any fact of the pod itself was answered: a phase, an end, a start, or a request on a node. */
function isKnown({ succeeded, ends, starts, requests }: Columns, place: number): boolean {
  return [succeeded, ends, starts, requests].some((column) => column.get(place) !== undefined);
}

/** A pod that is no job, before its day is known. */
type Undated = { readonly uid: string; readonly place: number; readonly lacks?: LackingPod["lacks"] };

/** Pods by what is known of them; `count`: those that finished and have an end. */
type SortedPods = {
  count: number;
  readonly open: Map<string, OpenPod>;
  readonly lacking: LackingPod[];
  readonly undated: Undated[];
};

/** Sorts the pods into those that finished, those that are left open, and those that lack what they must have. */
async function judgedPods(
  monitoring: Monitoring,
  asked: Window,
  known: Columns,
  isAlive: ((uid: string) => boolean) | undefined,
  options: PodOptions,
): Promise<PieceOfPods> {
  const { uids, ends } = known;
  const latest = options.lastSeen ?? asked.to;
  const sorted = sortPods(known, isAlive, latest);
  const { count, open, lacking } = sorted;
  const gone = sorted.undated.filter(({ uid }) => isAlive?.(uid) !== true).map(({ uid }) => uid);
  const lastDays =
    gone.length === 0
      ? new Column()
      : await askColumn(monitoring, "lastDay", asked, uids, options.longest, new Column(), named(gone));
  dateOpenPods(sorted, known, (uid, place) => (isAlive?.(uid) === true ? latest : lastDays.get(place)), latest);
  const dayOfPod = (uid: string): string | undefined => {
    const place = uids.find(uid);
    if (place === undefined) return undefined;
    const end = ends.get(place);
    return open.get(uid)?.day ?? (end !== undefined ? dayOf(end) : isAlive?.(uid) === true ? dayOf(latest) : undefined);
  };
  return { finished: { [Symbol.iterator]: () => finishedPods(known) }, count, open, lacking, uids, dayOf: dayOfPod };
}

/** @param latest the last moment that was asked about, epoch seconds */
function sortPods(known: Columns, isAlive: ((uid: string) => boolean) | undefined, latest: number): SortedPods {
  const { uids, ends, starts, succeeded } = known;
  const sorted: SortedPods = { count: 0, open: new Map(), lacking: [], undated: [] };
  const { open, lacking, undated } = sorted;
  for (const [uid, place] of uids) {
    const end = ends.get(place);
    if (isFinished(known, place)) {
      if (end !== undefined) sorted.count += 1;
      else undated.push({ uid, place, ...(isSet(succeeded, place) ? { lacks: "end" } : {}) });
      continue;
    }
    if (end !== undefined) {
      open.set(uid, { day: dayOf(end), reason: "not_finished", succeeded: false });
      const lacks = lackingAtEnd(known, place, end, latest);
      if (lacks !== undefined) lacking.push({ uid, lacks, first: end, last: end });
      continue;
    }
    if (!isKnown(known, place)) continue;
    const lacks = lackingWithoutEnd(known, place);
    if (lacks === "phase") undated.push({ uid, place, lacks });
    // Pods that were never started are no jobs.
    else if (starts.get(place) !== undefined && isAlive?.(uid) === false)
      undated.push({ uid, place, ...(lacks === undefined ? {} : { lacks }) });
  }
  return sorted;
}

/**
 * A pod without an end belongs to the day on which it was last seen.
 * @param lastSeen when that was, epoch seconds; undefined where it is not known
 */
function dateOpenPods(
  { open, lacking, undated }: SortedPods,
  { starts, succeeded }: Columns,
  lastSeen: (uid: string, place: number) => number | undefined,
  latest: number,
): void {
  for (const { uid, place, lacks } of undated) {
    const last = lastSeen(uid, place) ?? starts.get(place) ?? latest;
    open.set(uid, { day: dayOf(last), reason: "no_end", succeeded: isSet(succeeded, place) });
    if (lacks === undefined) continue;
    lacking.push({ uid, lacks, first: lacks === "outcome" ? last : (starts.get(place) ?? last), last });
  }
}

/** Which rows of Succeeded and Failed a pod lacks that has finished in neither. Zero rows are kept of both or of none. */
function lackingRows({ succeeded, failed }: Columns, place: number): "phase" | "one phase" | undefined {
  const rows = [succeeded.get(place), failed.get(place)].filter((row) => row !== undefined);
  return rows.length === 2 ? undefined : rows.length === 1 ? "one phase" : "phase";
}

/** The rows that a pod lacks that ended and runs on in no other phase. An end of the last minutes may have been scraped before its phase. */
function lackingAtEnd(known: Columns, place: number, end: number, latest: number): LackingPod["lacks"] | undefined {
  const until = known.runningUntil.get(place);
  if (end > latest - GONE_AFTER || (until !== undefined && until > end + RUNS_ON_AFTER)) return undefined;
  return lackingRows(known, place);
}

/** The rows that a pod without an end lacks. If it was ever in another phase, it matters only once it is gone. */
function lackingWithoutEnd(known: Columns, place: number): LackingPod["lacks"] | undefined {
  const lacks = lackingRows(known, place);
  if (lacks === undefined) return undefined;
  return lacks === "one phase" || known.runningUntil.get(place) !== undefined ? "outcome" : "phase";
}

function* finishedPods(known: Columns): Generator<FinishedPod> {
  const { uids, ends, starts, requests, names, vos, succeeded } = known;
  for (const [uid, place] of uids) {
    const end = ends.get(place);
    if (end === undefined || !isFinished(known, place)) continue;
    const start = starts.get(place);
    const milliCores = Math.round((requests.get(place) ?? 0) * 1000);
    yield {
      uid,
      pod: names.get(uid) ?? "",
      end: Math.floor(end),
      succeeded: isSet(succeeded, place),
      start: start === undefined ? undefined : Math.floor(start),
      milliCores: milliCores > 0 ? milliCores : undefined,
      vo: vos.get(uid),
    };
  }
}

/** A column by uid, in another unit. */
function byUid(uids: Uids, column: Column, unit: (value: number) => number): ByUid {
  return {
    get: (uid) => {
      const place = uids.find(uid);
      const value = place === undefined ? undefined : column.get(place);
      return value === undefined ? undefined : unit(value);
    },
  };
}

/**
 * CPU milliseconds used by each pod's containers: per container instance the latest counter, restarts added. Pods without
 * any sample are absent; nothing is put in their place.
 * @param from the earliest start of the pods that matter, since a restarted container's counter ends long before the pod
 * @param uids those of the piece, which are in memory anyway
 */
export async function askCpu(
  monitoring: Monitoring,
  from: number,
  to: number,
  longest?: LongestWindows,
  uids: Uids = new Uids(),
): Promise<ByUid> {
  const seconds = await askSums(monitoring, "cpu", { from: from - SKEW, to }, uids, longest);
  return byUid(uids, seconds, (used) => Math.round(used * 1000));
}

const kibibytes = (bytes: number): number => Math.ceil(bytes / 1024);

/** Measured maximum of each pod's memory, whole KiB. */
export async function askMemoryUsed(
  monitoring: Monitoring,
  window: Window,
  longest?: LongestWindows,
  uids: Uids = new Uids(),
): Promise<ByUid> {
  const used = await askSums(monitoring, "memoryUsed", { from: window.from - SKEW, to: window.to }, uids, longest);
  return byUid(uids, used, kibibytes);
}

/** Memory requests of these pods, whole KiB; pods without one are absent. */
export async function askMemoryRequests(
  monitoring: Monitoring,
  window: Window,
  pods: Iterable<FinishedPod>,
  longest?: LongestWindows,
  uids: Uids = new Uids(),
): Promise<ByUid> {
  const asked = { from: window.from - SKEW, to: window.to };
  const requests = await askRequests(monitoring, "memory", asked, uids, longest);
  const lacking: string[] = [];
  for (const { uid } of pods) if (requests.get(uids.place(uid)) === undefined) lacking.push(uid);
  await askUnscheduled(monitoring, "memory", asked, lacking, uids, requests, longest);
  return byUid(uids, requests, kibibytes);
}
