import { GridmeterError } from "../errors.ts";
import { ask } from "./ask.ts";
import { CELL } from "./ports.ts";
import type { Fact, Monitoring, Row, Window } from "./ports.ts";
import type { Tiling } from "./tiling.ts";

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
  readonly start?: number;
  /** sum of its containers' CPU requests, milli-cores; absent if none requests CPU */
  readonly milliCores?: number;
  /** value of the VO label, if it has one */
  readonly vo?: string;
};

/** Pods that are no jobs (yet); they belong to no day and are reported per run. */
export type Unfinished = {
  /** uids with a completion whose pod runs on, and that completion */
  readonly notFinished: ReadonlyMap<string, number>;
  /** uids that finished without a completion (evicted), or vanished before one was scraped */
  readonly noEnd: ReadonlySet<string>;
};

export type PieceOfPods = { readonly finished: readonly FinishedPod[]; readonly unfinished: Unfinished };

type Answer = ReadonlyMap<string, Row>;

/** The finite value of a row. A NaN among times or cores would silently drop the job, so it stops the month. */
function finite(fact: Fact, row: Row): number {
  if (Number.isFinite(row.value)) return row.value;
  throw new GridmeterError(
    "sample_invalid",
    `Prometheus gives ${row.value} as ${fact} of the pod with uid ${row.uid}. Nothing of this month was published. ` +
      "Find and delete the bad series, or narrow PROMETHEUS_LABELS so that it is not selected.",
  );
}

/** The value of a uid's row, if it has one. */
function valueOf(fact: Fact, answer: Answer, uid: string): number | undefined {
  const row = answer.get(uid);
  return row === undefined ? undefined : finite(fact, row);
}

/** Of all rows, also of pods that do not count: nobody knows what a series that has a NaN would say otherwise. */
function refuseInfinite(answers: readonly (readonly [Fact, Answer])[]): void {
  for (const [fact, answer] of answers) for (const row of answer.values()) finite(fact, row);
}

async function vanished(
  monitoring: Monitoring,
  open: readonly string[],
  options: PodOptions,
): Promise<readonly string[]> {
  const { lastSeen, tiling } = options;
  if (open.length === 0 || lastSeen === undefined) return [];
  const alive = await ask(monitoring, "finished", { from: lastSeen - GONE_AFTER, to: lastSeen }, tiling);
  return open.filter((uid) => !alive.has(uid));
}

export type PodOptions = {
  /** the last sign of monitoring up to the window's end */
  readonly lastSeen: number | undefined;
  readonly withVo: boolean;
  /** whether pods' names are needed */
  readonly withNames?: boolean;
  readonly tiling?: Tiling;
};

/**
 * Asks what there is to know about the pods whose end may fall in [window.from, ...): everything scraped from
 * window.from to window.to, which looks past the period's end, because a completion of the last minute is scraped after it.
 * Which day a pod belongs to is for the caller to say, from the *value* of its end, and only after all tiles are merged.
 * @throws phase_missing if there are completions but no phases; sample_invalid
 */
export async function askPods(monitoring: Monitoring, window: Window, options: PodOptions): Promise<PieceOfPods> {
  const asked = { from: window.from - SKEW, to: window.to };
  const { tiling } = options;
  const none: Answer = new Map();
  const [ends, phases, starts, requests, vos] = await Promise.all([
    ask(monitoring, options.withNames === true ? "name" : "end", asked, tiling),
    ask(monitoring, "finished", asked, tiling),
    ask(monitoring, "start", asked, tiling),
    ask(monitoring, "cores", asked, tiling),
    options.withVo ? ask(monitoring, "vo", asked, tiling) : none,
  ]);
  if (ends.size > 0 && phases.size === 0) {
    throw new GridmeterError(
      "phase_missing",
      `There are ${ends.size} completions (kube_pod_completion_time) but no kube_pod_status_phase series, so nothing says which pods have ` +
        "finished. Nothing of this month was published. Let kube-state-metrics export kube_pod_status_phase (see its --metric-allowlist) and do not drop it on scraping.",
    );
  }
  refuseInfinite([
    ["end", ends],
    ["finished", phases],
    ["start", starts],
    ["cores", requests],
  ]);
  const isFinished = (uid: string): boolean => (phases.get(uid)?.value ?? 0) >= 1;
  const finished: FinishedPod[] = [];
  const noEnd = new Set<string>();
  const open: string[] = [];
  for (const { uid } of phases.values()) {
    if (!isFinished(uid)) open.push(uid);
    else if (!ends.has(uid)) noEnd.add(uid);
  }
  for (const row of ends.values()) {
    const { uid } = row;
    if (!isFinished(uid)) continue;
    const milliCores = Math.round((valueOf("cores", requests, uid) ?? 0) * 1000);
    const start = valueOf("start", starts, uid);
    const vo = vos.get(uid)?.text;
    finished.push({
      uid,
      pod: row.text ?? "",
      end: Math.floor(row.value),
      ...(start === undefined ? {} : { start: Math.floor(start) }),
      ...(milliCores > 0 ? { milliCores } : {}),
      ...(vo === undefined ? {} : { vo }),
    });
  }
  for (const uid of await vanished(monitoring, open, options)) noEnd.add(uid);
  const notFinished = new Map<string, number>();
  for (const { uid, value } of ends.values()) if (!isFinished(uid) && !noEnd.has(uid)) notFinished.set(uid, value);
  return { finished, unfinished: { notFinished, noEnd } };
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
  tiling?: Tiling,
): Promise<ReadonlyMap<string, number>> {
  const seconds = new Map<string, number>();
  for (const row of (await ask(monitoring, "cpu", { from: from - SKEW, to }, tiling)).values()) {
    seconds.set(row.uid, (seconds.get(row.uid) ?? 0) + finite("cpu", row));
  }
  return new Map([...seconds].map(([uid, used]) => [uid, Math.round(used * 1000)]));
}

/** Memory of each pod in whole KiB: `memoryRequest` or the measured maximum `memoryUsed`. */
export async function askMemory(
  monitoring: Monitoring,
  fact: "memoryRequest" | "memoryUsed",
  window: Window,
  tiling?: Tiling,
): Promise<ReadonlyMap<string, number>> {
  const bytes = new Map<string, number>();
  for (const row of (await ask(monitoring, fact, { from: window.from - SKEW, to: window.to }, tiling)).values()) {
    bytes.set(row.uid, (bytes.get(row.uid) ?? 0) + finite(fact, row));
  }
  return new Map([...bytes].map(([uid, used]) => [uid, Math.ceil(used / 1024)]));
}
