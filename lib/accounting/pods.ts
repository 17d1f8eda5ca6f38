import { GridmeterError } from "../errors.ts";
import { askColumn, askNames, askSums, askUnscheduled, askVos } from "./ask-columns.ts";
import { Uids } from "./columns.ts";
import type { Column } from "./columns.ts";
import { CELL } from "./ports.ts";
import type { Monitoring, Window } from "./ports.ts";
import type { Tiling } from "./tiling.ts";
import type { ByUid } from "./usage.ts";
import { turns } from "./turns.ts";

/** Clocks of nodes and of Prometheus differ: a completion may be scraped a little before its own value. Seconds. */
const SKEW = 300;
/** A pod without a sample in this stretch before the last sign of monitoring is gone. Seconds. */
const GONE_AFTER = 3 * CELL;

/** A finished pod, as far as the monitoring tells. Times in whole epoch seconds. */
export type FinishedPod = {
  readonly uid: string;
  /** its name, where it was asked for, else "" */
  readonly pod: string;
  readonly end: number;
  readonly start?: number | undefined;
  /** sum of its containers' CPU requests, milli-cores; absent if none requests CPU */
  readonly milliCores?: number | undefined;
  /** value of the VO label, if it has one */
  readonly vo?: string | undefined;
};

/** Pods that are no jobs (yet); they belong to no day and are reported per run. */
export type Unfinished = {
  /** uids with a completion whose pod runs on, and that completion */
  readonly notFinished: ReadonlyMap<string, number>;
  /** uids that finished without a completion (evicted), or vanished before one was scraped */
  readonly noEnd: ReadonlySet<string>;
};

export type PieceOfPods = {
  /** made anew each time they are asked for, so that not all of them are in memory */
  readonly finished: Iterable<FinishedPod>;
  /** how many those are */
  readonly count: number;
  readonly unfinished: Unfinished;
  /** all that were seen */
  readonly uids: Uids;
};

export type PodOptions = {
  /** the last sign of monitoring up to the window's end */
  readonly lastSeen: number | undefined;
  readonly withVo: boolean;
  /** whether pods' names are needed */
  readonly withNames?: boolean;
  readonly tiling?: Tiling;
};

/** Which pods were still there when monitoring was last seen; undefined if it was not seen. */
async function askAlive(
  monitoring: Monitoring,
  { lastSeen, tiling }: PodOptions,
): Promise<((uid: string) => boolean) | undefined> {
  if (lastSeen === undefined) return undefined;
  const uids = new Uids();
  await askColumn(monitoring, "finished", { from: lastSeen - GONE_AFTER, to: lastSeen }, uids, tiling);
  return (uid) => uids.find(uid) !== undefined;
}

/**
 * Asks what there is to know about the pods whose end may fall in [window.from, ...): everything scraped from
 * window.from to window.to, which looks past the period's end, because a completion of the last minute is scraped after it.
 * Which day a pod belongs to is for the caller to say, from the *value* of its end, and only after all tiles are merged.
 * @throws phase_missing if there are completions but no phases; sample_invalid
 */
export async function askPods(monitoring: Monitoring, window: Window, options: PodOptions): Promise<PieceOfPods> {
  const asked = { from: window.from - SKEW, to: window.to };
  const { tiling } = options;
  const uids = new Uids();
  const turn = turns(asked, monitoring);
  const none: ReadonlyMap<string, string> = new Map();
  const [{ ends, names }, phases, starts, requests, vos, isAlive] = await Promise.all([
    turn(async () =>
      options.withNames === true
        ? await askNames(monitoring, asked, uids, tiling)
        : { ends: await askColumn(monitoring, "end", asked, uids, tiling), names: none },
    ),
    turn(() => askColumn(monitoring, "finished", asked, uids, tiling)),
    turn(() => askColumn(monitoring, "start", asked, uids, tiling)),
    turn(() => askColumn(monitoring, "cores", asked, uids, tiling)),
    options.withVo ? turn(() => askVos(monitoring, asked, tiling)) : none,
    turn(() => askAlive(monitoring, options)),
  ]);
  if (ends.size > 0 && phases.size === 0) throw phaseMissing(ends);
  const isFinished = (place: number): boolean => (phases.get(place) ?? 0) >= 1;
  const noEnd = new Set<string>();
  const notFinished = new Map<string, number>();
  const lacking: string[] = [];
  let count = 0;
  for (const [uid, place] of uids) {
    const end = ends.get(place);
    if (isFinished(place)) {
      if (end === undefined) {
        noEnd.add(uid);
        continue;
      }
      count += 1;
      if (requests.get(place) === undefined) lacking.push(uid);
    } else if (phases.get(place) !== undefined && isAlive?.(uid) === false) noEnd.add(uid);
    else if (end !== undefined) notFinished.set(uid, end);
  }
  const unscheduled = await askUnscheduled(monitoring, "unscheduledCores", asked, lacking, tiling);
  function* finished(): Generator<FinishedPod> {
    for (const [uid, place] of uids) {
      const end = ends.get(place);
      if (end === undefined || !isFinished(place)) continue;
      const start = starts.get(place);
      const milliCores = Math.round((requests.get(place) ?? unscheduled.get(uid) ?? 0) * 1000);
      yield {
        uid,
        pod: names.get(uid) ?? "",
        end: Math.floor(end),
        start: start === undefined ? undefined : Math.floor(start),
        milliCores: milliCores > 0 ? milliCores : undefined,
        vo: vos.get(uid),
      };
    }
  }
  return { finished: { [Symbol.iterator]: finished }, count, unfinished: { notFinished, noEnd }, uids };
}

function phaseMissing(ends: Column): GridmeterError {
  return new GridmeterError(
    "phase_missing",
    `There are ${ends.size} completions (kube_pod_completion_time) but no kube_pod_status_phase series, so nothing says which pods have ` +
      "finished. Nothing of this month was published. Let kube-state-metrics export kube_pod_status_phase (see its --metric-allowlist) and do not drop it on scraping.",
  );
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
  tiling?: Tiling,
  uids: Uids = new Uids(),
): Promise<ByUid> {
  const seconds = await askSums(monitoring, "cpu", { from: from - SKEW, to }, uids, tiling);
  return byUid(uids, seconds, (used) => Math.round(used * 1000));
}

const kibibytes = (bytes: number): number => Math.ceil(bytes / 1024);

/** Measured maximum of each pod's memory, whole KiB. */
export async function askMemoryUsed(
  monitoring: Monitoring,
  window: Window,
  tiling?: Tiling,
  uids: Uids = new Uids(),
): Promise<ByUid> {
  const used = await askSums(monitoring, "memoryUsed", { from: window.from - SKEW, to: window.to }, uids, tiling);
  return byUid(uids, used, kibibytes);
}

/** Memory requests of these pods, whole KiB; pods without one are absent. */
export async function askMemoryRequests(
  monitoring: Monitoring,
  window: Window,
  pods: Iterable<FinishedPod>,
  tiling?: Tiling,
  uids: Uids = new Uids(),
): Promise<ByUid> {
  const asked = { from: window.from - SKEW, to: window.to };
  const requests = await askColumn(monitoring, "memoryRequest", asked, uids, tiling);
  const lacking: string[] = [];
  for (const { uid } of pods) if (requests.get(uids.place(uid)) === undefined) lacking.push(uid);
  const unscheduled = await askUnscheduled(monitoring, "unscheduledMemoryRequest", asked, lacking, tiling);
  for (const [uid, bytes] of unscheduled) requests.set(uids.place(uid), bytes);
  return byUid(uids, requests, kibibytes);
}
