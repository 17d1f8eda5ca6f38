import { type Tenant, isIndividual } from "../model/tenant.ts";
import { endOfDay, startOf } from "../model/time.ts";

/** Consecutive days of one month that are asked for together. Of one month only, so that its fault is no other month's. */
export type Piece = readonly [string, ...string[]];

/** The first of the days (ascending) and those that follow it without a break, at most `most` of them. */
export function firstPiece(days: readonly string[], most: number): Piece | undefined {
  const [first, ...others] = days;
  if (first === undefined) return undefined;
  const piece: [string, ...string[]] = [first];
  for (const day of others) {
    if (piece.length >= most || endOfDay(piece.at(-1) ?? first) !== startOf(day)) break;
    piece.push(day);
  }
  return piece;
}

/** All runs of consecutive days among the days (ascending), each however long it is. */
export function stretches(days: readonly string[]): readonly Piece[] {
  const found: Piece[] = [];
  let left = days;
  for (let next = firstPiece(left, Infinity); next !== undefined; next = firstPiece(left, Infinity)) {
    found.push(next);
    left = left.slice(next.length);
  }
  return found;
}

/** How many days the next piece has at most; no figure depends on it. */
type PieceSize = {
  readonly days: number;
  /** more pods than this should not be in memory together */
  readonly mostPods: number;
};

const MOST_DAYS = 32;
/** Of each pod memory holds some 300 bytes of facts. Names and measured use, which job records need, take twice that or more. */
const MOST_PODS = { figures: 300_000, jobRecords: 130_000 };
/** Job records of a busy month would need more memory than all else of a run, so they begin with a week. */
const FIRST_DAYS_OF_JOB_RECORDS = 8;
/** A run that may be stopped begins with few days: the first piece must be done in time, and a kill must cost little. */
const FIRST_DAYS_IF_STOPPABLE = 4;

/** The size of a run's first piece: a month, since each piece looks past its end and so two halves cost the server more. */
export function firstPieceSize(tenant: Pick<Tenant, "format">, isStoppable: boolean): PieceSize {
  const jobRecords = isIndividual(tenant);
  return {
    days: isStoppable ? FIRST_DAYS_IF_STOPPABLE : jobRecords ? FIRST_DAYS_OF_JOB_RECORDS : MOST_DAYS,
    mostPods: jobRecords ? MOST_PODS.jobRecords : MOST_PODS.figures,
  };
}

/**
 * The size of the piece after one that was counted: twice as many days, unless that would be too many pods. Every query looks up all
 * series of the blocks that it touches, so large pieces are cheaper: with 40,000 jobs a month cost Prometheus 7.3 s of CPU in weeks,
 * 5.4 s in halves and 4.8 s in one piece (on blocks of 18 h, 162 h and 486 h alike).
 */
export function pieceSizeAfter(size: PieceSize, piece: { readonly days: number; readonly pods: number }): PieceSize {
  const daysInMemory = Math.floor((size.mostPods * piece.days) / Math.max(1, piece.pods));
  return { ...size, days: Math.max(1, Math.min(MOST_DAYS, daysInMemory, size.days * 2)) };
}
