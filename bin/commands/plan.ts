import { type MonthPreview, type UnitPreview, preview } from "../../lib/accounting/plan.ts";
import { endOfDay, showTime, startOf } from "../../lib/accounting/model/time.ts";
import { type Tenant, unitName } from "../../lib/accounting/model/tenant.ts";
import { plainLines } from "../../lib/shared/text.ts";
import { queriesFor } from "../../lib/accounting/prometheus/plan-queries.ts";
import { openLedger } from "../../lib/accounting/ports.ts";
import { jsonLine } from "../show/json.ts";
import { requestOf, settingsOf } from "./account.ts";
import type { AccountOptions } from "./account.ts";
import { nowInSeconds, say, warn } from "./options.ts";

/** `gridmeter plan`: what a run now would ask for and decide about. Asks and writes nothing. Gives the exit code. */
export async function plan(options: AccountOptions): Promise<number> {
  const settings = settingsOf(options);
  const { store } = await openLedger(settings.ledger, true, process.env, warn);
  const { months, units } = await preview(
    settings.tenants.map(({ tenant }) => tenant),
    store,
    {
      now: nowInSeconds(),
      request: requestOf(settings),
      recount: options.recount === true,
      damaged: ({ key, what }) => say(`${key} is damaged (${what}); a run would set it aside and count again.`),
    },
  );
  const result = { months: months.map(plainMonth), units: units.map(plainUnit) };
  process.stdout.write(options.json === true ? jsonLine(result) : text(result));
  return 0;
}

function plainMonth({ tenant, plan: month, pieces }: MonthPreview) {
  return {
    tenant: tenant.name,
    month: month.period.month,
    settled: month.days.filter((day) => month.known.has(day)),
    recount: month.recount,
    pieces: pieces.map((days) => ({ days, queries: queriesOf(tenant, days) })),
  };
}

function queriesOf(tenant: Tenant, days: readonly string[]) {
  const [first, last] = [days[0], days.at(-1)];
  return first === undefined || last === undefined
    ? []
    : queriesFor(tenant, { from: startOf(first), to: endOfDay(last) });
}

function plainUnit({ unit, tenants, state }: UnitPreview) {
  const { published, pending, pins = [], generation = 0 } = state ?? {};
  return {
    ...unit,
    tenants,
    generation,
    published:
      published === undefined ? null : { at: published.at, records: published.records.length, sync: published.sync },
    interrupted: pending !== undefined,
    pins: pins.length,
  };
}

type Plain = { months: ReturnType<typeof plainMonth>[]; units: ReturnType<typeof plainUnit>[] };

function text({ months, units }: Plain): string {
  const lines: string[] = [];
  for (const { tenant, month, settled, recount, pieces } of months) {
    const again = recount === "no" || settled.length === 0 ? "" : ", all asked again";
    const why = recount === "due" && again !== "" ? ": the previous month is counted once more in full on the 4th" : "";
    lines.push(`${month} ${tenant}: ${settled.length} days settled in the ledger${again}${why}`);
    for (const { days } of pieces) lines.push(`  would ask for ${days[0] ?? ""} to ${days.at(-1) ?? ""}`);
    if (pieces.length === 0) lines.push("  would ask Prometheus nothing");
  }
  for (const { published, pins, interrupted, ...unit } of units) {
    const before =
      published === null
        ? "never published"
        : `last published ${showTime(published.at)}, ${published.sync ?? "no"} jobs in the sync record`;
    const more = [
      interrupted ? "a run was interrupted, so it would be published again" : "",
      pins > 0 ? `${pins} hand-written publications pin it` : "",
    ].filter((each) => each !== "");
    lines.push(`would decide about ${unitName(unit)}: ${[before, ...more].join("; ")}`);
  }
  const queries = new Map(
    months.flatMap(({ pieces }) =>
      pieces.slice(0, 1).flatMap(({ queries: asked }) => asked.map(({ asks, query }) => [query, asks] as const)),
    ),
  );
  if (queries.size > 0)
    lines.push("", "Queries of the first pieces (windows reach past the last day until it is settled):");
  for (const [query, asks] of queries) lines.push(`  ${asks}: ${query}`);
  return plainLines(lines);
}
