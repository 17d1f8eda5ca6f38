import pLimit from "p-limit";
import { DAY } from "./time.ts";
import type { Monitoring, Window } from "./ports.ts";

/** Windows up to this length are little to ask for: a daily run's. Seconds. */
const SHORT = 3 * DAY;
/** An answer that comes within this is a quick one. Seconds. */
const QUICK = 0.5;

/** Asks when it is this question's turn. */
type Turn = <T>(ask: () => Promise<T>) => Promise<T>;

/**
 * Lets the questions about one window be asked side by side, or, where there is little to ask for, one after the other as
 * long as answers come quickly: then side by side they would take all of the server's cores from others and still wait for
 * each other. After a failure what is left is not asked any more, and never answered.
 */
export function turns({ from, to }: Window, { clock }: Monitoring): Turn {
  const turn = pLimit(clock === undefined || to - from > SHORT ? Number.POSITIVE_INFINITY : 1);
  return (ask) =>
    turn(async () => {
      const asked = clock?.() ?? 0;
      try {
        const answer = await ask();
        if ((clock?.() ?? 0) - asked > QUICK) turn.concurrency = Number.POSITIVE_INFINITY;
        return answer;
      } catch (error) {
        turn.clearQueue();
        throw error;
      }
    });
}
