import type { Monitoring, Presence } from "../model/monitoring.ts";
import { DAY, dayOf, startOf } from "../model/time.ts";
import type { Piece } from "./pieces.ts";
import type { FinishedPod, LackingPod } from "./pods.ts";

/** Answers disagree if at least so many pods of a day, and this share of them, lack a fact. Fewer are late samples or odd pods. */
const DISAGREE = { pods: 3, share: 0.02 };
/** Where no pod of kube-system is visible, the metric of requests is missing if there was no series for so many days. */
const DAYS_WITHOUT_REQUESTS = 7;

/** The facts without which no pod is a job. Each has one metric. */
export type MissingFact = Extract<Presence, "ends" | "starts" | "phases" | "requests">;

/** What is wrong with the facts of a day. */
export type DayFault =
  /** the metric has no series at all on the day, though there were pods that must have one */
  | { readonly kind: "metric_missing"; readonly fact: MissingFact }
  /** `pods` of the `of` pods lack what the others have: the answers came from replicas with different data */
  | {
      readonly kind: "answers_disagree";
      readonly lacks: Exclude<LackingPod["lacks"], "outcome">;
      readonly pods: number;
      readonly of: number;
      /** the uid of one of them */
      readonly example: string;
    };

export type JudgedFacts = {
  /** by day */
  readonly faults: ReadonlyMap<string, DayFault>;
  /** days of which it is not known yet whether the metric of requests is missing */
  readonly unproven: ReadonlySet<string>;
  /** by day: how many pods lack a fact, where they are so few that they are left out */
  readonly few: ReadonlyMap<string, number>;
};

type JudgeOptions = {
  readonly withoutDefaultCores: boolean;
  /** the moment up to which requests are looked for, epoch seconds: the end of all days that the run asks for */
  readonly until: number;
};

/**
 * Judges the facts of a piece's pods, day by day (accounting-rules: Facts vouch for each other, Mixed answers). A fact that
 * pods lack is looked for in all visible namespaces: if it is not there either, its metric is missing.
 */
export async function judgeFacts(
  monitoring: Monitoring,
  days: Piece,
  finished: Iterable<FinishedPod>,
  lacking: readonly LackingPod[],
  options: JudgeOptions,
): Promise<JudgedFacts> {
  const counts = countsOf(days, finished);
  const present = presenceOf(monitoring, days);
  const ends = await missingOf("ends", "end", lacking, days, present);
  const phases = await missingPhases(lacking, days, present);
  const starts = await missingStarts(days, counts, present);
  const { requests, unproven } = options.withoutDefaultCores
    ? await missingRequests(monitoring, days, counts, present, options.until)
    : { requests: [], unproven: new Set<string>() };
  const missing: Readonly<Record<MissingFact, Iterable<string>>> = { ends, phases, starts, requests };
  const faults = new Map<string, DayFault>();
  // A day has one fault, the first of these.
  for (const fact of ["ends", "phases", "starts", "requests"] as const)
    for (const day of missing[fact]) if (!faults.has(day)) faults.set(day, { kind: "metric_missing", fact });
  const { disagreeing, few } = judgeLacking(days, counts, lacking, faults);
  return { faults: new Map([...faults, ...disagreeing]), few, unproven };
}

/** How many finished pods of a day there are, and how many of them have a start and a request. */
type Counts = { finished: number; withStart: number; withRequest: number };

function countsOf(days: readonly string[], finished: Iterable<FinishedPod>): ReadonlyMap<string, Counts> {
  const byNumber = new Map(
    days.map((day): [number, Counts] => [startOf(day) / DAY, { finished: 0, withStart: 0, withRequest: 0 }]),
  );
  for (const pod of finished) {
    const day = byNumber.get(Math.floor(pod.end / DAY));
    if (day === undefined) continue;
    day.finished += 1;
    if (pod.start !== undefined) day.withStart += 1;
    if (pod.milliCores !== undefined) day.withRequest += 1;
  }
  return new Map([...byNumber].map(([number, counts]) => [dayOf(number * DAY), counts]));
}

/** On which days of the piece (by their starts) there was any series of a kind, in any visible namespace. */
type PresentOn = (of: Presence) => Promise<ReadonlySet<number>>;

/** Each kind is asked for at most once. */
function presenceOf(monitoring: Monitoring, days: Piece): PresentOn {
  const window = { from: startOf(days[0]), to: startOf(days.at(-1) ?? days[0]) + DAY };
  const asked = new Map<Presence, Promise<ReadonlySet<number>>>();
  return (of) => {
    const held = asked.get(of) ?? monitoring.presence(of, window);
    asked.set(of, held);
    return held;
  };
}

/** Days without any series of a metric, on which a pod was there that lacks it. */
async function missingOf(
  metric: "ends" | "phases" | "both phases",
  lacks: LackingPod["lacks"],
  lacking: readonly LackingPod[],
  days: Piece,
  present: PresentOn,
): Promise<readonly string[]> {
  const pods = lacking.filter((pod) => pod.lacks === lacks);
  if (pods.length === 0) return [];
  const there = await present(metric);
  return days.filter((day) => {
    const start = startOf(day);
    return !there.has(start) && pods.some(({ first, last }) => first < start + DAY && last >= start);
  });
}

