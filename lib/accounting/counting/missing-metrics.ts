import type { Monitoring, Presence, Window } from "../model/monitoring.ts";
import { DAY, dayOf, startOf } from "../model/time.ts";
import { type Tiling, ask } from "../prometheus/split.ts";
import type { FinishedPod, LackingPod } from "./pods.ts";

/** Fewer pods of a day than this, or a smaller share, are left out with a warning: late samples and single odd pods. */
const MIXED = { pods: 3, share: 0.02 };
/** Where no pod of kube-system is visible, requests are missing once nobody reports any for so many days. */
const UNVOUCHED_DAYS = 7;

/** Facts without which no pod is a job; each has one metric. */
export type MissingFact = Extract<Presence, "ends" | "starts" | "phases" | "requests">;

/** Why the monitoring does not vouch for a day. */
export type DayFault =
  /** the metric has no series at all on the day, though pods were seen that must have one */
  | { readonly kind: "metric_missing"; readonly fact: MissingFact }
  /** some pods lack what others have */
  | {
      readonly kind: "answers_disagree";
      readonly lacks: Exclude<LackingPod["lacks"], "outcome">;
      readonly pods: number;
      readonly of: number;
      readonly example: string;
    };

export type JudgedFacts = {
  readonly faults: ReadonlyMap<string, DayFault>;
  /** days of which it is not yet known whether requests are missing: they are published, but not stored */
  readonly unproven: ReadonlySet<string>;
  /** pods that lack something, so few that they are left out: by day */
  readonly few: ReadonlyMap<string, number>;
};

type VouchOptions = {
  readonly withoutDefaultCores: boolean;
  /** up to when requests are looked for: the end of what is asked, seconds */
  readonly until: number;
};

/** How many finished pods of a day have which facts. */
type Tally = { finished: number; withStart: number; withRequest: number };

/**
 * Judges the days of a piece by whether their facts vouch for each other (accounting-rules: Facts vouch, Mixed answers). A fact
 * that pods of a day lack is looked for in all visible namespaces.
 */
export async function judgeFacts(
  monitoring: Monitoring,
  days: readonly [string, ...string[]],
  finished: Iterable<FinishedPod>,
  lacking: readonly LackingPod[],
  options: VouchOptions,
): Promise<JudgedFacts> {
  const tallies = tally(days, finished);
  const present = presenceOf(monitoring, days);
  const faults = new Map<string, DayFault>();
  const blame = (fact: MissingFact, day: string): void => {
    if (!faults.has(day)) faults.set(day, { kind: "metric_missing", fact });
  };
  const lackingThe = (lacks: LackingPod["lacks"]): readonly LackingPod[] =>
    lacking.filter((pod) => pod.lacks === lacks);
  for (const day of await missingOf("ends", lackingThe("end"), days, present)) blame("ends", day);
  for (const day of await missingOf("phases", lackingThe("phase"), days, present)) blame("phases", day);
  for (const day of await missingOf("both phases", lackingThe("one phase"), days, present)) blame("phases", day);
  // Where ends are there, they show who finished; where no zero rows are kept, a pod that was deleted while it ran looks the same.
  for (const day of await missingOf("both phases", lackingThe("outcome"), days, present)) {
    const start = startOf(day);
    if (!(await present("ends")).has(start) && (await present("zero phases")).has(start)) blame("phases", day);
  }
  const starts = await missingWhere(days, tallies, "withStart", async (day, finished) => {
    // Without ends and phases nothing else shows that the tenant has pods.
    if (finished === 0 && !(await present("own pods")).has(startOf(day))) return false;
    return !(await present("starts")).has(startOf(day));
  });
  starts.forEach((day) => blame("starts", day));
  const requests = options.withoutDefaultCores
    ? await missingRequests(monitoring, days, tallies, present, options.until)
    : { missing: new Set<string>(), unproven: new Set<string>() };
  requests.missing.forEach((day) => blame("requests", day));
  const { disagreeing, few } = mixed(days, tallies, lacking, faults);
  for (const [day, fault] of disagreeing) faults.set(day, fault);
  return { faults, few, unproven: requests.unproven };
}

type PresentOn = (of: Presence) => Promise<ReadonlySet<number>>;

