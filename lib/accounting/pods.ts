import { GridmeterError } from "../errors.ts";
import { ask } from "./ask.ts";
import { CELL } from "./ports.ts";
import type { Fact, Monitoring, Row, Window } from "./ports.ts";

/** Clocks of nodes and of Prometheus differ: a completion may be scraped a little before its own value. Seconds. */
const SKEW = 300;
/** A pod without a sample in this stretch before the last sign of monitoring is gone. Seconds. */
const GONE_AFTER = 3 * CELL;

/** A finished pod, as far as the monitoring tells. Times in whole epoch seconds. */
export type FinishedPod = {
  readonly uid: string;
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
    `Prometheus gives ${row.value} as ${fact} of pod "${row.pod}" (uid ${row.uid}). Nothing of this month was published. ` +
      "Find and delete the bad series, or narrow PROMETHEUS_LABELS so that it is not selected.",
  );
}

function values(fact: Fact, answer: Answer): Map<string, number> {
  return new Map([...answer].map(([uid, row]) => [uid, finite(fact, row)]));
}

async function vanished(
  monitoring: Monitoring,
  open: readonly string[],
  lastSeen: number | undefined,
): Promise<readonly string[]> {
  if (open.length === 0 || lastSeen === undefined) return [];
  const alive = await ask(monitoring, "finished", { from: lastSeen - GONE_AFTER, to: lastSeen });
  return open.filter((uid) => !alive.has(uid));
}

/**
 * Asks what there is to know about the pods whose end may fall in [window.from, ...): everything scraped from
 * window.from to window.to, which looks past the period's end, because a completion of the last minute is scraped after it.
 * Which day a pod belongs to is for the caller to say, from the *value* of its end, and only after all tiles are merged.
 * @param lastSeen the last sign of monitoring up to window.to
 * @throws phase_missing if there are completions but no phases; sample_invalid
 */
export async function askPods(
  monitoring: Monitoring,
  window: Window,
  options: { readonly lastSeen: number | undefined; readonly withVo: boolean },
): Promise<PieceOfPods> {
  const asked = { from: window.from - SKEW, to: window.to };
  const none: Answer = new Map();
  const [ends, phases, starts, requests, vos] = await Promise.all([
    ask(monitoring, "end", asked),
    ask(monitoring, "finished", asked),
    ask(monitoring, "start", asked),
    ask(monitoring, "cores", asked),
    options.withVo ? ask(monitoring, "vo", asked) : none,
  ]);
  if (ends.size > 0 && phases.size === 0) {
    throw new GridmeterError(
      "phase_missing",
      `There are ${ends.size} completions (kube_pod_completion_time) but no kube_pod_status_phase series, so nothing says which pods have ` +
        "finished. Nothing of this month was published. Let kube-state-metrics export kube_pod_status_phase (see its --metric-allowlist) and do not drop it on scraping.",
    );
  }
  const end = values("end", ends);
  const start = values("start", starts);
  const cores = values("cores", requests);
  const finished: FinishedPod[] = [];
  const noEnd = new Set<string>();
  const open: string[] = [];
  for (const [uid, phase] of values("finished", phases)) {
    const podEnd = end.get(uid);
    if (phase < 1) open.push(uid);
    else if (podEnd === undefined) noEnd.add(uid);
  }
  for (const [uid, row] of ends) {
    if ((phases.get(uid)?.value ?? 0) < 1) continue;
    const milliCores = Math.round((cores.get(uid) ?? 0) * 1000);
    const podStart = start.get(uid);
    const vo = vos.get(uid)?.text;
    finished.push({
      uid,
      pod: row.pod,
      end: Math.floor(finite("end", row)),
      ...(podStart === undefined ? {} : { start: Math.floor(podStart) }),
      ...(milliCores > 0 ? { milliCores } : {}),
      ...(vo === undefined ? {} : { vo }),
    });
  }
  for (const uid of await vanished(monitoring, open, options.lastSeen)) noEnd.add(uid);
  const notFinished = new Map<string, number>();
  for (const [uid, time] of end) {
    if ((phases.get(uid)?.value ?? 0) < 1 && !noEnd.has(uid)) notFinished.set(uid, time);
  }
  return { finished, unfinished: { notFinished, noEnd } };
}

/**
 * CPU milliseconds used by each pod's containers: per container instance the latest counter, restarts added. Pods without
 * any sample are absent; nothing is put in their place.
 * @param from the earliest start of the pods that matter, since a restarted container's counter ends long before the pod
 */
export async function askCpu(monitoring: Monitoring, from: number, to: number): Promise<ReadonlyMap<string, number>> {
  const seconds = new Map<string, number>();
  for (const row of (await ask(monitoring, "cpu", { from: from - SKEW, to })).values()) {
    seconds.set(row.uid, (seconds.get(row.uid) ?? 0) + finite("cpu", row));
  }
  return new Map([...seconds].map(([uid, used]) => [uid, Math.round(used * 1000)]));
}

/** Memory of each pod in whole KiB: `memoryRequest` or the measured maximum `memoryUsed`. */
export async function askMemory(
  monitoring: Monitoring,
  fact: "memoryRequest" | "memoryUsed",
  window: Window,
): Promise<ReadonlyMap<string, number>> {
  const bytes = new Map<string, number>();
  for (const row of (await ask(monitoring, fact, { from: window.from - SKEW, to: window.to })).values()) {
    bytes.set(row.uid, (bytes.get(row.uid) ?? 0) + finite(fact, row));
  }
  return new Map([...bytes].map(([uid, used]) => [uid, Math.ceil(used / 1024)]));
}
