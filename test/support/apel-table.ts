import { type Verdict, checkMessage } from "../../lib/accounting/apel/check.ts";
import { fromFields } from "../../lib/accounting/apel/read.ts";
import { monthName, monthOf } from "../../lib/accounting/model/time.ts";
import { parseMessage } from "../../lib/accounting/apel/parse.ts";
import type { ApelRecord } from "../../lib/accounting/apel/record.ts";

/** What the accounting portal would show for a site and month. `syncJobs` is added up over submit hosts. */
export type Totals = { readonly jobs: number; readonly coreSeconds: number; readonly syncJobs: number };

/** Why a message was refused. */
export type Refusal = Verdict["problems"][number] | Verdict["warnings"][number];

/** The primary keys of the APEL server's tables, written down here again so that a fault in lib/accounting/apel/keys.ts shows. */
function primaryKey(record: ApelRecord): string {
  const user = (r: { globalUserName?: string; vo: string; voGroup?: string; voRole?: string }) =>
    [r.globalUserName, r.vo, r.voGroup, r.voRole].map((part) => part ?? "None");
  switch (record.kind) {
    case "summary": {
      const { type, value } = record.serviceLevel;
      const own = [record.infrastructureType, type, value.toFixed(3), record.nodeCount, record.processors];
      return ["Summaries", record.site, record.month, record.year, ...user(record), record.submitHost, ...own].join(
        "\n",
      );
    }
    case "normalised": {
      const own = [record.infrastructureType, record.benchmark, record.nodeCount, record.processors];
      const head = ["NormalisedSummaries", record.site, record.month, record.year];
      return [...head, ...user(record), record.submitHost, ...own].join("\n");
    }
    case "individual":
      return ["JobRecords", record.site, record.localJobId, record.endTime].join("\n");
    case "sync":
      return ["SyncRecords", record.site, record.submitHost, record.month, record.year].join("\n");
  }
}

/**
 * The APEL server's database, simulated: rows are REPLACEd by primary key, a message with one bad record changes
 * nothing. Summaries, normalised summaries and jobs add up, so mixing kinds counts double, as it does there.
 */
export class ApelTable {
  readonly #rows = new Map<string, ApelRecord>();

  /** All rows, in no order that means anything. */
  get rows(): readonly ApelRecord[] {
    return [...this.#rows.values()];
  }

  /**
   * Loads one message. @param now epoch seconds
   * @returns why it was refused as a whole; empty if it was loaded
   */
  load(messageText: string, now: number): readonly Refusal[] {
    const { problems, warnings } = checkMessage(messageText, now);
    // the warnings are about what only Gratia takes: APEL rejects it
    const refused = [...problems, ...warnings];
    if (refused.length > 0) return refused;
    for (const record of parseMessage(messageText).records.map(fromFields)) {
      this.#rows.set(primaryKey(record), record);
    }
    return [];
  }

  /** Totals by site. Processors 0 means that durations are core-seconds already. @param month yyyy-mm */
  totals(month: string): Map<string, Totals> {
    const totals = new Map<string, Totals>();
    for (const row of this.#rows.values()) {
      const rowMonth = row.kind === "individual" ? monthOf(row.endTime) : monthName(row.year, row.month);
      if (rowMonth !== month) continue;
      const before = totals.get(row.site) ?? { jobs: 0, coreSeconds: 0, syncJobs: 0 };
      if (row.kind === "sync") {
        totals.set(row.site, { ...before, syncJobs: before.syncJobs + row.numberOfJobs });
        continue;
      }
      const jobs = row.kind === "individual" ? 1 : row.numberOfJobs;
      const coreSeconds = row.wallDuration * Math.max(1, row.processors);
      totals.set(row.site, { ...before, jobs: before.jobs + jobs, coreSeconds: before.coreSeconds + coreSeconds });
    }
    return totals;
  }
}
