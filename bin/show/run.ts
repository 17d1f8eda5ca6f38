import { unitName } from "../../lib/accounting/model/tenant.ts";
import { errorSummary, pageOfError } from "../../lib/shared/errors.ts";
import type { RunSummary, UnitSummary } from "../../lib/accounting/summary.ts";
import type { RunResult } from "../../lib/accounting/run.ts";
import { showTime } from "../../lib/accounting/model/time.ts";
import type { DeliveryReport } from "../../lib/accounting/delivery/order.ts";
import { textTable } from "./table.ts";

const hours = (value: number): string =>
  value.toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const time = (epoch: number | null): string => (epoch === null ? "-" : showTime(epoch).replace(" UTC", ""));

function leftOutLines(leftOut: Readonly<Record<string, number>>): readonly string[] {
  const reasons = Object.entries(leftOut).filter(([, count]) => count > 0);
  return reasons.length === 0 ? ["-"] : reasons.map(([reason, count]) => `${reason} ${count}`);
}

function statusText({ status, why }: UnitSummary): string {
  const text = status === "would_publish" ? "would publish" : status;
  return why === undefined ? text : `${text} (${why})`;
}

/** The months as a table: jobs, core hours, first and last end (UTC), left out by reason, what became of them. */
export function monthsTable(summary: RunSummary): string {
  const rows = summary.months.flatMap(({ month, tenants, units }) =>
    tenants.map((each) => {
      const unit = units.find((one) => one.tenants.includes(each.tenant));
      return [
        month,
        each.tenant,
        each.jobs,
        hours(each.coreHours),
        time(each.firstEnd),
        time(each.lastEnd),
        leftOutLines(each.leftOut),
        unit === undefined ? "not published" : statusText(unit),
      ];
    }),
  );
  return textTable(
    ["month", "tenant", "jobs", "core hours", "first end (UTC)", "last end (UTC)", "left out", "status"],
    rows,
  );
}

/** Warnings, damage and errors of a run, for people. */
export function tellRun(result: RunResult, say: (text: string) => void): void {
  for (const { key, setAside, what } of result.damaged)
    say(`${key} was damaged (${what}); it is set aside as ${setAside} and made again.`);
  for (const { counted, units } of result.months) {
    for (const warning of counted.flatMap((month) => month.warnings)) say(`warning: ${warning}`);
    for (const { unit, error } of units) {
      if (error === undefined) continue;
      const { code, message } = errorSummary(error);
      const name = unitName(unit);
      say(`${name} was not published. ${code}: ${message} See ${pageOfError(error)}`);
    }
  }
}

/** What went into the queue, and what waits or was refused. */
export function tellDelivery(delivery: readonly DeliveryReport[], place: string, say: (text: string) => void): void {
  const messages = delivery.flatMap((report) => report.messages);
  const delivered = messages.filter(({ status }) => status === "delivered" || status === "already_there").length;
  if (delivered > 0) say(`${delivered} messages are in ${place}`);
  for (const { key, status, reason } of messages) {
    if (status === "waiting" || status === "refused") say(`${status}: ${key}: ${reason ?? ""}`);
  }
}
