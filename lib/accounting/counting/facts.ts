import { GridmeterError } from "../../shared/errors.ts";
import { CELL, type Fact, type Monitoring, type Row, type Window } from "../model/monitoring.ts";
import { type LongestWindows, ask } from "../model/split.ts";
import { Column, Parts, type Uids, ownText } from "./columns.ts";

/** More pods than this are not asked for one by one, but all there are. */
const MOST_NAMED = 2000;

/** The pods to name in a question about some of them; undefined where they are so many that all are asked for. */
export function named(uids: readonly string[]): readonly string[] | undefined {
  return uids.length > MOST_NAMED ? undefined : uids;
}

/**
 * A fact of which every pod has one number: the latest end, start, ... Rows are added to the column.
 * @param only the pods asked for; there may come rows of others
 * @throws sample_invalid for NaN and infinities: among times they would silently drop the job
 */
export async function askColumn(
  monitoring: Monitoring,
  fact: "end" | "start" | "succeeded" | "failed" | "runningUntil" | "lastDay",
  window: Window,
  uids: Uids,
  longest?: LongestWindows,
  column: Column = new Column(),
  only?: readonly string[],
): Promise<Column> {
  let likely = 0;
  const take = ({ uid, value }: Row): void => {
    const place = uids.place(uid, likely);
    likely = place + 1;
    column.raise(place, value);
  };
  await ask(monitoring, fact, window, take, longest, only);
  refuseInfinite(fact, column, uids);
  return column;
}

/** Latest ends and the names of the pods. Throws as `askColumn`. */
export async function askNames(
  monitoring: Monitoring,
  window: Window,
  uids: Uids,
  ends: Column,
  names: Map<string, string>,
  longest?: LongestWindows,
): Promise<void> {
  const take = ({ uid, value, text = "" }: Row): void => {
    ends.raise(uids.place(uid), value);
    if (text > (names.get(uid) ?? "")) names.set(uid, text);
  };
  await ask(monitoring, "name", window, take, longest);
  refuseInfinite("end", ends, uids);
}

/** What one copy says, and when it was last seen. */
type Copy<T> = { readonly value: T; readonly at: number };
/** Labels of pods, or requests of a pod's containers, that differ from copy to copy. */
type Copies<T> = Map<string, Map<string, Copy<T>>>;

/**
 * The value of the copy with the newest sample, of copies that are equally new the greatest (accounting-rules: Copies).
 * Copies that are scraped in turn are equally new.
 */
function newest<T extends string | number>(held: ReadonlyMap<string, Copy<T>>): T | undefined {
  const copies = [...held.values()];
  const latest = copies.reduce((most, { at }) => Math.max(most, at), -Infinity);
  return copies
    .filter(({ at }) => at >= latest - CELL)
    .map(({ value }) => value)
    .reduce<T | undefined>((most, value) => (most === undefined || value > most ? value : most), undefined);
}

/** Of one copy that is in the answers to several windows the latest counts. */
function note<T>(copies: Copies<T>, key: string, copy: string, value: T, at: number): void {
  const held = copies.get(key) ?? new Map<string, Copy<T>>();
  copies.set(key, held);
  if (at >= (held.get(copy)?.at ?? at)) held.set(copy, { value, at });
}

/**
 * The VO label of each pod that has one, added to `vos`. Where copies disagree, the newest counts.
 */
export async function askVos(
  monitoring: Monitoring,
  window: Window,
  vos: Map<string, string>,
  longest?: LongestWindows,
): Promise<void> {
  // There are few VOs, and a text out of an answer would be one of its own for each pod.
  const known = new Map<string, string>();
  const disagreeing = new Set<string>();
  const take = ({ uid, text = "" }: Row): void => {
    const shared = known.get(text) ?? ownText(text);
    known.set(text, shared);
    const held = vos.get(uid);
    if (held !== undefined && held !== shared) disagreeing.add(ownText(uid));
    else if (held === undefined) vos.set(ownText(uid), shared);
  };
  await ask(monitoring, "vo", window, take, longest);
  if (disagreeing.size === 0) return;
  const copies: Copies<string> = new Map();
  const takeCopy = ({ uid, text = "", at = 0 }: Row): void => {
    if (disagreeing.has(uid)) note(copies, ownText(uid), ownText(text), ownText(text), at);
  };
  await ask(monitoring, "voAt", window, takeCopy, longest, [...disagreeing]);
  for (const [uid, held] of copies) vos.set(uid, newest(held) ?? "");
}

