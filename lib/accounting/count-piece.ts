import { askCpu, askMemory, askPods } from "./pods.ts";
import type { PieceOfPods } from "./pods.ts";
import type { Observation } from "./observation.ts";
import type { Monitoring, Window } from "./ports.ts";
import { isIndividual } from "./records.ts";
import type { Tenant } from "./tenant.ts";
import { endOfDay, startOf } from "./time.ts";
import { toDays } from "./usage.ts";
import type { DayOfJobs, Details } from "./usage.ts";

/** Whether nothing at all was seen of the tenant's pods. */
export const isEmpty = (pods: PieceOfPods): boolean =>
  pods.finished.length === 0 && pods.unfinished.noEnd.size === 0 && pods.unfinished.notFinished.size === 0;

/** What a piece brought: pods up to `to`, and its days. */
export type CountedPiece = { readonly to: number; readonly pods: PieceOfPods; readonly days: readonly DayOfJobs[] };

/**
 * Counts consecutive days of one month together. Looks past the last day until it is settled.
 * @param observed how the days were watched; @param seen all signs of monitoring
 */
export async function countPiece(
  tenant: Tenant,
  monitoring: Monitoring,
  days: readonly [string, ...string[]],
  observed: ReadonlyMap<string, Observation>,
  seen: readonly number[],
): Promise<CountedPiece> {
  const watched = days.flatMap((day) => observed.get(day) ?? []);
  const from = startOf(days[0]);
  const to = Math.max(...watched.map((day) => day.until));
  const lastSeen = seen.findLast((cell) => cell <= to);
  const pods = await askPods(monitoring, { from, to }, { lastSeen, withVo: tenant.selection.voLabel !== undefined });
  const options = {
    defaultMilliCores: tenant.defaultMilliCores,
    gapsOf: (day: string) => [...(observed.get(day)?.gaps ?? [])],
  };
  const last = endOfDay(days.at(-1) ?? days[0]);
  const mine = pods.finished.filter((pod) => pod.end >= from && pod.end < last);
  // A restarted container's counter ends long before its pod, so what was measured is asked from the earliest start on.
  const measured = { from: Math.min(from, ...mine.map((pod) => pod.start ?? pod.end)), to };
  const details = await askDetails(tenant, monitoring, measured, mine.length > 0);
  return { to, pods, days: toDays(pods.finished, days, { ...options, details }) };
}

/** Asks only what the model and the format need. */
async function askDetails(tenant: Tenant, monitoring: Monitoring, window: Window, any: boolean): Promise<Details> {
  const none = new Map<string, number>();
  const wallclock = tenant.model === "wallclock";
  const single = isIndividual(tenant);
  const [cpu, memoryRequest, memoryUsed] = await Promise.all([
    wallclock && any ? askCpu(monitoring, window.from, window.to) : none,
    single && any ? askMemory(monitoring, "memoryRequest", window) : none,
    single && any ? askMemory(monitoring, "memoryUsed", window) : none,
  ]);
  return { ...(wallclock ? { cpu } : {}), ...(single ? { memoryRequest, memoryUsed } : {}) };
}
