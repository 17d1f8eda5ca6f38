import type { Context } from "aws-lambda";
import { logger } from "../lib/wiring/lambda-log.ts";
import { manualFiles } from "../lib/wiring/lambda-manual.ts";
import { lambdaParts } from "../lib/wiring/lambda-parts.ts";

const parts = lambdaParts(process.env);

/** Sends the hand-written records that somebody put under manual/incoming/ of the bucket. A failure makes Lambda try again. */
export const handler = async (event: unknown, context: Context) => {
  logger.addContext(context);
  return manualFiles(event, Math.floor(Date.now() / 1000), parts);
};
