import { MetricUnit } from "@aws-lambda-powertools/metrics";
import { summarise } from "../accounting/summary.ts";
import { errorText } from "../errors.ts";
import { push } from "../pushgateway/gateway.ts";
import { exposition, figuresOf, groupingOf } from "./lambda-exposition.ts";
import type { ItemFigures } from "./lambda-exposition.ts";
import { gatewayOf } from "./lambda-gateway.ts";
import type { ItemResult, RunItem } from "./lambda-item.ts";
import { logger, metrics } from "./lambda-log.ts";
import type { Parts } from "./lambda-parts.ts";

/** The accounting never waits long for its metrics, milliseconds. */
const PUSH_DEADLINE_MS = 5_000;

/** Logs what became of a work item, and tells CloudWatch and the Pushgateway. Never throws: figures matter less than work. */
export async function tellItem(item: RunItem, result: ItemResult, duration: number, parts: Parts): Promise<void> {
  const summary = result.result === undefined ? undefined : summarise(result.result);
  const figures = figuresOf(item, result.kind, summary, { duration, at: Math.floor(Date.now() / 1000) });
  log(item, result, figures);
  emit(figures);
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

function emit({ kind, jobs, messages, duration }: ItemFigures): void {
  metrics.addMetric("Success", MetricUnit.Count, kind === "done" ? 1 : 0);
  metrics.addMetric("RefusedMonths", MetricUnit.Count, kind === "refused" ? 1 : 0);
  metrics.addMetric("Failed", MetricUnit.Count, kind === "failed" || kind === "hopeless" ? 1 : 0);
  metrics.addMetric("Continued", MetricUnit.Count, kind === "continued" ? 1 : 0);
  metrics.addMetric("Messages", MetricUnit.Count, messages);
  metrics.addMetric("DurationSeconds", MetricUnit.Seconds, duration);
  if (jobs !== undefined) metrics.addMetric("Jobs", MetricUnit.Count, jobs);
  metrics.publishStoredMetrics();
}
