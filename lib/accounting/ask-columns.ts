import { GridmeterError } from "../errors.ts";
import { ask } from "./ask.ts";
import { Column, Parts, ownText } from "./columns.ts";
import type { Uids } from "./columns.ts";
import type { Fact, Monitoring, Row, Window } from "./ports.ts";
import type { Tiling } from "./tiling.ts";

/**
 * A fact of which every pod has one number: latest end and start, whether it has finished, or the request in force at the
 * end, which the latest tile knows.
 * @throws sample_invalid for NaN and infinities: among times or cores they would silently drop the job
 */
export async function askColumn(
  monitoring: Monitoring,
  fact: "end" | "start" | "finished" | "cores" | "memoryRequest",
  window: Window,
  uids: Uids,
  tiling?: Tiling,
): Promise<Column> {
  const column = new Column();
  let likely = 0;
  const raised = fact === "end" || fact === "start" || fact === "finished";
  await ask(
    monitoring,
    fact,
    window,
    ({ uid, value }) => {
      const place = uids.place(uid, likely);
      likely = place + 1;
      if (raised) column.raise(place, value);
      else column.set(place, value);
    },
    tiling,
  );
  refuseInfinite(fact, column, uids);
  return column;
}

/** More pods than this are not asked for one by one, but all there are. */
const MOST_NAMED = 2000;

/**
 * Requests of pods that have none on a node. Every pod that ran has one there if it requests anything, unless the monitoring
 * drops the label: so this is rarely asked of many, while series from before scheduling there are of nearly all.
 */
export async function askUnscheduled(
  monitoring: Monitoring,
  fact: "unscheduledCores" | "unscheduledMemoryRequest",
  window: Window,
  lacking: readonly string[],
  tiling?: Tiling,
): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>();
  if (lacking.length === 0) return found;
  const wanted = new Set(lacking);
  const named = lacking.length > MOST_NAMED ? undefined : lacking;
  const take = ({ uid, value }: Row): void => void (wanted.has(uid) && found.set(ownText(uid), value));
  await ask(monitoring, fact, window, take, tiling, named);
  for (const [uid, value] of found) if (!Number.isFinite(value)) throw notFinite(fact, uid, value);
  return found;
}

/** Latest ends and the names of the pods. Throws as `askColumn`. */
export async function askNames(
  monitoring: Monitoring,
  window: Window,
  uids: Uids,
  tiling?: Tiling,
): Promise<{ readonly ends: Column; readonly names: ReadonlyMap<string, string> }> {
  const ends = new Column();
  const names = new Map<string, string>();
  await ask(
    monitoring,
    "name",
    window,
    ({ uid, value, text = "" }) => {
      ends.raise(uids.place(uid), value);
      keepGreatest(names, uid, text);
    },
    tiling,
  );
  refuseInfinite("end", ends, uids);
  return { ends, names };
}

/** The VO label of each pod that has one. Of a label that changed any fixed choice will do that does not depend on tiles. */
export async function askVos(
  monitoring: Monitoring,
  window: Window,
  tiling?: Tiling,
): Promise<ReadonlyMap<string, string>> {
  const vos = new Map<string, string>();
  // There are few VOs, and a text out of an answer would be one of its own for each pod.
  const known = new Map<string, string>();
  await ask(
    monitoring,
    "vo",
    window,
    ({ uid, text = "" }) => {
      const shared = known.get(text) ?? text;
      known.set(text, shared);
      keepGreatest(vos, uid, shared);
    },
    tiling,
  );
  return vos;
}

/**
 * A fact of which a pod has several parts: the greatest of each part, added up. It has no value for pods of which there is
 * no part. Throws `sample_invalid`.
 */
export async function askSums(
  monitoring: Monitoring,
  fact: Extract<Fact, "cpu" | "memoryUsed">,
  window: Window,
  uids: Uids,
  tiling?: Tiling,
): Promise<Column> {
  const parts = new Parts();
  const take = ({ uid, value, part = "" }: Row): void => {
    // Nobody knows whose the use is where cAdvisor's id names no pod; `cpu-seen.ts` looks at those.
    if (uid !== "") parts.raise(uids.place(uid), part, value);
  };
  await ask(monitoring, fact, window, take, tiling);
  const sums = parts.sums();
  refuseInfinite(fact, sums, uids);
  return sums;
}

function keepGreatest(into: Map<string, string>, uid: string, text: string): void {
  if (text > (into.get(uid) ?? "")) into.set(uid, text);
}

/** Of all pods, also of those that do not count: nobody knows what a series that has a NaN would say otherwise. */
function refuseInfinite(fact: Fact, column: Column, uids: Uids): void {
  if (!column.wasOdd) return;
  for (const [uid, place] of uids) {
    const value = column.get(place);
    if (value !== undefined && !Number.isFinite(value)) throw notFinite(fact, uid, value);
  }
}

function notFinite(fact: Fact, uid: string, value: number): GridmeterError {
  return new GridmeterError(
    "sample_invalid",
    `Prometheus gives ${value} as ${fact} of the pod with uid ${uid}. Nothing of this month was published. ` +
      "Find and delete the bad series, or narrow PROMETHEUS_LABELS so that it is not selected.",
  );
}
