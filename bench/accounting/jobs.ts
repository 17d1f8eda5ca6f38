import { type Layout, plusMonths, startOfMonth } from "./shape.ts";

/** One simulated pod: one container, a name of its own, ended after about an hour and deleted an hour later. */
export type Job = {
  readonly pod: string;
  readonly uid: string;
  readonly node: string;
  readonly cores: number;
  readonly outcome: "Succeeded" | "Failed";
  /** epoch seconds */
  readonly start: number;
  readonly end: number;
  /** deleted: no sample from here on */
  readonly gone: number;
};

/** Figures of a month, as the rules count it. */
export type Figures = { readonly jobs: number; readonly coreSeconds: number };

const SHORTEST = 3000;
const LONGEST = 4200;
const LINGERS = 3600;
const CORES = [1, 1, 2, 4, 8] as const;
const NODES = 200;
/** One in so many fails. */
const FAILED_EVERY = 20;

/** A well-mixed 32-bit number for (index, salt): the same data on every machine, with no seed to keep. */
function mixed(index: number, salt: number): number {
  let h = Math.imul(index ^ 0x9e37_79b9, 0x85eb_ca6b) ^ Math.imul(salt + 1, 0xc2b2_ae35);
  h = Math.imul(h ^ (h >>> 16), 0x7feb_352d);
  h = Math.imul(h ^ (h >>> 15), 0x846c_a68b);
  return (h ^ (h >>> 16)) >>> 0;
}

const hex = (number: number): string => number.toString(16).padStart(8, "0");

function uidOf(index: number): string {
  const digits = [0, 1, 2, 3].map((salt) => hex(mixed(index, salt))).join("");
  const cut = [digits.slice(0, 8), digits.slice(8, 12), `4${digits.slice(13, 16)}`, `a${digits.slice(17, 20)}`];
  return `${cut.join("-")}-${digits.slice(20)}`;
}

/** The job with this number; its end is about `number` spacings after the data's beginning. */
export function jobAt(layout: Layout, index: number): Job {
  const spread = mixed(index, 5) / 2 ** 32;
  const end = layout.from + Math.floor((index + spread) * layout.spacing);
  return {
    pod: `job-${index.toString(36).padStart(5, "0")}-${hex(mixed(index, 4)).slice(0, 5)}`,
    uid: uidOf(index),
    node: `node-${String(mixed(index, 6) % NODES).padStart(3, "0")}`,
    cores: CORES[mixed(index, 7) % CORES.length] ?? 1,
    outcome: mixed(index, 8) % FAILED_EVERY === 0 ? "Failed" : "Succeeded",
    start: end - SHORTEST - (mixed(index, 9) % (LONGEST - SHORTEST + 1)),
    end,
    gone: end + LINGERS,
  };
}

/** The jobs that may have a sample in [from, to), in the order of their ends. */
export function* jobsIn(layout: Layout, from: number, to: number): Generator<Job> {
  const first = Math.max(0, Math.floor((from - LINGERS - layout.from) / layout.spacing) - 1);
  const last = Math.ceil((Math.min(to, layout.to) + LONGEST - layout.from) / layout.spacing);
  for (let index = first; index <= last; index += 1) {
    const job = jobAt(layout, index);
    if (job.start < to && job.gone > from) yield job;
  }
}

/** What a month's jobs add up to: the value of the end decides, half-open. @param until epoch seconds */
export function truthOf(layout: Layout, month: string, until = Infinity): Figures {
  const [from, to] = [startOfMonth(month), Math.min(until, startOfMonth(plusMonths(month, 1)))];
  let jobs = 0;
  let coreSeconds = 0;
  for (const job of jobsIn(layout, from, to)) {
    if (job.end < from || job.end >= to) continue;
    jobs += 1;
    coreSeconds += job.cores * (job.end - job.start);
  }
  return { jobs, coreSeconds };
}
