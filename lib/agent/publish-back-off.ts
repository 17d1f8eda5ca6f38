/** No pause is shorter, seconds: a gateway that is down is not asked in a tight loop. */
const SHORTEST = 0.1;
const LONGEST = 60;

/**
 * The pause before the next try after so many failures in a row (1 or more), seconds: anything up to 1, 2, 4 ... 60 s (full
 * jitter), so that the agents of a whole site do not come back at the same moment.
 * @param random 0 to below 1
 */
export const backOff = (failures: number, random: () => number): number =>
  Math.max(SHORTEST, random() * Math.min(LONGEST, 2 ** (failures - 1)));
