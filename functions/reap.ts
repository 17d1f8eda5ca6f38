import type { Context } from "aws-lambda";
import { z } from "zod";
import { GridmeterError } from "../lib/shared/errors.ts";
import { reap } from "../lib/shared/pushgateway-groups.ts";
import { shapeText } from "../lib/shared/text.ts";
import { gatewayOf } from "./common/metrics.ts";
import { type Parts, invocation, lambdaParts, logger } from "./common/runtime.ts";

const parts = lambdaParts(process.env);

/** Deletes the Pushgateway groups of node agents that are gone; the gateway itself forgets nothing. */
export const handler = async (event: unknown, context: Context) => {
  return invocation(context, () => reapGroups(event, Math.floor(Date.now() / 1000), parts));
};

const HOUR = 3600;

const reapEvent = z.strictObject({
  /** the agents' job */
  job: z.string().min(1).default("gridmeter_agent"),
  /** a group not pushed for so long is a dead agent's */
  olderThanSeconds: z.number().positive().default(HOUR),
  dryRun: z.boolean().default(false),
});

/**
 * `reap`: deletes the Pushgateway groups of dead agents: those of the agents' job that carry the label `probe`.
 * @param now epoch seconds
 * @throws GridmeterError `config_invalid`, `pushgateway_failed`
 */
export async function reapGroups(event: unknown, now: number, parts: Parts) {
  const parsed = reapEvent.safeParse(event ?? {});
  if (!parsed.success) {
    throw new GridmeterError(
      "config_invalid",
      `The event of reap is wrong: ${shapeText(parsed.error)}. No group was deleted. ` +
        'Give {} or any of {"job":"gridmeter_agent","olderThanSeconds":3600,"dryRun":true}.',
    );
  }
  const { job, olderThanSeconds, dryRun } = parsed.data;
  const gateway = await gatewayOf(parts);
  if (gateway === undefined) {
    logger.info("PUSHGATEWAY_URL is not set: there is nothing to reap.");
    return { deleted: [], dryRun };
  }
  const options = { ...gateway.options, job, requireLabel: "probe", olderThanSeconds, now, dryRun };
  const groups = await reap(gateway.url, options);
  for (const { grouping, pushedAt } of groups)
    logger.info(dryRun ? "would be deleted" : "deleted", { grouping, pushedAt });
  return { deleted: groups, dryRun };
}
