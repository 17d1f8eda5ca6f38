import { GridmeterError } from "../errors.ts";

/** Amazon answers instant queries that look back less than this; longer ones are a 422 (quota "query time range"), seconds. */
export const AMAZON_REACH = 32 * 86_400;

/** How far a query looks back from the moment it is evaluated at, seconds: its longest range, e.g. 3900 for `x[3900s]`. */
export function reachOf(query: string): number {
  // A label's value may look like a range.
  const code = query.replace(/"(?:[^"\\]|\\.)*"/g, '""');
  return [...code.matchAll(/\[(\d+)s\]/g)].reduce((most, [, seconds]) => Math.max(most, Number(seconds)), 0);
}

/**
 * Refuses what the server would refuse, before it is asked, so that less is asked instead.
 * Throws `prometheus_too_large` for a reach of `limit` seconds or more.
 */
export function checkReach(seconds: number, limit: number, server: string): void {
  if (seconds < limit) return;
  throw new GridmeterError(
    "prometheus_too_large",
    `${server} takes queries over less than ${limit / 86_400} days, and this one is over ${(seconds / 86_400).toFixed(1)} days. ` +
      "It was not asked and nothing was published. Ask for a shorter period.",
  );
}
