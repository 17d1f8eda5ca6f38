import { explainCpu, lookForCpu } from "../accounting/cpu-seen.ts";
import { REFUSED_ABOVE } from "../accounting/cpu-share.ts";
import type { Window } from "../accounting/ports.ts";
import type { Selection } from "../accounting/tenant.ts";
import type { Answer } from "./check-coverage.ts";
import type { Client } from "./connection.ts";
import { createMonitoring } from "./monitoring.ts";

/**
 * Does cAdvisor report CPU use of the namespace's pods?
 * @param needed whether a month without it is refused (wallclock); single jobs only lack MemoryReal then
 */
export async function cpuUse(client: Client, selection: Selection, window: Window, needed: boolean): Promise<Answer> {
  const seen = await lookForCpu(createMonitoring(client, selection), window);
  const { ofPods, unreadable } = seen;
  if (ofPods > 0 && unreadable <= (ofPods + unreadable) * REFUSED_ABOVE) {
    return { ok: true, answer: "yes" };
  }
  const { what, remedy } = explainCpu(seen);
  if (!needed) return { ok: true, answer: `no, so records have no MemoryReal: ${what}` };
  const nothing = ofPods + unreadable + seen.withoutId === 0;
  return {
    ok: false,
    answer: `no: ${what}`,
    remedy: `${nothing ? "Fine if no pod ran there lately. " : ""}${remedy}.`,
  };
}
