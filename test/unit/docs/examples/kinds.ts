import type { Tenant } from "../../../../lib/accounting/model/tenant.ts";
import { cluster, ended, outcomes, tenant, World } from "../../accounting/world.ts";
import type { WorldRun } from "../../accounting/world.ts";
import { columns } from "./text.ts";
import type { Example } from "./text.ts";

const [BEFORE, AFTER] = ["2025-01", "2025-02"] as const;
/** One job ends at noon of each of these days. */
const DAYS = ["2025-01-10", "2025-01-31", "2025-02-01", "2025-02-02", "2025-02-03", "2025-02-10"];

const SUMMARIES: Partial<Tenant> = { format: "summary-0.4" };
const SINGLES: Partial<Tenant> = { format: "individual-0.4", model: "wallclock" };

type Run = readonly [moment: string, more: Partial<Tenant>, options?: WorldRun];

/** What becomes of the two months in each run, and what APEL shows after it. */
async function runs(list: readonly Run[]): Promise<string> {
  const world = new World(cluster(DAYS.map((day) => ended(`${day}T12:00`))));
  const lines: string[][] = [];
  for (const [moment, more, options = {}] of list) {
    const came = outcomes(await world.run(moment, [tenant("grid", more)], options));
    const [first, second] = [world.shown(BEFORE), world.shown(AFTER)];
    lines.push([
      `${moment.replace("T", " ")}${options.gap === undefined ? "" : ` --mode gap, ${BEFORE}`}`,
      more.format ?? "",
      more.since ?? "-",
      came[BEFORE] ?? "-",
      came[AFTER] ?? "-",
      `${first.jobs} and ${second.jobs}`,
      `${first.syncJobs} and ${second.syncJobs}`,
    ]);
  }
  const head = ["run", "MESSAGE_FORMAT", "ACCOUNTING_SINCE", BEFORE, AFTER, "jobs at APEL", "sync records"];
  return columns(head, lines);
}

const toSingles: Example = () =>
  runs([
    ["2025-02-10T09:30", SUMMARIES],
    ["2025-02-11T09:30", SINGLES],
    ["2025-02-12T09:30", SUMMARIES],
  ]);

const toSummaries: Example = () =>
  runs([
    ["2025-01-31T09:30", SINGLES],
    ["2025-02-01T09:30", { ...SUMMARIES, since: "2025-02-01" }],
    ["2025-02-04T09:30", { ...SUMMARIES, since: "2025-02-01" }],
    ["2025-02-04T10:00", SINGLES, { gap: BEFORE }],
    ["2025-02-05T09:30", SUMMARIES],
  ]);

export const KINDS: Readonly<Record<string, Example>> = { "to-singles": toSingles, "to-summaries": toSummaries };