async function missingPhases(
  lacking: readonly LackingPod[],
  days: Piece,
  present: PresentOn,
): Promise<readonly string[]> {
  const missing = [
    ...(await missingOf("phases", "phase", lacking, days, present)),
    ...(await missingOf("both phases", "one phase", lacking, days, present)),
  ];
  for (const day of await missingOf("both phases", "outcome", lacking, days, present)) {
    const start = startOf(day);
    // If there are ends, they show who finished. If no zero rows are kept, a pod that was deleted while it ran has no row either.
    if (!(await present("ends")).has(start) && (await present("zero phases")).has(start)) missing.push(day);
  }
  return missing;
}

function missingStarts(
  days: Piece,
  counts: ReadonlyMap<string, Counts>,
  present: PresentOn,
): Promise<ReadonlySet<string>> {
  return missingWhere(days, counts, "withStart", async (day, finished) => {
    // If ends and phases are missing too, no pod has finished: only another series shows that the tenant has pods.
    if (finished === 0 && !(await present("own pods")).has(startOf(day))) return false;
    return !(await present("starts")).has(startOf(day));
  });
}

/** Pods of kube-system always request CPU. Where none is visible, only time shows whether requests are missing. */
async function missingRequests(
  monitoring: Monitoring,
  days: Piece,
  counts: ReadonlyMap<string, Counts>,
  present: PresentOn,
  until: number,
): Promise<{ readonly requests: Iterable<string>; readonly unproven: ReadonlySet<string> }> {
  const unproven = new Set<string>();
  const requests = await missingWhere(days, counts, "withRequest", async (day, finished) => {
    if (finished === 0) return false;
    const start = startOf(day);
    if ((await present("requests")).has(start)) return false;
    if ((await present("kube-system")).has(start)) return true;
    const end = Math.ceil(until / DAY) * DAY;
    const later = await monitoring.presence("requests", { from: start, to: Math.max(end, start + DAY) });
    if (later.size > 0) return false;
    if (end - start >= DAYS_WITHOUT_REQUESTS * DAY) return true;
    unproven.add(day);
    return false;
  });
  return { requests, unproven };
}

/**
 * Days on which no finished pod has a fact and its metric is missing, and days beside them on which some pods lack it: the
 * metric went missing, or came back, in the middle of such a day.
 * @param isMissing asked only of days without any pod that has the fact; there may be no finished pod at all
 */
async function missingWhere(
  days: Piece,
  counts: ReadonlyMap<string, Counts>,
  having: "withStart" | "withRequest",
  isMissing: (day: string, finished: number) => Promise<boolean>,
): Promise<ReadonlySet<string>> {
  const of = (day: string): Counts => counts.get(day) ?? { finished: 0, withStart: 0, withRequest: 0 };
  const missing = new Set<string>();
  for (const day of days) if (of(day)[having] === 0 && (await isMissing(day, of(day).finished))) missing.add(day);
  const beside = days.filter(
    (day) => of(day)[having] < of(day).finished && neighbours(day).some((other) => missing.has(other)),
  );
  return new Set([...missing, ...beside]);
}

const neighbours = (day: string): readonly string[] => [dayOf(startOf(day) - DAY), dayOf(startOf(day) + DAY)];

/** Judges the pods that lack a fact on days of which no metric is missing: answers disagree, or they are few. */
function judgeLacking(
  days: Piece,
  counts: ReadonlyMap<string, Counts>,
  lacking: readonly LackingPod[],
  missing: ReadonlyMap<string, DayFault>,
): { readonly disagreeing: ReadonlyMap<string, DayFault>; readonly few: ReadonlyMap<string, number> } {
  const disagreeing = new Map<string, DayFault>();
  const few = new Map<string, number>();
  for (const [day, pods] of byDay(days, lacking)) {
    if (!days.includes(day) || missing.has(day)) continue;
    const beside = neighbours(day).flatMap((other) => missing.get(other) ?? [])[0];
    if (beside !== undefined) {
      disagreeing.set(day, beside);
      continue;
    }
    const sure = pods.flatMap(({ uid, lacks }) => (lacks === "outcome" ? [] : [{ uid, lacks }]));
    const [example] = sure;
    if (example === undefined) continue;
    const of = sure.length + (counts.get(day)?.finished ?? 0);
    if (sure.length < DISAGREE.pods || sure.length < of * DISAGREE.share) few.set(day, sure.length);
    else {
      const { uid, lacks } = example;
      disagreeing.set(day, { kind: "answers_disagree", lacks, pods: sure.length, of, example: uid });
    }
  }
  return { disagreeing, few };
}

/** Pods by the last day on which they were seen; those seen after the piece by its last day. */
function byDay(days: Piece, pods: readonly LackingPod[]): ReadonlyMap<string, readonly LackingPod[]> {
  const last = startOf(days.at(-1) ?? days[0]);
  const found = new Map<string, LackingPod[]>();
  for (const pod of pods) {
    const day = dayOf(Math.min(pod.last, last));
    const held = found.get(day) ?? [];
    found.set(day, held);
    held.push(pod);
  }
  return found;
}
