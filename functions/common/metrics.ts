import { MetricUnit } from "@aws-lambda-powertools/metrics";
import {
  PUSH_DEADLINE_MS,
  type UnitFigures,
  countOf,
  pushedText,
  unitGrouping,
  unitMetrics,
} from "../../lib/accounting/metrics.ts";
import { unitName } from "../../lib/accounting/model/tenant.ts";
import { type RunSummary, summarise } from "../../lib/accounting/summary.ts";
import { errorText } from "../../lib/shared/errors.ts";
import { type GatewayOptions, push } from "../../lib/shared/pushgateway.ts";
import { isInTheClear } from "../../lib/shared/text.ts";
import { type Parts, logger, metrics, refuseCredentials, variable } from "./runtime.ts";
import { fileOf, parameterText } from "./settings.ts";
import { type ItemResult, type RunItem, partOf } from "./work-item.ts";

/** Logs what became of a work item, and publishes it to CloudWatch and the Pushgateway. Never throws: figures matter less than work. */
export async function publishFigures(item: RunItem, result: ItemResult, duration: number, parts: Parts): Promise<void> {
  const summary = result.result === undefined ? undefined : summarise(result.result);
  const figures = figuresOf(item, result.kind, summary, { duration, at: Math.floor(Date.now() / 1000) });
  log(item, result, figures);
  emit(figures, result.kind, partOf(item));
  try {
    const gateway = await gatewayOf(parts);
    if (gateway === undefined) return;
    await push(gateway.url, unitGrouping(item, item.run.now), await pushedText(unitMetrics(figures)), {
      ...gateway.options,
      deadlineMs: PUSH_DEADLINE_MS,
      // Whatever is not a success leaves the time of the last one, and its figures, where they are.
      method: result.kind === "done" ? "PUT" : "POST",
    });
  } catch (error) {
    logger.warn(`The run's own metrics were not pushed: ${errorText(error)}`);
  }
}

function log(item: RunItem, result: ItemResult, figures: UnitFigures): void {
  const name = unitName(item);
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
function emit({ counted, messages, duration }: UnitFigures, kind: ItemResult["kind"], part: number): void {
  metrics.addMetric("Success", MetricUnit.Count, kind === "done" ? 1 : 0);
  metrics.addMetric("RefusedMonths", MetricUnit.Count, kind === "refused" ? 1 : 0);
  metrics.addMetric("Failed", MetricUnit.Count, kind === "failed" || kind === "hopeless" ? 1 : 0);
  metrics.addMetric("Continued", MetricUnit.Count, kind === "continued" ? part : 0);
  metrics.addMetric("Messages", MetricUnit.Count, messages);
  metrics.addMetric("DurationSeconds", MetricUnit.Seconds, duration);
  if (counted !== undefined) metrics.addMetric("Jobs", MetricUnit.Count, counted.jobs);
  metrics.publishStoredMetrics();
}

const outcomeOf = (kind: ItemResult["kind"]): UnitFigures["outcome"] => (kind === "hopeless" ? "failed" : kind);

/** The figures of a work item, from the summary of its run. */
function figuresOf(
  unit: RunItem,
  kind: ItemResult["kind"],
  summary: RunSummary | undefined,
  time: { readonly duration: number; readonly at: number },
): UnitFigures {
  const units = summary?.months.find((each) => each.month === unit.month)?.units ?? [];
  const messages = units.reduce((sum, each) => sum + (each.keys?.length ?? 0), 0);
  const counted = summary === undefined || kind === "continued" ? undefined : countOf(summary, unit);
  return { unit, outcome: outcomeOf(kind), messages, ...time, ...(counted === undefined ? {} : { counted }) };
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