/** What a question about requests is asked with: on nodes, before scheduling, and copy by copy. */
const REQUESTS = {
  cores: { scheduled: "cores", unscheduled: "unscheduledCores", copies: "coresAt" },
  memory: { scheduled: "memoryRequest", unscheduled: "unscheduledMemoryRequest", copies: "memoryRequestAt" },
} as const satisfies Record<string, Record<"scheduled" | "unscheduled" | "copies", Fact>>;

/**
 * The request of each pod: the sum over its containers. Where copies, or windows that were asked one after the other, disagree, the
 * newest counts.
 * @throws sample_invalid for NaN and infinities
 */
export async function askRequests(
  monitoring: Monitoring,
  of: keyof typeof REQUESTS,
  window: Window,
  uids: Uids,
  longest?: LongestWindows,
): Promise<Column> {
  const parts = await askParts(monitoring, REQUESTS[of].scheduled, window, uids, longest);
  return totals(monitoring, of, window, uids, parts, longest);
}

/**
 * Requests of pods that have none on a node, added to `requests`. Every pod that ran has one there if it requests anything, unless the
 * monitoring drops the label: so this is rarely asked of many, while series from before scheduling there are of nearly all.
 */
export async function askUnscheduled(
  monitoring: Monitoring,
  of: keyof typeof REQUESTS,
  window: Window,
  lacking: readonly string[],
  uids: Uids,
  requests: Column,
  longest?: LongestWindows,
): Promise<void> {
  if (lacking.length === 0) return;
  const wanted = new Set(lacking);
  const fact = REQUESTS[of].unscheduled;
  const parts = await askParts(monitoring, fact, window, uids, longest, (uid) => wanted.has(uid), named(lacking));
  const sums = await totals(monitoring, of, window, uids, parts, longest);
  for (const uid of lacking) {
    const value = sums.get(uids.place(uid));
    if (value !== undefined) requests.set(uids.place(uid), value);
  }
}

async function askParts(
  monitoring: Monitoring,
  fact: Fact,
  window: Window,
  uids: Uids,
  longest?: LongestWindows,
  wanted: (uid: string) => boolean = () => true,
  only?: readonly string[],
): Promise<Parts> {
  const parts = new Parts();
  let likely = 0;
  const take = ({ uid, value, part = "" }: Row): void => {
    if (!wanted(uid)) return;
    const place = uids.place(uid, likely);
    likely = place + 1;
    parts.raise(place, part, value);
  };
  await ask(monitoring, fact, window, take, longest, only);
  return parts;
}

async function totals(
  monitoring: Monitoring,
  of: keyof typeof REQUESTS,
  window: Window,
  uids: Uids,
  parts: Parts,
  longest?: LongestWindows,
): Promise<Column> {
  const sums = parts.sums();
  refuseInfinite(REQUESTS[of].scheduled, sums, uids);
  if (parts.disagreeing.size === 0) return sums;
  const wanted: string[] = [];
  for (const [uid, place] of uids) if (parts.disagreeing.has(place)) wanted.push(uid);
  const byPod = new Map<number, Copies<number>>();
  const take = ({ uid, value, part = "", at = 0, copy = "" }: Row): void => {
    const place = uids.find(uid);
    // Other parts are ordinary init containers, which do not add.
    if (place === undefined || !parts.disagreeing.has(place) || !parts.has(place, part)) return;
    const copies = byPod.get(place) ?? new Map();
    byPod.set(place, copies);
    note(copies, part, copy, value, at);
  };
  await ask(monitoring, REQUESTS[of].copies, window, take, longest, wanted);
  for (const [place, copies] of byPod)
    sums.set(
      place,
      [...copies.values()].reduce((sum, held) => sum + (newest(held) ?? 0), 0),
    );
  return sums;
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
  longest?: LongestWindows,
): Promise<Column> {
  // Nobody knows whose the use is where cAdvisor's id names no pod; `cpu-seen.ts` looks at those.
  const ofPods = (uid: string): boolean => uid !== "";
  const sums = (await askParts(monitoring, fact, window, uids, longest, ofPods)).sums();
  refuseInfinite(fact, sums, uids);
  return sums;
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
