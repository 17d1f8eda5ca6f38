import type { OpenMonth } from "./count-month.ts";
import type { CountedPiece, FreshDay } from "./ledger.ts";
import type { OpenPod } from "./pods.ts";

/**
 * Pods that pieces have left open. A later piece may see such a pod end, or run on: then it is no longer left out of the earlier day, so
 * that what is left out does not depend on the pieces.
 */
export class OpenPods {
  readonly #pods: Map<string, OpenPod>;

  constructor(pods: Iterable<readonly [uid: string, OpenPod]> = []) {
    this.#pods = new Map(pods);
  }

  /** Takes a piece's pods over, and gives the earlier days whose count of pods left out has changed. */
  seenAgain(piece: CountedPiece, months: readonly OpenMonth[]): readonly FreshDay[] {
    const corrected = new Map<string, FreshDay>();
    for (const [uid, pod] of this.#pods) {
      const later = piece.dayOf(uid);
      if (later === undefined || later <= pod.day) continue;
      this.#pods.delete(uid);
      const day = withoutPod(pod, months);
      if (day !== undefined) corrected.set(pod.day, day);
    }
    for (const [uid, pod] of piece.open) this.#pods.set(uid, pod);
    return [...corrected.values()];
  }

  /** The pods that are open on a day, by uid. */
  on(day: string): ReadonlyMap<string, OpenPod> {
    return new Map([...this.#pods].filter(([, pod]) => pod.day === day));
  }
}

/** The day without the pod among those left out. */
function withoutPod({ day, reason, succeeded }: OpenPod, months: readonly OpenMonth[]): FreshDay | undefined {
  const month = months.find(({ fresh }) => fresh.has(day));
  const held = month?.fresh.get(day);
  if (month === undefined || held === undefined || held.usage === month.plan.known.get(day)) return undefined;
  const { leftOut, succeededLeftOut } = held.usage;
  const usage = {
    ...held.usage,
    leftOut: { ...leftOut, [reason]: Math.max(0, leftOut[reason] - 1) },
    succeededLeftOut: Math.max(0, succeededLeftOut - (succeeded ? 1 : 0)),
  };
  const corrected = { ...held, usage };
  month.fresh.set(day, corrected);
  return corrected;
}
