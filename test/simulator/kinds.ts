import type { Job } from "./job.ts";
import { DAY, HOUR, MINUTE } from "./place.ts";
import type { Place } from "./place.ts";

const MEBI = 1024 * 1024;
/** Long enough to be seen after an outage around the month's end. */
const LONG = 4 * HOUR;
const ONE_CORE = { milliCores: 1000, memory: 512 * MEBI };

/** The kinds of jobs that must be counted exactly (or left out, and counted as such). Each builder makes a few. */
export const KINDS = {
  plain: (place) => place.inside(2).map((time) => place.job(time)),

  "several-containers": (place) =>
    place.inside(2).map((time) =>
      place.job({
        ...time,
        containers: [ONE_CORE, { milliCores: 2000, memory: 1024 * MEBI }, { milliCores: 500, to: time.end - 60 }],
      }),
    ),

  "injected-sidecar": (place) =>
    place.inside(2).map((time) => place.job({ ...time, containers: [ONE_CORE, { name: "istio-proxy" }] })),

  "native-sidecar": (place) =>
    place.inside(2).map((time) =>
      place.job({
        ...time,
        // It is stopped after the job's own container: the phase changes later than the completion time says.
        sidecars: [{ name: "fuse", milliCores: 250, memory: 64 * MEBI, to: time.end + 20 }, { name: "logger" }],
      }),
    ),

  "init-containers": (place) =>
    place.inside(2).map((time) =>
      place.job({
        ...time,
        initContainers: [{ name: "fetch", milliCores: 4000, memory: 4096 * MEBI, to: time.start + 240 }],
        containers: [{ ...ONE_CORE, from: time.start + 245 }],
      }),
    ),

  "last-seconds": (place) =>
    place.borders.flatMap((edge) =>
      [-1, -2, 0, 1].map((off) =>
        place.job({ start: edge - place.random.int(HOUR, 3 * HOUR), end: edge + off, lingers: LONG }),
      ),
    ),

  outage: (place) => {
    const { outage } = place.calendar;
    const after = outage.to - outage.from + HOUR;
    const ends = [0.2, 0.4, 0.6, 0.8].map((part) => Math.floor(outage.from + (outage.to - outage.from) * part));
    return [
      ...ends.map((end) => place.job({ start: outage.from - 5 * HOUR, end, lingers: after })),
      // The whole life within the outage, but for what lingers.
      place.job({ start: ends[0]!, end: ends[1]!, lingers: after }),
    ];
  },

  "crosses-month": (place) =>
    place.borders.flatMap((edge) =>
      [2 * HOUR, 20 * HOUR].map((before) =>
        place.job({ start: edge - before, end: edge + place.random.int(20 * MINUTE, 50 * MINUTE), lingers: LONG }),
      ),
    ),

  "early-container": (place) => [
    ...place
      .inside(1, 8 * HOUR)
      .map(({ start, end }) =>
        place.job({ start, end: end + 5 * HOUR, containers: [ONE_CORE, { milliCores: 500, to: end }] }),
      ),
    ...place.borders.map((edge) =>
      place.job({
        start: edge - 30 * HOUR,
        end: edge + place.random.int(20 * MINUTE, 50 * MINUTE),
        lingers: LONG,
        containers: [ONE_CORE, { milliCores: 500, to: edge - 26 * HOUR }],
      }),
    ),
  ],

  "reused-name": (place) => {
    const again = (pod: string, start: number, end: number, nextEnd: number): Job[] => [
      place.job({ start, end, pod, lingers: 130 }),
      place.job({ start: end + 300, end: nextEnd, pod, containers: [{ milliCores: 3000 }], lingers: LONG }),
    ];
    return [
      ...place.inside(1).flatMap(({ start, end }) => again("worker-0", start, end, end + 40 * MINUTE)),
      ...place.borders.flatMap((edge) => again("worker-1", edge - 6 * HOUR, edge - 4 * HOUR, edge + 40 * MINUTE)),
    ];
  },

  "moved-node": (place) =>
    place.inside(2, 4 * HOUR).flatMap(({ start, end }) => {
      const later = end + 90 * MINUTE;
      const placements = [
        { node: "node-1", from: start - 1 },
        { node: "node-2", from: end },
      ];
      const runs = [
        [start, end],
        [end, later],
      ] as const;
      const containers = [{ ...ONE_CORE, runs }];
      const restarted = [
        { value: start, from: start },
        { value: end, from: end },
      ];
      return [
        place.job({ start, end: later, placements, containers }),
        place.job({ start, end: later, placements, containers, starts: restarted }),
      ];
    }),

  redeployed: (place) =>
    place.calendar.redeploys.flatMap((at) => [
      place.job({ start: at - 40 * MINUTE, end: at + 40 * MINUTE }),
      place.job({ start: at - HOUR, end: at - 30, containers: [{ milliCores: 1500 }] }),
    ]),

  "two-stacks": (place) => {
    const { from, to } = place.calendar.secondStack;
    return [
      place.job(place.between(from + HOUR, to - HOUR)),
      place.job({ start: from - HOUR, end: from + HOUR, containers: [ONE_CORE, { milliCores: 250 }] }),
      place.job({ start: to - HOUR, end: to + HOUR }),
    ];
  },

  millicores: (place) =>
    [1, 10, 250, 333, 1333, 2750].flatMap((milliCores, index) =>
      place
        .inside(1)
        .slice(index % 2)
        .map((time) => place.job({ ...time, containers: [{ milliCores }, { milliCores: 1 }] })),
    ),

  "no-cpu-request": (place) =>
    place.inside(2).map((time) => place.job({ ...time, containers: [{ memory: 64 * MEBI }] })),

  "end-before-start": (place) =>
    place
      .inside(1)
      .map(({ start, end }) => place.job({ start, end, starts: [{ value: end + 90, from: start }], lingers: HOUR })),

  "still-running": (place) => {
    const { now } = place.calendar;
    return [
      place.job({ start: now - 10 * HOUR, end: null }),
      // One container has ended: there is a completion time, and still the pod runs.
      place.job({
        start: now - 30 * HOUR,
        end: null,
        containers: [ONE_CORE, { milliCores: 500, to: now - 20 * HOUR }],
      }),
    ];
  },

  failed: (place) => place.inside(2).map((time) => place.job({ ...time, outcome: "Failed" })),

  evicted: (place) =>
    place.inside(1).map(({ start, end }) => place.job({ start, end: null, evicted: end, deleted: end + 2 * HOUR })),

  "deleted-early": (place) =>
    place.inside(2).map(({ start, end }) => {
      // Scrapes are at 7 and 31 seconds past the minute.
      const between = end - (end % MINUTE) + 10;
      return place.job({ start, end: between, deleted: between + 15 });
    }),

  lingering: (place) =>
    place.borders.map((edge) => place.job({ start: edge - 14 * HOUR, end: edge - 12 * HOUR, lingers: 2 * DAY })),

  "other-namespaces": (place) =>
    place.inside(1).flatMap((time) => {
      const pod = `shared-${place.random.suffix()}`;
      // Names that a careless matcher would take for the namespace: with a tail, and without one.
      const others = [`${place.namespace}-b`, place.namespace.slice(0, -1)];
      return [place.namespace, ...others].map((namespace) => place.job({ ...time, pod }, namespace));
    }),

  restarted: (place) =>
    place.inside(1, 5 * HOUR).map(({ start, end }) => {
      const runs = [
        [start + 3, start + 600],
        [start + 900, end],
        [end + 1200, end + 2 * HOUR],
      ] as const;
      return place.job({ start, end: end + 2 * HOUR, containers: [{ ...ONE_CORE, runs }] });
    }),

  resized: (place) => [
    ...place.inside(1).map(({ start, end }) => {
      const resized = { at: start + 600, milliCores: place.random.pick([500, 1500, 2000]) };
      return place.job({ start, end, containers: [{ milliCores: 1000, resized }] });
    }),
    // The copies of the instance that ended keep the request as it was.
    ...place.calendar.redeploys.map((at) => {
      const resized = { at: at + 15 * MINUTE, milliCores: 1000 };
      return place.job({ start: at - HOUR, end: at + HOUR, containers: [{ milliCores: 2000, resized }] });
    }),
  ],

  "no-start": (place) => place.inside(1).map((time) => place.job({ ...time, starts: [] })),

  "no-cpu-data": (place) =>
    place.inside(1).map((time) => place.job({ ...time, containers: [{ milliCores: 100, measured: false }] })),
} as const satisfies Record<string, (place: Place) => Job[]>;

export type Kind = keyof typeof KINDS;
export const KIND_NAMES: readonly Kind[] = Object.keys(KINDS).filter((name): name is Kind => name in KINDS);
