import type { Context, SQSBatchResponse, SQSEvent } from "aws-lambda";
import { accountBatch } from "../lib/wiring/lambda-account.ts";
import { logger } from "../lib/wiring/lambda-log.ts";
import { lambdaParts } from "../lib/wiring/lambda-parts.ts";

const parts = lambdaParts(process.env);

/** Counts and publishes the units that the work queue asks for. Work that is to come again is in the answer by its id. */
export const handler = async (event: SQSEvent, context: Context): Promise<SQSBatchResponse> => {
  logger.addContext(context);
  return accountBatch(event.Records, () => context.getRemainingTimeInMillis(), parts);
};
