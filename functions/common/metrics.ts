import { MetricUnit } from "@aws-lambda-powertools/metrics";
import { Gauge, Registry } from "prom-client";
import { LEFT_OUT } from "../../lib/accounting/counting/usage.ts";
import { addMonths, monthOf, startOf } from "../../lib/accounting/model/time.ts";
import { type RunSummary, summarise } from "../../lib/accounting/summary.ts";
import { errorText } from "../../lib/shared/errors.ts";
import { type GatewayOptions, type Grouping, push } from "../../lib/shared/pushgateway.ts";
import { isInTheClear } from "../../lib/shared/text.ts";
import { type Parts, logger, metrics, refuseCredentials, variable } from "./runtime.ts";
import { fileOf, parameterText } from "./settings.ts";
import { type ItemResult, type RunItem, partOf } from "./work-item.ts";

/** The accounting never waits long for its metrics, milliseconds. */
const PUSH_DEADLINE_MS = 5_000;

/** Logs what became of a work item, and publishes it to CloudWatch and the Pushgateway. Never throws: figures matter less than work. */
export async function tellItem(item: RunItem, result: ItemResult, duration: number, parts: Parts): Promise<void> {
  const summary = result.result === undefined ? undefined : summarise(result.result);
  const figures = figuresOf(item, result.kind, summary, { duration, at: Math.floor(Date.now() / 1000) });
  log(item, result, figures);
  emit(figures, partOf(item));
  try {
    const gateway = await gatewayOf(parts);
    if (gateway === undefined) return;
    await push(gateway.url, groupingOf(item), await exposition(item, figures), {
      ...gateway.options,
      deadlineMs: PUSH_DEADLINE_MS,
      // Whatever is not a success leaves the time of the last one, and its figures, where they are.
      method: result.kind === "done" ? "PUT" : "POST",
    });
  } catch (error) {
    logger.warn(`The run's own metrics were not pushed: ${errorText(error)}`);
  }
}

function log(item: RunItem, result: ItemResult, figures: ItemFigures): void {
  const { site, submitHost, month } = item;
  const name = `${site} ${submitHost} ${month}`;
  switch (result.kind) {
    case "done":
      return logger.info(`${name}: done`, { item, figures });
    case "continued":
      return logger.info(`${name}: out of time, the rest follows`, { item, figures });
    case "refused":
      for (const { code, message } of result.errors) logger.warn(message, { code, item });
      return logger.warn(`${name}: refused`, { item, figures });
    case "failed":
    case "hopeless":
      return logger.error(result.error.message, { code: result.error.code, item, figures });
  }
}

/** @param part which invocation of the run it was: how long runs go on is watched by an alarm */
function emit({ kind, jobs, messages, duration }: ItemFigures, part: number): void {
  metrics.addMetric("Success", MetricUnit.Count, kind === "done" ? 1 : 0);
  metrics.addMetric("RefusedMonths", MetricUnit.Count, kind === "refused" ? 1 : 0);
  metrics.addMetric("Failed", MetricUnit.Count, kind === "failed" || kind === "hopeless" ? 1 : 0);
  metrics.addMetric("Continued", MetricUnit.Count, kind === "continued" ? part : 0);
  metrics.addMetric("Messages", MetricUnit.Count, messages);
  metrics.addMetric("DurationSeconds", MetricUnit.Seconds, duration);
  if (jobs !== undefined) metrics.addMetric("Jobs", MetricUnit.Count, jobs);
  metrics.publishStoredMetrics();
}

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
function figuresOf(
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
 * The Pushgateway group of a unit. The month is in it as `current`, `previous` or `older`: the gateway forgets nothing,
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

/** A Pushgateway and how to talk to it. */
type Gateway = { readonly url: string; readonly options: GatewayOptions };

/**
 * PUSHGATEWAY_URL, with the header of PUSHGATEWAY_AUTH_HEADER_PARAMETER and the authority of PROMETHEUS_CA_PARAMETER; undefined
 * where there is no URL.
 * @throws GridmeterError `config_invalid`, `store_failed`
 */
export async function gatewayOf(parts: Parts): Promise<Gateway | undefined> {
  const url = variable(parts.env, "PUSHGATEWAY_URL");
  if (url === undefined) return undefined;
  refuseCredentials(parts.env, "PUSHGATEWAY_URL", "PUSHGATEWAY_AUTH_HEADER_PARAMETER");
  const [header, ca] = await Promise.all([
    parameterText(parts, "PUSHGATEWAY_AUTH_HEADER_PARAMETER"),
    parameterText(parts, "PROMETHEUS_CA_PARAMETER"),
  ]);
  if (header !== undefined && URL.canParse(url) && isInTheClear(new URL(url)))
    logger.warn("PUSHGATEWAY_URL is not https, so the header for it can be read on the way. Write https://.");
  return {
    url,
    options: {
      ...(header === undefined ? {} : { authHeader: header.trim() }),
      ...(ca === undefined ? {} : { caFile: await fileOf(ca) }),
    },
  };
}
