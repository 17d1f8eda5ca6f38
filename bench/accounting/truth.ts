import type { Figures } from "./jobs.ts";

/** A fast wrong answer is none: throws unless what was counted lies between two truths. */
export function mustCount(found: Figures | undefined, least: Figures, most: Figures, whose: string): void {
  const right =
    found !== undefined &&
    found.jobs >= least.jobs &&
    found.jobs <= most.jobs &&
    found.coreSeconds >= least.coreSeconds &&
    found.coreSeconds <= most.coreSeconds;
  if (right) return;
  throw new Error(
    `${whose} figures are wrong, so its time means nothing: ${JSON.stringify(found)}, ` +
      `expected ${JSON.stringify(least)} to ${JSON.stringify(most)}.`,
  );
}
