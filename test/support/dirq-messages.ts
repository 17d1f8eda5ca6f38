import type { Unit } from "../../lib/accounting/model/tenant.ts";
import type { SummaryRecord, SyncRecord } from "../../lib/accounting/apel/record.ts";
import { type ApelMessage, writeMessages } from "../../lib/accounting/apel/write.ts";
import { type OutgoingMessage, checkGeneration, putGeneration } from "../../lib/accounting/delivery/outgoing.ts";
import type { ObjectStore } from "../../lib/accounting/store/store.ts";

export const unit: Unit = { site: "Some-Site", submitHost: "k8s.example.org:6443/grid", month: "2025-01" };
/** 2025-02-03: after the unit's month */
export const NOW = 1_738_540_800;

/** A summary of one VO; NumberOfJobs carries the generation, so that what a reader took tells which one it was. */
export function summary(of: Unit, generation: number, vo = "atlas"): SummaryRecord {
  const [year = 0, month = 0] = of.month.split("-").map(Number);
  const start = Date.UTC(year, month - 1) / 1000;
  return {
    kind: "summary",
    site: of.site,
    submitHost: of.submitHost,
    year,
    month,
    vo,
    infrastructureType: "grid",
    serviceLevel: { type: "si2k", value: 2500 },
    wallDuration: 3600 * generation,
    cpuDuration: 3600 * generation,
    numberOfJobs: generation,
    processors: 0,
    nodeCount: 0,
    earliestEndTime: start + 60,
    latestEndTime: start + 3600,
  };
}

export function sync(of: Unit, generation: number): SyncRecord {
  const [year = 0, month = 0] = of.month.split("-").map(Number);
  return { kind: "sync", site: of.site, submitHost: of.submitHost, year, month, numberOfJobs: generation };
}

/** The messages of one generation: a summary of the VOs, and a sync. */
export function generationMessages(of: Unit, generation: number, vos: readonly string[] = ["atlas"]): ApelMessage[] {
  return writeMessages([...vos.map((vo) => summary(of, generation, vo)), sync(of, generation)], "summary-0.2");
}

/** One message with summaries of these VOs. */
export function summaryBody(of: Unit, generation: number, vos: readonly string[] = ["atlas"]): string {
  return writeMessages(
    vos.map((vo) => summary(of, generation, vo)),
    "summary-0.2",
  )[0]!.body;
}

export function generationOf(body: string): number {
  return Number(/^NumberOfJobs: (\d+)$/m.exec(body)?.[1]);
}

/** Stores one generation as a run does: all its messages are checked before one is stored. */
export async function storeGeneration(
  store: ObjectStore,
  of: Unit,
  generation: number,
  messages: Iterable<OutgoingMessage>,
): Promise<string[]> {
  return await putGeneration(store, generation, checkGeneration(of, messages, NOW));
}
