import type { Context } from "aws-lambda";
import { logger } from "../lib/wiring/lambda-log.ts";
import { lambdaParts } from "../lib/wiring/lambda-parts.ts";
import { plan } from "../lib/wiring/lambda-plan.ts";

const parts = lambdaParts(process.env);

/**
 * Puts one work item per (site, submit host, month) on the work queue; with `dryRun` shows what would be published instead.
 * Started daily by EventBridge Scheduler with {"mode":"auto"}, or by hand, e.g. with events/gap.json.
 */
export const handler = async (event: unknown, context: Context) => {
  logger.addContext(context);
  const now = Math.floor(Date.now() / 1000);
  const remaining = (): number => context.getRemainingTimeInMillis();
  const result = await plan(event, { id: context.awsRequestId, now, remaining }, parts);
  logger.info("planned", { result });
  return result;
};
