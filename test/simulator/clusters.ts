import { DateTime } from "luxon";
import { STACK } from "./cluster.ts";
import type { Cluster, Stack } from "./cluster.ts";
import { KINDS, KIND_NAMES } from "./kinds.ts";
import type { Kind } from "./kinds.ts";
import type { Job } from "./job.ts";
import { DAY, HOUR, MINUTE, Place } from "./place.ts";
import type { Calendar } from "./place.ts";
import { Random } from "./random.ts";

/** First second of a UTC month `yyyy-mm`, epoch seconds. */
export function monthStart(month: string, later = 0): number {
  return DateTime.fromISO(month, { zone: "utc" }).plus({ months: later }).toSeconds();
}

/** The namespace in which all kinds are mixed. */
export const MIXED = "mixed";
/** The namespace of one kind. */
export const namespaceOf = (kind: Kind): string => `kind-${kind}`;

export type KindsOptions = {
  readonly seed?: number;
  readonly kinds?: readonly Kind[];
  /** first of the three months, `yyyy-mm` */
  readonly firstMonth?: string;
  /** seconds */
  readonly scrapeInterval?: number;
};

/**
 * Three months and four days: each kind in a namespace of its own, `kind-<name>`, and all of them in `mixed`. Monitoring is
 * down for five hours around the end of the second month.
 */
export function kindsCluster(options: KindsOptions = {}): Cluster {
  const { seed = 1, kinds = KIND_NAMES, firstMonth = "2025-01", scrapeInterval = 60 } = options;
  const edges = [0, 1, 2, 3].map((later) => monthStart(firstMonth, later));
  const now = edges[3]! + 4 * DAY + 9 * HOUR;
  const calendar = calendarOf(edges, now, edges[2]!);
  const random = new Random(seed);
  const jobs = kinds.flatMap((kind) => [
    ...KINDS[kind](new Place(kind, namespaceOf(kind), calendar, random)),
    ...KINDS[kind](new Place(kind, MIXED, calendar, random)),
  ]);
  return assemble(jobs, calendar, scrapeInterval);
}

/** The previous month and the current one up to now, a few hundred jobs of all kinds in one namespace. */
export function demoCluster(options: {
  readonly now: number;
  readonly namespace?: string;
  readonly seed?: number;
  readonly scrapeInterval?: number;
  /** how often each kind's builder is used */
  readonly rounds?: number;
}): Cluster {
  const { now, namespace = "grid", seed = 1, scrapeInterval = 60, rounds = 3 } = options;
  const current = DateTime.fromSeconds(now, { zone: "utc" }).startOf("month");
  const edges = [current.minus({ months: 1 }).toSeconds(), current.toSeconds()];
  const outage = now - edges[1]! > 12 * HOUR ? edges[1]! : edges[0]! + 9 * DAY;
  const calendar = calendarOf(edges, now, outage);
  const random = new Random(seed);
  const jobs = Array.from({ length: rounds }, () =>
    KIND_NAMES.flatMap((kind) => KINDS[kind](new Place(kind, namespace, calendar, random))),
  );
  return assemble(jobs.flat(), calendar, scrapeInterval);
}

/** A small cluster over two months for property tests: up to `size` jobs of random kinds in `mixed` and `second`. */
export function randomCluster(seed: number, size: number): Cluster {
  const random = new Random(`cluster ${seed}`);
  const edges = [0, 1, 2].map((later) => monthStart("2025-01", later));
  const now = edges[2]! + random.int(1, 5) * DAY + random.int(0, DAY);
  const calendar = calendarOf(edges, now, random.pick(edges.slice(1)));
  const jobs: Job[] = [];
  while (jobs.length < size) {
    const kind = random.pick(KIND_NAMES);
    const made = KINDS[kind](new Place(kind, random.pick([MIXED, MIXED, "second"]), calendar, random));
    for (let taken = 0; taken < 2 && made.length > 0; taken += 1) {
      jobs.push(...made.splice(random.int(0, made.length - 1), 1));
    }
  }
  const cluster = assemble(jobs.slice(0, size), calendar, 60);
  return { ...cluster, emptyNamespaces: [MIXED, "second"] };
}

function calendarOf(edges: readonly number[], now: number, outageAround: number): Calendar {
  const [first = 0] = edges;
  return {
    edges,
    now,
    outage: { from: outageAround - 3 * HOUR, to: outageAround + 2 * HOUR },
    redeploys: [first + 9 * DAY + 11 * HOUR + 17, (edges[1] ?? first) + 30 * MINUTE].filter((at) => at < now),
    secondStack: { from: first + 20 * DAY, to: first + 23 * DAY },
  };
}

function assemble(jobs: readonly Job[], calendar: Calendar, scrapeInterval: number): Cluster {
  const { outage, redeploys, secondStack, edges, now } = calendar;
  const [from = 0] = edges;
  const first: Stack = {
    ...STACK,
    instances: [0, ...redeploys].map((at, index) => ({ instance: `10.42.0.${11 + index}:8080`, from: at })),
    labels: { prometheus_replica: "a" },
  };
  const second: Stack = {
    job: "monitoring/kube-state-metrics",
    instances: [{ instance: "10.42.7.7:8080", from: 0 }],
    labels: { prometheus_replica: "b" },
    offset: 31,
    life: secondStack,
  };
  const middle = outage.to - HOUR;
  return {
    from,
    to: now,
    scrapeInterval,
    jobs,
    stacks: [first, second],
    outages: [
      { from: outage.from, to: middle, kind: "absent" },
      { from: middle, to: outage.to, kind: "down" },
      // Long enough to be a gap, and one too short for that.
      { from: from + 4 * DAY, to: from + 4 * DAY + 50 * MINUTE, kind: "down" },
      { from: from + 5 * DAY, to: from + 5 * DAY + 10 * MINUTE, kind: "absent" },
    ],
  };
}