/** On which days of the piece a metric was there; each is asked at most once. */
function presenceOf(monitoring: Monitoring, days: readonly [string, ...string[]]): PresentOn {
  const window = { from: startOf(days[0]), to: startOf(days.at(-1) ?? days[0]) + DAY };
  const asked = new Map<Presence, Promise<ReadonlySet<number>>>();
  return (of) => {
    const held = asked.get(of) ?? monitoring.presence(of, window);
    asked.set(of, held);
    return held;
  };
}

function tally(days: readonly string[], finished: Iterable<FinishedPod>): ReadonlyMap<string, Tally> {
  const byStart = new Map(
    days.map((day): [number, Tally] => [startOf(day) / DAY, { finished: 0, withStart: 0, withRequest: 0 }]),
  );
  for (const pod of finished) {
    const day = byStart.get(Math.floor(pod.end / DAY));
    if (day === undefined) continue;
    day.finished += 1;
    if (pod.start !== undefined) day.withStart += 1;
    if (pod.milliCores !== undefined) day.withRequest += 1;
  }
  return new Map([...byStart].map(([number, counts]) => [dayOf(number * DAY), counts]));
}

/** Days without any series of a metric, on which a pod was there that must have one. */
async function missingOf(
  fact: "ends" | "phases" | "both phases",
  lacking: readonly LackingPod[],
  days: readonly string[],
  present: PresentOn,
): Promise<readonly string[]> {
  if (lacking.length === 0) return [];
  const there = await present(fact);
  return days.filter((day) => {
    const start = startOf(day);
    return !there.has(start) && lacking.some(({ first, last }) => first < start + DAY && last >= start);
  });
}

/** Days of which no finished pod has the fact (there may be none) and the metric is missing, and days beside them of which some pods lack it. */
async function missingWhere(
  days: readonly string[],
  tallies: ReadonlyMap<string, Tally>,
  having: "withStart" | "withRequest",
  isMissing: (day: string, finished: number) => Promise<boolean>,
): Promise<ReadonlySet<string>> {
  const counts = (day: string): Tally => tallies.get(day) ?? { finished: 0, withStart: 0, withRequest: 0 };
  const missing = new Set<string>();
  for (const day of days)
    if (counts(day)[having] === 0 && (await isMissing(day, counts(day).finished))) missing.add(day);
  const beside = days.filter(
    (day) => counts(day)[having] < counts(day).finished && neighbours(day).some((other) => missing.has(other)),
  );
  return new Set([...missing, ...beside]);
}

const neighbours = (day: string): readonly string[] => [dayOf(startOf(day) - DAY), dayOf(startOf(day) + DAY)];

/** Pods of kube-system always request CPU; where none is visible, time must show that requests are missing for good. */
async function missingRequests(
  monitoring: Monitoring,
  days: readonly [string, ...string[]],
  tallies: ReadonlyMap<string, Tally>,
  present: PresentOn,
  until: number,
): Promise<{ readonly missing: ReadonlySet<string>; readonly unproven: ReadonlySet<string> }> {
  const unproven = new Set<string>();
  const missing = await missingWhere(days, tallies, "withRequest", async (day, finished) => {
    if (finished === 0) return false;
    const start = startOf(day);
    if ((await present("requests")).has(start)) return false;
    if ((await present("kube-system")).has(start)) return true;
    const end = Math.ceil(until / DAY) * DAY;
    const later = await monitoring.presence("requests", { from: start, to: Math.max(end, start + DAY) });
    if (later.size > 0) return false;
    if (end - start >= UNVOUCHED_DAYS * DAY) return true;
    unproven.add(day);
    return false;
  });
  return { missing, unproven };
}

