import type { Window } from "../accounting/ports.ts";
import { GridmeterError } from "../errors.ts";

const HOUR = 3600;

/**
 * Asks about a window, and about its halves where the server refuses it as too large, down to an hour. For questions whose
 * answer over a window is all that is answered over its parts. One after the other, so that a refusal ends it.
 */
export async function inParts<T>(window: Window, ask: (part: Window) => Promise<readonly T[]>): Promise<readonly T[]> {
  try {
    return await ask(window);
  } catch (thrown) {
    const tooLarge = thrown instanceof GridmeterError && thrown.code === "prometheus_too_large";
    if (!tooLarge || window.to - window.from <= HOUR) throw thrown;
    const middle = window.from + Math.ceil((window.to - window.from) / 2);
    const first = await inParts({ from: window.from, to: middle }, ask);
    return [...first, ...(await inParts({ from: middle, to: window.to }, ask))];
  }
}
