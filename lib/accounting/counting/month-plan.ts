import { CELL, type Window } from "../model/monitoring.ts";
import type { Tenant } from "../model/tenant.ts";
import { DAY, type Period, addMonths, dayOfMonth, endOfDay, endOfMonth, monthOf, startOf } from "../model/time.ts";
import type { Ledger } from "./ledger.ts";
import type { DayUsage } from "./usage.ts";

/** From this day on the previous month is counted once more in full (accounting-rules: late statuses). */
const RECOUNT_DAY = 4;
/** So long past its end a day's jobs are looked for by a recount: on the 4th that is what there is of the month's last day. */
const LATE = (RECOUNT_DAY - 1) * DAY;
/** Evidence of monitoring is read this far before the first day, so that a gap across midnight is seen whole. */
const LEAD = 3600;

/** What is known and what must be asked of one month, before anything is asked. */
export type MonthPlan = {
  readonly period: Period;
  /** the days that count: not before ACCOUNTING_SINCE */
  readonly days: readonly string[];
  readonly known: ReadonlyMap<string, DayUsage>;
  /** those of the known days that were counted under older rules: they are needed, and stay where Prometheus has them no more */
  readonly older: ReadonlySet<string>;
  readonly needed: readonly string[];
  /** the whole month is asked again, known days too */
  readonly recount: "no" | "asked for" | "due";
};

export type PlanOptions = {
  readonly now: number;
  readonly auto: boolean;
  /** --recount: ask every day again */
  readonly recount: boolean;
  /** days whose single jobs are wanted although the ledger has the day (individual records not yet published) */
  readonly jobsWanted: (month: string, day: string) => boolean;
};

/** Plans one tenant's month from the ledger. Asks nothing. */
export async function planMonth(
  tenant: Tenant,
  period: Period,
  ledger: Ledger,
  options: PlanOptions,
): Promise<MonthPlan> {
  const { since } = tenant;
  const days = since === undefined ? period.days : period.days.filter((day) => day >= since);
  const { days: known, older } = await ledger.read(period.month);
  const previous = period.month === addMonths(monthOf(options.now), -1);
  const due =
    options.auto && previous && dayOfMonth(options.now) >= RECOUNT_DAY && !(await ledger.wasRecounted(period.month));
  const recount = options.recount ? "asked for" : due ? "due" : "no";
  const lacks = (day: string): boolean => {
    const usage = known.get(day);
    if (usage === undefined || older.has(day) || recount !== "no") return true;
    return (tenant.model === "wallclock" && !usage.cpuAsked) || options.jobsWanted(period.month, day);
  };
  return { period, days, known, older, needed: days.filter(lacks), recount };
}

/**
 * How far to look for a day's jobs at least, also when the day has settled before: a status may come late. So does every
 * count of a month from the 4th of the next one on, so that it makes no difference whether it is the first or a recount.
 */
export function lookAhead({ period, recount }: MonthPlan, day: string, now: number): number {
  const late = recount !== "no" || now >= endOfMonth(period.month) + LATE;
  return late ? Math.min(now, endOfDay(day) + LATE) : 0;
}

/** The first of the days and those that follow it without a break, at most so many. One month's, so that its fault is its own. */
export function firstPiece(days: readonly string[], most: number): readonly [string, ...string[]] | undefined {
  const [first, ...others] = days;
  if (first === undefined) return undefined;
  const piece: [string, ...string[]] = [first];
  for (const day of others) {
    if (piece.length >= most || endOfDay(piece.at(-1) ?? first) !== startOf(day)) break;
    piece.push(day);
  }
  return piece;
}

/** Runs of consecutive days: what is asked for, in one piece or several. */
export function stretches(days: readonly string[]): readonly (readonly [string, ...string[]])[] {
  const found: (readonly [string, ...string[]])[] = [];
  let left = days;
  for (let next = firstPiece(left, Infinity); next !== undefined; next = firstPiece(left, Infinity)) {
    found.push(next);
    left = left.slice(next.length);
  }
  return found;
}

const cellFloor = (epoch: number): number => Math.floor(epoch / CELL) * CELL;

/** Where to look for evidence of monitoring for the needed days: up to now, or long enough past the last of them. */
export function watchWindow(
  needed: readonly string[],
  settle: number,
  now: number,
  daysPast: number,
): Window | undefined {
  const [first] = needed;
  const last = needed.at(-1);
  if (first === undefined || last === undefined) return undefined;
  const to = Math.min(now, endOfDay(last) + settle + daysPast * DAY);
  return { from: startOf(first) - LEAD, to: cellFloor(to) };
}

/** How many days are asked for at once. A value that is handed on from piece to piece; no result depends on it. */
export type PieceSize = {
  readonly days: number;
  /** the best size so far and what a day cost with it, seconds */
  readonly best?: { readonly days: number; readonly cost: number };
  /** larger pieces have proved dearer */
  readonly settled: boolean;
};

/** A piece that was counted: its days, how long it took (seconds, if there is a clock), and how many pods came. */
type Measured = { readonly days: number; readonly seconds: number | undefined; readonly pods: number };

/**
 * Pods of a piece, as the one before tells. While it is counted, memory holds their figures, some 130 bytes each; where
 * single jobs are wanted also names and what was measured, three times as much.
 */
export const MOST_PODS = { figures: 400_000, jobs: 130_000 } as const;
const MOST_DAYS = 32;
/** A size must be so much dearer before it is given up: what else the server does is measured with it. */
const CLEARLY = 1.25;

/** A piece of this share of the days that were wanted tells of that size. */
const ENOUGH = 0.75;

/** A month: in halves it costs a server some more, since each looks ahead. */
export const FIRST_PIECE_SIZE: PieceSize = { days: MOST_DAYS, settled: false };
/** Where single jobs are wanted: a busy month of them at once would need more memory than all else of a run. */
export const JOBS_PIECE_SIZE: PieceSize = { days: 8, settled: false };
/** Where a run may be stopped between pieces and go on later, little must be lost, and the first piece must get done. */
export const STOPPABLE_PIECE_SIZE: PieceSize = { days: 4, settled: false };

/**
 * The pace after a piece. Every query looks up all series of the blocks that it touches, and looks past its last day, so
 * large pieces are cheaper (tried with 40,000 jobs: a month in weeks cost Prometheus 7.3 s of CPU, in halves 5.4 s, in one
 * piece 4.8 s, on blocks of 18 h, 162 h and 486 h alike): each size is tried for as long as it is not clearly dearer than
 * the one before, or a piece would be more than memory should hold.
 * Without a clock the size stays.
 * @param mostPods one of MOST_PODS
 */
export function pieceSizeAfter(pace: PieceSize, piece: Measured, mostPods: number = MOST_PODS.figures): PieceSize {
  const most = Math.max(1, Math.min(MOST_DAYS, Math.floor((mostPods * piece.days) / Math.max(1, piece.pods))));
  const within = (next: PieceSize): PieceSize => ({ ...next, days: Math.min(next.days, most) });
  // A remainder says nothing of this size; a short month does.
  const tells = piece.days <= pace.days && piece.days >= pace.days * ENOUGH;
  if (piece.seconds === undefined || !tells || pace.settled) return within(pace);
  const cost = piece.seconds / piece.days;
  if (pace.best !== undefined && cost > pace.best.cost * CLEARLY)
    return within({ days: pace.best.days, best: pace.best, settled: true });
  return within({ days: pace.days * 2, best: { days: pace.days, cost }, settled: false });
}