/** Days of which some pods lack what others have, apart from days with a missing metric and those beside them. */
function mixed(
  days: readonly [string, ...string[]],
  tallies: ReadonlyMap<string, Tally>,
  lacking: readonly LackingPod[],
  missing: Map<string, DayFault>,
): { readonly disagreeing: ReadonlyMap<string, DayFault>; readonly few: ReadonlyMap<string, number> } {
  const last = days.at(-1) ?? days[0];
  const byDay = new Map<string, LackingPod[]>();
  for (const pod of lacking) {
    const day = dayOf(Math.min(pod.last, startOf(last)));
    byDay.set(day, [...(byDay.get(day) ?? []), pod]);
  }
  const disagreeing = new Map<string, DayFault>();
  const few = new Map<string, number>();
  for (const [day, pods] of byDay) {
    if (!days.includes(day) || missing.has(day)) continue;
    const beside = neighbours(day)
      .map((other) => missing.get(other))
      .find((fault) => fault?.kind === "metric_missing");
    if (beside !== undefined) {
      disagreeing.set(day, beside);
      continue;
    }
    const sure = pods.flatMap(({ uid, lacks }) => (lacks === "outcome" ? [] : [{ uid, lacks }]));
    const [example] = sure;
    if (example === undefined) continue;
    const of = sure.length + (tallies.get(day)?.finished ?? 0);
    if (sure.length < MIXED.pods || sure.length < of * MIXED.share) few.set(day, sure.length);
    else
      disagreeing.set(day, {
        kind: "answers_disagree",
        lacks: example.lacks,
        pods: sure.length,
        of,
        example: example.uid,
      });
  }
  return { disagreeing, few };
}

/** Characters of an id that are quoted; those of a pod's container have about 200. */
const LONGEST_QUOTE = 240;

/**
 * How many of cAdvisor's containers can be joined to pods. A question that was asked in parts may count one more than once,
 * so these are shares, not sums.
 */
export type CpuSeen = {
  readonly ofPods: number;
  /** series without the label id */
  readonly withoutId: number;
  /** ids in which no uid is found */
  readonly unreadable: number;
  readonly example?: string;
};

/** Looks at cAdvisor's series of the tenant's containers. Throws as `ask`. */
export async function lookForCpu(monitoring: Monitoring, window: Window, tiling?: Tiling): Promise<CpuSeen> {
  let [ofPods, withoutId, unreadable] = [0, 0, 0];
  let example: string | undefined;
  await ask(
    monitoring,
    "cpu",
    window,
    ({ uid, part = "" }) => {
      if (uid !== "") ofPods += 1;
      else if (part === "") withoutId += 1;
      else {
        unreadable += 1;
        // The least of them, so that the order of an answer does not matter.
        if (example === undefined || part < example) example = part;
      }
    },
    tiling,
  );
  return { ofPods, withoutId, unreadable, ...(example === undefined ? {} : { example }) };
}

/** What is wrong with cAdvisor's series, given that CPU use is missing, and what to do. */
export function explainCpu({ ofPods, withoutId, unreadable, example = "" }: CpuSeen): {
  readonly what: string;
  readonly remedy: string;
} {
  if (unreadable > 0) {
    return {
      what: `the label id of container_cpu_usage_seconds_total is unreadable: there is no pod's uid in "${quotable(example)}"`,
      remedy:
        "Let Prometheus scrape the kubelets' own /metrics/cadvisor and leave its label id as it is; if this is what they write, " +
        "report the form of the id",
    };
  }
  if (withoutId > 0) {
    return {
      what: "container_cpu_usage_seconds_total has no label id, which alone names the pod's uid",
      remedy:
        "Do not drop the label id of this metric (metric_relabel_configs, cAdvisorMetricRelabelings), and let Prometheus scrape the " +
        "kubelets' /metrics/cadvisor: their /metrics/resource has no id",
    };
  }
  if (ofPods > 0) {
    return {
      what: "container_cpu_usage_seconds_total is there of other pods only",
      remedy:
        "See that Prometheus scrapes /metrics/cadvisor of every node that runs jobs, often enough for the shortest job",
    };
  }
  return {
    what: "there is no cAdvisor: no container_cpu_usage_seconds_total of any container",
    remedy:
      "Let Prometheus scrape the kubelets' /metrics/cadvisor, and keep this metric and its labels namespace, container and id",
  };
}

/** An id as a text of one line that a terminal shows as it is. */
function quotable(id: string): string {
  const plain = id.slice(0, LONGEST_QUOTE).replaceAll(/[^ !#-~]/g, "?");
  return id.length > LONGEST_QUOTE ? `${plain}...` : plain;
}
