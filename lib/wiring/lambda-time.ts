/** Of an invocation's time this much at most is kept for what is in flight when counting stops, milliseconds. */
const LONGEST_MARGIN = 300_000;

export type TimeLimit = {
  /** true once no further piece may be started */
  readonly stop: () => boolean;
  /** limit of one query, seconds: a piece that is too large is refused early enough to be asked in smaller ones */
  readonly querySeconds: number;
};

/**
 * Divides what is left of an invocation: counting may start pieces until the margin begins; the margin is for the pieces in
 * flight, for publishing and for passing the rest on.
 * @param remaining milliseconds that are left, as Lambda's context tells them
 */
export function stopBefore(remaining: () => number): TimeLimit {
  const margin = Math.min(LONGEST_MARGIN, remaining() * 0.4);
  return { stop: () => remaining() < margin, querySeconds: Math.max(1, margin / 2000) };
}
