/** How many days are asked for at once. A value that is handed on from piece to piece; no result depends on it. */
export type Pace = {
  readonly days: number;
  /** the best size so far and what a day cost with it, seconds */
  readonly best?: { readonly days: number; readonly cost: number };
  /** larger pieces have proved dearer */
  readonly settled: boolean;
};

/** A piece that was counted: its days, how long it took (seconds, if there is a clock), and how many pods came. */
export type Paced = { readonly days: number; readonly seconds: number | undefined; readonly pods: number };

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
export const FIRST_PACE: Pace = { days: MOST_DAYS, settled: false };
/** Where single jobs are wanted: a busy month of them at once would need more memory than all else of a run. */
export const JOBS_PACE: Pace = { days: 8, settled: false };
/** Where a run may be stopped between pieces and go on later, little must be lost, and the first piece must get done. */
export const STOPPABLE_PACE: Pace = { days: 4, settled: false };

/**
 * The pace after a piece. Every query looks up all series of the blocks that it touches, and looks past its last day, so
 * large pieces are cheaper (tried with 40,000 jobs: a month in weeks cost Prometheus 7.3 s of CPU, in halves 5.4 s, in one
 * piece 4.8 s, on blocks of 18 h, 162 h and 486 h alike): each size is tried for as long as it is not clearly dearer than
 * the one before, or a piece would be more than memory should hold.
 * Without a clock the size stays.
 * @param mostPods one of MOST_PODS
 */
export function paceAfter(pace: Pace, piece: Paced, mostPods: number = MOST_PODS.figures): Pace {
  const most = Math.max(1, Math.min(MOST_DAYS, Math.floor((mostPods * piece.days) / Math.max(1, piece.pods))));
  const within = (next: Pace): Pace => ({ ...next, days: Math.min(next.days, most) });
  // A remainder says nothing of this size; a short month does.
  const tells = piece.days <= pace.days && piece.days >= pace.days * ENOUGH;
  if (piece.seconds === undefined || !tells || pace.settled) return within(pace);
  const cost = piece.seconds / piece.days;
  if (pace.best !== undefined && cost > pace.best.cost * CLEARLY)
    return within({ days: pace.best.days, best: pace.best, settled: true });
  return within({ days: pace.days * 2, best: { days: pace.days, cost }, settled: false });
}
