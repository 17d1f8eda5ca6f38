import { GridmeterError } from "../../shared/errors.ts";
import { CELL, type Fact, type Monitoring, type Row, type Window } from "../model/monitoring.ts";
import { type LongestWindows, ask } from "../model/split.ts";

/** What was answered about one pod; undefined where it has no row. */
export type PodFacts = {
  readonly uid: string;
  end: number | undefined;
  start: number | undefined;
  succeeded: number | undefined;
  failed: number | undefined;
  runningUntil: number | undefined;
  cores: number | undefined;
  memoryRequest: number | undefined;
  cpu: number | undefined;
  memoryUsed: number | undefined;
  name: string | undefined;
  vo: string | undefined;
};

/** The pods of a piece by uid. Asking once more adds to it: two replicas behind one address may know different pods. */
export type Facts = Map<string, PodFacts>;

/** The facts of which a pod has one number. */
type Single = "end" | "start" | "succeeded" | "failed" | "runningUntil";

/** The pod with that uid, a new one if need be. */
export function podOf(facts: Facts, uid: string): PodFacts {
  const known = facts.get(uid);
  if (known !== undefined) return known;
  // All fields from the beginning: pods of one shape are several times smaller than dictionaries.
  const pod: PodFacts = {
    uid,
    end: undefined,
    start: undefined,
    succeeded: undefined,
    failed: undefined,
    runningUntil: undefined,
    cores: undefined,
    memoryRequest: undefined,
    cpu: undefined,
    memoryUsed: undefined,
    name: undefined,
    vo: undefined,
  };
  facts.set(uid, pod);
  return pod;
}

/** The greater of two values. NaN wins, so that it is seen. */
function greater(held: number | undefined, value: number): number {
  return held === undefined || value > held || Number.isNaN(value) ? value : held;
}

/** More pods than this are not asked for one by one, but all there are. */
const MOST_NAMED = 2000;

/** The pods to name in a question about some of them; undefined where they are so many that all are asked for. */
export function named(uids: readonly string[]): readonly string[] | undefined {
  return uids.length > MOST_NAMED ? undefined : uids;
}

/**
 * A fact of which every pod has one number: the latest end, start, ...
 * @param only the pods asked for; there may come rows of others
 * @throws sample_invalid for NaN and infinities: among times they would silently drop the job
 */
export async function askGreatest(
  monitoring: Monitoring,
  fact: Single,
  window: Window,
  facts: Facts,
  longest?: LongestWindows,
  only?: readonly string[],
): Promise<void> {
  const take = ({ uid, value }: Row): void => {
    const pod = podOf(facts, uid);
    pod[fact] = greater(pod[fact], value);
  };
  await ask(monitoring, fact, window, take, longest, only);
  refuseInfinite(facts, fact);
}

/**
 * The start of the last UTC day on which each pod was seen.
 * @param only as of `askGreatest`
 */
export async function askLastDays(
  monitoring: Monitoring,
  window: Window,
  longest?: LongestWindows,
  only?: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const days = new Map<string, number>();
  const take = ({ uid, value }: Row): void => void days.set(uid, greater(days.get(uid), value));
  await ask(monitoring, "lastDay", window, take, longest, only);
  return days;
}

