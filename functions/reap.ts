import type { Context } from "aws-lambda";
import { logger } from "../lib/wiring/lambda-log.ts";
import { lambdaParts } from "../lib/wiring/lambda-parts.ts";
import { reapGroups } from "../lib/wiring/lambda-reap.ts";

const parts = lambdaParts(process.env);

/** Deletes the Pushgateway groups of node agents that are gone; the gateway itself forgets nothing. */
export const handler = async (event: unknown, context: Context) => {
  logger.addContext(context);
  return reapGroups(event, Math.floor(Date.now() / 1000), parts);
};
