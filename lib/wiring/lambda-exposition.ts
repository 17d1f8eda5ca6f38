import { Gauge, Registry } from "prom-client";
import type { RunSummary } from "../accounting/summary.ts";
import { addMonths, monthOf, startOf } from "../accounting/time.ts";
import { LEFT_OUT } from "../accounting/usage.ts";
import type { Grouping } from "../pushgateway/grouping.ts";
import type { ItemResult, RunItem } from "./lambda-item.ts";

/** The figures of one invocation for one work item. */
export type ItemFigures = {
  readonly kind: ItemResult["kind"];
  /** of the unit's tenants; all are undefined where nothing was counted */
  readonly jobs?: number;
  readonly leftOut?: Readonly<Record<string, number>>;
  readonly daysAsked?: number;
  /** messages that were stored */
  readonly messages: number;
  /** how long the invocation took, seconds */
  readonly duration: number;
  /** epoch seconds */
  readonly at: number;
};

/** The figures of a work item, from the summary of its run. */
export function figuresOf(
  { site, submitHost, month }: RunItem,
  kind: ItemResult["kind"],
  summary: RunSummary | undefined,
  time: { readonly duration: number; readonly at: number },
): ItemFigures {
  const found = summary?.months.find((each) => each.month === month);
  const messages = found?.units.reduce((sum, unit) => sum + (unit.keys?.length ?? 0), 0) ?? 0;
  if (summary === undefined || found === undefined || kind === "continued") return { kind, messages, ...time };
  const members = found.units.find((unit) => unit.site === site && unit.submitHost === submitHost)?.tenants ?? [];
  const own = found.tenants.filter(({ tenant }) => members.includes(tenant));
  const leftOut: Record<string, number> = Object.fromEntries(LEFT_OUT.map((reason) => [reason, 0]));
  for (const each of own) {
    for (const [reason, count] of Object.entries(each.leftOut)) leftOut[reason] = (leftOut[reason] ?? 0) + count;
  }
  return {
    kind,
    jobs: own.reduce((sum, each) => sum + each.jobs, 0),
    leftOut,
    daysAsked: summary.asked.days,
    messages,
    ...time,
  };
}

/**
 * The Pushgateway group of a unit. The month stands in it as `current`, `previous` or `older`: the gateway forgets nothing,
 * and a group for every month would go on saying for ever that its last success was long ago.
 */
export function groupingOf({ site, submitHost, month, run }: RunItem): Grouping {
  const current = monthOf(run.now);
  const period = month === current ? "current" : month === addMonths(current, -1) ? "previous" : "older";
  return { job: "gridmeter_accounting", site, submit_host: submitHost, period };
}

/** The figures in Prometheus' text format. The time of the last success is only in those of a success. */
export async function exposition({ month }: RunItem, figures: ItemFigures): Promise<string> {
  const registry = new Registry();
  const gauge = (name: string, help: string, value: number | undefined): void => {
    if (value === undefined) return;
    new Gauge({ name: `gridmeter_accounting_${name}`, help, registers: [registry] }).set(value);
  };
  const { kind, at, leftOut } = figures;
  gauge("last_run_timestamp_seconds", "When the unit was last worked on.", at);
  gauge(
    "last_success_timestamp_seconds",
    "When the unit was last counted and, where there was anything new, published.",
    kind === "done" ? at : undefined,
  );
  gauge("month_timestamp_seconds", "Start of the month that these figures are of.", startOf(month));
  gauge("duration_seconds", "How long the last invocation for the unit took.", figures.duration);
  gauge(
    "refused",
    "1 if the month was refused (guard, pins, unseen monitoring) and not published.",
    kind === "refused" ? 1 : 0,
  );
  gauge("failed", "1 if the month could not be counted or stored.", kind === "failed" || kind === "hopeless" ? 1 : 0);
  gauge("jobs", "Jobs of the month that were counted.", figures.jobs);
  gauge("messages", "Messages that the last run stored for the spooler.", figures.messages);
  gauge("days_asked", "Days that the last run asked Prometheus for.", figures.daysAsked);
  if (leftOut !== undefined) {
    const help = "Pods of the month that were left out, by reason; no_end and not_finished are of the days asked.";
    const left = new Gauge({
      name: "gridmeter_accounting_left_out",
      help,
      labelNames: ["reason"],
      registers: [registry],
    });
    for (const [reason, count] of Object.entries(leftOut)) left.set({ reason }, count);
  }
  return registry.metrics();
}