/** Latest ends and the names of the pods. Throws as `askGreatest`. */
export async function askNames(
  monitoring: Monitoring,
  window: Window,
  facts: Facts,
  longest?: LongestWindows,
): Promise<void> {
  const take = ({ uid, value, text = "" }: Row): void => {
    const pod = podOf(facts, uid);
    pod.end = greater(pod.end, value);
    if (text > (pod.name ?? "")) pod.name = text;
  };
  await ask(monitoring, "name", window, take, longest);
  refuseInfinite(facts, "end");
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

/** The VO label of each pod that has one. Where copies disagree, the newest counts. */
export async function askVos(
  monitoring: Monitoring,
  window: Window,
  facts: Facts,
  longest?: LongestWindows,
): Promise<void> {
  const disagreeing = new Set<string>();
  const take = ({ uid, text = "" }: Row): void => {
    const pod = podOf(facts, uid);
    if (pod.vo !== undefined && pod.vo !== text) disagreeing.add(uid);
    pod.vo ??= text;
  };
  await ask(monitoring, "vo", window, take, longest);
  if (disagreeing.size === 0) return;
  const copies: Copies<string> = new Map();
  const takeCopy = ({ uid, text = "", at = 0 }: Row): void => {
    if (disagreeing.has(uid)) note(copies, uid, text, text, at);
  };
  await ask(monitoring, "voAt", window, takeCopy, longest, [...disagreeing]);
  for (const [uid, held] of copies) podOf(facts, uid).vo = newest(held) ?? "";
}

/** What a question about requests is asked with: on nodes, before scheduling, and copy by copy; and where the sum is kept. */
const REQUESTS = {
  cores: { scheduled: "cores", unscheduled: "unscheduledCores", copies: "coresAt", sum: "cores" },
  memory: {
    scheduled: "memoryRequest",
    unscheduled: "unscheduledMemoryRequest",
    copies: "memoryRequestAt",
    sum: "memoryRequest",
  },
} as const satisfies Record<string, Record<"scheduled" | "unscheduled" | "copies", Fact> & { sum: keyof PodFacts }>;

/**
 * The request of each pod: the sum over its containers. Where copies, or windows that were asked one after the other, disagree,
 * the newest counts.
 * @throws sample_invalid for NaN and infinities
 */
export async function askRequests(
  monitoring: Monitoring,
  of: keyof typeof REQUESTS,
  window: Window,
  facts: Facts,
  longest?: LongestWindows,
): Promise<void> {
  const parts = await askParts(monitoring, REQUESTS[of].scheduled, window, facts, longest);
  await addUp(monitoring, of, window, facts, parts, longest);
}

/**
 * Requests of pods that have none on a node. Every pod that ran has one there if it requests anything, unless the monitoring drops
 * the label: so this is rarely asked of many, while series from before scheduling there are of nearly all.
 */
export async function askUnscheduled(
  monitoring: Monitoring,
  of: keyof typeof REQUESTS,
  window: Window,
  lacking: readonly string[],
  facts: Facts,
  longest?: LongestWindows,
): Promise<void> {
  if (lacking.length === 0) return;
  const wanted = new Set(lacking);
  const fact = REQUESTS[of].unscheduled;
  const parts = await askParts(monitoring, fact, window, facts, longest, (uid) => wanted.has(uid), named(lacking));
  await addUp(monitoring, of, window, facts, parts, longest);
}

/** A part of a pod (a container, a cgroup), and the pod's next one. A Map for each pod would take four times the memory. */
type Part = { readonly name: string; value: number; readonly next: Part | undefined };

/** The parts of pods, each with the greatest of its values. */
class Parts {
  /** pods of which two values of one part came */
  readonly disagreeing = new Set<PodFacts>();
  readonly #first = new Map<PodFacts, Part>();

  add(pod: PodFacts, name: string, value: number): void {
    const known = this.find(pod, name);
    if (known === undefined) this.#first.set(pod, { name, value, next: this.#first.get(pod) });
    else {
      if (known.value !== value) this.disagreeing.add(pod);
      known.value = greater(known.value, value);
    }
  }

  find(pod: PodFacts, name: string): Part | undefined {
    let part = this.#first.get(pod);
    while (part !== undefined && part.name !== name) part = part.next;
    return part;
  }

  /** Each pod's parts added up. */
  *sums(): Generator<readonly [pod: PodFacts, sum: number]> {
    for (const [pod, first] of this.#first) {
      const values: number[] = [];
      for (let part: Part | undefined = first; part !== undefined; part = part.next) values.push(part.value);
      yield [pod, sumOf(values)];
    }
  }
}

async function askParts(
  monitoring: Monitoring,
  fact: Fact,
  window: Window,
  facts: Facts,
  longest?: LongestWindows,
  isWanted: (uid: string) => boolean = () => true,
  only?: readonly string[],
): Promise<Parts> {
  const parts = new Parts();
  const take = ({ uid, value, part = "" }: Row): void => {
    if (isWanted(uid)) parts.add(podOf(facts, uid), part, value);
  };
  await ask(monitoring, fact, window, take, longest, only);
  return parts;
}

/** A sum that does not depend on the order of its parts; NaN if one is. */
function sumOf(values: number[]): number {
  return values.sort((a, b) => a - b).reduce((sum, value) => sum + value, 0);
}

/** Adds up the requests of each pod; of pods whose copies disagree from the newest copies. */
async function addUp(
  monitoring: Monitoring,
  of: keyof typeof REQUESTS,
  window: Window,
  facts: Facts,
  parts: Parts,
  longest?: LongestWindows,
): Promise<void> {
  const { scheduled, copies, sum } = REQUESTS[of];
  const { disagreeing } = parts;
  for (const [pod, value] of parts.sums()) pod[sum] = value;
  refuseInfinite(facts, sum, scheduled);
  if (disagreeing.size === 0) return;
  const copiesOf = new Map<PodFacts, Copies<number>>();
  const take = ({ uid, value, part = "", at = 0, copy = "" }: Row): void => {
    // Other parts are ordinary init containers, which do not add.
    const pod = podOf(facts, uid);
    if (!disagreeing.has(pod) || parts.find(pod, part) === undefined) return;
    const held: Copies<number> = copiesOf.get(pod) ?? new Map();
    copiesOf.set(pod, held);
    note(held, part, copy, value, at);
  };
  await ask(
    monitoring,
    copies,
    window,
    take,
    longest,
    Array.from(disagreeing, ({ uid }) => uid),
  );
  for (const [pod, held] of copiesOf) pod[sum] = sumOf(Array.from(held.values(), (part) => newest(part) ?? 0));
}

/**
 * A fact of which a pod has several parts: the greatest of each part, added up. Throws `sample_invalid`.
 */
export async function askSums(
  monitoring: Monitoring,
  fact: Extract<Fact, "cpu" | "memoryUsed">,
  window: Window,
  facts: Facts,
  longest?: LongestWindows,
): Promise<void> {
  // Nobody knows whose the use is where cAdvisor's id names no pod; `lookForCpu` looks at those.
  const parts = await askParts(monitoring, fact, window, facts, longest, (uid) => uid !== "");
  for (const [pod, value] of parts.sums()) pod[fact] = value;
  refuseInfinite(facts, fact);
}

/** Of all pods, also of those that do not count: nobody knows what a series that has a NaN would say otherwise. */
function refuseInfinite(
  facts: Facts,
  key: Single | "cores" | "memoryRequest" | "cpu" | "memoryUsed",
  fact: Fact = key,
): void {
  for (const pod of facts.values()) {
    const value = pod[key];
    if (value !== undefined && !Number.isFinite(value)) throw notFinite(fact, pod.uid, value);
  }
}

function notFinite(fact: Fact, uid: string, value: number): GridmeterError {
  return new GridmeterError(
    "sample_invalid",
    `Prometheus gives ${value} as ${fact} of the pod with uid ${uid}. Nothing of this month was published. ` +
      "Find and delete the bad series, or narrow PROMETHEUS_LABELS so that it is not selected.",
  );
}
